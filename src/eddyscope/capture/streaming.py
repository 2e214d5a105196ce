"""Attention that is turned into statistics as it is read, a few documents at a time, so that no field is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eddyscope.capture.batches import batch_size
from eddyscope.capture.checks import Check, Verdict
from eddyscope.capture.options import Options
from eddyscope.capture.session import Progress, Session, opened
from eddyscope.capture.shards import Sharding, bytes_a_document, stored_layers
from eddyscope.lagfield import IntArray, LagField
from eddyscope.statistics import AttentionStatistics, checked_sinks, collect
from eddyscope.study.headstats import HeadStatistics
from eddyscope.trust.jackknife import GROUPS


def stream(
    model: Any, documents: Any, options: Options, sinks: Sequence[str], progress: Progress | None = None
) -> AttentionStatistics:
    """Capture a model into statistics; see :func:`eddyscope.capture.capture`."""
    sinks = checked_sinks(sinks)
    with opened(model, documents, options) as session:
        stream_of = _Stream(session, progress)
        kinds = {name: layer.info.kind for name, layer in session.layers.items()}
        # Rows of value-weighted attention sum to anything, so no mass could be restored to them.
        found = collect(stream_of.shards, kinds, taken_sinks(session, sinks))
    return assembled(session, found, stream_of.groups, np.flatnonzero(stream_of.kept), sinks)


def taken_sinks(session: Session, sinks: Sequence[str]) -> tuple[str, ...]:
    """Rows of value-weighted attention sum to anything, so no mass could be restored to them."""
    return ("keep",) if session.value_weighted else tuple(sinks)


def assembled(
    session: Session,
    found: Mapping[str, Mapping[str, HeadStatistics]],
    groups: IntArray,
    kept: IntArray,
    sinks: Sequence[str],
) -> AttentionStatistics:
    """The statistics of a session that has ended, with their provenance.

    Parameters
    ----------
    session : Session
    found : mapping of str to mapping of str to HeadStatistics
    groups : int array, shape (document,)
        Of all documents.
    kept : int array
        Documents without NaN or Inf.
    sinks : sequence of str
    """
    dropped = session.dropped(kept)
    read = session.reading.documents
    if dropped and read is not None:
        read = read.select(kept)
    info = {name: layer.info for name, layer in session.layers.items()}
    provenance = {**session.provenance(dropped), "keep": "statistics", "sinks": list(sinks)}
    return AttentionStatistics(found, info, groups[kept], read, provenance)


def groups_of(session: Session) -> IntArray:
    """Jackknife group of each document, known before it is read."""
    known, count = session.reading.documents, session.reading.count
    if known is not None:
        return known.groups(GROUPS)
    return np.arange(count, dtype=np.int64) * min(GROUPS, count) // count


def shard_size(session: Session) -> int:
    """Documents that are read and turned into statistics at a time, a whole number of batches."""
    heads = max(layer.info.query_heads for layer in session.layers.values())
    batch = batch_size(session.options.batch, heads, session.reading.longest, session.source.device)
    size = bytes_a_document(stored_layers(session), session.options.dtype)
    return Sharding.of(None, batch, session.options.batch is not None, size, session.reading.count).shard


class Worst:
    """The worst of each check of many shards, in the verdict of a session, as there may be many shards."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict, self._before = verdict, len(verdict.checks)
        self._worst: dict[tuple[str, str | None, str], Check] = {}

    def fold(self, found: Sequence[Check] | None = None) -> None:
        """Take checks into account: those that were given, or those that were added to the verdict."""
        checks = self._verdict.checks
        for check in checks[self._before :] if found is None else found:
            key = (check.check, check.layer, check.note)
            known = self._worst.setdefault(key, check)
            if (known.passed, -known.value) > (check.passed, -check.value):
                self._worst[key] = check
        checks[self._before :] = self._worst.values()


class _Stream:
    """The fields of all documents, shard by shard.

    Attributes
    ----------
    groups : int array, shape (document,)
        Jackknife group of each document, known before it is read.
    kept : bool array, shape (document,)
        Documents without NaN or Inf.
    """

    def __init__(self, session: Session, progress: Progress | None) -> None:
        self.session, self.progress = session, progress
        self.count = session.reading.count
        self.groups = groups_of(session)
        self.kept = np.zeros(self.count, dtype=bool)
        self.size = shard_size(session)
        self._stores = session.stores(self.size)  # used for every shard, so that memory does not creep up
        self._passes = 0

    def shards(self) -> Iterator[tuple[Mapping[str, LagField], IntArray]]:
        """Fields of some documents at a time, with the group of each; checked when they are read first."""
        self._passes += 1
        given, done = self.session.options, 0
        if self._passes > 1:
            self.session.options = replace(given, checks=False)
        worst = Worst(self.session.verdict)
        try:
            for start in range(0, self.count, self.size):
                index = np.arange(start, min(self.count, start + self.size))
                fields, kept = self.session.fields(index, self._report(done), self._stores)
                worst.fold()
                done += index.size
                self.kept[kept] = True
                if kept.size:
                    yield fields, self.groups[kept]
        finally:
            self.session.options = given

    def _report(self, done: int) -> Progress:
        def report(within: int, _: int) -> None:
            if self.progress is not None:
                self.progress(done + within, self.count)

        return report
