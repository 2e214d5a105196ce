"""Statistics over lags: the Reynolds split, lag covariances, and their jackknife replicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class LagCovariance:
    """Lag covariances of mean field and fluctuation, over documents and rows.

    Parameters
    ----------
    mean : array, shape (lag, lag)
        ``<Abar Abar'>`` over rows, Abar the mean over documents.
    fluctuation : array, shape (lag, lag)
        ``<u u'>`` over documents and rows, u = A - Abar.
    without_group : array, shape (group, lag, lag), or None
        The fluctuation's covariance with one group of documents left out, its mean field taken anew.
    lag_mean : array, shape (lag,)
        Mean over documents and rows.
    documents, rows : int
        Sample sizes.

    Notes
    -----
    Divided by the number of documents times rows (the ensemble convention, as in the POD), so that
    ``total = mean + fluctuation`` holds exactly.
    """

    mean: FloatArray
    fluctuation: FloatArray
    without_group: FloatArray | None
    lag_mean: FloatArray
    documents: int
    rows: int

    @property
    def total(self) -> FloatArray:
        """``<A A'>`` over documents and rows, shape (lag, lag)."""
        return self.mean + self.fluctuation


def take_out_mean(snapshots: FloatArray) -> FloatArray:
    """Reynolds decomposition in place: leave the fluctuation, return the mean over documents.

    Parameters
    ----------
    snapshots : array, shape (document, ...)
        Overwritten by ``u = A - Abar``.

    Returns
    -------
    array, shape (...)
        Summed in float64.

    Notes
    -----
    The first document is taken off before the mean is: the mean of equal numbers is not always that number in floating
    point, and where all documents are equal u must be exactly zero, not rounding with a spectrum of its own.
    """
    first = snapshots[0].copy()
    snapshots -= first
    shift = snapshots.mean(axis=0, dtype=np.float64).astype(snapshots.dtype)
    snapshots -= shift
    return np.asarray(first + shift)


def lag_covariance(rows: FloatArray, groups: IntArray | None = None) -> LagCovariance:
    """Split rows in lag coordinates into mean and fluctuation and form their covariances.

    Parameters
    ----------
    rows : array, shape (lag, document, row)
        ``a[tau, s, i]``; overwritten by the fluctuation where it is float64 already, so that nothing is copied.
    groups : int array, shape (document,), optional
        Group of each document, for the replicates of the jackknife.

    Returns
    -------
    LagCovariance
        Sums in float64; NaN where there is no row.
    """
    lags, documents, count = rows.shape
    rows = np.asarray(rows, dtype=np.float64)
    mean = np.empty((lags, count))
    for lag in range(lags):  # one at a time, since that much stays in the cache
        mean[lag] = take_out_mean(rows[lag])
    samples = documents * count
    without = None
    if count == 0:
        undefined = np.full((lags, lags), np.nan)
        return LagCovariance(undefined, undefined, None, np.full(lags, np.nan), documents, count)
    if groups is None:
        flat = rows.reshape(lags, samples)
        fluctuation = flat @ flat.T / samples
    else:
        fluctuation, without = _by_group(rows, groups)
    return LagCovariance(mean @ mean.T / count, fluctuation, without, mean.mean(axis=1), documents, count)


def _by_group(fluctuation: FloatArray, groups: IntArray) -> tuple[FloatArray, FloatArray]:
    """Covariance of all documents, and of all but each group.

    Leaving out group g moves the mean field of the others by ``-S_g / (N - n_g)``, S_g the sum of its fluctuations,
    so ``C_(g) = (N C - B_g) / (N - n_g) - <S_g S_g'> / (N - n_g)^2`` with B_g the group's own sum of products.
    """
    lags, documents, count = fluctuation.shape
    labels = np.unique(groups)
    own = np.empty((labels.size, lags, lags))
    shift = np.empty_like(own)
    for index, label in enumerate(labels):
        part = fluctuation[:, groups == label]
        flat = part.reshape(lags, -1)
        own[index] = flat @ flat.T / count
        total = part.sum(axis=1)
        shift[index] = total @ total.T / count
    remaining = (documents - np.array([(groups == label).sum() for label in labels]))[:, None, None]
    everything = own.sum(axis=0)
    # With one group alone nothing remains: its replicate is undefined and stays NaN.
    with np.errstate(divide="ignore", invalid="ignore"):
        without = np.where(remaining > 0, (everything - own) / remaining - shift / remaining**2, np.nan)
    return everything / documents, without


def standardise(covariance: FloatArray, variance: FloatArray) -> FloatArray:
    """Divide each lag by its standard deviation; lags without variance become 0.

    Parameters
    ----------
    covariance : array, shape (lag, lag)
    variance : array, shape (lag,)
        Of the fluctuation, over documents and rows.
    """
    deviation = np.sqrt(variance)
    inverse = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    return covariance * inverse[:, None] * inverse[None, :]
