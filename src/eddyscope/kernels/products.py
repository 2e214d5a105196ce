"""Symmetric products: sums of ``u u'`` into one triangle, filled up once at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

from eddyscope.kernels.namespace import is_numpy, namespace

FloatArray = NDArray[np.floating[Any]]


def add_product(rows: FloatArray, into: FloatArray, keep: bool = True) -> None:
    """Add ``rows rows'`` to the lower triangle of a matrix; what the upper one then holds is undefined.

    Parameters
    ----------
    rows : array, shape (n, sample), float64
    into : array, shape (n, n), float64, C-contiguous
        Changed in place.
    keep : bool
        False overwrites what is there, which may be anything.
    """
    if not is_numpy(into):
        into[...] = into + rows @ rows.T if keep else rows @ rows.T
        return
    # In Fortran's order both are transposed, so its upper triangle is our lower one.
    dsyrk(1.0, rows.T, beta=1.0 if keep else 0.0, c=into.T, trans=1, overwrite_c=1)


def fill_up(lower: FloatArray) -> FloatArray:
    """Make symmetric matrices of their lower triangles, in place and one at a time.

    Parameters
    ----------
    lower : array, shape (matrix, n, n)

    Returns
    -------
    array, the same
    """
    xp = namespace(lower)
    for index in range(lower.shape[0]):
        matrix = lower[index, ...]
        matrix[...] = xp.tril(matrix) + xp.matrix_transpose(xp.tril(matrix, k=-1))
    return lower
