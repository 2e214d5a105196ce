"""Cross-coherence at one scale: phase relations, over documents, between key positions of the same query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.morlet import transform_matrix
from eddyscope.kernels.namespace import (
    complex_of,
    divided,
    doubled,
    is_numpy,
    like,
    namespace,
    product,
    products_over_first,
    working,
    zeros,
)
from eddyscope.lagfield import LagGeometry

FloatArray = NDArray[np.floating[Any]]
ComplexArray = NDArray[np.complexfloating[Any, Any]]

#: Half width, in scales, of the part of the wavelet that counts as its own neighbourhood.
_NEIGHBOURHOOD = 5.0

#: Queries transformed together, few enough for the cache; in a causal field keys beyond the last need no arithmetic.
ROWS_TOGETHER = 16

#: Rows of all documents of a range of queries, see :func:`centred_rows`.
RowsOf = Callable[[int, int], FloatArray]


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
    energy : array, shape (query, key), float64
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
    total = energy @ like(weight.T, energy)
    far = energy @ like(np.where(distance > _NEIGHBOURHOOD * scale, weight, 0.0).T, energy)
    share: FloatArray = divided(far, total, float("nan"))
    return share


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
    xp, dtype, queries = namespace(dense), working(dense), dense.shape[1]

    def rows(first: int, stop: int) -> FloatArray:
        block: FloatArray = xp.astype(dense[:, first:stop, : stop if causal else queries], dtype)  # a copy in order
        return block

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
    return _by_blocks(centred_rows(values, geometry, mean), geometry.queries, transform, geometry.causal)


def centred_rows(values: FloatArray, geometry: LagGeometry, mean: FloatArray | None = None) -> RowsOf:
    """What lays out a few rows of packed snapshots at a time, without their mean field where there is one.

    Parameters
    ----------
    values : array, shape (document, entry)
    geometry : LagGeometry
    mean : array, shape (entry,), float64, optional

    Returns
    -------
    callable
        From the first query and one past the last, at most :data:`ROWS_TOGETHER` after it, to an array of shape
        (document, query, key), with keys up to the last query if causal; its memory is used again for the next rows.
    """
    xp, dtype = namespace(values), working(values)
    # The mean in two parts, so that in single precision documents that are all but equal keep their differences.
    parts: list[FloatArray] = []
    if mean is not None:
        near = xp.astype(mean, dtype)
        parts = [part for part in (near, xp.astype(mean - near, dtype)) if bool(xp.any(part != 0))]
    memory = None
    if is_numpy(values):
        memory = np.empty(values.shape[0] * min(ROWS_TOGETHER, geometry.queries) * geometry.keys, dtype=values.dtype)

    def rows(first: int, stop: int) -> FloatArray:
        block: FloatArray = xp.astype(geometry.dense_rows(values, first, stop, memory), dtype, copy=False)
        for part in parts:
            block -= geometry.dense_rows(part, first, stop)
        return block

    return rows


def _by_blocks(rows_of: RowsOf, queries: int, transform: ComplexArray, causal: bool) -> ComplexArray:
    """Coherence from a few queries' rows at a time, shape (document, query, key up to the last query if causal)."""
    gamma: ComplexArray | None = None
    memory = None
    for first in range(0, queries, ROWS_TOGETHER):
        stop = min(first + ROWS_TOGETHER, queries)
        rows = rows_of(first, stop)
        if gamma is None:
            gamma = complex_of(*(zeros((queries, queries), rows) + float("nan") for _ in range(2)))
        if memory is None and is_numpy(rows):  # blocks would cost more to have than to fill
            memory = np.empty(2 * rows.shape[0] * rows.shape[1] * queries, dtype=rows.dtype)
        found = _coherence_of_rows(rows, first, transform, memory, causal)
        gamma[first:stop, : rows.shape[2]] = found
    assert gamma is not None
    return gamma


def _coherence_of_rows(
    rows: FloatArray, first: int, transform: ComplexArray, memory: FloatArray | None, causal: bool
) -> ComplexArray:
    """Coherence of the rows of queries from ``first`` on, of shape (document, query, key); shape (query, key)."""
    xp = namespace(rows)
    documents, count, reach = rows.shape
    # (key, real then imaginary part at each position): one product for all rows of all documents
    halves = np.concatenate([transform.real[:reach, :reach], transform.imag[:reach, :reach]]).T
    narrow = like(halves.astype("float64" if rows.dtype == xp.float64 else "float32"), rows)
    coefficient = product(xp.reshape(rows, (-1, reach)), narrow, memory)
    coefficient = xp.reshape(coefficient, (documents, count, 2 * reach))
    own = [xp.stack([coefficient[:, q, at + first + q] for q in range(count)], axis=1) for at in (0, reach)]
    crossed_real, crossed_imaginary = (doubled(products_over_first(part, rows)) for part in own)
    real, imaginary = like(halves[:, :reach], rows), like(halves[:, reach:], rows)
    along = crossed_real @ real + crossed_imaginary @ imaginary
    across = crossed_imaginary @ real - crossed_real @ imaginary
    squares = doubled(products_over_first(coefficient, coefficient))
    power = squares[:, :reach] + squares[:, reach:]
    own_power = xp.stack([power[q, first + q] for q in range(count)])
    # Rounding may bring the modulus above 1, and causal queries do not see the keys after them.
    largest = xp.maximum(xp.sqrt(own_power[:, None] * power), xp.sqrt(along**2 + across**2))
    inverse = divided(xp.ones_like(power), largest, float("nan"))
    if causal:
        inverse = inverse + like(np.where(np.tri(count, reach, first, dtype=bool), 0.0, np.nan), rows)
    found: ComplexArray = complex_of(along * inverse, across * inverse)
    return found
