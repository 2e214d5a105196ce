"""Complexity by layer: how many patterns each layer needs, and how far its numbers can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eddyscope.report.layout import Room, page
from eddyscope.report.nulls import NULL_STYLES, interval, null_handle, null_kinds, null_values, plot_interval
from eddyscope.report.style import BLUE, GREY, INK, ORANGE, PURPLE, fix_ticks, house_style
from eddyscope.report.views import View, views
from eddyscope.study.study import Study

FloatArray = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Series:
    """One quantity by layer.

    Parameters
    ----------
    name : str
        As in the study.
    label : str
    colour, marker : str
    shift : float
        Sideways, in layers, so that markers do not hide each other.
    """

    name: str
    label: str
    colour: str
    marker: str
    shift: float = 0.0


_KINDS = {
    "field_": ("without a window", INK, "o", 0.0),
    "": ("first band", BLUE, "s", -0.12),
    "lag_": ("lag POD", ORANGE, "^", 0.12),
}

_CAPTION = (
    "Filled: the number can be read. Hollow: with reserve (effective rank unresolved at this many documents, spectrum "
    "not a power law, too few documents). A cross at the foot: no number.",
    "H* of the field cannot exceed N − 1 and says little above half of it (lines); the lag POD has many more samples. "
    "Larger T = 1/β: slower decay, more patterns share the energy.",
)
_BARS = (
    "Bars: 95 % intervals; of H* from its value in the sample to the one from held-out documents; an arrow where a bar "
    "goes on above the panel."
)
_NULLS = "Grey: null models, without a window (of untrained twins the mean)."
#: An interval widens a logarithmic axis by this factor at most.
_WIDEST = 10.0
_BY_HEAD = "Within a layer there is one point a head, in order from the left."


@house_style()
def draw_complexity(
    study: Study, layers: Sequence[str | int] | None = None, heads: Sequence[str | int] | None = None
) -> Figure:
    """Effective rank, participation ratio and T_spec by layer, with the sink mass and the level of fluctuation.

    Parameters
    ----------
    study : Study
    layers : sequence of str or int, optional
    heads : sequence of str or int, optional

    Returns
    -------
    Figure
        Four panels. Where each head was kept, every head is a point. Intervals are bars; of null models the
        measures without a window are in grey.
    """
    chosen = views(study, layers, heads)
    shown = chosen.shown
    kinds, bars = null_kinds(shown), np.isfinite(interval(shown, "field_participation_ratio")).any()
    laid = page(
        4,
        title="How complex each layer is",
        subtitle=chosen.about,
        caption=(*_CAPTION, _BARS if bars else "", _NULLS if kinds else "", _BY_HEAD if chosen.by_head else ""),
        aspect=0.5,
        columns=2,
        room=Room(left=0.7, between=0.75, below=0.12, legend=0.24, above=0.26),
    )
    (rank,), (ratio,), (spec,), (shares,) = laid.cells
    tolerance = float(shown[0].data["tolerance"].values[0])
    for axes, measure, title in (
        (rank, "effective_rank", f"effective rank H*({tolerance:g}), modes"),
        (ratio, "participation_ratio", "participation ratio, modes"),
        (spec, "t_spec_published", "T = 1/β, as published"),
    ):
        axes.set_title(title, loc="left")
        draw_measure(shown, measure, axes, kinds)
    shares.set_title("shares", loc="left")
    both = (
        Series("sink_mass", "mass on the first key", PURPLE, "D"),
        Series("fluctuation_level", "level of fluctuation", GREY, "v"),
    )
    for series in both:
        plot_by_layer(shown, series, shares)
    shares.set_ylim(0, 1)
    for series in both:
        _bars(shown, series, shares)
    shares.legend(
        handles=[_handle(s.colour, s.marker, s.label) for s in both],
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=2,
        borderaxespad=0.2,
    )
    laid.legend(
        [_handle(colour, marker, label) for label, colour, marker, _ in _KINDS.values()]
        + [null_handle(kind, marked=not positions(shown)[1]) for kind in kinds]
    )
    for axes in (rank, ratio, spec, shares):
        layer_axis(axes, shown)
    laid.outer_labels()
    for axes in (ratio, shares):
        axes.tick_params(labelleft=True)
    laid.label_axes("layer", "")
    return laid.figure


def draw_measure(shown: Sequence[View], measure: str, axes: Axes, kinds: Sequence[str]) -> None:
    """One measure of the three spectra, with null models below and intervals."""
    all_series = [Series(f"{prefix}{measure}", *rest) for prefix, rest in _KINDS.items()]
    for kind in kinds:
        plot_null_by_layer(shown, kind, f"field_{measure}", axes)
    for series in all_series:
        plot_by_layer(shown, series, axes)
    ends = np.concatenate([interval(shown, series.name) for series in all_series], axis=1)
    if measure == "effective_rank":
        _limits_of_rank(axes, int(shown[0].data.attrs["documents"]), ends)
    else:
        _log_axis(axes, ends)
    for series in all_series:  # last, since they keep to the limits
        _bars(shown, series, axes)


def series_values(shown: Sequence[View], name: str) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Value of each view, and whether its status is ``ok``.

    Of a measure with bands the first; of one with tolerances the first.
    """
    values, sure = [], []
    for view in shown:
        picked = [_first(view.data[n]) for n in (name, f"{name}_status") if n in view.data]
        values.append(float(picked[0]))
        sure.append(len(picked) == 1 or str(picked[1]) == "ok")
    return np.array(values), np.array(sure)


def plot_by_layer(shown: Sequence[View], series: Series, axes: Axes) -> None:
    """One quantity by layer: a line and markers, or a point a head; hollow where its status is not ``ok``."""
    x, single = positions(shown)
    values, sure = series_values(shown, series.name)
    known = np.isfinite(values)
    x = x + series.shift * (1.0 if single else 0.0)
    if single:
        axes.plot(x[known], values[known], color=series.colour, linewidth=0.7, alpha=0.6)
    size = 4.5 if single else 2.8
    for chosen, face in ((known & sure, series.colour), (known & ~sure, "white")):
        axes.plot(
            x[chosen], values[chosen], series.marker, color=series.colour, markerfacecolor=face, markersize=size,
            markeredgewidth=0.9, zorder=4,
        )  # fmt: skip
    if (~known).any():
        foot = np.full(int((~known).sum()), 0.03)
        axes.plot(
            x[~known], foot, "x", color=series.colour, markersize=4, transform=axes.get_xaxis_transform(), zorder=4
        )


def plot_null_by_layer(shown: Sequence[View], kind: str, name: str, axes: Axes) -> None:
    """One quantity of a null model by layer: a grey line, or a mark a head."""
    x, single = positions(shown)
    values = null_values(shown, kind, name)
    known, style = np.isfinite(values), NULL_STYLES[kind]
    if single:
        axes.plot(x[known], values[known], color=style.colour, linestyle=style.line, linewidth=1.2, zorder=1)
    else:
        axes.plot(x[known], values[known], style.marker, color=style.colour, markersize=4, zorder=1)


def _bars(shown: Sequence[View], series: Series, axes: Axes) -> None:
    x, single = positions(shown)
    plot_interval(x + series.shift * (1.0 if single else 0.0), interval(shown, series.name), axes, series.colour)


def positions(shown: Sequence[View]) -> tuple[FloatArray, bool]:
    """Place of each view on the layer axis, and whether there is one a layer; heads stand side by side."""
    index = np.array([view.index for view in shown], dtype=float)
    counts: dict[str, int] = {}
    place = []
    for view in shown:
        place.append(counts.get(view.layer, 0))
        counts[view.layer] = place[-1] + 1
    most = max(counts.values())
    if most == 1:
        return index, True
    return index + (np.array(place) - (most - 1) / 2) / most * 0.7, False


def _first(values: Any) -> Any:
    return values.values.ravel()[0]


def _handle(colour: str, marker: str, label: str) -> Line2D:
    return Line2D([], [], color=colour, marker=marker, markersize=4.5, linewidth=0.7, label=label)


def _limits_of_rank(axes: Axes, documents: int, ends: FloatArray) -> None:
    """Lines at the largest rank that the documents allow and at half of it, above which a rank is unresolved."""
    most = documents - 1
    top = max(1.0, axes.get_ylim()[1], 1.06 * most, 1.03 * float(np.max(ends[np.isfinite(ends)], initial=0.0)))
    axes.set_ylim(0, top)
    if documents < 3:
        return
    for value, style, text in ((most, (0, (4, 2)), "N − 1"), (most / 2, (0, (1, 1.5)), "(N − 1)/2")):
        axes.axhline(value, color=GREY, linewidth=0.8, linestyle=style, zorder=1)
        if most > 0.15 * top or value == most:  # else the two names would overlap
            axes.annotate(
                text, (1, value), xycoords=("axes fraction", "data"), xytext=(2, 0), textcoords="offset points",
                va="center", fontsize=6, color=GREY,
            )  # fmt: skip


def _log_axis(axes: Axes, ends: FloatArray) -> None:
    """A logarithmic axis with plain numbers, one decade at least, with room for intervals that are not too long."""
    drawn = np.concatenate(
        [line.get_ydata() for line in axes.lines if line.get_transform() == axes.transData] or [[1.0]]
    )
    drawn = drawn[drawn > 0]
    low, high = (float(drawn.min()), float(drawn.max())) if drawn.size else (1.0, 1.0)
    ends = np.clip(ends[np.isfinite(ends)], low / _WIDEST, high * _WIDEST)
    low, high = float(np.min(ends, initial=low)), float(np.max(ends, initial=high))
    middle = np.sqrt(low * high)
    low, high = min(low / 1.4, middle / 3.2), max(high * 1.4, middle * 3.2)
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    steps = (1, 2, 5) if high / low < 300 else (1,)
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [s * 10.0**p for p in powers for s in steps if low <= s * 10.0**p <= high]
    fix_ticks(axes.yaxis, ticks, [f"{t:g}" for t in ticks])
    axes.grid(axis="y", color="#eeeeee", linewidth=0.6, zorder=0)


def layer_axis(axes: Axes, shown: Sequence[View]) -> None:
    layers = sorted({view.index for view in shown})
    step = max(1, -(-len(layers) // 16))
    fix_ticks(axes.xaxis, layers[::step], layers[::step])
    axes.set_xlim(layers[0] - 0.6, layers[-1] + 0.6)


__all__ = ["Series", "draw_complexity", "plot_by_layer", "plot_null_by_layer", "positions", "series_values"]
