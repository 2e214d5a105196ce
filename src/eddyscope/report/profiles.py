"""Lag profiles of the first modes: what recurs, by distance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from eddyscope.report.layout import Room, name_panels, page, say
from eddyscope.report.style import BLUE, GREEN, GREY, INK, PALE, VERMILION, fix_ticks, house_style, whole_ticks
from eddyscope.report.views import MOST_PANELS, View, views
from eddyscope.study.rows import CROSS
from eddyscope.study.study import Study, layer_geometry

FloatArray = npt.NDArray[np.floating[Any]]

#: Modes of the first band that are drawn, and their colours.
MODES = 3
_COLOURS = (BLUE, VERMILION, GREEN)
#: Share of the profiles' energy that the lag axis must hold.
_SHOWN_ENERGY = 0.99

_CAPTION = (
    "Mean over queries of each mode, by lag. The sign of a mode is free. The modes of the band are on one scale, their "
    "largest value 1; the mode without a window has its own.",
    "Shaded: the lag window that cuts the band out. Each lag axis ends where the band's energy does, so compare shapes "
    "across panels and read distances from the ticks.",
)


@house_style()
def draw_mode_profiles(
    study: Study, layers: Sequence[str | int] | None = None, heads: Sequence[str | int] | None = None
) -> Figure:
    """Lag profiles of the first modes of the first band, and of the first mode without a window.

    Parameters
    ----------
    study : Study
    layers : sequence of str or int, optional
    heads : sequence of str or int, optional

    Returns
    -------
    Figure
        One panel a layer (or head), see :func:`plot_mode_profiles`.
    """
    chosen = views(study, layers, heads, MOST_PANELS)
    laid = page(
        len(chosen.shown),
        title="Patterns that recur: the first modes along the lag",
        subtitle=chosen.about,
        caption=(*_CAPTION, chosen.note),
        aspect=0.72,
        columns=chosen.columns,
        room=Room(between=0.26, below=0.24, legend=0.24),
    )
    laid.legend(
        [
            *(Line2D([], [], color=c, label=f"mode {k + 1} of the first band") for k, c in enumerate(_COLOURS)),
            Line2D([], [], color=INK, linestyle=(0, (3, 1.5)), label="mode 1 without a window"),
            Patch(facecolor=PALE, label="lag window"),
        ]
    )
    name_panels(laid, chosen.shown, [view.first_band for view in chosen.shown])
    for index, ((axes,), view) in enumerate(zip(laid.cells, chosen.shown, strict=True)):
        plot_mode_profiles(view, axes)
        axes.tick_params(labelleft=laid.at_left(index))
    laid.label_axes("lag, tokens (positive looks back)", "mode profile over its largest value")
    return laid.figure


def plot_mode_profiles(view: View, axes: Axes) -> list[Line2D]:
    """Profiles of one layer (one head).

    Parameters
    ----------
    view : View
    axes : Axes

    Returns
    -------
    list of Line2D
        The modes of the first band, ``mode_profile`` over the largest modulus among them, then the first mode without
        a window, ``field_mode_profile`` over its largest modulus; on the lags of the full rows. None of
        them where nothing fluctuates.
    """
    axes.set_ylim(-1.08, 1.08)
    fix_ticks(axes.yaxis, (-1, 0, 1), ("−1", "0", "1"))
    if view.no_modes or view.missing == CROSS:
        say(axes, view.no_modes or view.missing)
        axes.set_xticks([])
        return []
    data = view.data
    within = np.isfinite(data["lag_energy"].values)
    if not within.any():  # no full row: the nearer half of the lags, where most queries are
        within = np.abs(data["lag"].values) <= np.abs(data["lag"].values).max() // 2
    lags = data["lag"].values[within]
    band = data["mode_profile"].isel(band=0, mode=slice(MODES)).transpose("mode", "lag").values[:, within]
    field = data["field_mode_profile"].isel(mode=slice(1)).transpose("mode", "lag").values[:, within]
    window = data["window"].isel(band=0).values[within]
    axes.fill_between(lags, -window, window, facecolor=PALE, linewidth=0, zorder=0)
    axes.axhline(0, color=GREY, linewidth=0.4, zorder=1)
    lines = []
    for curve, colour in zip(_over_largest(band), _COLOURS, strict=False):
        lines += axes.plot(lags, curve, color=colour, zorder=4)
    for curve in _over_largest(field):
        lines += axes.plot(lags, curve, color=INK, linestyle=(0, (3, 1.5)), linewidth=0.9, zorder=3)
    counts = layer_geometry(data).counts[within]
    far = _farthest(lags, counts, band if np.isfinite(band).any() else field)
    axes.set_xlim(-0.02 * far if lags[0] >= 0 else -far, far)
    if far <= 16 and axes.bbox.width > 250:  # few lags and room: show that there is nothing between them
        for line in lines:
            line.set(marker="o", markersize=2.0)
    whole_ticks(axes.xaxis)
    return lines


def _over_largest(curves: FloatArray) -> FloatArray:
    """Curves that exist, over the largest modulus among them."""
    curves = curves[np.isfinite(curves).any(axis=1)]
    largest = np.nanmax(np.abs(curves)) if curves.size else 0.0
    return curves / largest if largest > 0 else curves


def _farthest(lags: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], curves: FloatArray) -> float:
    """End of the lag axis: 99 % of the energy of the profiles, rounded up to a power of two, at least 8."""
    energy = np.nansum(curves**2, axis=0) * counts
    at_distance = np.bincount(np.abs(lags), weights=energy)
    total = at_distance.sum()
    enough = int(np.argmax(np.cumsum(at_distance) >= _SHOWN_ENERGY * total)) if total > 0 else 0
    return float(min(max(8, 2 ** int(np.ceil(np.log2(enough + 1)))), max(1, np.abs(lags).max())))


__all__ = ["draw_mode_profiles", "plot_mode_profiles"]
