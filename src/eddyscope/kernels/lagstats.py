"""Statistics over lags: the Reynolds split, lag covariances, and their jackknife replicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.laggroups import LagGroups, lag_groups

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
    groups : LagGroups, or None
        Products of the fluctuation by group, from which the covariance of any set of groups follows.

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
    groups: LagGroups | None = None

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
    The mean of equal numbers is not always that number in floating point, and where all documents are equal u must be
    exactly zero, not rounding with a spectrum of its own. So the first document is taken off before the mean is; where
    no entry of the first equals that of the last, no entry is equal in all, and this pass is saved.
    """
    first = snapshots[0].copy()
    if not (first == snapshots[-1]).any():
        first[...] = 0
    else:
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
    without = products = None
    if count == 0:
        undefined = np.full((lags, lags), np.nan)
        return LagCovariance(undefined, undefined, None, np.full(lags, np.nan), documents, count)
    if groups is None:
        flat = rows.reshape(lags, samples)
        fluctuation = flat @ flat.T / samples
    else:
        products = lag_groups(rows, groups)
        fluctuation, without = _by_group(products)
    return LagCovariance(mean @ mean.T / count, fluctuation, without, mean.mean(axis=1), documents, count, products)


def _by_group(groups: LagGroups) -> tuple[FloatArray, FloatArray]:
    """Covariance of all documents, and of all but each group.

    Leaving out group g moves the mean field of the others by ``-S_g / (N - n_g)``, S_g the sum of its fluctuations,
    so ``C_(g) = (N C - B_g) / (N - n_g) - <S_g S_g'> / (N - n_g)^2`` with B_g the group's own sum of products.
    """
    documents = int(groups.counts.sum())
    remaining = (documents - groups.counts)[:, None, None]
    everything = groups.products.sum(axis=0)
    shift = groups.sums @ groups.sums.transpose(0, 2, 1) / groups.rows
    # With one group alone nothing remains: its replicate is undefined and stays NaN.
    with np.errstate(divide="ignore", invalid="ignore"):
        without = np.where(remaining > 0, (everything - groups.products) / remaining - shift / remaining**2, np.nan)
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
