"""Null models that need no other network: random phases along lag, uniform attention, shuffled documents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from eddyscope.documents import Documents

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]


def random_phases(rows: FloatArray, seed: int = 0) -> FloatArray:
    """Rows with random phases along lag, one phase vector a document.

    Parameters
    ----------
    rows : array, shape (lag, document, row)
        Full rows of the fluctuation in lag coordinates.
    seed : int

    Returns
    -------
    array, shape (lag, document, row), float64
        Each row keeps its power spectrum along lag, and rows of a document keep their phase relations; what recurs
        from document to document beyond the lag spectrum is lost. The terms that must stay real (frequency 0 and
        Nyquist) get a random sign.
    """
    lags, documents, _ = rows.shape
    rng = np.random.default_rng(seed)
    transformed = np.fft.rfft(np.asarray(rows, dtype=np.float64), axis=0)
    phase = np.exp(2j * np.pi * rng.random((transformed.shape[0], documents)))
    real = [0, transformed.shape[0] - 1] if lags % 2 == 0 else [0]
    phase[real] = rng.choice([-1.0, 1.0], size=(len(real), documents))
    transformed *= phase[:, :, None]
    return np.asarray(np.fft.irfft(transformed, n=lags, axis=0))


def uniform_rows(lags: IntArray, queries: IntArray, keys: int, causal: bool, masked: int = 0) -> FloatArray:
    """Rows of attention that is uniform over the keys that each query may see.

    Parameters
    ----------
    lags : int array, shape (lag,)
        ``query - key``.
    queries : int array, shape (row,)
    keys : int
    causal : bool
    masked : int
        First keys that are masked (as sinks), the rest renormalised.

    Returns
    -------
    array, shape (lag, row)
        0 where the entry does not exist. The same in every document: it has a mean and a total, and no fluctuation.
    """
    key = queries[None, :] - lags[:, None]
    allowed = (queries + 1 if causal else np.full(queries.shape, keys)) - masked
    exists = (key >= masked) & (key < keys) & (allowed > 0)[None, :]
    if causal:
        exists &= lags[:, None] >= 0
    return np.asarray(np.where(exists, 1.0 / np.maximum(allowed, 1)[None, :], 0.0))


def shuffled_documents(documents: Documents, seed: int = 0) -> Documents:
    """Documents whose tokens are permuted within each window; special tokens and padding stay in place.

    Parameters
    ----------
    documents : Documents
    seed : int

    Returns
    -------
    Documents
        The same tokens in another order; equal documents get equal permutations, blocks stay. Without texts and
        spans, which hold for the order that was read.
    """
    ids = documents.ids.copy()
    movable = ~documents.special
    if documents.mask is not None:
        movable = movable & documents.mask
    _, kind = np.unique(documents.ids, axis=0, return_inverse=True)
    for row, places, number in zip(ids, movable, kind.ravel(), strict=True):
        row[places] = np.random.default_rng([seed, int(number)]).permutation(row[places])
    identity = documents.identity | {"shuffled": seed}
    return replace(documents, ids=ids, spans=None, texts=None, identity=identity)
