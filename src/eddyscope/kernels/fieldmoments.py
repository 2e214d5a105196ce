"""Mergeable statistics of packed fields: mean field, energy by query and masses, one set a group of documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.lagstats import take_out_mean
from eddyscope.kernels.merging import merged_groups, weighted_mean
from eddyscope.lagfield import LagGeometry

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]

#: Documents that are converted to float64 at a time, in bytes.
_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True)
class FieldMoments:
    """Sums over documents of one packed field, by group.

    Parameters
    ----------
    labels, counts : int array, shape (group,)
        Of the groups, ascending, and the documents of each.
    means : array, shape (group, entry)
        Mean field of each group.
    energy : array, shape (group, query)
        Sum over the group's documents of ``|u|^2`` of each query, u the deviation from the group's own mean.
    """

    labels: IntArray
    counts: IntArray
    means: FloatArray
    energy: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Mean field of all documents, shape (entry,)."""
        return weighted_mean(self.means, self.counts)

    def merged(self, other: FieldMoments, geometry: LagGeometry) -> FieldMoments:
        """Statistics of the documents of both, as :meth:`eddyscope.kernels.lagstats.LagMoments.merged`."""
        both = merged_groups(self.labels, self.counts, other.labels, other.counts)
        energy = both.sums(self.energy, other.energy)
        for place, mine, theirs in both.common:
            apart = other.means[theirs] - self.means[mine]
            weight = self.counts[mine] * other.counts[theirs] / both.counts[place]
            energy[place] += weight * by_query(apart**2, geometry)
        return FieldMoments(both.labels, both.counts, both.means(self.means, other.means), energy)

    def energy_by_query(self, geometry: LagGeometry) -> FloatArray:
        """``<|u|^2>`` over all documents of each query, u the deviation from the mean of all, shape (query,)."""
        moved = (self.means - self.mean) ** 2
        between = sum(n * by_query(part, geometry) for n, part in zip(self.counts, moved, strict=True))
        return np.asarray((self.energy.sum(axis=0) + between) / self.counts.sum())

    def level(self, used: NDArray[np.bool_], min_query: int) -> FluctuationLevel:
        """What the fluctuation level of any groups follows from.

        Parameters
        ----------
        used : bool array, shape (entry,)
            Entries that count: those of queries from ``min_query`` on.
        min_query : int
        """
        mean = np.where(used, self.mean, 0.0)
        apart = np.where(used, self.means - self.mean, 0.0)
        return FluctuationLevel(
            self.counts, self.energy[:, min_query:].sum(axis=1), apart @ apart.T, apart @ mean, float(mean @ mean)
        )


@dataclass(frozen=True)
class FluctuationLevel:
    """What the fluctuation level of any groups of documents follows from.

    Parameters
    ----------
    counts : int array, shape (group,)
    energy : array, shape (group,)
        Sum over the group's documents of ``|u|^2`` about the group's own mean.
    gram : array, shape (group, group)
        Inner products of the groups' mean fields, the mean field of all taken off.
    projection : array, shape (group,)
        Inner products of these with the mean field of all.
    mean_energy : float
        ``|Abar|^2``.
    """

    counts: IntArray
    energy: FloatArray
    gram: FloatArray
    projection: FloatArray
    mean_energy: float

    def of(self, index: IntArray) -> float:
        """``<|u|^2> / <|A|^2>`` of the documents of some groups, about their own mean."""
        documents = int(self.counts[index].sum())
        weights = self.counts[index] / documents
        gram = self.gram[np.ix_(index, index)]
        moved = float(weights @ gram @ weights)  # |m|^2, m the mean of their fluctuations
        between = float(weights @ np.diag(gram)) - moved
        fluctuation = float(self.energy[index].sum()) / documents + between
        total = fluctuation + self.mean_energy + 2 * float(weights @ self.projection[index]) + moved
        return fluctuation / total if total > 0 else float("nan")


def field_moments(values: FloatArray, geometry: LagGeometry, groups: IntArray | None = None) -> FieldMoments:
    """Statistics of packed snapshots.

    Parameters
    ----------
    values : array, shape (document, entry)
    geometry : LagGeometry
    groups : int array, shape (document,), optional
        One group 0 by default.

    Returns
    -------
    FieldMoments
        Sums in float64.
    """
    labels = np.zeros(1, dtype=np.int64) if groups is None else np.unique(groups).astype(np.int64)
    members = [np.flatnonzero(groups == label) if groups is not None else np.arange(len(values)) for label in labels]
    means, energy = np.empty((labels.size, geometry.size)), np.empty((labels.size, geometry.queries))
    step = max(1, _BLOCK_BYTES // (8 * max(1, geometry.size)))
    for index, own in enumerate(members):
        found: FieldMoments | None = None
        for start in range(0, own.size, step):
            part = values[own[start : start + step]].astype(np.float64)
            mean = take_out_mean(part)
            spread = by_query(np.einsum("se,se->e", part, part), geometry)
            one = FieldMoments(labels[:1], np.array([part.shape[0]], dtype=np.int64), mean[None], spread[None])
            found = one if found is None else found.merged(one, geometry)
        assert found is not None
        means[index], energy[index] = found.means[0], found.energy[0]
    return FieldMoments(labels, np.array([m.size for m in members], dtype=np.int64), means, energy)


def by_query(entries: FloatArray, geometry: LagGeometry) -> FloatArray:
    """Sum of packed entries of each query, shape (query,)."""
    return np.asarray(np.bincount(geometry.entry_query, weights=entries, minlength=geometry.queries), dtype=np.float64)
