"""Measures of a POD spectrum as functions of any part of the documents, and their jackknife intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.decay import FIT_RANKS, MIN_POINTS, RELATIVE_FLOOR, fit_line, fitted_points
from eddyscope.kernels.laggroups import LagGroups
from eddyscope.kernels.rank import entropy_rank, first_mode_energy, participation_ratio, stable_rank
from eddyscope.trust.jackknife import Interval, jackknife, reciprocal
from eddyscope.trust.scores import FULL_SCORES, LEADING_SCORES, coordinates, subgram

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]

#: Measures that have an interval, with the scale on which it is symmetric.
SCALES: Mapping[str, str] = {
    "beta_published": "linear",
    "r2": "share",
    "participation_ratio": "log",
    "entropy_rank": "log",
    "stable_rank": "log",
    "first_mode_energy": "share",
}


def spectrum_measures(eigenvalues: FloatArray, ratio: float, floor: float | None = None) -> FloatArray:
    """The measures of :data:`SCALES` of one spectrum, in their order.

    Parameters
    ----------
    eigenvalues : array, shape (rank,)
        Descending.
    ratio : float
        Participation ratio, which needs more than eigenvalues.
    floor : float, optional
        Absolute eigenvalue floor of the published fit in place of the relative one.
    """
    return np.array(
        [
            *published_slope(eigenvalues, floor),
            ratio,
            entropy_rank(eigenvalues),
            stable_rank(eigenvalues),
            first_mode_energy(eigenvalues),
        ]
    )


def published_slope(eigenvalues: FloatArray, floor: float | None = None) -> tuple[float, float]:
    """``beta_published`` and ``r2`` alone, as :func:`eddyscope.kernels.decay.fit_decay` gives them."""
    relative, absolute = (RELATIVE_FLOOR, 0.0) if floor is None else (0.0, floor)
    x, y = fitted_points(eigenvalues, FIT_RANKS, relative, absolute)
    if x.size < MIN_POINTS:
        return float("nan"), float("nan")
    slope, _, r2 = fit_line(x, y)
    return -slope, r2


def part_measures(gram: FloatArray, index: IntArray, floor: float | None = None) -> FloatArray:
    """Measures of some of the documents: submatrix first, then centring.

    Parameters
    ----------
    gram : array, shape (document, document)
        With the factor 1/N.
    index : int array, shape (part,)
    floor : float, optional

    Returns
    -------
    array, shape (measure,)
    """
    part = subgram(gram, index)
    return spectrum_measures(sample_eigenvalues(part), participation_ratio(part), floor)


def spectrum_replicates(gram: FloatArray, groups: IntArray, floor: float | None = None) -> FloatArray:
    """Measures with one group of documents left out.

    Parameters
    ----------
    gram : array, shape (document, document)
        Centred, with the factor 1/N.
    groups : int array, shape (document,)
    floor : float, optional

    Returns
    -------
    array, shape (group, measure)

    Notes
    -----
    Above 1,000 documents eigenvalues of a replicate come by Rayleigh-Ritz from the leading 200 scores of all documents;
    energy beyond them keeps the shape that it has in the full spectrum. Traces stay exact. What this leaves out is
    the same in every replicate, so the standard error does not see it.
    """
    kept = [np.flatnonzero(groups != group) for group in np.unique(groups)]
    if gram.shape[0] <= FULL_SCORES:
        return np.stack([part_measures(gram, index, floor) for index in kept])
    points, everything = coordinates(gram), sample_eigenvalues(gram)
    tail = everything[LEADING_SCORES:]
    rows = []
    for index in kept:
        part = subgram(gram, index)
        side = points[index] - points[index].mean(axis=0)
        leading = np.linalg.eigvalsh(side.T @ side / index.size)[::-1]
        rest = max(float(np.trace(part)) - float(leading.sum()), 0.0)
        beyond = tail * (rest / tail.sum()) if tail.size and tail.sum() > 0 else tail
        rows.append(spectrum_measures(np.concatenate([leading, beyond]), participation_ratio(part), floor))
    return np.stack(rows)


def spectrum_intervals(gram: FloatArray, groups: IntArray, floor: float | None = None) -> dict[str, Interval]:
    """Intervals of all measures of a spectrum, from its Gram.

    Parameters
    ----------
    gram : array, shape (document, document)
        Centred, with the factor 1/N.
    groups : int array, shape (document,)
    floor : float, optional

    Returns
    -------
    dict of str to Interval
        The measures of :data:`SCALES`, and ``t_spec_published`` as the inverse of ``beta_published``.
    """
    full = spectrum_measures(sample_eigenvalues(gram), participation_ratio(gram), floor)
    return named_intervals(full, spectrum_replicates(gram, groups, floor))


def lag_measures(covariance: FloatArray) -> FloatArray:
    """Measures of the lag POD from the fluctuation's lag covariance, shape (measure,)."""
    return lag_spectrum_measures(lag_spectrum(covariance))


def lag_spectrum(covariance: FloatArray) -> FloatArray:
    """Eigenvalues of a lag covariance, descending, never negative, shape (lag,)."""
    return np.asarray(np.maximum(np.linalg.eigvalsh(covariance)[::-1], 0.0))


def lag_spectrum_measures(values: FloatArray) -> FloatArray:
    """Measures of the lag POD from its eigenvalues, shape (measure,).

    The participation ratio is the plug-in ``(sum lambda)^2 / sum lambda^2``: samples are many against lags.
    """
    squares = float((values**2).sum())
    ratio = float(values.sum()) ** 2 / squares if squares > 0 else float("nan")
    return spectrum_measures(values, ratio)


def lag_intervals(sums: LagGroups) -> dict[str, Interval]:
    """Intervals of the measures of the lag POD, from the products of its document groups."""
    groups = sums.counts.size
    full = lag_measures(sums.covariance(np.ones(groups, dtype=bool)))
    return named_intervals(full, np.stack([lag_measures(sums.without(group)) for group in range(groups)]))


def named_intervals(full: FloatArray, replicates: FloatArray) -> dict[str, Interval]:
    """Interval of each measure, each on its own scale."""
    found = {name: jackknife(float(full[i]), replicates[:, i], scale) for i, (name, scale) in enumerate(SCALES.items())}
    found["t_spec_published"] = reciprocal(found["beta_published"])
    return found


def sample_eigenvalues(gram: FloatArray) -> FloatArray:
    """Eigenvalues of a snapshot Gram: descending, N - 1 of them, never negative."""
    return np.asarray(np.maximum(np.linalg.eigvalsh(gram)[::-1][: max(1, gram.shape[0] - 1)], 0.0))
