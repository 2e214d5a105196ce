"""Figures for papers: one and two columns wide, without captions, and readable in grey."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eddyscope.report.complexity import draw_measure, layer_axis
from eddyscope.report.figures import known, save_as_it_is, write_each
from eddyscope.report.lag_energy import octave_table, plot_octave_density
from eddyscope.report.maps import first_mode, plot_coherence, plot_mode, root_norm
from eddyscope.report.nulls import null_kinds
from eddyscope.report.profiles import plot_mode_profiles
from eddyscope.report.scalograms import common_norm, plot_scalogram, share_axes
from eddyscope.report.spectra import log_log, plot_eigenvalue_spectra, spectrum_limits
from eddyscope.report.style import INK, fix_ticks, paper_style
from eddyscope.report.views import View, views
from eddyscope.schema import SIDES
from eddyscope.study.measures import APPROXIMATE
from eddyscope.study.study import Study
from eddyscope.study.summary import octave_labels

#: Widths in inches of one and two columns, as most journals have them, and panels in a row of each.
WIDTHS = {"one": 3.35, "two": 7.0}
_ACROSS = {"one": 2, "two": 4}
#: Most panels of a figure; layers are then taken at even steps.
_MOST = {"one": 6, "two": 12}
_DPI = 300
#: Figures that show eigenvalues or modes of the field POD, and say so where these are approximate.
_OF_POD = ("mode_profiles", "modes", "eigenvalue_spectra", "complexity")
#: Greys and dashes by which lines are told apart without colour.
_LINES = (("#000000", "-"), ("#000000", (0, (4, 1.5))), ("#777777", "-"), ("#777777", (0, (1, 1.2))), ("#aaaaaa", "-"))


def write_paper_figures(
    study: Study,
    folder: str | Path,
    *,
    formats: Sequence[str] = ("pdf", "png"),
    names: Sequence[str] | None = None,
    layers: Sequence[str | int] | None = None,
    heads: Sequence[str | int] | None = None,
    widths: Sequence[str] = ("one", "two"),
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Path]:
    """Draw figures for a paper, each as ``NAME-one.pdf`` (3.35 inches wide) and ``NAME-two.pdf`` (7 inches).

    Parameters
    ----------
    study : Study
    folder : str or Path
        Made where it is not there. Files of the same names are replaced.
    formats : sequence of {"pdf", "png", "svg"}
        PNG files have 300 dots per inch.
    names : sequence of str, optional
        Figures to draw, names of :data:`PAPER_FIGURES`; all by default.
    layers, heads : sequence of str or int, optional
        What they show; all by default, as far as there is room, at even steps beyond.
    widths : sequence of {"one", "two"}
    progress : callable, optional
        Called with (name, figures done, figures in all).

    Returns
    -------
    list of Path
    """
    chosen = list(PAPER_FIGURES) if names is None else list(names)
    known("figure", chosen, PAPER_FIGURES)
    known("format", formats, dict.fromkeys(("pdf", "png", "svg")))
    known("width", widths, WIDTHS)

    def draw(name: str, place: Path) -> list[Path]:
        files = []
        for width in widths:
            with paper_style():
                figure = PAPER_FIGURES[name](study, width, layers, heads)
                if name in _OF_POD and study.packed(study.layers[0]).attrs.get("pod") == APPROXIMATE:
                    figure.text(0.995, 0.005, f"POD {APPROXIMATE}", ha="right", va="bottom", fontsize=6, color=INK)
                files += [save_as_it_is(figure, place / f"{name}-{width}.{kind}", _DPI) for kind in formats]
        return files

    return write_each(folder, chosen, draw, progress)


Chosen = Sequence[str | int] | None


def _panels(shown: Sequence[View], width: str, aspect: float) -> tuple[Figure, list[Axes]]:
    """A grid of panels with the layers as titles; ``aspect`` is height over width of a panel."""
    columns = min(len(shown), _ACROSS[width])
    if columns == 4 and len(shown) in (5, 6, 9):
        columns = 3
    rows = -(-len(shown) // columns)
    height = rows * (WIDTHS[width] / max(columns, 2) * aspect + 0.18) + 0.3
    figure = Figure(figsize=(WIDTHS[width], height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, view in zip(grid, shown, strict=False):
        axes.set_title(view.label)
    for axes in grid[len(shown) :]:
        axes.set_visible(False)
    return figure, list(grid[: len(shown)])


def _outer(panels: Sequence[Axes], columns: int) -> None:
    for index, axes in enumerate(panels):
        axes.tick_params(labelleft=index % columns == 0, labelbottom=index + columns >= len(panels))


def _columns(panels: Sequence[Axes]) -> int:
    spec = panels[0].get_subplotspec()
    assert spec is not None
    return int(spec.get_gridspec().ncols)


def _bar(figure: Figure, image: ScalarMappable | None, panels: Sequence[Axes], label: str) -> None:
    if image is not None:
        bar = figure.colorbar(image, ax=list(panels), shrink=0.8, aspect=25, pad=0.02)
        bar.set_label(label)
        bar.outline.set_linewidth(0.4)


def _labels(figure: Figure, x: str, y: str) -> None:
    figure.supxlabel(x, fontsize=7)
    figure.supylabel(y, fontsize=7)


def _in_grey(lines: Sequence[Line2D]) -> None:
    for line, (colour, dash) in zip(lines, _LINES, strict=False):
        line.set(color=colour, linestyle=dash)


def paper_lag_energy(study: Study, width: str, layers: Chosen, heads: Chosen) -> Figure:
    """Density of the fluctuation by layer and octave."""
    shown = views(study, layers, heads, 60).shown
    two_sided = not all(view.causal for view in shown)
    sides: tuple[str | None, ...] = SIDES[::-1] if two_sided else (None,)
    labels = max((octave_labels(view.data) for view in shown), key=len)
    figure = Figure(figsize=(WIDTHS[width], 0.55 + 0.16 * max(len(shown), 4)), layout="constrained")
    blocks = figure.subplots(1, len(sides), squeeze=False)[0]
    for axes, side in zip(blocks, sides, strict=True):
        image = plot_octave_density(octave_table(shown, "octave_density", side, len(labels)), axes)
        fix_ticks(axes.xaxis, range(len(labels)), labels)
        step = max(1, -(-len(shown) // 30))
        rows = range(0, len(shown), step)
        fix_ticks(axes.yaxis, rows, [shown[i].short_label for i in rows] if axes is blocks[0] else [""] * len(rows))
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        if side == "ahead":
            axes.invert_xaxis()
        if side is not None:
            axes.set_title(side)
        if len(labels) * len(sides) > (7 if width == "one" else 14):
            axes.tick_params(axis="x", labelrotation=90)
    blocks[0].set_ylabel("layer")
    figure.supxlabel("distance, tokens", fontsize=7)
    bar = figure.colorbar(image, ax=list(blocks), aspect=25, pad=0.02, extend="both")
    fix_ticks(bar.ax.yaxis, range(-3, 4), [f"{2**p}" if p >= 0 else f"1/{2**-p}" for p in range(-3, 4)])
    bar.set_label("density")
    return figure


def paper_scalograms(study: Study, width: str, layers: Chosen, heads: Chosen) -> Figure:
    """Scalograms of the fluctuation, on one colour scale."""
    shown = views(study, layers, heads, _MOST[width]).shown
    figure, panels = _panels(shown, width, 0.72)
    norm = common_norm(shown)
    image = None
    for axes, view in zip(panels, shown, strict=True):
        image = plot_scalogram(view, axes, norm) or image
    share_axes(panels, shown)
    _outer(panels, _columns(panels))
    _bar(figure, image, panels, "energy")
    _labels(figure, "lag, tokens", "wavelength, tokens")
    return figure


def paper_mode_profiles(study: Study, width: str, layers: Chosen, heads: Chosen) -> Figure:
    """Lag profiles of the first modes of the first band; solid, dashed, grey, and dotted without a window."""
    shown = views(study, layers, heads, _MOST[width]).shown
    figure, panels = _panels(shown, width, 0.62)
    for axes, view in zip(panels, shown, strict=True):
        _in_grey(plot_mode_profiles(view, axes))
    for index, axes in enumerate(panels):
        axes.tick_params(labelleft=index % _columns(panels) == 0)
    _labels(figure, "lag, tokens", "mode over its largest value")
    return figure


def paper_modes(study: Study, width: str, layers: Chosen, heads: Chosen) -> Figure:
    """First mode without a window as a map; dark is negative, light positive."""
    shown = views(study, layers, heads, _MOST[width]).shown
    figure, panels = _panels(shown, width, 0.9)
    norm = root_norm([first_mode(view, "field_") for view in shown])
    image = None
    for axes, view in zip(panels, shown, strict=True):
        image = plot_mode(view, axes, "field_", norm) or image
    _outer(panels, _columns(panels))
    if image is not None:
        limit = float(norm.vmax or 1.0)
        bar = figure.colorbar(image, ax=panels, shrink=0.8, aspect=25, pad=0.02, extend="both")
        fix_ticks(bar.ax.yaxis, [-limit, 0, limit], [f"−{limit:.2g}", "0", f"{limit:.2g}"])
        bar.set_label("mode")
    _labels(figure, "key, token", "query, token")
    return figure


def paper_eigenvalue_spectra(study: Study, width: str, layers: Chosen, heads: Chosen) -> Figure:
    """Eigenvalue spectra without a window and of the bands, with the published fit."""
    shown = views(study, layers, heads, _MOST[width]).shown
    figure, panels = _panels(shown, width, 0.85)
    least, largest = spectrum_limits(shown)
    documents = int(shown[0].data.attrs["documents"])
    for axes, view in zip(panels, shown, strict=True):
        _in_grey(plot_eigenvalue_spectra(view, axes))
        log_log(axes, float(figure.get_figheight()), documents, least, largest)
        for text in axes.texts:
            text.set(fontsize=5.5, color=INK)
    _outer(panels, _columns(panels))
    _labels(figure, "rank", "eigenvalue")
    return figure


def paper_coherence(study: Study, width: str, layers: Chosen, heads: Chosen) -> Figure:
    """Coherence with the query's own position."""
    shown = views(study, layers, heads, _MOST[width]).shown
    figure, panels = _panels(shown, width, 0.9)
    image = None
    for axes, view in zip(panels, shown, strict=True):
        image = plot_coherence(view, axes) or image
    _outer(panels, _columns(panels))
    _bar(figure, image, panels, "coherence")
    _labels(figure, "key, token", "query, token")
    return figure


def paper_complexity(study: Study, width: str, layers: Chosen, heads: Chosen) -> Figure:
    """Effective rank, participation ratio and T by layer, of the field, the first band and the lag POD."""
    shown = views(study, layers, heads).shown
    stacked = width == "one"
    size = (WIDTHS[width], 4.6 if stacked else 2.0)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(*((3, 1) if stacked else (1, 3)), squeeze=False).ravel()
    tolerance = float(shown[0].data["tolerance"].values[0])
    for axes, measure, title in zip(
        panels,
        ("effective_rank", "participation_ratio", "t_spec_published"),
        (f"effective rank H*({tolerance:g})", "participation ratio", "T = 1/β, as published"),
        strict=True,
    ):
        axes.set_title(title, loc="left")
        draw_measure(shown, measure, axes, null_kinds(shown))
        layer_axis(axes, shown)
    handles = [
        Line2D([], [], color=INK, marker=marker, markersize=4, linewidth=0.7, label=label)
        for marker, label in (("o", "without a window"), ("s", "first band"), ("^", "lag POD"))
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    figure.supxlabel("layer", fontsize=7)
    return figure


#: Figures for papers, by name.
PAPER_FIGURES: dict[str, Callable[[Study, str, Chosen, Chosen], Figure]] = {
    "lag_energy": paper_lag_energy,
    "scalograms": paper_scalograms,
    "mode_profiles": paper_mode_profiles,
    "modes": paper_modes,
    "eigenvalue_spectra": paper_eigenvalue_spectra,
    "coherence": paper_coherence,
    "complexity": paper_complexity,
}

__all__ = ["PAPER_FIGURES", "WIDTHS", "write_paper_figures"]
