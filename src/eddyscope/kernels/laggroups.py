"""Products of full rows by group of documents: lag covariances of any set of groups, centred by any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class LagGroups:
    """Sufficient statistics of the lag covariance, one set a group of documents.

    Parameters
    ----------
    products : array, shape (group, lag, lag)
        Sum over the group's documents of the mean over rows of ``u u'``.
    sums : array, shape (group, lag, row)
        Sum over the group's documents of u.
    counts : int array, shape (group,)
        Documents of each group.

    Notes
    -----
    u may be centred by any field that all documents share. Additive: statistics of shards that share this field and
    their groups add up.
    """

    products: FloatArray
    sums: FloatArray
    counts: IntArray

    @property
    def rows(self) -> int:
        """Rows of each document."""
        return int(self.sums.shape[2])

    def covariance(self, members: BoolArray) -> FloatArray:
        """Covariance of the documents of some groups about their own mean, shape (lag, lag)."""
        return self.about(members, members)

    def about(self, members: BoolArray, centre: BoolArray) -> FloatArray:
        """Second moment of the documents of some groups about the mean field of others.

        ``<(u - m)(u - m)'>`` over the members' documents and rows, m the mean over the documents of ``centre`` for
        each lag and row.

        Parameters
        ----------
        members, centre : bool array, shape (group,)

        Returns
        -------
        array, shape (lag, lag)
            NaN where either set is empty.
        """
        own, spread = self._moments(members)
        if members is centre:
            return spread
        shift = own - self._moments(centre)[0]
        return np.asarray(spread + shift @ shift.T / self.rows)

    def sides(self, first: BoolArray, second: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Covariances of the documents of two sets of groups, and the product of the difference of their means.

        The sum of the second and the third is ``about(second, first)``, that of the first and the third
        ``about(first, second)``.

        Parameters
        ----------
        first, second : bool array, shape (group,)

        Returns
        -------
        three arrays, each of shape (lag, lag)
        """
        (mine, own), (theirs, other) = self._moments(first), self._moments(second)
        apart = mine - theirs
        return own, other, np.asarray(apart @ apart.T / self.rows)

    def _moments(self, members: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Mean field (lag, row) and covariance (lag, lag) of the documents of some groups; NaN where there are none."""
        size = int(self.counts[members].sum())
        if not size:
            return np.full(self.sums.shape[1:], np.nan), np.full(self.products.shape[1:], np.nan)
        weights = members / size  # one product each, where a sum over chosen groups would copy them first
        own = np.tensordot(weights, self.sums, 1)
        return own, np.tensordot(weights, self.products, 1) - own @ own.T / self.rows

    def without(self, group: int) -> FloatArray:
        """Covariance with one group left out, shape (lag, lag)."""
        return self.covariance(np.arange(self.counts.size) != group)

    def project(self, basis: FloatArray) -> LagGroups:
        """The same statistics in other coordinates along lag.

        Parameters
        ----------
        basis : array, shape (lag, coordinate)
            Orthonormal columns.
        """
        products = basis.T @ self.products @ basis
        return LagGroups(products, np.einsum("dk,gdi->gki", basis, self.sums, optimize=True), self.counts)

    def energy(self) -> FloatArray:
        """Mean square of the fluctuation of all documents at each lag, shape (lag,)."""
        return np.asarray(np.diag(self.covariance(np.ones(self.counts.size, dtype=bool))))


def lag_groups(rows: FloatArray, groups: IntArray) -> LagGroups:
    """Products of rows by group.

    Parameters
    ----------
    rows : array, shape (lag, document, row)
        Centred by a field that all documents share; the fluctuation for the least rounding.
    groups : int array, shape (document,)

    Returns
    -------
    LagGroups
        Groups in ascending order of their labels; sums in float64.
    """
    labels, counts = np.unique(groups, return_counts=True)
    lags, _, count = rows.shape
    products = np.empty((labels.size, lags, lags))
    sums = np.empty((labels.size, lags, count))
    for index, label in enumerate(labels):
        part = np.asarray(rows[:, groups == label], dtype=np.float64)
        flat = part.reshape(lags, -1)
        products[index] = flat @ flat.T / count
        sums[index] = part.sum(axis=1)
    return LagGroups(products, sums, counts.astype(np.int64))
