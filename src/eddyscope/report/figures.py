"""All figures of a study, written as files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from eddyscope.errors import StoreError, UsageError
from eddyscope.report.complexity import draw_complexity
from eddyscope.report.lag_energy import draw_lag_energy
from eddyscope.report.maps import draw_coherence, draw_modes
from eddyscope.report.profiles import draw_mode_profiles
from eddyscope.report.scalograms import draw_scalograms
from eddyscope.report.spectra import draw_eigenvalue_spectra
from eddyscope.report.style import DPI, house_style
from eddyscope.study.study import Study

#: Names of the figures, in the order in which they are read, and what draws them.
FIGURES: dict[str, Callable[..., Figure]] = {
    "lag_energy": draw_lag_energy,
    "scalograms": draw_scalograms,
    "mode_profiles": draw_mode_profiles,
    "modes": draw_modes,
    "eigenvalue_spectra": draw_eigenvalue_spectra,
    "coherence": draw_coherence,
    "complexity": draw_complexity,
}

#: File formats, and the metadata that keeps dates and versions out of the files.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
}


def write_figures(
    study: Study,
    folder: str | Path,
    *,
    formats: Sequence[str] = ("png", "pdf"),
    names: Sequence[str] | None = None,
    layers: Sequence[str | int] | None = None,
    heads: Sequence[str | int] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Path]:
    """Draw the figures of a study and write each as a whole file.

    Parameters
    ----------
    study : Study
    folder : str or Path
        Made where it is not there. Files of the same names are replaced.
    formats : sequence of {"png", "pdf", "svg"}
        PNG files have 150 dots per inch.
    names : sequence of str, optional
        Figures to draw, names of :data:`FIGURES`; all by default.
    layers, heads : sequence of str or int, optional
        What the figures show; all by default, as far as a page holds them (each figure says what it leaves out).
    progress : callable, optional
        Called with (name, figures done, figures in all) before each figure and at the end.

    Returns
    -------
    list of Path
        In the order of the figures, then of the formats. The same study gives the same bytes.

    Raises
    ------
    UsageError
        Where a format or a figure is not known.
    StoreError
        Where the folder cannot be written.
    """
    chosen = list(FIGURES) if names is None else list(names)
    known("figure", chosen, FIGURES)
    known("format", formats, _METADATA)

    def draw(name: str, place: Path) -> list[Path]:
        figure = FIGURES[name](study, layers=layers, heads=heads)
        return [save_figure(figure, place / f"{name}.{kind}") for kind in formats]

    return write_each(folder, chosen, draw, progress)


def write_each(
    folder: str | Path,
    names: Sequence[str],
    draw: Callable[[str, Path], list[Path]],
    progress: Callable[[str, int, int], None] | None,
) -> list[Path]:
    """Draw each of these into a folder, which is made where it is not there.

    Raises
    ------
    StoreError
        Where the folder cannot be written.
    """
    place, written = Path(folder), []
    try:
        place.mkdir(parents=True, exist_ok=True)
        for done, name in enumerate(names):
            if progress is not None:
                progress(name, done, len(names))
            written += draw(name, place)
    except OSError as error:
        raise StoreError(
            f"Figures cannot be written to '{place}': {error.strerror or error}.", "Choose another folder (--out)."
        ) from error
    if progress is not None:
        progress("", len(names), len(names))
    return written


@house_style()
def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure in the house style, see :func:`save_as_it_is`."""
    return save_as_it_is(figure, path, DPI)


def save_as_it_is(figure: Figure, path: Path, dpi: int) -> Path:
    """Write a figure beside its place and rename it, without dates, so that the same figure gives the same bytes."""
    kind = path.suffix.removeprefix(".")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            figure.savefig(file, format=kind, dpi=dpi, metadata=_METADATA[kind])
        beside.chmod(0o666 & ~_umask())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def _umask() -> int:
    """The mask of new files, which temporary files ignore."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def known(what: str, given: Sequence[str], those: Mapping[str, Any]) -> None:
    """UsageError for a name that is not one of those, or for none at all."""
    if isinstance(given, str):
        raise UsageError(f"{what}s must be a list of names, got the string {given!r}.", f"Pass [{given!r}].")
    unknown = [name for name in given if name not in those]
    if unknown or not given:
        raise UsageError(
            f"There is no {what} {unknown[0]!r}." if unknown else f"No {what} was asked for.",
            f"Choose from: {', '.join(those)}.",
        )


__all__ = ["FIGURES", "save_figure", "write_figures"]
