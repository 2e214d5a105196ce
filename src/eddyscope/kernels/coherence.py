"""Cross-coherence at one scale: phase relations, over documents, between key positions of the same query."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.morlet import transform_matrix

FloatArray = NDArray[np.floating[Any]]
ComplexArray = NDArray[np.complexfloating[Any, Any]]

#: Half width, in scales, of the part of the wavelet that counts as its own neighbourhood.
_NEIGHBOURHOOD = 5.0

#: Queries transformed together, few enough for the cache; in a causal field keys beyond the last need no arithmetic.
_ROWS_TOGETHER = 16


def key_transform(keys: int, scale: float, omega0: float, length: int | None = None) -> ComplexArray:
    """Matrix of the transform along the key axis, zero beyond both ends, shape (position, key)."""
    return transform_matrix(keys, scale, omega0, "zero", True, length=length or 4 * keys)


def leakage_share(energy: FloatArray, transform: ComplexArray, scale: float) -> FloatArray:
    """Share of the wavelet power at each key that comes from keys farther than five scales.

    The wavelet is cut at Nyquist (at scale 2.55 where it still has 0.13 of its peak) and at frequency zero, so its
    tails fall only as one over distance. Where attention far away is a millionth of that nearby, they carry the
    loud keys' pattern there, and a coherence there would be the loud keys' own.

    Parameters
    ----------
    energy : array, shape (query, key)
        Mean squared field over documents.
    transform : complex array, shape (position, key)
        From :func:`key_transform`.
    scale : float

    Returns
    -------
    array, shape (query, position)
        Phases left aside; NaN where there is no power at all.
    """
    weight = np.abs(transform) ** 2
    distance = np.abs(np.arange(weight.shape[0])[:, None] - np.arange(weight.shape[1])[None, :])
    total = energy @ weight.T
    far = energy @ np.where(distance > _NEIGHBOURHOOD * scale, weight, 0.0).T
    return np.asarray(np.divide(far, total, out=np.full_like(total, np.nan), where=total > 0))


def cross_coherence(dense: FloatArray, transform: ComplexArray, causal: bool) -> ComplexArray:
    """Complex coherence of the query's own position with every key position.

    ``gamma(i, j) = <W_i(i) conj W_i(j)> / sqrt(<|W_i(i)|^2> <|W_i(j)|^2>)`` over documents, ``W_i`` the transform of
    row i along the key axis.

    Parameters
    ----------
    dense : array, shape (document, query, key)
        The field whose coherence is wanted: fluctuation, or the raw field. As many keys as queries.
    transform : complex array, shape (key, key)
        From :func:`key_transform`.
    causal : bool
        True: rows end at the query, and keys after it give NaN.

    Returns
    -------
    complex array, shape (query, key)
        NaN where the query may not see the key, or where there is no energy.

    Notes
    -----
    The numerator is the transform of ``<W_i(i) A_i>``, so only the power needs every row of every document.
    """
    documents, queries, keys = dense.shape
    working = np.dtype(np.float64 if dense.dtype == np.float64 else np.float32)
    parts: FloatArray = np.concatenate([transform.real, transform.imag]).astype(working)  # (2 position, key)
    gamma = np.full((queries, keys), np.nan, dtype=np.complex128)
    for first in range(0, queries, _ROWS_TOGETHER):
        stop = min(first + _ROWS_TOGETHER, queries)
        reach = stop if causal else keys
        rows: FloatArray = np.ascontiguousarray(dense[:, first:stop, :reach])  # (document, row, key)
        here = np.arange(first, stop)
        own = np.einsum("sik,ik->si", rows, parts[here, :reach]) + 1j * np.einsum(
            "sik,ik->si", rows, parts[keys + here, :reach]
        )
        crossed = np.einsum("si,sik->ik", own.real, rows) + 1j * np.einsum("si,sik->ik", own.imag, rows)
        numerator = crossed @ transform[:reach, :reach].conj().T / documents
        power = np.zeros((stop - first, reach))
        for half in (parts[:reach, :reach], parts[keys : keys + reach, :reach]):
            # one product of all documents' rows, not one a document
            coefficient = (rows.reshape(-1, reach) @ half.T).reshape(rows.shape)
            power += np.einsum("sij,sij->ij", coefficient, coefficient)
        power /= documents
        own_power = (np.abs(own) ** 2).mean(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            gamma[first:stop, :reach] = numerator / np.sqrt(own_power[:, None] * power)
    beyond = np.abs(gamma) > 1  # by rounding
    gamma[beyond] /= np.abs(gamma[beyond])
    if causal:
        gamma[np.triu_indices(queries, 1)] = np.nan
    return gamma
