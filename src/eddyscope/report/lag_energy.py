"""Where each layer works: its fluctuation energy by octave of distance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from eddyscope.report.layout import PAGE_WIDTH, caption_height, wrap, write_caption, write_head
from eddyscope.report.nulls import members, null_kinds
from eddyscope.report.style import DIVERGING, GREY, INK, SEQUENTIAL, colormap, fix_ticks, house_style, ink_on
from eddyscope.report.views import View, views
from eddyscope.schema import SIDES
from eddyscope.study.study import Study
from eddyscope.study.summary import octave_labels

FloatArray = npt.NDArray[np.floating[Any]]

#: Densities beyond this factor from flat take the end colours.
_LARGEST_FACTOR = 8.0
#: Rows up to which every cell carries its number.
_NUMBERED_ROWS = 40
#: Octaves, both sides together, up to which their labels need not be turned, by number of panels.
_UPRIGHT = {2: 9, 3: 5}
#: Least width of a cell that holds a number, inches.
_LEAST_CELL = 0.139

_CAPTION = (
    "Left: share of each row's fluctuation energy at the distances of the octave (query to key, in tokens); a row adds "
    "up to 100 %.",
    "Right: the share over the octave's part of the lags, so that 1 is a layer that looks nowhere in particular: wide "
    "octaves hold much energy even then. Read the density to say where a layer works.",
)
_TWIN = "The last panel is the density of the model with untrained weights (mean over seeds), in the same colours."
_BY_HEAD = "Within a layer there is one row a head, in order from the top."
_VARIABLES = {"share": "octave_share", "density": "octave_density", "twin": "null_octave_density"}
_TWO_SIDED = "Later keys are on the left of each panel, earlier keys on the right; lag 0 counts half on each side."


@house_style()
def draw_lag_energy(
    study: Study, layers: Sequence[str | int] | None = None, heads: Sequence[str | int] | None = None
) -> Figure:
    """Lag energy budget of every layer (and head): share and density by octave.

    Parameters
    ----------
    study : Study
    layers : sequence of str or int, optional
    heads : sequence of str or int, optional

    Returns
    -------
    Figure
        Two panels, share and density, and the density of the untrained twin where the study has one; two-sided layers
        have one of each for the keys ahead and the keys back. The images hold ``octave_share`` and
        ``log2(octave_density)``, one row a layer.
    """
    chosen = views(study, layers, heads)
    shown = chosen.shown
    sides: tuple[str | None, ...] = SIDES[::-1] if chosen.two_sided else (None,)  # ahead, then back, as lags ascend
    labels = _octaves(shown)
    kinds = ("share", "density", "twin") if "twin" in null_kinds(shown) else ("share", "density")
    notes = (
        _TWIN if "twin" in kinds else "",
        _TWO_SIDED if chosen.two_sided else "",
        _BY_HEAD if chosen.by_head else "",
    )
    share, density = _CAPTION
    if "twin" in kinds:
        density = density.replace("Right:", "Middle:")
    caption = wrap((share, density, *notes), PAGE_WIDTH)
    figure, panels = _panels(len(shown), len(labels), len(sides), caption, len(kinds))
    write_head(figure, "At which distances each layer's attention fluctuates", chosen.about)
    write_caption(figure, caption)
    tables = {kind: [octave_table(shown, _VARIABLES[kind], side, len(labels)) for side in sides] for kind in kinds}
    most = max((float(np.nanmax(t)) for t in tables["share"] if np.isfinite(t).any()), default=1.0)
    for block, kind in zip(panels, kinds, strict=True):
        for axes, side, table in zip(block, sides, tables[kind], strict=True):
            if kind == "share":
                image = plot_octave_share(table, axes, largest=most)
            else:
                image = plot_octave_density(table, axes)
            turned = len(labels) * len(sides) > _UPRIGHT[len(kinds)]
            _label(axes, labels, side, turned=turned)
            _label_rows(axes, shown, first=axes is block[0] and kind != "twin")
            if kind != "twin":
                _say_missing(axes, shown, len(labels))
        _title(figure, block, kind, brief="twin" in kinds)
        if kind != "density" or "twin" not in kinds:
            _bar(figure, block[-1], image, kind)
    return figure


def octave_table(shown: Sequence[View], variable: str, side: str | None, octaves: int) -> FloatArray:
    """Values by layer and octave, shape (view, octave); NaN for octaves that a layer lacks.

    Of causal layers among two-sided ones, the keys ahead are NaN. Of the variables of null models, the mean over the
    seeds of the twin.
    """
    table = np.full((len(shown), octaves), np.nan)
    for row, view in enumerate(shown):
        values = view.data[variable]
        if "null" in values.dims:
            values = members(values, "twin").mean("null", skipna=False)
        if "side" in values.dims:
            values = values.sel(side=side)
        elif side == "ahead":
            continue
        table[row, : values.size] = values.values
    return table


def plot_octave_share(table: FloatArray, axes: Axes, largest: float | None = None) -> AxesImage:
    """Heat map of shares, shape (layer, octave), with percentages where there is room."""
    image = axes.imshow(
        table, cmap=colormap(SEQUENTIAL), vmin=0.0, vmax=largest, aspect="auto", interpolation="nearest"
    )
    _numbers(axes, image, table, lambda v: f"{100 * v:.0f}")
    return image


def plot_octave_density(table: FloatArray, axes: Axes) -> AxesImage:
    """Heat map of densities on a doubling scale around 1, shape (layer, octave), with numbers where there is room."""
    limit = np.log2(_LARGEST_FACTOR)
    with np.errstate(divide="ignore"):
        doublings = np.where(np.isnan(table), np.nan, np.clip(np.log2(table), -limit, limit))
    image = axes.imshow(
        doublings, cmap=colormap(DIVERGING), vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
    )
    _numbers(axes, image, table, lambda v: f"{v:.1f}" if 0.05 <= v < 9.95 else f"{v:.0f}")
    return image


def _octaves(shown: Sequence[View]) -> list[str]:
    """Labels of the octaves of the layer that has most of them."""
    return max((octave_labels(view.data) for view in shown), key=len)


def _panels(
    rows: int, octaves: int, sides: int, caption: Sequence[str], blocks: int
) -> tuple[Figure, list[list[Axes]]]:
    """Two or three panels side by side, each split by side of the query; the third shares the second's colour bar."""
    left, bar, gap, right, close = 0.62, 0.55, 0.75, 0.15, 0.2
    top = 0.92 if sides == 2 else 0.84
    bottom = 0.62 if octaves * sides > _UPRIGHT[blocks] else 0.4
    tall = float(np.clip(0.3 * rows, 0.45, max(4.5, 0.17 * min(rows, 60))))
    height = top + tall + bottom + caption_height(caption)
    figure = Figure(figsize=(PAGE_WIDTH, height))
    half = (PAGE_WIDTH - left - right - 2 * bar - gap - close * (blocks - 2)) / blocks
    wide = (half - 0.06 * (sides - 1)) / sides
    panels = []
    for block in range(blocks):
        x = left + block * half + (bar + gap if block else 0.0) + (close if block == 2 else 0.0)
        panels.append(
            [
                figure.add_axes(
                    (
                        (x + s * (wide + 0.06)) / PAGE_WIDTH,
                        (bottom + caption_height(caption)) / height,
                        wide / PAGE_WIDTH,
                        tall / height,
                    )
                )
                for s in range(sides)
            ]
        )
    return figure, panels


def _label(axes: Axes, labels: list[str], side: str | None, *, turned: bool) -> None:
    fix_ticks(axes.xaxis, range(len(labels)), labels)
    if turned:
        axes.tick_params(axis="x", labelrotation=90)
    if side == "ahead":
        axes.invert_xaxis()  # so that the query stands in the middle
    if side is not None:
        axes.set_title(side)
    axes.set_xlabel("distance, tokens")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _label_rows(axes: Axes, shown: Sequence[View], *, first: bool) -> None:
    positions, names = _rows(shown)
    fix_ticks(axes.yaxis, positions if first else [], names if first else [])
    if first:
        axes.set_ylabel("layer")
    for row in range(1, len(shown)):
        if shown[row].layer != shown[row - 1].layer and shown[row].head != "mean":
            axes.axhline(row - 0.5, color="white", linewidth=1.0)


def _say_missing(axes: Axes, shown: Sequence[View], octaves: int) -> None:
    for row, view in enumerate(shown):
        if view.missing and len(shown) <= _NUMBERED_ROWS:
            text = view.missing.replace("\n", " ")
            axes.text(octaves / 2 - 0.5, row, text, ha="center", va="center", fontsize=6.5, color=GREY)


def _rows(shown: Sequence[View]) -> tuple[list[float], list[str]]:
    """Where the labels of layers stand: at each row, or in the middle of a layer's heads; thinned where they crowd."""
    found: dict[str, list[int]] = {}
    for row, view in enumerate(shown):
        found.setdefault(view.layer, []).append(row)
    index = {view.layer: view.index for view in shown}
    positions = [float(np.mean(rows)) for rows in found.values()]
    step = max(1, -(-len(found) // 48))
    return positions[::step], [str(index[layer]) for layer in found][::step]


def _title(figure: Figure, panels: Sequence[Axes], kind: str, *, brief: bool) -> None:
    density = "density" if brief else "density: share over the octave's part of the lags"
    text = {"share": "share of the energy, %", "density": density, "twin": "density of the untrained twin"}[kind]
    left, top = panels[0].get_position().x0, panels[0].get_position().y1
    above = (0.2 if panels[0].get_title() else 0.06) / figure.get_figheight()
    figure.text(left, top + above, text, ha="left", va="bottom", color=INK, weight="bold")


def _bar(figure: Figure, beside: Axes, image: AxesImage, kind: str) -> None:
    box, width, height = beside.get_position(), *figure.get_size_inches()
    tall = min(box.height, 3.0 / height)
    axes = figure.add_axes((box.x1 + 0.1 / width, box.y1 - tall, 0.11 / width, tall))
    bar = figure.colorbar(image, cax=axes, extend="neither" if kind == "share" else "both")
    if kind == "share":
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")
    else:
        few = tall * height < 0.9
        powers = [-3, 0, 3] if few else range(-3, 4)
        fix_ticks(bar.ax.yaxis, powers, [f"{2**p}" if p >= 0 else f"1/{2**-p}" for p in powers])


def _numbers(axes: Axes, image: AxesImage, table: FloatArray, write: Callable[[float], str]) -> None:
    """Write each cell's number where there is room for it."""
    cell = axes.bbox.width / axes.figure.dpi / table.shape[1]
    if table.shape[0] > _NUMBERED_ROWS or cell < _LEAST_CELL:
        return
    size = 6.5 if table.shape[0] <= 20 else 6.0
    colours = image.to_rgba(np.asarray(image.get_array()))
    for (row, column), value in np.ndenumerate(table):
        if np.isfinite(value):
            ink = ink_on(colours[row, column])
            axes.text(column, row, write(float(value)), ha="center", va="center", fontsize=size, color=ink)
