"""Rows in lag coordinates from packed snapshots, by slices and without an index."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.namespace import zeros
from eddyscope.lagfield import LagGeometry

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]


def packed_rows(
    values: FloatArray,
    geometry: LagGeometry,
    lags: IntArray,
    first: int,
    stop: int,
    factor: FloatArray | None = None,
) -> FloatArray:
    """Rows ``a[lag, s, i] = A[s, i, i - lag]`` of queries that have all of these lags.

    Parameters
    ----------
    values : array, shape (document, entry)
    geometry : LagGeometry
    lags : int array, shape (lag,)
        NumPy.
    first, stop : int
        Range of queries, ``first <= i < stop``; each has all the lags.
    factor : array, shape (document, query), optional
        What each row is multiplied by.

    Returns
    -------
    array, shape (lag, document, query), float64
    """
    rows: FloatArray = zeros((lags.size, values.shape[0], stop - first), values)
    for index, lag in enumerate(lags):
        run = values[:, geometry.run(int(lag), first, stop)]
        rows[index, ...] = run if factor is None else run * factor
    return rows
