"""A capture into statistics on a cluster: a tree of merges, of which the top comes back to the caller.

Shards are merged on the workers in blocks of a few, each a small tree; the caller takes the blocks in their order. So
the result does not depend on the number of workers nor on who was quicker, and a worker that is lost costs the shards
of the blocks that it held, never all that came before.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eddyscope.capture.options import Options
from eddyscope.capture.origins import load_named
from eddyscope.capture.session import Progress, Session, opened
from eddyscope.capture.streaming import Worst, assembled, groups_of, shard_size, taken_sinks
from eddyscope.cluster.address import checked
from eddyscope.cluster.engine import Engine, connected
from eddyscope.cluster.flow import flow
from eddyscope.cluster.handing import shard_of, take
from eddyscope.cluster.job import Job, job_of
from eddyscope.cluster.models import passage_of
from eddyscope.cluster.outcome import Outcome
from eddyscope.cluster.work import (
    Shard,
    Statistics,
    merged,
    receipt_of,
    shard_again,
    shard_statistics,
    statistics_of,
)
from eddyscope.lagfield import IntArray
from eddyscope.plans import MERGED
from eddyscope.statistics import AttentionStatistics, checked_sinks


def stream_on(
    model: Any,
    documents: Any,
    options: Options,
    sinks: Sequence[str],
    workers: int | None,
    dask: Any,
    progress: Progress | None = None,
) -> AttentionStatistics:
    """Capture a model into statistics on a cluster; see :func:`eddyscope.capture.capture`."""
    checked(workers, dask)
    sinks = checked_sinks(sinks)
    model = load_named(model) if isinstance(model, str) else model
    with connected(workers, dask) as engine:
        passage, content = passage_of(model, engine)
        with opened(model, documents, options) as session:
            run = _Run(engine, session, job_of(session, passage, uuid.uuid4().hex), content, progress)
            found = run.statistics(taken_sinks(session, sinks))
        return assembled(session, found, run.groups, np.flatnonzero(run.kept), sinks)


class _Run:
    """One capture into statistics.

    Attributes
    ----------
    groups : int array, shape (document,)
        Jackknife group of each document.
    kept : bool array, shape (document,)
        Documents without NaN or Inf.
    """

    def __init__(self, engine: Engine, session: Session, job: Job, content: Any, progress: Progress | None) -> None:
        self.engine, self.session, self.job, self.content, self.progress = engine, session, job, content, progress
        self.count = session.reading.count
        self.groups = groups_of(session)
        self.kept = np.zeros(self.count, dtype=bool)
        self._size = shard_size(session)
        self._said: set[str] = set()

    def statistics(self, sinks: Sequence[str]) -> Statistics:
        """Statistics of all documents."""
        found: Statistics = self._pass(shard_statistics, tuple(sinks), Worst(self.session.verdict))
        if not self.kept.any():
            self.session.dropped(np.empty(0, dtype=np.int64))  # which is an error
        queries = {
            (name, label, sink): head.parts[sink].axis.queries
            for name, heads in found.items()
            for label, head in heads.items()
            for sink in head.incomplete
        }
        if queries:  # a late document left out a query that had been counted
            again = self._pass(shard_again, queries, None)
            for (name, label, sink), part in again.items():
                head = found[name][label]
                own = replace(head.parts[sink], moments=part.moments)
                found[name][label] = replace(head, parts={**head.parts, sink: own})
        return found

    def _pass(self, task: Callable[..., Outcome], asked: Any, worst: Worst | None) -> Any:
        """Let the cluster read all documents once; returns what a task gives of each shard, merged over all."""
        job = self.job if worst is not None else replace(self.job, options=replace(self.job.options, checks=False))
        tree, total, done = _Blocks(self.engine, -(-self.count // self._size)), _InOrder(), 0

        def submit(shard: Shard) -> Iterator[tuple[Any, Any]]:
            future = self.engine.submit(task, job, self.content, shard, asked)
            yield self.engine.submit(receipt_of, future, priority=2), shard
            block = tree.add(self.engine.submit(statistics_of, future, priority=1))
            if block is not None:
                yield block[1], block[0]

        for known, outcome in flow(self.engine, self._shards(), submit, spare=2 + MERGED):
            value = outcome.unwrap()
            if not isinstance(known, Shard):
                total.take(known, value)
                continue
            self.kept[value.kept] = True
            take(self.session, value, self._said)
            if worst is not None:
                worst.fold(value.checks)
            done += known.reading.count
            if self.progress is not None:
                self.progress(done, self.count)
        return total.value

    def _shards(self) -> Iterator[Shard]:
        for number, start in enumerate(range(0, self.count, self._size)):
            index: IntArray = np.arange(start, min(self.count, start + self._size), dtype=np.int64)
            yield shard_of(self.session, number, index, self.groups)


class _Blocks:
    """Puts the statistics of shards, which come in their order, together in blocks; each is a tree of merges."""

    def __init__(self, engine: Engine, shards: int) -> None:
        self._engine, self._left = engine, shards
        self._number, self._futures = 0, list[Any]()

    def add(self, future: Any) -> tuple[int, Any] | None:
        """Take the statistics of the next shard; number and future of its block where it is the last of that."""
        self._futures.append(future)
        self._left -= 1
        if self._left and len(self._futures) < MERGED:
            return None
        top = tree(self._futures, lambda one, other: self._engine.submit(merged, one, other, priority=1))
        number, self._number, self._futures = self._number, self._number + 1, []
        return number, top


class _InOrder:
    """Merges blocks in the order of their numbers, whatever the order in which they come."""

    def __init__(self) -> None:
        self.value: Any = None
        self._next, self._early = 0, dict[int, Any]()

    def take(self, number: int, value: Any) -> None:
        """Take a block."""
        self._early[number] = value
        while self._next in self._early:
            own = self._early.pop(self._next)
            self.value = merged(Outcome(self.value), Outcome(own)).unwrap()
            self._next += 1


def tree(parts: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Neighbours joined, and what comes of it joined again, until one is left."""
    level = list(parts)
    while len(level) > 1:
        pairs = [join(a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(level) - len(level) % 2 :]
    return level[0]
