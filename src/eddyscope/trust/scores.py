"""Documents as points: coordinates whose inner products are the Gram, and the modes of any part of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]

#: Above this many documents everything that resamples works in the leading scores (Rayleigh-Ritz).
FULL_SCORES = 1000
#: Leading scores that are kept then.
LEADING_SCORES = 200
_ROUNDING = 1e-13


def above_rounding(eigenvalues: FloatArray, count: int) -> NDArray[np.bool_]:
    """Which of some descending eigenvalues, sums of so many terms, are more than rounding of the first."""
    first = float(eigenvalues.max(initial=0.0))
    return np.asarray(eigenvalues > _ROUNDING * first * count)


def coordinates(gram: FloatArray) -> FloatArray:
    """Scores of the documents along the modes of all of them: ``X X' = N K``.

    Parameters
    ----------
    gram : array, shape (document, document)
        Centred snapshot Gram with the factor 1/N.

    Returns
    -------
    array, shape (document, score)
        All scores above rounding up to 1,000 documents, the leading 200 beyond. Everything that is computed from the
        inner products of snapshots (modes of a half, held-out variances along them, overlaps of halves) is the same
        from these coordinates, since they differ from the snapshots by a rotation and a constant field.
    """
    documents = gram.shape[0]
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = above_rounding(values, documents)
    count = int(kept.sum())
    if documents > FULL_SCORES:
        count = min(count, LEADING_SCORES)
    return np.asarray(vectors[:, :count] * np.sqrt(documents * values[:count]))


def leading_modes(points: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Variances and modes of centred points.

    Parameters
    ----------
    points : array, shape (document, score)
        Centred by their own mean.
    count : int

    Returns
    -------
    variances : array, shape (mode,)
        Descending, with the factor 1/n; zero past the rank.
    modes : array, shape (score, mode)
        Orthonormal; zero past the rank.
    """
    documents, scores = points.shape
    variances, modes = np.zeros(count), np.zeros((scores, count))
    if documents <= scores:
        values, vectors = np.linalg.eigh(points @ points.T / documents)
    else:
        values, vectors = np.linalg.eigh(points.T @ points / documents)
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    found = above_rounding(values, documents)
    variances[: values.size][found] = values[found]
    if documents <= scores:
        vectors = points.T @ vectors[:, found] / np.sqrt(documents * values[found])
    else:
        vectors = vectors[:, found]
    modes[:, : values.size][:, found] = vectors
    return variances, modes


def subgram(gram: FloatArray, index: IntArray) -> FloatArray:
    """Gram of some documents: submatrix first, then centring; with the factor 1/n of the part.

    Parameters
    ----------
    gram : array, shape (document, document)
        With the factor 1/N, centred by any common field.
    index : int array, shape (part,)

    Returns
    -------
    array, shape (part, part)
    """
    part = gram[np.ix_(index, index)] * (gram.shape[0] / index.size)
    mean = part.mean(axis=0)
    return np.asarray(part - mean[:, None] - mean[None, :] + mean.mean())
