"""Values and differences over training seeds: what documents and initialisations leave open together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from eddyscope.trust.differences import Difference
from eddyscope.trust.jackknife import LEVEL, MIN_GROUPS, standard_error

FloatArray = NDArray[np.floating[Any]]

#: Training seeds from which on a statement is about an architecture.
MIN_SEEDS = 3


def seeds_estimate(values: FloatArray, replicates: FloatArray, level: float = LEVEL) -> Difference:
    """Mean over seeds with its interval; of one seed, the interval of the documents alone.

    Parameters
    ----------
    values : array, shape (seed,)
    replicates : array, shape (seed, group)
        With one group of documents left out; all seeds read the same documents.
    level : float

    Returns
    -------
    Difference
        From zero. The variance is that of the documents and, of S > 1 seeds of standard deviation d, ``d^2 / S``.
    """
    own, parts = _checked(values, replicates)
    return _combined(float(own.mean()), parts.mean(axis=0), None, [_of_mean(own)], level)


def seeds_difference(
    first: FloatArray,
    first_replicates: FloatArray,
    second: FloatArray,
    second_replicates: FloatArray,
    *,
    paired: bool = True,
    level: float = LEVEL,
) -> Difference:
    """Difference of two means over seeds.

    Parameters
    ----------
    first, second : array, shape (seed,)
        The numbers of seeds may differ.
    first_replicates, second_replicates : array, shape (seed, group)
    paired : bool
        Both read the same documents, so what these do to both cancels, and the groups are the same. Otherwise the
        variances of the documents add up, and the numbers of groups may differ.
    level : float

    Returns
    -------
    Difference
        First minus second; NaN but for the value where a replicate is undefined or there are fewer than 8 groups.

    Notes
    -----
    S > 1 seeds of standard deviation d add ``d^2 / S``. Where the other side is a single model, they add
    ``d^2 (1 + 1/S)``: it is then compared with another seed, not with their mean. Two single models add nothing,
    and the difference is one of these two models. Degrees of freedom by Welch and Satterthwaite.
    """
    (one, ours), (other, theirs) = _checked(first, first_replicates), _checked(second, second_replicates)
    value = float(one.mean() - other.mean())
    of_seeds = [_of_mean(one, alone=other.size == 1), _of_mean(other, alone=one.size == 1)]
    if paired:
        return _combined(value, ours.mean(axis=0) - theirs.mean(axis=0), None, of_seeds, level)
    return _combined(value, ours.mean(axis=0), theirs.mean(axis=0), of_seeds, level)


def _checked(values: FloatArray, replicates: FloatArray) -> tuple[FloatArray, FloatArray]:
    own = np.atleast_1d(np.asarray(values, dtype=np.float64))
    return own, np.asarray(replicates, dtype=np.float64).reshape(own.size, -1)


def _of_mean(values: FloatArray, alone: bool = False) -> tuple[float, float]:
    """Variance that the seeds add, and its degrees of freedom."""
    if values.size < 2:
        return 0.0, 1.0
    return float(values.var(ddof=1)) * (1 / values.size + alone), float(values.size - 1)


def _combined(
    value: float,
    replicates: FloatArray,
    others: FloatArray | None,
    of_seeds: list[tuple[float, float]],
    level: float,
) -> Difference:
    parts = [replicates] if others is None else [replicates, others]
    defined = np.isfinite(value) and all(p.size >= MIN_GROUPS and np.isfinite(p).all() for p in parts)
    if not defined:
        return Difference(value, *(float("nan"),) * 5)
    pieces = [(float(standard_error(p)) ** 2, float(p.size - 1)) for p in parts] + of_seeds
    variance = sum(v for v, _ in pieces)
    if not variance > 0:
        freedom = float(replicates.size - 1)
        return Difference(value, 0.0, freedom, value, value, 1.0 if value == 0 else 0.0)
    freedom = variance**2 / sum(v**2 / f for v, f in pieces)
    error = float(np.sqrt(variance))
    half = float(stats.t.ppf(0.5 + level / 2, freedom)) * error
    p = float(2 * stats.t.sf(abs(value) / error, freedom))
    return Difference(value, error, freedom, value - half, value + half, p)
