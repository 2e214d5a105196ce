"""Differences between models, or between trained and null, paired over documents, with Holm's correction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from eddyscope.trust.jackknife import LEVEL, MIN_GROUPS, standard_error

FloatArray = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Difference:
    """A difference of two values from the same documents.

    Parameters
    ----------
    value : float
        First minus second (mean over the seeds of the second).
    error : float
        Standard error: of the documents, and of the seeds where there are several.
    freedom : float
        Degrees of freedom of Student's t.
    low, high : float
        95 % interval, before any correction.
    p : float
        Two-sided.
    """

    value: float
    error: float
    freedom: float
    low: float
    high: float
    p: float


def paired_difference(
    first: float,
    first_replicates: FloatArray,
    second: float | FloatArray,
    second_replicates: FloatArray,
    level: float = LEVEL,
) -> Difference:
    """Difference of a measure between two models that read the same documents.

    Parameters
    ----------
    first : float
    first_replicates : array, shape (group,)
        With one group of documents left out.
    second : float, or array of shape (seed,)
        Several seeds: the value of each initialisation of a null twin.
    second_replicates : array, shape (group,) or (seed, group)
        With the same groups left out.
    level : float

    Returns
    -------
    Difference
        NaN throughout where a value or a replicate is undefined, or there are fewer than 8 groups.

    Notes
    -----
    The replicates of the difference are differences of replicates, so what the documents do to both cancels. With
    S seeds of standard deviation d the variance gains ``d^2 (1 + 1/S)``, that of a new initialisation against the mean
    of those tried, because documents say nothing about other initialisations; degrees of freedom by Welch and
    Satterthwaite.
    """
    others = np.atleast_1d(np.asarray(second, dtype=np.float64))
    theirs = np.asarray(second_replicates, dtype=np.float64).reshape(others.size, -1)
    moved = np.asarray(first_replicates, dtype=np.float64) - theirs.mean(axis=0)
    value = float(first - others.mean())
    groups = moved.size
    if groups < MIN_GROUPS or not (np.isfinite(value) and np.isfinite(moved).all()):
        return Difference(value, *(float("nan"),) * 5)
    of_documents = float(standard_error(moved)) ** 2
    of_seeds = float(others.var(ddof=1)) * (1 + 1 / others.size) if others.size > 1 else 0.0
    variance = of_documents + of_seeds
    if not variance > 0:
        return Difference(value, 0.0, float(groups - 1), value, value, 1.0 if value == 0 else 0.0)
    weight = of_documents**2 / (groups - 1) + (of_seeds**2 / (others.size - 1) if of_seeds > 0 else 0.0)
    freedom, error = variance**2 / weight, float(np.sqrt(variance))
    half = float(stats.t.ppf(0.5 + level / 2, freedom)) * error
    return Difference(
        value, error, freedom, value - half, value + half, float(2 * stats.t.sf(abs(value) / error, freedom))
    )


def holm(p: FloatArray) -> FloatArray:
    """Probabilities corrected for the number of comparisons looked at, by Holm's step-down rule.

    Parameters
    ----------
    p : array of any shape
        Two-sided probabilities of all layers and measures looked at; NaN (not tested) does not count.

    Returns
    -------
    array of the same shape
        ``max_{j<=k} (m - j + 1) p_(j)``, at most 1: below 0.05 the difference holds at 5 % for the whole family.

    References
    ----------
    Holm (1979), Scand. J. Statist. 6, 65-70.
    """
    flat = np.asarray(p, dtype=np.float64).ravel()
    corrected = np.full(flat.shape, np.nan)
    tested = np.flatnonzero(np.isfinite(flat))
    order = tested[np.argsort(flat[tested], kind="stable")]
    factor = order.size - np.arange(order.size)
    corrected[order] = np.minimum(np.maximum.accumulate(factor * flat[order]), 1.0)
    return corrected.reshape(np.shape(p))
