"""Studies side by side: numbers by layer, or along a training run, and octaves that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter

from eddyscope.comparison.compare import Comparison
from eddyscope.report.layout import Page, Room, page, say
from eddyscope.report.style import (
    BLUE,
    DIVERGING,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    colormap,
    fix_ticks,
    house_style,
    ink_on,
    whole_ticks,
)

FloatArray = npt.NDArray[np.floating[Any]]

#: Least distance of the labels of two steps, as a share of the axis.
_LABEL_SHARE = 0.12

#: What is drawn, with the title of its panel, and whether its axis is logarithmic.
_PANELS = {
    "mean_octave": ("mean octave of the fluctuation, log2(1 + distance)", False),
    "near_share": ("share within 8 tokens", False),
    "fluctuation_level": ("fluctuation level", False),
    "participation_ratio": ("participation ratio", True),
    "lag_participation_ratio": ("participation ratio of lag profiles", True),
    "sink_mass": ("attention to the first token", False),
}
_COLOURS = (INK, BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
#: Most subjects and panels of octaves on one page.
_MOST = 12
#: Below it a difference holds after Holm's correction.
_LEVEL = 0.05

_CAPTION = "Bars: 95 % intervals, of the documents and, in groups, of the seeds."
_BY_LAYER = (
    "Whether two models differ is judged in pairs over documents, in the table of differences: bars that overlap may "
    "differ."
)
_OVER = "One line a layer, from dark (first) to light (last)."
_OCTAVES = (
    "Share of the fluctuation energy in each octave of distance, minus that of the reference, in points. Bold: holds "
    "after Holm's correction over layers and octaves."
)


@house_style()
def draw_comparison(comparison: Comparison) -> Figure:
    """Six numbers by layer, one line a study or group; of a series by step, one line a layer.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    Figure
        Of heads, their mean is drawn.
    """
    series = comparison.steps is not None
    laid = page(
        len(_PANELS),
        title="A training run: when layers take up their distances"
        if series
        else "Studies side by side, layer by layer",
        subtitle=_about(comparison),
        caption=(_CAPTION, _OVER if series else _BY_LAYER),
        aspect=0.62,
        columns=3,
        room=Room(between=0.5, below=0.34, legend=0.0 if series else 0.24),
    )
    for (axes,), (name, (title, logarithmic)) in zip(laid.cells, _PANELS.items(), strict=True):
        axes.set_title(title)
        if logarithmic:
            plain_log(axes)
        (_over_steps if series else _by_layer)(comparison, name, axes)
    if not series:
        shown = comparison.labels[:_MOST]
        laid.legend([Line2D([], [], color=_colour(k), marker="o", markersize=3, label=n) for k, n in enumerate(shown)])
    laid.label_axes("training step" if series else "layer", "")
    return laid.figure


def plain_log(axes: Axes) -> None:
    """A logarithmic y axis whose ticks are plain numbers, 1.5 and not 1.5 x 10^0."""
    axes.set_yscale("log")
    for set_formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        set_formatter(LogFormatter(minor_thresholds=(1.0, 0.5)))


def _about(comparison: Comparison) -> str:
    layers = comparison.values["layer"].nunique()
    return f"{len(comparison.labels)} studies or groups  ·  {layers} layers  ·  reference: {comparison.labels[0]}"


def _colour(index: int) -> Any:
    return _COLOURS[index % len(_COLOURS)]


def _of(comparison: Comparison, name: str) -> pd.DataFrame:
    """Values of one measure, heads averaged; ends of intervals are dropped where there are several."""
    table = comparison.values[comparison.values["measure"] == name]
    if table["head"].nunique() > 1:
        means = table.groupby(["layer", "subject"], as_index=False, sort=False).agg({"value": "mean"})
        table = means.assign(low=np.nan, high=np.nan)
    return table


def _by_layer(comparison: Comparison, name: str, axes: Axes) -> None:
    table = _of(comparison, name)
    labels = comparison.labels[:_MOST]
    for index, label in enumerate(labels):
        own = table[table["subject"] == label]
        aside = 0.12 * (index - (len(labels) - 1) / 2) / max(1, len(labels) / 3)
        _line(axes, own["layer"].to_numpy() + aside, own, _colour(index))
    whole_ticks(axes.xaxis, 8)


def _over_steps(comparison: Comparison, name: str, axes: Axes) -> None:
    import matplotlib as mpl

    assert comparison.steps is not None
    table = _of(comparison, name)
    layers = sorted(table["layer"].unique())
    place = dict(zip(comparison.labels, comparison.steps, strict=True))
    for layer in layers:
        own = table[table["layer"] == layer]
        x = own["subject"].map(place).to_numpy(dtype=np.float64)
        colour = mpl.colormaps["viridis"](0.9 * layer / max(1, max(layers)))
        _line(axes, x, own, colour)
        known = own["value"].to_numpy(dtype=np.float64)
        if known.size and np.isfinite(known[-1]):
            axes.annotate(
                f"{layer}",
                (x[-1], known[-1]),
                (3, 0),
                textcoords="offset points",
                fontsize=5.5,
                color=colour,
                va="center",
            )
    steps = np.array(comparison.steps)
    least = float(steps[steps > 0].min()) if (steps > 0).any() else 1.0
    axes.set_xscale("symlog", linthresh=least)
    ticks = _legible(steps, np.asarray(axes.xaxis.get_transform().transform(steps.astype(np.float64))))
    fix_ticks(axes.xaxis, ticks, [f"{t:g}" for t in ticks])


def _legible(steps: npt.NDArray[Any], places: FloatArray) -> list[float]:
    """Steps whose labels do not run into each other: the last one, and before it those far enough from the next."""
    kept: list[int] = []
    for index in reversed(range(len(steps))):
        if not kept or places[kept[-1]] - places[index] >= _LABEL_SHARE * np.ptp(places):
            kept.append(index)
    return [float(steps[index]) for index in reversed(kept)]


def _line(axes: Axes, x: FloatArray, table: pd.DataFrame, colour: Any) -> None:
    value, low, high = (table[name].to_numpy(dtype=np.float64) for name in ("value", "low", "high"))
    axes.plot(x, value, color=colour, marker="o", markersize=2.5, linewidth=0.9)
    known = np.isfinite(low) & np.isfinite(high)
    if known.any():
        axes.vlines(x[known], low[known], high[known], color=colour, linewidth=0.7, alpha=0.8)


@house_style()
def draw_octave_differences(comparison: Comparison) -> Figure:
    """Differences of octave shares to the reference, one panel a study or group.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    Figure
        Of heads, their mean is drawn. The images hold the differences, layers down and octaves across.
    """
    labels = comparison.labels[1 : _MOST + 1]
    table = comparison.octaves.groupby(["layer", "subject", "octave", "first", "last"], as_index=False).agg(
        {"difference": "mean", "p_holm": "max"}
    )
    laid = page(
        len(labels),
        title=f"Distances: octave shares minus those of {comparison.labels[0]}",
        subtitle=_about(comparison),
        caption=(_OCTAVES, _left_out(comparison)),
        aspect=min(1.2, max(0.35, 0.09 * comparison.values["layer"].nunique())),
        room=Room(right=0.85, below=0.24),
    )
    apart = table["difference"].abs().max()
    limit = float(apart) if np.isfinite(apart) and apart > 0 else 1.0
    norm = TwoSlopeNorm(0.0, -limit, limit)
    image = None
    for (axes,), label in zip(laid.cells, labels, strict=True):
        axes.set_title(label)
        image = _octaves(table[table["subject"] == label], axes, norm, _narrow(laid)) or image
    laid.outer_labels()
    laid.label_axes("distance, tokens of the reference", "layer")
    if image is not None:
        laid.colour_bar(image, "difference of shares")
    return laid.figure


def _left_out(comparison: Comparison) -> str:
    more = len(comparison.labels) - 1 - _MOST
    return f"{more} more are in the table." if more > 0 else ""


def _narrow(laid: Page) -> bool:
    return laid.cells[0][0].get_position().width * laid.width < 2.4


def _octaves(table: pd.DataFrame, axes: Axes, norm: TwoSlopeNorm, narrow: bool) -> AxesImage | None:
    if not len(table) or not table["difference"].notna().any():
        say(axes, "nothing to compare")
        axes.set(xticks=[], yticks=[])
        return None
    values = table.pivot(index="layer", columns="octave", values="difference")
    chance = table.pivot(index="layer", columns="octave", values="p_holm").to_numpy()
    bounds = table.drop_duplicates("octave").sort_values("octave")
    grid = values.to_numpy()
    image = axes.imshow(grid, cmap=colormap(DIVERGING), norm=norm, aspect="auto")
    ranges = [f"{a}" if a == b else f"{a}-{b}" for a, b in zip(bounds["first"], bounds["last"], strict=True)]
    fix_ticks(axes.xaxis, range(len(ranges)), ranges)
    axes.tick_params(axis="x", labelsize=5.0 if narrow else 6.0, rotation=45 if narrow else 0)
    fix_ticks(axes.yaxis, range(len(values.index)), values.index)
    if len(values.index) <= 16:
        for (row, column), value in np.ndenumerate(grid):
            if np.isfinite(value):
                holds = chance[row, column] < _LEVEL
                axes.text(
                    column, row, f"{100 * value:+.0f}".replace("-", "−"), ha="center", va="center",
                    fontsize=5.0 if narrow else 6.0, weight="bold" if holds else "normal",
                    color=ink_on(image.cmap(image.norm(value))),
                )  # fmt: skip
    return image


__all__ = ["draw_comparison", "draw_octave_differences", "plain_log"]
