"""What figures draw beside the trained model: null models, and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from eddyscope.report.style import GREY
from eddyscope.report.views import View
from eddyscope.study.nulltable import NULL_MEASURES

FloatArray = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class NullStyle:
    """How a null model is drawn: as a line, or where there is a point a head, as a marker."""

    label: str
    colour: str
    line: Any
    marker: str


#: Null models that have a field POD, and so a place in figures.
NULL_STYLES = {
    "twin": NullStyle("untrained twin", "#b0b0b0", "-", "_"),
    "shuffled": NullStyle("shuffled documents", GREY, (0, (1, 1.5)), "."),
}


def null_kinds(shown: Sequence[View]) -> list[str]:
    """Null models to draw, of :data:`NULL_STYLES`; none where the study has none."""
    found = {label.split(" ")[0] for view in shown if "null" in view.data for label in _labels(view.data["null"])}
    return [kind for kind in NULL_STYLES if kind in found]


def members(values: xr.DataArray, kind: str) -> xr.DataArray:
    """Part of the values that belongs to one null model: of ``twin`` all seeds, along ``null``."""
    chosen = [i for i, label in enumerate(_labels(values["null"])) if label.split(" ")[0] == kind]
    return values.isel(null=chosen)


def null_values(shown: Sequence[View], kind: str, name: str) -> FloatArray:
    """One measure of a null model by view, as in the summary: the mean over seeds; NaN where there is none.

    Parameters
    ----------
    shown : sequence of View
    kind : str
        ``twin`` or ``shuffled``.
    name : str
        As in the study. The first tolerance of an effective rank; of ``t_spec``, the inverse of the mean exponent.
    """
    spec = "t_spec" in name
    wanted = name.replace("t_spec", "beta") + ("_0" if name.endswith("effective_rank") else "")
    values = np.full(len(shown), np.nan)
    if wanted not in NULL_MEASURES:
        return values
    for index, view in enumerate(shown):
        if "null_value" in view.data:
            chosen = members(view.data["null_value"], kind).values[:, NULL_MEASURES.index(wanted)]
            values[index] = chosen.mean() if chosen.size else np.nan
    if spec:
        values = np.divide(1.0, values, out=np.full_like(values, np.nan), where=values > 0)
    return values


def null_handle(kind: str, *, marked: bool = False) -> Line2D:
    """Entry of a legend."""
    style = NULL_STYLES[kind]
    return Line2D(
        [], [], color=style.colour, linestyle="none" if marked else style.line, marker=style.marker if marked else "",
        linewidth=1.2, label=style.label,
    )  # fmt: skip


def interval(shown: Sequence[View], name: str) -> FloatArray:
    """Ends of the interval of a measure by view, shape (2, view); NaN where there is none."""
    ends = np.full((2, len(shown)), np.nan)
    for column, view in enumerate(shown):
        for row, end in enumerate(("low", "high")):
            if f"{name}_{end}" in view.data:
                ends[row, column] = view.data[f"{name}_{end}"].values.ravel()[0]
    ends[:, np.isnan(ends).any(axis=0)] = np.nan
    return ends


def plot_interval(x: FloatArray, ends: FloatArray, axes: Axes, colour: str) -> None:
    """Thin bars within the limits of the axes, with an arrow where one goes on above them.

    Parameters
    ----------
    x : array, shape (view,)
    ends : array, shape (2, view)
        NaN where there is nothing to draw; the upper one may be infinite.
    axes : Axes
        Its limits are those of the figure, and stay.
    colour : str
    """
    bottom, top = axes.get_ylim()
    known = np.isfinite(ends[0]) & (ends[0] < top) & (ends[1] > bottom)
    if not known.any():
        return
    low, high = np.clip(ends[:, known], bottom, top)
    axes.vlines(x[known], low, high, color=colour, linewidth=0.7, alpha=0.8, zorder=2)
    beyond = ends[1, known] > top
    if beyond.any():
        at = np.full(int(beyond.sum()), top)
        axes.scatter(x[known][beyond], at, marker="^", s=9, color=colour, linewidth=0, clip_on=False, zorder=3)
    axes.set_ylim(bottom, top)


def _labels(null: xr.DataArray) -> list[str]:
    return [str(label) for label in null.values]


__all__ = ["NULL_STYLES", "interval", "members", "null_handle", "null_kinds", "null_values", "plot_interval"]
