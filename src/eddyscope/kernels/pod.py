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

from eddyscope.kernels.namespace import divided, like, namespace, working, zeros

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
        found: FloatArray = self.vectors * namespace(self.vectors).sqrt(self.vectors.shape[0] * self.eigenvalues)
        return found

    @property
    def rank(self) -> int:
        """Number of eigenvalues above zero."""
        xp = namespace(self.eigenvalues)
        return int(xp.sum(xp.astype(self.eigenvalues > 0, xp.int64)))


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
    xp, documents = namespace(gram), gram.shape[0]
    values, vectors = xp.linalg.eigh(gram)
    order = like(np.arange(documents)[::-1][: max(1, documents - 1)], gram)
    values, vectors = xp.take(values, order, axis=0), xp.take(vectors, order, axis=1)
    floor = RANK_TOLERANCE * max(float(values[0]), 0.0) * documents
    return Decomposition(xp.where(values > floor, values, xp.zeros_like(values)), vectors)


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
    return modes_of_windows(values, [decomposition], weights[None, ...], count)[0, ...]


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
    xp, dtype = namespace(values), working(values)
    documents, entries = values.shape
    count = min(count, decompositions[0].eigenvalues.shape[0])
    scale = xp.sqrt(documents * xp.concat([d.eigenvalues[:count] for d in decompositions]))
    inverse = divided(xp.ones_like(scale), scale, float("nan"))
    vectors = xp.concat([d.vectors[:, :count].T for d in decompositions]) * inverse[:, None]
    vectors = xp.astype(vectors, dtype)
    data = xp.astype(values, dtype, copy=False)
    patterns: FloatArray = vectors @ data
    patterns = xp.reshape(patterns, (len(decompositions), count, entries))
    left = xp.reshape(xp.sum(vectors, axis=1), (len(decompositions), count))
    middle = xp.astype(xp.mean(data, axis=0) if mean is None else mean, dtype, copy=False)
    weights = xp.astype(like(weights, values), dtype, copy=False)
    for index in range(len(decompositions)):
        for mode in range(count):  # one row at a time stays in the cache
            row = patterns[index, mode, ...]
            row -= left[index, mode] * middle
            row *= weights[index, ...]
    return patterns


def fix_signs(patterns: FloatArray) -> FloatArray:
    """Sign of each mode that makes its entry of largest modulus positive, shape (mode,); the first of several."""
    xp = namespace(patterns)
    if patterns.shape[1] == 0:
        ones: FloatArray = zeros((patterns.shape[0],), patterns) + 1.0
        return ones
    highest, lowest = xp.max(patterns, axis=1), -xp.min(patterns, axis=1)
    sign: FloatArray = 1.0 - 2.0 * xp.astype(lowest > highest, xp.float64)  # NaN, past the rank, compares false
    for row in range(patterns.shape[0]):
        if bool(lowest[row] == highest[row]):
            first = patterns[row, int(xp.argmax(xp.abs(patterns[row, ...])))]
            sign[row] = -1.0 if bool(first < 0) else 1.0
    return sign
