"""What distances cost: the loss under shorter windows, and energy against the loss owed."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eddyscope.interventions.windows.agreement import ENERGIES, Agreement
from eddyscope.interventions.windows.plan import WindowPlan
from eddyscope.report.layout import Room, page, say
from eddyscope.report.style import GREY, INK, VERMILION, fix_ticks, house_style, plain

#: Panels of one page; layers beyond it are left out.
_MOST = 48
_TITLES = {"share": "energy share", "density": "energy density (1 is flat)"}


@house_style()
def draw_window_curve(curve: pd.DataFrame, plan: WindowPlan | None = None, unit: str = "nats") -> Figure:
    """Rise of the loss against the window, one panel a layer; one line a head where each was measured.

    Parameters
    ----------
    curve : pandas.DataFrame
        ``Windows.curve``.
    plan : WindowPlan, optional
        Its windows are marked.
    unit : str

    Returns
    -------
    Figure
    """
    layers = sorted(curve["layer"].unique())
    shown = layers[:_MOST]
    laid = page(
        len(shown),
        title="What each layer loses when it sees only the last w tokens",
        subtitle=f"{len(layers)} layers  ·  one layer or head at a time, rows renormalised",
        caption=(
            "Rise of the loss, on a scale that is linear below 0.001 and logarithmic above. Bars: 95 % intervals over "
            "documents.",
            ""
            if plan is None
            else "Vertical line: the window of the plan; the line at the right is the whole context.",
            f"{len(layers) - len(shown)} more layers are in curve.csv." if len(layers) > len(shown) else "",
        ),
        aspect=0.62,
        room=Room(below=0.06),
    )
    windows = sorted(curve["window"].unique())
    widest = max(windows) * 2 if plan is None else plan.context
    top = max(float(curve["rise"].max()), 1e-3)
    for (axes,), layer in zip(laid.cells, shown, strict=True):
        axes.set_title(f"layer {layer}")
        for _, own in curve[curve["layer"] == layer].groupby("head", sort=False):
            _with_bars(axes, own["window"], own, bars=curve["head"].nunique() == 1)
        axes.set_xscale("log", base=2)
        axes.set_xlim(min(windows) / 1.2, widest * 1.2)
        axes.set_yscale("symlog", linthresh=1e-3)
        axes.set_ylim(min(0.0, float(curve["rise"].min())) - 1e-3, top * 2)
        axes.axhline(0, color=GREY, linewidth=0.5)
        if plan is not None:
            for window in plan.layers[layer].each:
                axes.axvline(window, color=VERMILION, linewidth=0.8, alpha=1 / len(plan.layers[layer].each) ** 0.5)
        fix_ticks(axes.xaxis, windows[:: max(1, len(windows) // 4)], windows[:: max(1, len(windows) // 4)])
        decades = [10.0**k for k in range(-3, 3) if 10.0**k <= top * 2]
        fix_ticks(axes.yaxis, [0, *decades], ["0", *(plain(d) for d in decades)])
    laid.outer_labels()
    laid.label_axes("window w, tokens", f"rise of the loss, {unit}")
    return laid.figure


@house_style()
def draw_agreement(agreement: Agreement, name: str = "") -> Figure:
    """Energy share and density of each layer and octave against the loss owed to it.

    Parameters
    ----------
    agreement : Agreement
    name : str
        Of the model.

    Returns
    -------
    Figure
        One point a layer (or head) and octave, coloured by layer, larger for larger distances.
    """
    cells = agreement.cells
    laid = page(
        len(ENERGIES),
        title="Does the loss depend on the distances at which the energy sits?",
        subtitle="  ·  ".join(
            part for part in (name, f"{cells['layer'].nunique()} layers", f"{len(cells)} layers and octaves") if part
        ),
        caption=(
            "One point a layer and octave of distance; rise of the loss when attention in that octave is removed and "
            "rows renormalised. Larger points are farther octaves. Both axes are logarithmic above the smallest tick.",
            "Intervals of the rank correlations are 95 % over documents.",
        ),
        aspect=0.8,
        columns=2,
        room=Room(between=0.4, right=0.85, bottom=0.62),
    )
    last = max(int(cells["layer"].max()), 1)
    colours = mpl.colormaps["viridis"]
    octaves = sorted(cells["first"].unique())
    for (axes,), energy in zip(laid.cells, ENERGIES, strict=True):
        known = cells[np.isfinite(cells[energy]) & np.isfinite(cells["rise"])]
        axes.set_title(f"{_TITLES[energy]}: {_correlation(agreement, energy)}")
        if not len(known):
            say(axes, "no energy that fluctuates")
            continue
        sizes = [6 + 30 * octaves.index(first) / max(1, len(octaves) - 1) for first in known["first"]]
        axes.scatter(
            known[energy], known["rise"], s=sizes, c=colours(known["layer"] / last * 0.95), alpha=0.8, linewidths=0
        )
        axes.set_xscale("symlog", linthresh=1e-3)
        axes.set_yscale("symlog", linthresh=1e-3)
        axes.axhline(0, color=GREY, linewidth=0.5)
        if energy == "density":
            axes.axvline(1, color=GREY, linewidth=0.5, linestyle=":")
        for axis, most in ((axes.xaxis, known[energy].max()), (axes.yaxis, known["rise"].max())):
            decades = [10.0**k for k in range(-3, 4) if 10.0**k <= max(float(most), 1e-3) * 2]
            fix_ticks(axis, [0, *decades], ["0", *(plain(d) for d in decades)])
    bar = laid.colour_bar(mpl.cm.ScalarMappable(mpl.colors.Normalize(0, last / 0.95), colours), "layer")
    bar.ax.set_ylim(0, last)
    laid.label_axes("energy of the octave", f"loss owed, {agreement.unit}")
    return laid.figure


def _correlation(agreement: Agreement, energy: str) -> str:
    table = agreement.correlations
    row = table[(table["layer"] == "all") & (table["energy"] == energy)].iloc[0]
    if not np.isfinite(row["correlation"]):
        return "no rank correlation"
    bounds = f" ({row['low']:.2f} to {row['high']:.2f})" if np.isfinite(row["low"]) else ""
    return f"rank correlation {row['correlation']:.2f}{bounds}"


def _with_bars(axes: Axes, x: Any, table: pd.DataFrame, *, bars: bool) -> None:
    axes.plot(x, table["rise"], color=INK, marker="o" if bars else None, markersize=2, linewidth=0.8 if bars else 0.5)
    known = table[np.isfinite(table["low"])]
    if bars and len(known):
        axes.vlines(known["window"], known["low"], known["high"], color=INK, linewidth=0.7)


__all__ = ["draw_agreement", "draw_window_curve"]
