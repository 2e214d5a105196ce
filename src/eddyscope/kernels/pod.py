"""Proper orthogonal decomposition by the method of snapshots.

With ``K[s, s'] = <v_s, v_s'> / N`` and ``K psi_k = lambda_k psi_k``: modes
``phi_k = sum_s psi_k[s] v_s / sqrt(N lambda_k)``, coefficients ``a_k[s] = <v_s, phi_k> = sqrt(N lambda_k) psi_k[s]``,
so ``<a_k a_l> = lambda_k delta_kl`` and ``sum_k lambda_k = <|v|^2>`` (Sirovich 1987).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]

#: Eigenvalues below this share of the largest are rounding of the Gram, and count as zero.
RANK_TOLERANCE = 1e-13


@dataclass(frozen=True)
class Decomposition:
    """Eigenpairs of a snapshot Gram.

    Parameters
    ----------
    eigenvalues : array, shape (rank,)
        Descending, N - 1 of them (at least one), zero past the rank.
    vectors : array, shape (document, rank)
        ``psi_k``, orthonormal columns.
    """

    eigenvalues: FloatArray
    vectors: FloatArray

    @property
    def coefficients(self) -> FloatArray:
        """``a_k[s]``, shape (document, rank); their mean square over documents is the eigenvalue."""
        return np.asarray(self.vectors * np.sqrt(self.vectors.shape[0] * self.eigenvalues))

    @property
    def rank(self) -> int:
        """Number of eigenvalues above zero."""
        return int((self.eigenvalues > 0).sum())


def decompose(gram: FloatArray) -> Decomposition:
    """Eigenvalues and eigenvectors of a centred snapshot Gram.

    Parameters
    ----------
    gram : array, shape (document, document)
        Symmetric, centred, with the factor 1/N.

    Returns
    -------
    Decomposition
        Centring leaves at most N - 1 modes, so the smallest eigenvalue is dropped (for N = 1 it is kept, as zero).
    """
    documents = gram.shape[0]
    values, vectors = np.linalg.eigh(gram)
    order = np.arange(documents)[::-1][: max(1, documents - 1)]
    values, vectors = values[order], vectors[:, order]
    floor = RANK_TOLERANCE * max(float(values[0]), 0.0) * documents
    return Decomposition(np.where(values > floor, values, 0.0), vectors)


def modes(values: FloatArray, decomposition: Decomposition, weights: FloatArray, count: int) -> FloatArray:
    """The leading modes ``phi_k``, unit norm, the entry of largest modulus positive.

    Parameters
    ----------
    values : array, shape (document, entry)
        Snapshots, not centred.
    decomposition : Decomposition
    weights : array, shape (entry,)
        Window weight of each entry; zero for entries that are left out.
    count : int

    Returns
    -------
    array, shape (mode, entry), float64 for float64 snapshots, else float32
        Modes past the rank are NaN: there is no direction that the ensemble could tell.

    Notes
    -----
    The Gram is centred, so each ``psi_k`` sums to zero and centring the snapshots is not needed; what float32 leaves
    of the sum is taken off by the mean.
    """
    return np.asarray(modes_of_windows(values, [decomposition], weights[None], count)[0])


def modes_of_windows(
    values: FloatArray,
    decompositions: Sequence[Decomposition],
    weights: FloatArray,
    count: int,
    mean: FloatArray | None = None,
) -> FloatArray:
    """:func:`modes` of several windows of the same snapshots, by one product.

    Parameters
    ----------
    values : array, shape (document, entry)
    decompositions : sequence of Decomposition, one a window
    weights : array, shape (window, entry)
    count : int
    mean : array, shape (entry,), optional
        Mean of the snapshots, where it is known.

    Returns
    -------
    array, shape (window, mode, entry)
    """
    dtype = np.dtype(np.float64 if values.dtype == np.float64 else np.float32)
    documents, entries = values.shape
    count = min(count, decompositions[0].eigenvalues.size)
    scale = np.sqrt(documents * np.stack([d.eigenvalues[:count] for d in decompositions])).reshape(-1, 1)
    with np.errstate(divide="ignore"):
        inverse = np.where(scale > 0, 1.0 / scale, np.nan)
    vectors = (np.concatenate([d.vectors[:, :count].T for d in decompositions]) * inverse).astype(dtype)
    patterns: FloatArray = vectors @ np.asarray(values, dtype=dtype)
    middle = np.asarray(values.mean(axis=0) if mean is None else mean, dtype=dtype)
    patterns = patterns.reshape(len(decompositions), count, entries)
    left = vectors.sum(axis=1).reshape(len(decompositions), count)
    for window, own, sums in zip(np.asarray(weights, dtype=dtype), patterns, left, strict=True):
        for row, rest in zip(own, sums, strict=True):  # one at a time stays in the cache
            row -= rest * middle
            row *= window
    return patterns


def fix_signs(patterns: FloatArray) -> FloatArray:
    """Sign of each mode that makes its entry of largest modulus positive, shape (mode,); the first of several."""
    if patterns.shape[1] == 0:
        return np.ones(patterns.shape[0])
    highest, lowest = patterns.max(axis=1), -patterns.min(axis=1)
    sign = np.where(lowest > highest, -1.0, 1.0)  # NaN, past the rank, compares false
    for row in np.flatnonzero(lowest == highest):
        sign[row] = -1.0 if patterns[row, np.abs(patterns[row]).argmax()] < 0 else 1.0
    return sign
