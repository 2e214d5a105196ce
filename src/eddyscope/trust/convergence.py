"""Does a measure still change with the number of documents? Values at N/4, N/2 and N."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.trust.partitions import nested_subsets

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]

#: Nested subsets that the values at N/4 and N/2 are averaged over.
DRAWS = 8
FRACTIONS = (0.25, 0.5, 1.0)
#: An integer rank has converged where it changes by at most one mode or this share from N/2 to N.
RANK_CHANGE = 0.1
#: H*/N counts as constant where H* grows at least as this power of N.
PROPORTIONAL = 0.8

VERDICTS = ("converged", "grows with N", "not resolved")


@dataclass(frozen=True)
class Curve:
    """Measures of nested subsets.

    Parameters
    ----------
    documents : array, shape (3,)
        Mean number of documents at N/4, N/2, N.
    values : array, shape (3, measure)
        Mean over the draws in which the measure is defined; NaN where that is fewer than half of them.
    """

    documents: FloatArray
    values: FloatArray


@dataclass(frozen=True)
class Verdict:
    """Whether a measure can be read at this N.

    Parameters
    ----------
    verdict : str
        ``converged``, ``grows with N`` or ``not resolved``.
    reason : str
        Why, in words.
    power : float
        Growth from N/2 to N as a power of N: 1 where the measure is proportional to N, 0 where it stays.
    """

    verdict: str
    reason: str
    power: float


def convergence_curve(
    measures: Callable[[IntArray], FloatArray],
    blocks: IntArray,
    *,
    sizes: IntArray | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Curve:
    """Measures at N/4, N/2 and N, of nested subsets made of whole blocks.

    Parameters
    ----------
    measures : callable
        From the indices of documents (or groups) to values, shape (measure,).
    blocks : int array, shape (document,)
        Source block of each document; ``np.arange(groups)`` where only statistics of groups are kept.
    sizes : int array, shape (document,), optional
        Documents that each index stands for, 1 by default.
    draws, seed : int

    Returns
    -------
    Curve
    """
    held = np.ones(blocks.size, dtype=np.int64) if sizes is None else sizes
    documents: list[list[int]] = [[], []]
    found: list[list[FloatArray]] = [[], []]
    for draw in range(draws):
        half, quarter = nested_subsets(blocks, seed + draw)
        for level, index in enumerate((quarter, half)):
            documents[level].append(int(held[index].sum()))
            found[level].append(np.asarray(measures(index), dtype=np.float64))
    everyone = np.arange(blocks.size)
    full = np.asarray(measures(everyone), dtype=np.float64)
    values = [_mean_of_defined(np.stack(level)) for level in found]
    counts = [float(np.mean(level)) for level in documents]
    return Curve(np.array([*counts, float(held.sum())]), np.stack([*values, full]))


def judge(values: FloatArray, documents: FloatArray, low: float, high: float, status: str = "ok") -> Verdict:
    """Verdict on a measure with an interval.

    Parameters
    ----------
    values : array, shape (3,)
        At N/4, N/2 and N.
    documents : array, shape (3,)
    low, high : float
        Interval at N.
    status : str
        Status of the measure at N.

    Returns
    -------
    Verdict
        ``converged`` where the value at N/2 lies in the interval at N; ``grows with N`` where it lies below;
        ``not resolved`` where the measure has no value or interval at N, none at N/2, or falls beyond its interval.
    """
    half, full = float(values[1]), float(values[2])
    power = growth_power(values, documents)
    if status != "ok" or not np.isfinite(full):
        return Verdict("not resolved", status if status != "ok" else "undefined", power)
    if not (np.isfinite(low) and np.isfinite(high)):
        return Verdict("not resolved", "no interval", power)
    if not np.isfinite(half):
        return Verdict("not resolved", "unresolved at half of the documents", power)
    if low <= half <= high:
        return Verdict("converged", "same at half of the documents", power)
    if half < full:
        return Verdict("grows with N", f"{half:.3g} at half of the documents, {full:.3g} with all", power)
    return Verdict("not resolved", f"falls with N: {half:.3g} at half of the documents, {full:.3g} with all", power)


def judge_rank(values: FloatArray, documents: FloatArray, status: str = "ok") -> Verdict:
    """Verdict on an integer rank, which has no interval.

    Parameters
    ----------
    values, documents : array, shape (3,)
    status : str
        ``no fluctuation`` and the like at N; ``unresolved`` is what this decides, and does not count.

    Returns
    -------
    Verdict
        ``converged`` where the rank changes by at most one mode or 10 % from N/2 to N. Where H*/N is constant the
        rank says how many documents there are, and the reason says so.
    """
    half, full = float(values[1]), float(values[2])
    power = growth_power(values, documents)
    if status not in ("ok", "unresolved") or not np.isfinite(full):
        return Verdict("not resolved", status if status != "ok" else "undefined", power)
    if not np.isfinite(half):
        return Verdict("not resolved", "undefined at half of the documents", power)
    if abs(full - half) <= max(1.0, RANK_CHANGE * full):
        return Verdict("converged", "same at half of the documents", power)
    if full < half:
        return Verdict("not resolved", f"falls with N: {half:.3g} at half of the documents, {full:.3g} with all", power)
    if power >= PROPORTIONAL:
        return Verdict("grows with N", "H*/N is constant: it says how many documents there are", power)
    return Verdict("grows with N", f"{half:.3g} at half of the documents, {full:.3g} with all", power)


def growth_power(values: FloatArray, documents: FloatArray) -> float:
    """``log(theta(N) / theta(N/2)) / log(N / (N/2))``; NaN where either is not positive."""
    half, full = float(values[1]), float(values[2])
    if not (half > 0 and full > 0 and documents[2] > documents[1]):
        return float("nan")
    return float(np.log(full / half) / np.log(documents[2] / documents[1]))


def _mean_of_defined(values: FloatArray) -> FloatArray:
    """Mean over the first axis of finite values, NaN where fewer than half are."""
    finite = np.isfinite(values)
    count = finite.sum(axis=0)
    total = np.where(finite, values, 0.0).sum(axis=0)
    enough = count * 2 >= values.shape[0]
    return np.asarray(np.divide(total, count, out=np.full(total.shape, np.nan), where=enough & (count > 0)))
