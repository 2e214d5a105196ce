"""Which modes can be told apart, and how many samples a lag mode rests on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.trust.scores import above_rounding

FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]


def north_separated(eigenvalues: FloatArray, samples: float) -> BoolArray:
    """Modes that North's rule calls separated: ``lambda_k - lambda_(k+1) > lambda_k sqrt(2/N)``.

    Parameters
    ----------
    eigenvalues : array, shape (rank,)
        Descending.
    samples : float
        N, the number of independent samples; effective samples for the lag POD.

    Returns
    -------
    bool array, shape (rank,)
        False also where the gap to the mode before is too small, since a mode mixes with both neighbours, at the last
        rank, whose neighbour is unknown, and where an eigenvalue is rounding, so that there is no mode.

    References
    ----------
    North, Bell, Cahalan and Moeng (1982), Mon. Weather Rev. 110, 699-706.
    """
    values = np.asarray(eigenvalues, dtype=np.float64)
    gap = np.zeros(values.size, dtype=bool)
    gap[:-1] = values[:-1] - values[1:] > values[:-1] * np.sqrt(2.0 / samples)
    before = np.concatenate([np.ones(min(1, values.size), dtype=bool), gap[:-1]])
    return np.asarray(gap & before & above_rounding(values, values.size))


def excess_kurtosis(coefficients: FloatArray) -> FloatArray:
    """``<a^4> / <a^2>^2 - 3`` of centred coefficients over documents: 0 for Gaussian, large where few documents rule.

    Parameters
    ----------
    coefficients : array, shape (document, mode)

    Returns
    -------
    array, shape (mode,)
        At most N - 2 by construction; NaN without variance.
    """
    centred = np.asarray(coefficients, dtype=np.float64)
    centred = centred - centred.mean(axis=0)
    square = (centred**2).mean(axis=0)
    fourth = (centred**4).mean(axis=0)
    return np.asarray(np.divide(fourth, square**2, out=np.full_like(square, np.nan), where=square > 0) - 3.0)


def row_correlation(scores: FloatArray) -> FloatArray:
    """Mean squared correlation over documents of the rows of a document, for each mode.

    Parameters
    ----------
    scores : array, shape (mode, document, row)
        Coefficient of each row along each mode, ``sum_d phi_k(d) u[s, i, d]``; centred over documents.

    Returns
    -------
    array, shape (mode,)
        rho^2, the mean over pairs of different rows, with what chance gives, 1/(N - 1), taken off; between 0 and 1.
        NaN where there are fewer than three documents or two rows that vary.
    """
    found = np.full(scores.shape[0], np.nan)
    documents = scores.shape[1]
    if documents < 3:
        return found
    for mode, of_rows in enumerate(np.asarray(scores, dtype=np.float64)):
        centred = of_rows - of_rows.mean(axis=0)
        size = np.sqrt((centred**2).sum(axis=0))
        unit = centred[:, size > 0] / size[size > 0]
        rows = unit.shape[1]
        if rows < 2:
            continue
        inner = unit @ unit.T if documents <= rows else unit.T @ unit  # the same sum of squares
        found[mode] = _beyond_chance(float((inner**2).sum()), rows, documents)
    return found


def row_correlation_of(products: FloatArray, documents: int) -> FloatArray:
    """The same from sums over documents.

    Parameters
    ----------
    products : array, shape (mode, row, row)
        ``sum_s a_s a_s'`` of the coefficients of the rows, centred over documents.
    documents : int
    """
    found = np.full(products.shape[0], np.nan)
    if documents < 3:
        return found
    for mode, product in enumerate(products):
        square = np.diag(product)
        size = np.sqrt(square[square > 0])
        if size.size >= 2:
            unit = product[np.ix_(square > 0, square > 0)] / size[:, None] / size
            found[mode] = _beyond_chance(float((unit**2).sum()), size.size, documents)
    return found


def _beyond_chance(squares: float, rows: int, documents: int) -> float:
    """Mean squared correlation of different rows, from the sum over all pairs, without what chance gives."""
    mean = (squares - rows) / (rows * (rows - 1))
    chance = 1.0 / (documents - 1)
    return min(max((mean - chance) / (1 - chance), 0.0), 1.0)


def effective_samples(documents: int, rows: int, correlation: float | FloatArray) -> FloatArray:
    """Independent samples in N documents of Q rows, ``N Q / (1 + (Q - 1) rho^2)``.

    Parameters
    ----------
    documents, rows : int
        N and Q, full rows used a document.
    correlation : float or array
        rho^2, see :func:`row_correlation`.

    Notes
    -----
    rho^2 and not rho, because eigenvalues are variances: products of samples with correlation rho correlate by rho^2.
    N Q for independent rows, N where all rows of a document say the same.
    """
    return np.asarray(documents * rows / (1.0 + (rows - 1) * np.asarray(correlation, dtype=np.float64)))
