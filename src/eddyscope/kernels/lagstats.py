"""Statistics over lags: the Reynolds split, mergeable moments, lag covariances and their jackknife replicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.laggroups import LagGroups
from eddyscope.kernels.merging import merged_groups, weighted_mean
from eddyscope.kernels.namespace import divided, doubled, is_numpy, like, namespace, zeros

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]

#: Bytes of the lags that are centred together, few enough for the cache.
_CACHED_BYTES = 1 << 18


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
    xp = namespace(snapshots)
    first = xp.asarray(snapshots[0, ...], copy=True)
    if not bool(xp.any(first == snapshots[-1, ...])):
        first[...] = 0
    else:
        snapshots -= first
    shift = xp.astype(_mean(snapshots), snapshots.dtype, copy=False)
    snapshots -= shift
    mean: FloatArray = first + shift
    return mean


def _mean(snapshots: FloatArray) -> FloatArray:
    """Mean over documents, float64; by a matrix product, which takes a third of the time, where nothing is copied."""
    if not is_numpy(snapshots):
        xp = namespace(snapshots)
        mean: FloatArray = xp.mean(xp.astype(snapshots, xp.float64, copy=False), axis=0)
        return mean
    if snapshots.dtype != np.float64 or not snapshots.flags.c_contiguous:
        return np.asarray(snapshots.mean(axis=0, dtype=np.float64))
    count = snapshots.shape[0]
    return np.asarray((np.ones(count) @ snapshots.reshape(count, -1)).reshape(snapshots.shape[1:]) / count)


@dataclass(frozen=True)
class LagMoments:
    """Mergeable statistics of rows in lag coordinates, one set a group of documents.

    Parameters
    ----------
    labels : int array, shape (group,)
        Of the groups, ascending.
    counts : int array, shape (group,)
        Documents of each group.
    means : array, shape (group, lag, row)
        Mean over the group's documents.
    products : array, shape (group, lag, lag)
        Sum over the group's documents of the mean over rows of ``u u'``, u the deviation from the group's own mean.

    Notes
    -----
    Float64. Each group is centred by its own mean, so that nothing has to be known of the other groups and no large
    numbers are subtracted when two sets are merged.
    """

    labels: IntArray
    counts: IntArray
    means: FloatArray
    products: FloatArray

    @property
    def documents(self) -> int:
        """Documents of all groups."""
        return int(self.counts.sum())

    @property
    def rows(self) -> int:
        """Rows of each document."""
        return int(self.means.shape[2])

    def merged(self, other: LagMoments) -> LagMoments:
        """Statistics of the documents of both; those of one group come together.

        ``P = P_1 + P_2 + n_1 n_2 / (n_1 + n_2) <d d'>`` with d the difference of the means (Chan, Golub and LeVeque
        1983), over rows.
        """
        shares = merged_groups(self.labels, self.counts, other.labels, other.counts)
        means = shares.means(self.means, other.means)
        products = shares.sums(self.products, other.products)
        for place, mine, theirs in shares.common:
            apart = other.means[theirs, ...] - self.means[mine, ...]
            weight = float(self.counts[mine] * other.counts[theirs] / shares.counts[place])
            if self.rows:
                products[place, ...] += weight / self.rows * (apart @ apart.T)
        return LagMoments(shares.labels, shares.counts, means, products)

    def covariance(self, by_group: bool = True) -> LagCovariance:
        """Covariances of mean field and fluctuation.

        Parameters
        ----------
        by_group : bool
            False leaves out everything that the jackknife needs.
        """
        xp = namespace(self.means)
        lags, documents, count = self.means.shape[1], self.documents, self.rows
        if count == 0:
            undefined = zeros((lags, lags), self.means) + float("nan")
            return LagCovariance(undefined, undefined, None, undefined[0, ...], documents, count)
        mean = weighted_mean(self.means, self.counts)
        apart = self.means - mean  # exactly zero where all documents are equal
        moved = apart @ xp.matrix_transpose(apart) / count
        counts = like(self.counts[:, None, None].astype(np.float64), self.means)
        products = self.products + counts * moved
        groups = LagGroups(products, counts * apart, self.counts) if by_group else None
        return LagCovariance(
            mean @ mean.T / count,
            xp.sum(products, axis=0) / documents,
            None if groups is None else groups.without_each,
            xp.mean(mean, axis=1),
            documents,
            count,
            groups,
        )


def lag_moments(rows: FloatArray, groups: IntArray | None = None) -> LagMoments:
    """Mergeable statistics of rows in lag coordinates.

    Parameters
    ----------
    rows : array, shape (lag, document, row)
        ``a[tau, s, i]``. Without groups overwritten by the fluctuation where it is float64 already, so that nothing is
        copied.
    groups : int array, shape (document,), optional
        Group of each document, for the replicates of the jackknife; one group 0 by default. Labels and counts are
        NumPy arrays whatever the rows are.

    Returns
    -------
    LagMoments
        Sums in float64, in the namespace and on the device of the rows.
    """
    xp = namespace(rows)
    lags, _, count = rows.shape
    labels = np.zeros(1, dtype=np.int64) if groups is None else np.unique(groups).astype(np.int64)
    counts = np.empty(labels.size, dtype=np.int64)
    means, products = zeros((labels.size, lags, count), rows), zeros((labels.size, lags, lags), rows)
    for index, label in enumerate(labels):
        part = rows if groups is None else xp.take(rows, like(np.flatnonzero(groups == label), rows), axis=1)
        part = doubled(part)
        counts[index] = part.shape[1]
        together = max(1, _CACHED_BYTES // max(1, 8 * part.shape[1] * count))
        for lag in range(0, lags, together):
            some = slice(lag, min(lag + together, lags))
            means[index, some, ...] = take_out_mean(xp.permute_dims(part[some, ...], (1, 0, 2)))
        if count:
            flat = xp.reshape(part, (lags, -1))
            products[index, ...] = flat @ flat.T / count
    return LagMoments(labels, counts, means, products)


def lag_covariance(rows: FloatArray, groups: IntArray | None = None) -> LagCovariance:
    """Split rows in lag coordinates into mean and fluctuation and form their covariances.

    Parameters
    ----------
    rows, groups
        As in :func:`lag_moments`.

    Returns
    -------
    LagCovariance
        Sums in float64; NaN where there is no row.
    """
    return lag_moments(rows, groups).covariance(by_group=groups is not None)


def standardise(covariance: FloatArray, variance: FloatArray) -> FloatArray:
    """Divide each lag by its standard deviation; lags without variance become 0.

    Parameters
    ----------
    covariance : array, shape (lag, lag)
    variance : array, shape (lag,)
        Of the fluctuation, over documents and rows.
    """
    deviation = namespace(variance).sqrt(variance)
    inverse = divided(namespace(variance).ones_like(deviation), deviation, 0.0)
    standard: FloatArray = covariance * inverse[:, None] * inverse[None, :]
    return standard
