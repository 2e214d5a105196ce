"""Groups of documents that come together: sums and means of two sets made one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.namespace import like, namespace, zeros

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class MergedGroups:
    """How the groups of two sets of documents come together.

    Parameters
    ----------
    labels, counts : int array, shape (group,)
        Of both, labels ascending.
    mine, theirs : int array
        Place in these of each group of the first and of the second set.
    common : tuple of (int, int, int)
        Groups that both have: place in these, in the first and in the second set.
    shares : array, shape (group of the second set,)
        Share of the documents of its group that each brings.
    """

    labels: IntArray
    counts: IntArray
    mine: IntArray
    theirs: IntArray
    common: tuple[tuple[int, int, int], ...]
    shares: FloatArray

    def sums(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Sums of both, shape (group, ...)."""
        total: FloatArray = zeros((self.labels.size, *first.shape[1:]), first)
        for index, place in enumerate(self.mine):
            total[place, ...] = first[index, ...]
        for index, place in enumerate(self.theirs):
            total[place, ...] += second[index, ...]
        return total

    def means(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Means of both, shape (group, ...); equal ones stay exactly what they are."""
        mean: FloatArray = zeros((self.labels.size, *first.shape[1:]), first)
        for index, place in enumerate(self.theirs):
            mean[place, ...] = second[index, ...]
        for index, place in enumerate(self.mine):
            mean[place, ...] = first[index, ...]
        for place, mine, theirs in self.common:
            mean[place, ...] += (second[theirs, ...] - first[mine, ...]) * float(self.shares[theirs])
        return mean


@dataclass(frozen=True)
class GroupMeans:
    """Means of something over the documents of each group.

    Parameters
    ----------
    labels, counts : int array, shape (group,)
        Of the groups, ascending, and the documents of each.
    means : array, shape (group, ...)
    """

    labels: IntArray
    counts: IntArray
    means: FloatArray

    def merged(self, other: GroupMeans) -> GroupMeans:
        """Means over the documents of both; those of one group come together."""
        both = merged_groups(self.labels, self.counts, other.labels, other.counts)
        return GroupMeans(both.labels, both.counts, both.means(self.means, other.means))

    def of(self, index: IntArray | None = None) -> FloatArray:
        """Mean over the documents of some groups, or of all; shape (...)."""
        chosen = slice(None) if index is None else index
        return weighted_mean(self.means[chosen], self.counts[chosen])


def group_means(values: FloatArray, groups: IntArray | None = None) -> GroupMeans:
    """Means over documents, in float64.

    Parameters
    ----------
    values : array, shape (document, ...)
    groups : int array, shape (document,), optional
        One group 0 by default.
    """
    labels = np.zeros(1, dtype=np.int64) if groups is None else np.unique(groups).astype(np.int64)
    members = [np.ones(len(values), dtype=bool) if groups is None else groups == label for label in labels]
    means = np.stack([values[own].mean(axis=0, dtype=np.float64) for own in members])
    return GroupMeans(labels, np.array([own.sum() for own in members], dtype=np.int64), means)


def merged_groups(labels: IntArray, counts: IntArray, others: IntArray, their_counts: IntArray) -> MergedGroups:
    """Match the groups of two sets of documents by their labels."""
    both = np.union1d(labels, others).astype(np.int64)
    mine, theirs = np.searchsorted(both, labels), np.searchsorted(both, others)
    total = np.zeros(both.size, dtype=np.int64)
    total[mine] += counts
    total[theirs] += their_counts
    of_mine = {int(place): index for index, place in enumerate(mine)}
    common = tuple((int(p), of_mine[int(p)], index) for index, p in enumerate(theirs) if int(p) in of_mine)
    return MergedGroups(both, total, mine, theirs, common, their_counts / total[theirs])


def weighted_mean(means: FloatArray, counts: IntArray) -> FloatArray:
    """Mean of all documents from the means of groups, exactly that of each where they are equal."""
    first = means[0, ...]
    if means.shape[0] == 1:
        return first
    weighted: FloatArray = namespace(means).tensordot(like(counts / counts.sum(), means), means - first, axes=1)
    return first + weighted
