"""Eigenvalue spectra with the fitted power law."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eddyscope.kernels.decay import FIT_RANKS
from eddyscope.report.layout import Room, name_panels, page, say
from eddyscope.report.nulls import NULL_STYLES, members, null_handle, null_kinds
from eddyscope.report.style import INK, VERMILION, band_colours, fix_ticks, house_style, plain
from eddyscope.report.views import MOST_PANELS, View, views
from eddyscope.study.study import Study

FloatArray = npt.NDArray[np.floating[Any]]

#: Decades below the largest eigenvalue that are drawn.
_DECADES = 6
#: Height of a line of text in a panel, points.
_TEXT_LINE = 8

_CAPTION = (
    "Energy of each mode by rank. Dashed: power law with exponent −β over the ranks it was fitted on, as published; "
    "T = 1/β is larger where more patterns share the energy; * not a power law.",
    "Sampling floor: with N = {documents} each eigenvalue also carries about 1/N of all the energy that later modes "
    "should hold. A flat tail, and a small β, may say how many documents there are rather than how the layer decays.",
)
_NULLS = "Grey: null models without a window, one line each."


@house_style()
def draw_eigenvalue_spectra(
    study: Study, layers: Sequence[str | int] | None = None, heads: Sequence[str | int] | None = None
) -> Figure:
    """POD spectra of every band and without a window, with the published fit.

    Parameters
    ----------
    study : Study
    layers : sequence of str or int, optional
    heads : sequence of str or int, optional

    Returns
    -------
    Figure
        One panel a layer (or head), see :func:`plot_eigenvalue_spectra`, all on the same axes.
    """
    chosen = views(study, layers, heads, MOST_PANELS)
    documents, kinds = int(chosen.shown[0].data.attrs["documents"]), null_kinds(chosen.shown)
    laid = page(
        len(chosen.shown),
        title="How many patterns: eigenvalue spectra",
        subtitle=chosen.about,
        caption=(*(line.format(documents=documents) for line in _CAPTION), _NULLS if kinds else "", chosen.note),
        aspect=0.85,
        columns=chosen.columns,
        room=Room(legend=0.24),
    )
    bands = max(len(view.bands) for view in chosen.shown)
    colours = band_colours(bands)
    laid.legend(
        [
            Line2D([], [], color=INK, label="without a window"),
            *(Line2D([], [], color=c, label=_band_name(k)) for k, c in enumerate(colours) if _in_legend(k, bands)),
            Line2D([], [], color=VERMILION, linestyle=(0, (3, 1.5)), label="fit"),
            *(null_handle(kind) for kind in kinds),
        ]
    )
    least, largest = spectrum_limits(chosen.shown)
    name_panels(laid, chosen.shown, [view.first_band for view in chosen.shown])
    for (axes,), view in zip(laid.cells, chosen.shown, strict=True):
        plot_eigenvalue_spectra(view, axes, colours)
        log_log(axes, laid.height, documents, least, largest)
    laid.outer_labels()
    laid.label_axes("rank", "eigenvalue (energy of the mode)")
    return laid.figure


def plot_eigenvalue_spectra(view: View, axes: Axes, colours: Sequence[Any] | None = None) -> list[Line2D]:
    """Spectra of one layer or head.

    Returns
    -------
    list of Line2D
        ``field_eigenvalues``, then ``eigenvalues`` of each band, down to the last that is positive; none where
        nothing fluctuates. The fits are drawn on top, and null models in grey below.
    """
    if view.no_modes:
        say(axes, view.no_modes)
        return []
    data = view.data
    colours = colours or band_colours(len(view.bands))
    for kind in null_kinds([view]):
        for values in members(data["null_eigenvalues"], kind).values:
            line = _spectrum(axes, values, NULL_STYLES[kind].colour, 0.9)
            line.set(linestyle=NULL_STYLES[kind].line, zorder=1)
    lines = [_spectrum(axes, data["field_eigenvalues"].values, INK, 1.2)]
    for band in view.bands:
        lines.append(_spectrum(axes, data["eigenvalues"].isel(band=band).values, colours[band], 0.9))
    notes = [("", data, INK), ("band", data.isel(band=0), colours[0])]
    for row, (what, measured, colour) in enumerate(notes):
        prefix = "" if what else "field_"
        _fit(axes, measured, prefix)
        axes.annotate(
            _fit_text(measured, prefix), (0, 0), xycoords="axes fraction", xytext=(3, _TEXT_LINE * (1 - row) + 2),
            textcoords="offset points", fontsize=6.2, color=colour, va="bottom",
        )  # fmt: skip
    return lines


def fitted_ranks(eigenvalues: FloatArray, published: bool) -> npt.NDArray[np.int64]:
    """Ranks that the published fit uses: the first 30, above the floor."""
    leading = eigenvalues[:FIT_RANKS]
    floor = 1e-12 if published else 1e-10 * leading[0]
    return np.flatnonzero(leading > floor) + 1


def _spectrum(axes: Axes, eigenvalues: FloatArray, colour: Any, width: float) -> Line2D:
    kept = eigenvalues[eigenvalues > 0]
    (line,) = axes.plot(np.arange(1, kept.size + 1), kept, color=colour, linewidth=width)
    if kept.size == 1:
        line.set_marker("o")
        line.set_markersize(3)
    return line


def _fit(axes: Axes, data: Any, prefix: str) -> None:
    beta, intercept = float(data[f"{prefix}beta_published"]), float(data[f"{prefix}fit_intercept"])
    if not (np.isfinite(beta) and np.isfinite(intercept)):
        return
    eigenvalues = data[f"{prefix}eigenvalues"].values
    ranks = fitted_ranks(eigenvalues, data.attrs.get("edges") == "replicate")
    ends = np.array([ranks[0], ranks[-1]])
    axes.plot(ends, np.exp(intercept) * ends**-beta, color=VERMILION, linestyle=(0, (3, 1.5)), linewidth=1.0, zorder=5)


def _fit_text(data: Any, prefix: str) -> str:
    status = str(data[f"{prefix}beta_published_status"].values)
    beta = float(data[f"{prefix}beta_published"])
    if not np.isfinite(beta):
        return status
    star = " *" if status == "not a power law" else ""
    return f"β {plain(beta)}  T {plain(float(data[f'{prefix}t_spec_published']))}{star}"


def spectrum_limits(shown: Sequence[View]) -> tuple[float, float]:
    """Smallest and largest eigenvalue to draw."""
    names = ("field_eigenvalues", "eigenvalues")
    values = [view.data[name].values.ravel() for view in shown if not view.no_modes for name in names]
    for kind in null_kinds(shown):
        values += [members(view.data["null_eigenvalues"], kind).values.ravel() for view in shown if not view.no_modes]
    found = np.concatenate(values) if values else np.array([1.0])
    found = found[found > 0]
    largest = float(found.max())
    return max(float(found.min()), largest * 10.0**-_DECADES), largest


def log_log(axes: Axes, height: float, documents: int, least: float, largest: float) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    ranks = max(2, documents - 1)
    axes.set_xlim(0.9, ranks * 1.1)
    few = [1, 3, 10, 30, 100, 300, 1000, 3000]
    fix_ticks(axes.xaxis, [k for k in few if k <= ranks], [k for k in few if k <= ranks])
    # Room for the text under the curves.
    tall = axes.get_position().height * height * 72
    part = (2 * _TEXT_LINE + 4) / tall
    span = max(np.log10(2 * largest / least), 0.5)
    low = least / 10 ** (span * part / (1 - part))
    axes.set_ylim(low, largest * 2)
    powers = np.arange(np.ceil(np.log10(low)), np.floor(np.log10(largest * 2)) + 1)
    powers = powers[:: max(1, len(powers) // 4)]
    fix_ticks(axes.yaxis, 10.0**powers, [f"$10^{{{int(p)}}}$" for p in powers])


def _band_name(band: int) -> str:
    return "first band" if band == 0 else f"band {band + 1}"


def _in_legend(band: int, bands: int) -> bool:
    """All of a few bands; of many the first and the last."""
    return bands <= 5 or band in (0, bands - 1)


__all__ = ["draw_eigenvalue_spectra", "fitted_ranks", "plot_eigenvalue_spectra"]
