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


_KINDS = (
    ("field_", "without a window", INK, "o", 0.0),
    ("", "first band", BLUE, "s", -0.12),
    ("lag_", "lag POD", ORANGE, "^", 0.12),
)

_CAPTION = (
    "Filled: the number can be read. Hollow: with reserve (effective rank unresolved at this many documents, spectrum "
    "not a power law, too few documents). A cross at the foot: no number.",
    "H* of the field cannot exceed N − 1 and says little above half of it (lines); the lag POD has many more samples. "
    "Larger T = 1/β: slower decay, more patterns share the energy.",
)
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
        Four panels. Where each head was kept, every head is a point.
    """
    chosen = views(study, layers, heads)
    shown = chosen.shown
    laid = page(
        4,
        title="How complex each layer is",
        subtitle=chosen.about,
        caption=(*_CAPTION, _BY_HEAD if chosen.by_head else ""),
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
        for prefix, label, colour, marker, shift in _KINDS:
            plot_by_layer(shown, Series(f"{prefix}{measure}", label, colour, marker, shift), axes)
    _limits_of_rank(rank, int(shown[0].data.attrs["documents"]))
    for axes in (ratio, spec):
        _log_axis(axes)
    shares.set_title("shares", loc="left")
    both = (
        Series("sink_mass", "mass on the first key", PURPLE, "D"),
        Series("fluctuation_level", "level of fluctuation", GREY, "v"),
    )
    for series in both:
        plot_by_layer(shown, series, shares)
    shares.set_ylim(0, 1)
    shares.legend(
        handles=[_handle(s.colour, s.marker, s.label) for s in both],
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=2,
        borderaxespad=0.2,
    )
    laid.legend([_handle(colour, marker, label) for _, label, colour, marker, _ in _KINDS])
    for axes in (rank, ratio, spec, shares):
        _layer_axis(axes, shown)
    laid.outer_labels()
    for axes in (ratio, shares):
        axes.tick_params(labelleft=True)
    laid.label_axes("layer", "")
    return laid.figure


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


def _limits_of_rank(axes: Axes, documents: int) -> None:
    """Lines at the largest rank that the documents allow and at half of it, above which a rank is unresolved."""
    most = documents - 1
    top = max(1.0, axes.get_ylim()[1], 1.06 * most)
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


def _log_axis(axes: Axes) -> None:
    """A logarithmic axis with plain numbers, one decade at least."""
    drawn = np.concatenate(
        [line.get_ydata() for line in axes.lines if line.get_transform() == axes.transData] or [[1.0]]
    )
    drawn = drawn[drawn > 0]
    low, high = (float(drawn.min()), float(drawn.max())) if drawn.size else (1.0, 1.0)
    middle = np.sqrt(low * high)
    low, high = min(low / 1.4, middle / 3.2), max(high * 1.4, middle * 3.2)
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    steps = (1, 2, 5) if high / low < 300 else (1,)
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [s * 10.0**p for p in powers for s in steps if low <= s * 10.0**p <= high]
    fix_ticks(axes.yaxis, ticks, [f"{t:g}" for t in ticks])
    axes.grid(axis="y", color="#eeeeee", linewidth=0.6, zorder=0)


def _layer_axis(axes: Axes, shown: Sequence[View]) -> None:
    layers = sorted({view.index for view in shown})
    step = max(1, -(-len(layers) // 16))
    fix_ticks(axes.xaxis, layers[::step], layers[::step])
    axes.set_xlim(layers[0] - 0.6, layers[-1] + 0.6)


__all__ = ["Series", "draw_complexity", "plot_by_layer", "positions", "series_values"]
