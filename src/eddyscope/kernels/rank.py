"""Effective ranks of an eigenvalue spectrum: how many patterns hold the energy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]

#: The unbiased participation ratio divides by N - 3 and means little below this many documents.
MIN_DOCUMENTS = 8


def effective_rank(eigenvalues: FloatArray, tolerance: float) -> float:
    """``H*(eps) = min { n : sum_{k>n} lambda_k <= eps sum_k lambda_k }``; NaN where there is no energy.

    Parameters
    ----------
    eigenvalues : array, shape (rank,)
        Descending.
    tolerance : float
        eps, the share of the energy that may be missed.

    Notes
    -----
    At most N - 1 by construction, so at finite N it says as much about N as about the ensemble.
    """
    total = float(eigenvalues.sum())
    if not total > 0:
        return float("nan")
    missed = total - np.cumsum(eigenvalues)
    # Rounding of the cumulative sum must not cost a mode when the remainder is exactly zero.
    reached = missed <= tolerance * total + 1e-14 * total
    return 0.0 if tolerance >= 1 else float(np.argmax(reached) + 1)


def entropy_rank(eigenvalues: FloatArray) -> float:
    """Exponential of the Shannon entropy (in nats) of the energy shares (Roy and Vetterli 2007)."""
    total = float(eigenvalues.sum())
    if not total > 0:
        return float("nan")
    share = eigenvalues[eigenvalues > 0] / total
    return float(np.exp(-(share * np.log(share)).sum()))


def stable_rank(eigenvalues: FloatArray) -> float:
    """``sum_k lambda_k / lambda_1``: squared Frobenius over squared spectral norm of the snapshot matrix."""
    total = float(eigenvalues.sum())
    return total / float(eigenvalues[0]) if total > 0 else float("nan")


def first_mode_energy(eigenvalues: FloatArray) -> float:
    """``lambda_1 / sum_k lambda_k``, the share of the energy in the first mode."""
    total = float(eigenvalues.sum())
    return float(eigenvalues[0]) / total if total > 0 else float("nan")


def participation_ratio(gram: FloatArray) -> float:
    """Participation ratio ``tr^2(Sigma) / tr(Sigma^2)``, a ratio of unbiased estimators.

    With G the double-centred Gram without the factor 1/N, ``S = G / (N - 1)``, ``Q = sum_s G_ss^2 / (N - 1)`` and
    ``c = (N - 1) / (N (N - 2) (N - 3))``: ``tr^2(Sigma) = c [2 tr S^2 + (N^2 - 3N + 1) (tr S)^2 - N Q]``,
    ``tr(Sigma^2) = c [(N - 1)(N - 2) tr S^2 + (tr S)^2 - N Q]``.

    Parameters
    ----------
    gram : array, shape (document, document)
        Centred snapshot Gram with the factor 1/N, as :func:`eddyscope.kernels.gram.field_pass` gives it.

    Returns
    -------
    float
        NaN below 8 documents, without fluctuation, or where the denominator is not positive.

    Notes
    -----
    The naive ratio of sample eigenvalues is bounded by N - 1 (148 at N = 150 where the truth is 33,000).

    References
    ----------
    Himeno and Yamada (2014), J. Multivariate Anal. 130, for the unbiased traces.
    """
    inner = np.asarray(gram, dtype=np.float64) * gram.shape[0]
    return participation_from_sums(
        gram.shape[0], float(np.trace(inner)), float((inner * inner).sum()), float((np.diag(inner) ** 2).sum())
    )


def participation_from_sums(count: int, trace: float, squares: float, fourth: float) -> float:
    """The same from sums over G, the double-centred Gram without the factor 1/N.

    Parameters
    ----------
    count : int
        N.
    trace, squares, fourth : float
        ``sum_s G_ss``, ``sum_ss' G_ss'^2`` and ``sum_s G_ss^2``.
    """
    if count < MIN_DOCUMENTS:
        return float("nan")
    trace_squared = (trace / (count - 1)) ** 2
    square_trace = squares / (count - 1) ** 2
    fourth = fourth / (count - 1)
    factor = (count - 1) / (count * (count - 2) * (count - 3))
    numerator = factor * (2 * square_trace + (count**2 - 3 * count + 1) * trace_squared - count * fourth)
    denominator = factor * ((count - 1) * (count - 2) * square_trace + trace_squared - count * fourth)
    return numerator / denominator if denominator > 0 and numerator > 0 else float("nan")
