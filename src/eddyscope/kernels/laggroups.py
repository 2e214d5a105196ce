"""Products of full rows by group of documents: lag covariances of any set of groups, centred by any other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.namespace import like, namespace

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
        return np.asarray(spread + self._squared(own - self._moments(centre)[0]))

    def sides(self, first: BoolArray, second: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Covariances of the documents of two sets of groups, and the product of the difference of their means.

        The sum of the second and the third is ``about(second, first)``, that of the first and the third
        ``about(first, second)``.

        Parameters
        ----------
        first, second : bool array, shape (..., group)
            Any number of pairs of sets.

        Returns
        -------
        three arrays, each of shape (..., lag, lag)
        """
        (mine, own), (theirs, other) = self._moments(first), self._moments(second)
        return own, other, self._squared(mine - theirs)

    def _moments(self, members: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Mean field (..., lag, row) and covariance (..., lag, lag) of some groups, shape (..., group).

        NaN where there are no documents.
        """
        weights = self._weights(members)
        own = np.tensordot(weights, self.sums, 1)  # one product, where a sum over chosen groups would copy them first
        return own, np.tensordot(weights, self.products, 1) - self._squared(own)

    def _weights(self, members: BoolArray) -> FloatArray:
        """What makes sums over groups means over their documents; NaN where they have none."""
        documents = (members @ self.counts)[..., None]
        return np.asarray(members / np.where(documents > 0, documents, np.nan))

    def _squared(self, field: FloatArray) -> FloatArray:
        """Mean over rows of the products of a field, shape (..., lag, row), with itself."""
        return np.asarray(field @ np.swapaxes(field, -1, -2) / self.rows)

    def without(self, group: int) -> FloatArray:
        """Covariance with one group left out, shape (lag, lag)."""
        return np.asarray(self.without_each[group])

    @cached_property
    def without_each(self) -> FloatArray:
        """Covariance of all documents but those of each group, shape (group, lag, lag).

        Leaving out group g moves the mean field m of the others to ``(M - S_g) / (N - n_g)``, M the sum of all u, S_g
        that of its own, so ``C_(g) = (P - P_g) / (N - n_g) - <(M - S_g)(M - S_g)'> / (N - n_g)^2``.
        """
        xp, documents = namespace(self.products), int(self.counts.sum())
        left = (documents - self.counts).astype(np.float64)
        left[left == 0] = np.nan  # with one group alone nothing remains: its replicate is undefined
        remaining = like(left[:, None, None], self.products)
        others = xp.sum(self.sums, axis=0) - self.sums
        shift = others @ xp.matrix_transpose(others) / self.rows
        without: FloatArray = (xp.sum(self.products, axis=0) - self.products) / remaining - shift / remaining**2
        return without

    def project(self, basis: FloatArray) -> LagGroups:
        """The same statistics in other coordinates along lag.

        Parameters
        ----------
        basis : array, shape (lag, coordinate)
            Orthonormal columns.
        """
        products = basis.T @ self.products @ basis
        return LagGroups(products, np.einsum("dk,gdi->gki", basis, self.sums, optimize=True), self.counts)

    def in_leading_modes(self, count: int) -> LagGroups:
        """The same statistics in the leading lag modes of all documents."""
        everyone = np.ones(self.counts.size, dtype=bool)
        return self.project(np.linalg.eigh(self.covariance(everyone))[1][:, ::-1][:, :count])

    def energy(self, members: BoolArray | None = None) -> FloatArray:
        """Mean square of the fluctuation of the documents of some groups (all by default) at each lag, shape (lag,)."""
        members = np.ones(self.counts.size, dtype=bool) if members is None else members
        weights = self._weights(members)
        own = np.tensordot(weights, self.sums, 1)
        return np.asarray(weights @ np.einsum("gdd->gd", self.products) - (own**2).mean(axis=1))


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
