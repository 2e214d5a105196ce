"""Statistics of one head of one layer: everything about lags that an analysis needs, without the fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.special import entr

from eddyscope.errors import InputError
from eddyscope.kernels.fieldmoments import FieldMoments, by_query, field_moments
from eddyscope.kernels.lagstats import LagMoments, lag_moments
from eddyscope.kernels.merging import GroupMeans, group_means
from eddyscope.lagfield import FloatArray, IntArray, LagField, LagGeometry
from eddyscope.study.options import masked_keys
from eddyscope.study.rows import LagAxis, LagRows, lag_rows, no_rows
from eddyscope.trust.modes import row_correlation
from eddyscope.trust.sinks import Sinks, SinkSums, sink_sums

#: What is averaged over documents for each query, in the order of the second axis of ``masses``.
MASSES = ("first_key", "row_sum", "entropy")
FIRST_KEY, ROW_SUM, ENTROPY = range(len(MASSES))
#: Largest row sum of what can be attention.
_LARGEST_ROW = 1.02


@dataclass(frozen=True)
class LagPart:
    """Lag statistics under one treatment of sinks.

    Parameters
    ----------
    axis : LagAxis
    moments : LagMoments, or None
        None where queries were left out after documents had been counted with them: to be taken again without these.
    """

    axis: LagAxis
    moments: LagMoments | None

    def merged(self, other: LagPart) -> LagPart:
        """Statistics of the documents of both."""
        mine, theirs = self.axis.queries, other.axis.queries
        if not np.array_equal(mine, theirs):
            both = np.intersect1d(mine, theirs)
            left_out = self.axis.left_out + mine.size - both.size
            return LagPart(replace(self.axis, queries=both, left_out=left_out), None)
        moments = None
        if self.moments is not None and other.moments is not None:
            moments = self.moments.merged(other.moments)
        return LagPart(self.axis, moments)


class LagSource(Protocol):
    """What the lag part of an analysis reads from: a field, or statistics of one."""

    @property
    def geometry(self) -> LagGeometry:
        """Of the field."""

    @property
    def documents(self) -> int:
        """Number of documents."""

    @property
    def masses(self) -> GroupMeans:
        """Means of :data:`MASSES`, shape (group, mass, query); the first two at least."""

    @property
    def field_ranks(self) -> int:
        """Most modes that the POD of the field can have; 0 where there is no field."""

    def lags(self, sink: str) -> LagPart | None:
        """Lag statistics under a treatment of sinks; None where they were not kept."""

    def correlation(self, sink: str, modes: FloatArray, documents: IntArray) -> FloatArray | None:
        """How far the rows of a document say the same along lag modes, shape (mode,); None where rows were not kept.

        Of some documents, see :func:`eddyscope.trust.modes.row_correlation`.
        """

    def sinks(self) -> Sinks | None:
        """Sinks of attention; scores, which are no shares of anything, have none."""


@dataclass(frozen=True)
class HeadStatistics:
    """Statistics of one head of one layer over documents.

    Parameters
    ----------
    geometry : LagGeometry
    parts : mapping of str to LagPart
        By the treatment of sinks: ``keep``, ``mask`` or ``first=K``.
    field : FieldMoments
        Of the raw field.
    masses : GroupMeans
        Means of :data:`MASSES`, shape (group, mass, query).
    sums : SinkSums
    largest_row, least_weight : float
        Largest row sum and least attention to the first key, of any document and query.
    """

    geometry: LagGeometry
    parts: Mapping[str, LagPart]
    field: FieldMoments
    masses: GroupMeans
    sums: SinkSums
    largest_row: float
    least_weight: float

    @property
    def documents(self) -> int:
        """Number of documents."""
        return self.sums.documents

    @property
    def field_ranks(self) -> int:
        """No field, no modes of it."""
        return 0

    @property
    def nbytes(self) -> int:
        """Bytes of the statistics; the number of documents has no part in it, beyond that of their groups."""
        arrays = [self.field.means, self.field.energy, self.masses.means, self.sums.mass]
        for part in self.parts.values():
            arrays += [] if part.moments is None else [part.moments.means, part.moments.products]
        return sum(array.nbytes for array in arrays)

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Treatments of sinks whose lag statistics have to be taken again."""
        return tuple(sink for sink, part in self.parts.items() if part.moments is None)

    def lags(self, sink: str) -> LagPart | None:
        """Lag statistics under a treatment of sinks; None where they were not kept. ``first=1`` is ``mask``."""
        masked = masked_keys(sink)
        return next((part for own, part in self.parts.items() if masked_keys(own) == masked), None)

    def correlation(self, sink: str, modes: FloatArray, documents: IntArray) -> None:
        """None: the rows were not kept."""
        return None

    def sinks(self) -> Sinks | None:
        """Sinks of attention; scores, which are no shares of anything, have none."""
        return found_sinks(self.sums, self.largest_row, self.least_weight)

    def merged(self, other: HeadStatistics) -> HeadStatistics:
        """Statistics of the documents of both.

        Raises
        ------
        InputError
            Where they are of different fields or treat sinks differently.
        """
        if self.geometry != other.geometry or set(self.parts) != set(other.parts):
            raise InputError(
                f"Statistics of {_described(self)} and of {_described(other)} cannot be merged.",
                "Take both with the same context, max_lag and sinks.",
            )
        return HeadStatistics(
            self.geometry,
            {sink: part.merged(other.parts[sink]) for sink, part in self.parts.items()},
            self.field.merged(other.field, self.geometry),
            self.masses.merged(other.masses),
            self.sums.merged(other.sums),
            max(self.largest_row, other.largest_row),
            min(self.least_weight, other.least_weight),
        )


def _described(head: HeadStatistics) -> str:
    g = head.geometry
    kind = "causal" if g.causal else "two-sided"
    band = "" if g.max_lag is None else f", max_lag={g.max_lag}"
    return f"{g.queries} x {g.keys} ({kind}{band}; sinks: {', '.join(head.parts)})"


def head_statistics(
    field: LagField,
    groups: IntArray,
    sinks: Sequence[str],
    kind: str = "self",
    so_far: HeadStatistics | None = None,
    max_lag: int | None = None,
) -> HeadStatistics:
    """Statistics of the field of one head.

    Parameters
    ----------
    field : LagField
        One head.
    groups : int array, shape (document,)
        Group of each document.
    sinks : sequence of str
        Treatments of sinks for which lag statistics are taken.
    kind : {"self", "cross"}
        Cross attention has no lags.
    so_far : HeadStatistics, optional
        What these are to be merged with: only the queries that it has count, and what has to be taken again anyway is
        not taken.
    max_lag : int, optional
        Of the lag statistics.
    """
    parts = {}
    for sink in sinks:
        before = None if so_far is None else so_far.parts[sink]
        lost = before is not None and before.moments is None
        among = None if before is None else before.axis.queries
        parts[sink] = lag_part(field, groups, sink, kind, among, lost, max_lag)
    assert field.first_key is not None and field.row_sum is not None
    entropy = entropy_by_query(field.values[:, 0], field.geometry)
    masses = np.stack([field.first_key[:, 0], field.row_sum[:, 0], entropy], axis=1)
    return HeadStatistics(
        field.geometry,
        parts,
        field_moments(field.values[:, 0], field.geometry, groups),
        group_means(masses, groups),
        sink_sums(field.values[:, 0], field.geometry),
        float(field.row_sum.max()),
        float(field.first_key.min()),
    )


def lag_part(
    field: LagField,
    groups: IntArray,
    sink: str,
    kind: str,
    among: IntArray | None,
    lost: bool = False,
    max_lag: int | None = None,
) -> LagPart:
    """Lag statistics of the field of one head under one treatment of sinks.

    ``among``: the only queries that count, where documents that are not here leave out others. ``lost``: without the
    moments.
    """
    rows = no_rows(field, max_lag) if kind == "cross" else lag_rows(field, sink, max_lag, among=among)
    return LagPart(rows.axis, None if lost else lag_moments(rows.values, groups))


def entropy_by_query(values: FloatArray, geometry: LagGeometry) -> FloatArray:
    """``-sum_j A_ij ln A_ij`` over the keys that are kept, in nats, shape (document, query); NaN for scores."""
    with np.errstate(invalid="ignore"):
        terms = entr(values)
    terms = np.where(np.isfinite(terms), terms, np.nan)
    return np.stack([by_query(own.astype(np.float64), geometry) for own in terms])


def found_sinks(sums: SinkSums, largest_row: float, least_weight: float) -> Sinks | None:
    """Sinks of attention; None for scores, which are no shares of anything."""
    return None if largest_row > _LARGEST_ROW or least_weight < 0 else sums.found()


class FieldSource:
    """The same of a field at hand, each statistic taken when it is asked for.

    Parameters
    ----------
    field : LagField
        One head.
    groups : int array, shape (document,), or None
    max_lag : int, optional
    kind : {"self", "cross"}
        Cross attention has no lags.
    """

    def __init__(
        self, field: LagField, groups: IntArray | None, max_lag: int | None = None, kind: str = "self"
    ) -> None:
        assert field.first_key is not None and field.row_sum is not None
        self._field, self._groups, self._max_lag, self._kind = field, groups, max_lag, kind
        self._rows: dict[str, LagRows] = {}
        self.masses = group_means(np.stack([field.first_key[:, 0], field.row_sum[:, 0]], axis=1), groups)

    @property
    def geometry(self) -> LagGeometry:
        """Of the field."""
        return self._field.geometry

    @property
    def documents(self) -> int:
        """Number of documents."""
        return self._field.documents

    @property
    def field_ranks(self) -> int:
        """Most modes that the POD of the field can have."""
        return self._field.documents - 1

    def lags(self, sink: str) -> LagPart:
        """Lag statistics under a treatment of sinks."""
        rows = self._rows[sink] = (
            no_rows(self._field, self._max_lag) if self._kind == "cross" else lag_rows(self._field, sink, self._max_lag)
        )
        return LagPart(rows.axis, lag_moments(rows.values, self._groups))

    def correlation(self, sink: str, modes: FloatArray, documents: IntArray) -> FloatArray:
        """How far the rows of a document say the same along lag modes, shape (mode,)."""
        return row_correlation(np.tensordot(modes, self._rows[sink].values, axes=1)[:, documents])

    def sinks(self) -> Sinks | None:
        """Sinks of attention; scores, which are no shares of anything, have none."""
        row_sum, first_key = self._field.row_sum, self._field.first_key
        assert row_sum is not None and first_key is not None
        sums = sink_sums(self._field.values[:, 0], self.geometry)
        return found_sinks(sums, float(row_sum.max()), float(first_key.min()))
