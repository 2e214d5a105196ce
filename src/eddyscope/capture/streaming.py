"""Attention that is turned into statistics as it is read, a few documents at a time, so that no field is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eddyscope.capture.batches import batch_size
from eddyscope.capture.checks import Check
from eddyscope.capture.options import Options
from eddyscope.capture.session import Progress, Session, opened
from eddyscope.capture.shards import Sharding, bytes_a_document, stored_layers
from eddyscope.lagfield import IntArray, LagField
from eddyscope.statistics import AttentionStatistics, checked_sinks, collect
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
        found = collect(stream_of.shards, kinds, ("keep",) if session.value_weighted else sinks)
    kept = np.flatnonzero(stream_of.kept)
    dropped = session.dropped(kept)
    read = session.reading.documents
    if dropped and read is not None:
        read = read.select(kept)
    info = {name: layer.info for name, layer in session.layers.items()}
    provenance = {**session.provenance(dropped), "keep": "statistics", "sinks": list(sinks)}
    return AttentionStatistics(found, info, stream_of.groups[kept], read, provenance)


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
        known = session.reading.documents
        everyone = np.arange(self.count, dtype=np.int64)
        self.groups: IntArray = (
            known.groups(GROUPS) if known is not None else everyone * min(GROUPS, self.count) // self.count
        )
        self.kept = np.zeros(self.count, dtype=bool)
        self.size = self._size()
        self._stores = session.stores(self.size)  # used for every shard, so that memory does not creep up
        self._passes = 0

    def _size(self) -> int:
        """Documents of a shard, a whole number of batches."""
        session = self.session
        heads = max(layer.info.query_heads for layer in session.layers.values())
        batch = batch_size(session.options.batch, heads, session.reading.longest, session.source.device)
        size = bytes_a_document(stored_layers(session), session.options.dtype)
        return Sharding.of(None, batch, session.options.batch is not None, size, self.count).shard

    def shards(self) -> Iterator[tuple[Mapping[str, LagField], IntArray]]:
        """Fields of some documents at a time, with the group of each; checked when they are read first."""
        self._passes += 1
        given, done = self.session.options, 0
        if self._passes > 1:
            self.session.options = replace(given, checks=False)
        before = len(self.session.verdict.checks)
        worst: dict[tuple[str, str | None, str], Check] = {}
        try:
            for start in range(0, self.count, self.size):
                index = np.arange(start, min(self.count, start + self.size))
                fields, kept = self.session.fields(index, self._report(done), self._stores)
                self._fold(worst, before)
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

    def _fold(self, worst: dict[tuple[str, str | None, str], Check], before: int) -> None:
        """Keep the worst of each check of the shards so far, as there may be many shards."""
        checks = self.session.verdict.checks
        for check in checks[before:]:
            key = (check.check, check.layer, check.note)
            known = worst.setdefault(key, check)
            if (known.passed, -known.value) > (check.passed, -check.value):
                worst[key] = check
        checks[before:] = worst.values()
