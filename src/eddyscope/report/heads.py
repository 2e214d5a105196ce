"""Which heads are needed: redundancy of patterns, the loss over budgets, and H* against what a layer can lose."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from eddyscope.interventions.heads.redundancy import Redundancy
from eddyscope.report.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    VERMILION,
    colormap,
    fix_ticks,
    house_style,
    whole_ticks,
)

#: Colour of what the heads were chosen by.
_COLOURS = {
    "residual x importance": BLUE,
    "residual x importance, head by head": SKY,
    "residual": GREEN,
    "importance": VERMILION,
    "importance, layers normalised": ORANGE,
    "H*": PURPLE,
    "magnitude": INK,
    "random": GREY,
}
_WIDTH = 7.2


@house_style()
def draw_redundancy(redundancy: Redundancy) -> Figure:
    """Similarity of all heads, raw and in their fluctuations, effective patterns, and similarity of layers.

    Parameters
    ----------
    redundancy : Redundancy

    Returns
    -------
    Figure
    """
    figure = Figure(figsize=(_WIDTH, 6.6), layout="constrained")
    grid: Any = figure.subplots(2, 2)
    figure.suptitle("Redundancy of heads: how alike their patterns are", fontsize=9)
    for axes, values, title in (
        (grid[0, 0], redundancy.raw, "raw maps"),
        (grid[0, 1], redundancy.fluctuation, "fluctuations, first key masked"),
    ):
        image = axes.imshow(values, cmap=colormap("PuOr_r"), vmin=-1, vmax=1, interpolation="nearest")
        _mark_layers(axes, redundancy)
        axes.set_title(f"cosine similarity of {title}")
    figure.colorbar(image, ax=list(grid[0]), shrink=0.8, label="similarity")
    _draw_patterns(grid[1, 0], redundancy)
    between = grid[1, 1].imshow(redundancy.between_layers(), cmap=colormap("viridis"), vmin=0, vmax=1)
    grid[1, 1].set_title("similarity of layers (fluctuations)")
    grid[1, 1].set_xlabel("layer")
    grid[1, 1].set_ylabel("layer")
    figure.colorbar(between, ax=grid[1, 1], shrink=0.8)
    return figure


def _mark_layers(axes: Axes, redundancy: Redundancy) -> None:
    """Lines between layers, and their positions as ticks."""
    middles = [(part.start + part.stop - 1) / 2 for part in redundancy.slices]
    step = max(1, len(middles) // 10)
    labels = [str(index) for index in range(len(middles))]
    fix_ticks(axes.xaxis, middles[::step], labels[::step])
    fix_ticks(axes.yaxis, middles[::step], labels[::step])
    for part in redundancy.slices[1:]:
        axes.axhline(part.start - 0.5, color="white", linewidth=0.4)
        axes.axvline(part.start - 0.5, color="white", linewidth=0.4)
    axes.set_xlabel("heads by layer")
    axes.set_ylabel("heads by layer")


def _draw_patterns(axes: Axes, redundancy: Redundancy) -> None:
    index = np.arange(len(redundancy.names))
    heads = np.array([part.stop - part.start for part in redundancy.slices])
    axes.bar(index, heads, color=PALE, width=0.8, label="heads")
    for shift, interval, colour, label in (
        (-0.12, redundancy.patterns_raw, GREY, "raw"),
        (0.12, redundancy.patterns, BLUE, "fluctuations"),
    ):
        low, high = (np.where(np.isfinite(end), end, interval.estimate) for end in (interval.low, interval.high))
        axes.vlines(index + shift, low, high, color=colour, linewidth=1)
        axes.plot(index + shift, interval.estimate, "o", color=colour, markersize=3, label=label)
    axes.set_ylim(0, heads.max() * 1.35)
    axes.set_xlabel("layer")
    axes.set_title("effective number of patterns")
    axes.legend(ncols=3, loc="upper center")


@house_style()
def draw_head_curve(curve: pd.DataFrame, unit: str = "nats") -> Figure:
    """Rise of the loss against the share of patterns that are kept, one line a method.

    Parameters
    ----------
    curve : pandas.DataFrame
        Of :func:`eddyscope.heads.loss_curve`.
    unit : str

    Returns
    -------
    Figure
    """
    figure = Figure(figsize=(_WIDTH, 4.2), layout="constrained")
    axes = figure.subplots()
    for (lost, chosen), rows in curve.groupby(["lost", "chosen_by"], sort=False):
        part = rows.sort_values("fraction")
        style = "-" if lost == "share" else (0, (3, 2))
        colour = _COLOURS.get(str(chosen), INK)
        axes.plot(100 * part["fraction"], part["rise"], linestyle=style, color=colour, label=f"{lost}: {chosen}")
        axes.vlines(100 * part["fraction"], part["low"], part["high"], color=colour, linewidth=0.6)
    least = float(curve["rise"].abs().replace(0.0, np.nan).min())
    axes.set_yscale("symlog", linthresh=max(1e-3, min(1e-2, least)))
    axes.set_xlim(102, min(38.0, 100 * float(curve["fraction"].min()) - 2))
    axes.set_xlabel("patterns kept, %")
    axes.set_ylabel(f"rise of the loss, {unit}")
    words = "Rise of the loss where the other heads share the kept patterns, or lose their output"
    figure.suptitle(f"{words}; bars: 95 % intervals over documents", fontsize=8)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


@house_style()
def draw_rank_against_loss(alone: pd.DataFrame, ranks: npt.NDArray[np.floating[Any]], unit: str = "nats") -> Figure:
    """What each layer alone can lose against its effective rank, with the rank correlation.

    Parameters
    ----------
    alone : pandas.DataFrame
        Of :func:`eddyscope.heads.layers_alone`.
    ranks : array, shape (layer,)
        ``H*(0.10)``.
    unit : str

    Returns
    -------
    Figure
    """
    figure = Figure(figsize=(_WIDTH, 3.2), layout="constrained")
    grid: Any = figure.subplots(1, 2)
    figure.suptitle("Does the effective rank of a layer predict what it can lose?", fontsize=9)
    for axes, column, words in ((grid[0], "half", "keeps half of its patterns"), (grid[1], "one", "keeps one pattern")):
        rise = alone[column].to_numpy(dtype=float)
        low, high = (
            np.where(np.isfinite(end := alone[f"{column}_{word}"].to_numpy(dtype=float)), end, rise)
            for word in ("low", "high")
        )
        axes.vlines(ranks, low, high, color=GREY, linewidth=0.7)
        axes.plot(ranks, rise, "o", color=BLUE, markersize=3.5)
        for index, (x, y) in enumerate(zip(ranks, rise, strict=True)):
            axes.annotate(str(index), (x, y), xytext=(3, 3), textcoords="offset points", fontsize=6, color=INK)
        rho, p = rank_correlation(ranks, rise)
        axes.set_title(f"one layer {words}\nrank correlation {rho:+.2f} (p {p:.2g}, {len(rise)} layers)")
        whole_ticks(axes.xaxis)
        axes.set_yscale("symlog", linthresh=1e-3)
        axes.set_xlabel("effective rank H*(0.10) of the layer")
    grid[0].set_ylabel(f"rise of the loss, {unit}")
    return figure


def rank_correlation(first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[float, float]:
    """Spearman's rank correlation and its two-sided p over known pairs; NaN below three, or without spread.

    Parameters
    ----------
    first, second : array, shape (layer,)
    """
    x, y = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    known = np.isfinite(x) & np.isfinite(y)
    if known.sum() < 3 or np.ptp(x[known]) == 0 or np.ptp(y[known]) == 0:
        return float("nan"), float("nan")
    found = stats.spearmanr(x[known], y[known])
    return float(found.statistic), float(found.pvalue)
