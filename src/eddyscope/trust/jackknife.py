"""Intervals by the jackknife over groups of documents.

Groups are made of whole source blocks. Replicates leave one group out; nothing is resampled with replacement, which
would bias statistics of eigenvalues by more than the interval's width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

FloatArray = NDArray[np.floating[Any]]

#: Groups of the jackknife, and the fewest that give an interval.
GROUPS = 15
MIN_GROUPS = 8
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate with its jackknife interval; arrays where several were given.

    Parameters
    ----------
    estimate : array
        From all documents.
    error : array
        Standard error on the scale of the interval: of the logarithm for ``scale="log"``, of log odds for ``"share"``.
    low, high : array
        NaN where there is no interval.
    groups : int
    status : array of str
        ``ok``, ``too few groups``, or ``unresolved`` where the estimate or a replicate is undefined.
    """

    estimate: FloatArray
    error: FloatArray
    low: FloatArray
    high: FloatArray
    groups: int
    status: NDArray[np.object_]


def jackknife(
    estimate: float | FloatArray,
    replicates: Sequence[float] | FloatArray,
    scale: str = "linear",
    level: float = LEVEL,
) -> Interval:
    """Interval from leave-one-group-out replicates.

    ``s.e.^2 = (g - 1)/g sum (theta_(i) - mean)^2``, and the estimate plus and minus that times the quantile of
    Student's t with g - 1 degrees of freedom.

    Parameters
    ----------
    estimate : float or array of any shape
    replicates : array, shape (group, *shape of the estimate)
    scale : {"linear", "log", "share"}
        Where the interval is symmetric: on the value, on its logarithm (dimensions and other positive ratios), or
        on its log odds (shares, which stay between 0 and 1; a share that is 0 or 1 in some replicate has its
        interval on the value, cut at 0 and 1).
    level : float

    Returns
    -------
    Interval
    """
    value = np.asarray(estimate, dtype=np.float64)
    parts = np.asarray(replicates, dtype=np.float64)
    groups = parts.shape[0]
    forward, backward = _scale(scale, value, parts)
    with np.errstate(divide="ignore", invalid="ignore"):
        at, moved = forward(value), forward(parts)
        error = standard_error(moved) if groups >= MIN_GROUPS else np.full(value.shape, np.nan)
        half = error * float(stats.t.ppf(0.5 + level / 2, max(groups - 1, 1)))
        low, high = backward(at - half), backward(at + half)
    undefined = ~np.isfinite(value) | ~np.isfinite(parts).all(axis=0)
    status = np.where(undefined, "unresolved", "ok").astype(object)
    if groups < MIN_GROUPS:
        status[...] = "too few groups"
        undefined = np.ones(value.shape, dtype=bool)
    low, high, error = (np.where(undefined, np.nan, x) for x in (low, high, error))
    return Interval(value, error, low, high, groups, status)


def standard_error(replicates: FloatArray) -> FloatArray:
    """``sqrt((g - 1)/g sum (theta_(i) - mean)^2)`` over the first axis."""
    groups = replicates.shape[0]
    deviation = replicates - replicates.mean(axis=0)
    return np.asarray(np.sqrt((groups - 1) / groups * (deviation**2).sum(axis=0)))


def reciprocal(interval: Interval) -> Interval:
    """Interval of 1/theta from that of theta; open above where theta may be 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        positive = interval.low > 0
        high = np.where(np.isnan(interval.low), np.nan, np.where(positive, 1 / interval.low, np.inf))
        low = np.where(interval.high > 0, 1 / interval.high, np.nan)
        estimate = np.where(interval.estimate > 0, 1 / interval.estimate, np.nan)
        error = interval.error / interval.estimate**2
    return Interval(estimate, error, low, high, interval.groups, interval.status)


def selection_frequency(chosen: float, replicates: Sequence[float] | FloatArray) -> float:
    """Share of the replicates that choose the same value: for integers and argmax, which have no standard error.

    NaN counts as a choice of its own (nothing was found).
    """
    parts = np.asarray(replicates, dtype=np.float64)
    same = np.isnan(parts) if np.isnan(chosen) else np.isclose(parts, chosen)
    return float(same.mean())


def _scale(scale: str, value: FloatArray, parts: FloatArray) -> tuple[Any, Any]:
    if scale == "linear":
        return (lambda x: x), (lambda x: x)
    if scale == "log":
        return np.log, np.exp
    if scale == "share":
        inside = (value > 0) & (value < 1) & ((parts > 0) & (parts < 1)).all(axis=0)
        return (
            lambda x: np.where(inside, np.log(x) - np.log1p(-x), x),
            lambda x: np.where(inside, 1 / (1 + np.exp(-x)), np.clip(x, 0, 1)),
        )
    raise ValueError(f"scale must be linear, log or share, got {scale!r}.")
