"""Cross-coherence at one scale: phase relations, over documents, between key positions of the same query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.morlet import transform_matrix
from eddyscope.lagfield import LagGeometry

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
    queries = dense.shape[1]

    def rows(first: int, stop: int) -> FloatArray:
        working = np.float64 if dense.dtype == np.float64 else np.float32
        return np.ascontiguousarray(dense[:, first:stop, : stop if causal else None], dtype=working)

    return _by_blocks(rows, queries, transform, causal)


def packed_coherence(
    values: FloatArray, geometry: LagGeometry, transform: ComplexArray, mean: FloatArray | None = None
) -> ComplexArray:
    """The same from packed snapshots, of which a few rows at a time are laid out.

    Parameters
    ----------
    values : array, shape (document, entry)
    geometry : LagGeometry
        Whole: as many keys as queries, and all lags.
    transform : complex array, shape (key, key)
        From :func:`key_transform`.
    mean : array, shape (entry,), float64, optional
        Mean field, for the coherence of the fluctuation; that of the raw field without it.

    Returns
    -------
    complex array, shape (query, key)
    """
    working = np.dtype(np.float64 if values.dtype == np.float64 else np.float32)
    # The mean in two parts, so that in single precision documents that are all but equal keep their differences.
    near = None if mean is None else mean.astype(working)
    rest = None if mean is None or near is None else (mean - near).astype(working)
    memory = np.empty(values.shape[0] * min(_ROWS_TOGETHER, geometry.queries) * geometry.keys, dtype=values.dtype)

    def rows(first: int, stop: int) -> FloatArray:
        block = geometry.dense_rows(values, first, stop, memory).astype(working, copy=False)
        for part in (near, rest):
            if part is not None and part.any():
                block -= geometry.dense_rows(part, first, stop)
        return block

    return _by_blocks(rows, geometry.queries, transform, geometry.causal)


def _by_blocks(
    rows_of: Callable[[int, int], FloatArray], queries: int, transform: ComplexArray, causal: bool
) -> ComplexArray:
    """Coherence from a few queries' rows at a time, shape (document, query, key up to the last query if causal)."""
    gamma = np.full((queries, queries), np.nan, dtype=np.complex128)
    memory: FloatArray | None = None  # blocks would cost more to have than to fill
    for first in range(0, queries, _ROWS_TOGETHER):
        stop = min(first + _ROWS_TOGETHER, queries)
        rows = rows_of(first, stop)
        if memory is None:
            memory = np.empty(2 * rows.shape[0] * rows.shape[1] * queries, dtype=rows.dtype)
        gamma[first:stop, : rows.shape[2]] = _coherence_of_rows(rows, first, transform, memory)
    beyond = np.abs(gamma) > 1  # by rounding
    gamma[beyond] /= np.abs(gamma[beyond])
    if causal:
        gamma[np.triu_indices(queries, 1)] = np.nan
    return gamma


def _coherence_of_rows(rows: FloatArray, first: int, transform: ComplexArray, memory: FloatArray) -> ComplexArray:
    """Coherence of the rows of queries from ``first`` on, of shape (document, query, key); shape (query, key)."""
    documents, count, reach = rows.shape
    here = np.arange(count)
    # (key, real then imaginary part at each position): one product for all rows of all documents
    parts = np.concatenate([transform.real[:reach, :reach], transform.imag[:reach, :reach]]).T.astype(rows.dtype)
    coefficient = memory[: 2 * rows.size].reshape(documents, count, 2 * reach)
    np.matmul(rows.reshape(-1, reach), parts, out=coefficient.reshape(-1, 2 * reach))
    real, imaginary = coefficient[:, here, first + here], coefficient[:, here, reach + first + here]
    crossed = np.einsum("si,sik->ik", real, rows) + 1j * np.einsum("si,sik->ik", imaginary, rows)
    numerator = crossed @ transform[:reach, :reach].conj().T / documents
    squares = np.einsum("sij,sij->ij", coefficient, coefficient) / documents
    power = squares[:, :reach] + squares[:, reach:]
    own_power = power[here, first + here]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(numerator / np.sqrt(own_power[:, None] * power))
