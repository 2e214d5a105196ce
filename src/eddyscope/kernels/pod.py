"""Proper orthogonal decomposition by the method of snapshots.

With ``K[s, s'] = <v_s, v_s'> / N`` and ``K psi_k = lambda_k psi_k``: modes
``phi_k = sum_s psi_k[s] v_s / sqrt(N lambda_k)``, coefficients ``a_k[s] = <v_s, phi_k> = sqrt(N lambda_k) psi_k[s]``,
so ``<a_k a_l> = lambda_k delta_kl`` and ``sum_k lambda_k = <|v|^2>`` (Sirovich 1987).
"""

from __future__ import annotations

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
    dtype = np.dtype(np.float64 if values.dtype == np.float64 else np.float32)
    count = min(count, decomposition.eigenvalues.size)
    scale = np.sqrt(values.shape[0] * decomposition.eigenvalues[:count])
    with np.errstate(divide="ignore"):
        inverse = np.where(scale > 0, 1.0 / scale, np.nan)
    vectors = decomposition.vectors[:, :count].T.astype(dtype)
    patterns: FloatArray = vectors @ np.asarray(values, dtype=dtype)
    patterns -= vectors.sum(axis=1)[:, None] * values.mean(axis=0)
    patterns *= weights.astype(dtype)
    patterns *= inverse.astype(dtype)[:, None]
    return patterns


def fix_signs(patterns: FloatArray) -> FloatArray:
    """Sign of each mode that makes its entry of largest modulus positive, shape (mode,)."""
    if patterns.shape[1] == 0:
        return np.ones(patterns.shape[0])
    largest = np.abs(np.nan_to_num(patterns)).argmax(axis=1)
    return np.where(np.take_along_axis(patterns, largest[:, None], axis=1)[:, 0] < 0, -1.0, 1.0)
