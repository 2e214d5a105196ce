"""Fluctuation scalogram of each layer: energy by wavelength and lag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from eddyscope.report.layout import Room, name_panels, page, say
from eddyscope.report.style import INK, SEQUENTIAL, colormap, house_style, log_ticks, plain, whole_ticks
from eddyscope.report.views import MOST_PANELS, NO_FLUCTUATION, View, views
from eddyscope.study.study import Study

FloatArray = npt.NDArray[np.floating[Any]]

#: Decades below the largest energy that the colours span.
_DECADES = 4.0

_CAPTION = (
    "Wavelet energy of the fluctuation by lag and wavelength, all panels on one logarithmic colour scale.",
    "Hatched: outside the cone of influence, where the ends of the lag axis reach in. Above a dashed line: "
    "edge-affected scales, not searched for dominant wavelengths; below a dotted line: scales that Nyquist cuts.",
    "Circles: wavelengths of the bands, at the lag where they are loudest; filled where the wavelength counts as "
    "dominant or was asked for, hollow where it does so with reserve (harmonic, untested, edge-affected).",
)
#: Statuses of a band that need no reserve.
_SURE = ("ok", "given", "largest energy")


@house_style()
def draw_scalograms(
    study: Study, layers: Sequence[str | int] | None = None, heads: Sequence[str | int] | None = None
) -> Figure:
    """Scalograms of the fluctuation, one panel a layer (or head), on one colour scale.

    Parameters
    ----------
    study : Study
    layers : sequence of str or int, optional
    heads : sequence of str or int, optional

    Returns
    -------
    Figure
        The meshes hold ``scalogram`` of the part ``fluctuation`` on lags that the full rows have.
    """
    chosen = views(study, layers, heads, MOST_PANELS)
    norm = common_norm(chosen.shown)
    laid = page(
        len(chosen.shown),
        title="Wavelengths along the lag: scalograms of the fluctuation",
        subtitle=chosen.about,
        caption=(*_CAPTION, chosen.note),
        aspect=0.78,
        columns=chosen.columns,
        room=Room(right=0.85),
    )
    name_panels(laid, chosen.shown, [_found(view) for view in chosen.shown])
    mesh = None
    for (axes,), view in zip(laid.cells, chosen.shown, strict=True):
        mesh = plot_scalogram(view, axes, norm) or mesh
    share_axes([axes for (axes,) in laid.cells], chosen.shown)
    laid.outer_labels()
    laid.label_axes("lag, tokens (positive looks back)", "wavelength, tokens")
    if mesh is not None:
        laid.colour_bar(mesh, "energy <|W|²>", extend="min")
    return laid.figure


def common_norm(shown: Sequence[View]) -> LogNorm:
    """Logarithmic colour scale over all layers, four decades at most."""
    energies = [_fluctuation(view.data)[2] for view in shown if not view.missing]
    energies = [e for e in energies if e.max(initial=0.0) > 0]
    largest = max((float(e.max(initial=0.0)) for e in energies), default=0.0)
    if not largest > 0:
        return LogNorm(0.1, 1.0)
    least = min(float(e[e > 0].min()) for e in energies if (e > 0).any())
    return LogNorm(min(max(least, largest * 10**-_DECADES), largest / 10), largest)


def plot_scalogram(view: View, axes: Axes, norm: LogNorm | None = None) -> QuadMesh | None:
    """Scalogram of the fluctuation of one layer (one head), with cone and dominant wavelengths.

    Parameters
    ----------
    view : View
    axes : Axes
    norm : LogNorm, optional
        The layer's own by default.

    Returns
    -------
    QuadMesh or None
        None where nothing fluctuates; the panel says so.
    """
    data = view.data
    lags, wavelengths, energy = _fluctuation(data)
    if view.missing or not (energy > 0).any():
        say(axes, view.missing or NO_FLUCTUATION)
        return None
    edges = _geometric_edges(wavelengths)
    mesh = axes.pcolormesh(
        np.append(lags - 0.5, lags[-1] + 0.5),
        edges,
        np.ma.masked_less_equal(energy, 0.0),
        norm=norm or common_norm([view]),
        cmap=colormap(SEQUENTIAL),
        rasterized=True,
    )
    axes.set_yscale("log")
    axes.set_ylim(edges[0], edges[-1])
    axes.set_xlim(lags[0] - 0.5, lags[-1] + 0.5)
    _shade_outside_cone(data, axes, lags, edges)
    _limits_of_trust(data, axes, edges)
    _mark_bands(data, axes)
    return mesh


def _fluctuation(data: xr.Dataset) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Lags of the full rows, wavelengths, and the energy there, shape (scale, lag)."""
    energy = data["scalogram"].sel(part="fluctuation").transpose("scale", "lag").values
    kept = np.isfinite(energy).all(axis=0)
    return data["lag"].values[kept], data["wavelength"].values, energy[:, kept]


def _geometric_edges(values: FloatArray) -> FloatArray:
    """Edges of cells around log-spaced values."""
    if values.size == 1:
        return np.array([values[0] / 1.1, values[0] * 1.1])
    middle = np.sqrt(values[1:] * values[:-1])
    return np.concatenate([[values[0] ** 2 / middle[0]], middle, [values[-1] ** 2 / middle[-1]]])


def _shade_outside_cone(data: xr.Dataset, axes: Axes, lags: FloatArray, edges: FloatArray) -> None:
    periods = data["wavelength"].values
    first, last = lags[0] - 0.5, lags[-1] + 0.5
    low, high = data["cone_low"].values + lags[0], data["cone_high"].values + lags[0]
    empty = np.isnan(low)
    low, high = np.where(empty, last, low), np.where(empty, last, high)
    # A cone that starts at the first lag, or ends at the last, leaves nothing out on that side.
    for border, end, outside in ((low, first, low > lags[0]), (high, last, (high < lags[-1]) & ~empty)):
        for start, stop in _runs(outside):
            y = np.concatenate([[edges[start]], periods[start:stop], [edges[stop]]])
            x = np.interp(y, periods[start:stop], border[start:stop])
            axes.fill_betweenx(
                y, x, end, facecolor=(1, 1, 1, 0.6), edgecolor=(0.3, 0.3, 0.3, 0.6), hatch="////", linewidth=0.0
            )


def _runs(mask: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Start and stop of each run of True."""
    steps = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return [(int(a), int(b)) for a, b in zip(steps[::2], steps[1::2], strict=True)]


def _limits_of_trust(data: xr.Dataset, axes: Axes, edges: FloatArray) -> None:
    """Lines where scales begin to be affected by the ends of the axis, and where Nyquist cuts them."""
    status = np.array([str(s) for s in data["scale_status"].values])
    affected, above = np.flatnonzero(status == "edge-affected"), np.flatnonzero(status == "above Nyquist")
    if affected.size and affected[0] > 0:
        axes.axhline(edges[affected[0]], color="white", linewidth=1.8)
        axes.axhline(edges[affected[0]], color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
    if above.size and above[-1] + 1 < status.size:
        axes.axhline(edges[above[-1] + 1], color="white", linewidth=1.8)
        axes.axhline(edges[above[-1] + 1], color=INK, linewidth=0.9, linestyle=(0, (1, 1)))


def _mark_bands(data: xr.Dataset, axes: Axes) -> None:
    periods, places = data["dominant_wavelength"].values, data["dominant_lag"].values
    for period, place, status in zip(periods, places, data["status"].values, strict=True):
        if not np.isfinite(period):
            continue
        sure = str(status) in _SURE
        axes.plot(
            [place], [period], "o", markersize=4.5, markerfacecolor="white" if sure else "none",
            markeredgecolor="black" if sure else "white", markeredgewidth=0.9, zorder=5,
        )  # fmt: skip


def _found(view: View) -> str:
    """The strongest wavelength of the bands, or that there is none."""
    if view.missing:
        return ""
    period = float(view.data["dominant_wavelength"].values[0])
    return f"wavelength {plain(period)}" if np.isfinite(period) else "no dominant"


def share_axes(panels: Sequence[Axes], shown: Sequence[View]) -> None:
    """The same limits and ticks in all panels, wide enough for the layer that has most lags and scales."""
    drawn = [axes for axes, view in zip(panels, shown, strict=True) if axes.collections and not view.missing]
    if not drawn:
        for axes in panels:
            axes.set(xticks=[], yticks=[])
        return
    x = min(a.get_xlim()[0] for a in drawn), max(a.get_xlim()[1] for a in drawn)
    y = min(a.get_ylim()[0] for a in drawn), max(a.get_ylim()[1] for a in drawn)
    for axes in panels:
        axes.set_xlim(*x)
        log_ticks(axes, *y)
        whole_ticks(axes.xaxis)


__all__ = ["common_norm", "draw_scalograms", "plot_scalogram"]
