"""A capture into statistics on a cluster: a tree of merges, of which the top comes back to the caller.

Shards are merged on the workers in blocks (of four, or more where there are very many), each a tree; the caller merges
the blocks by their order. So the result does not depend on the number of workers nor on who was quicker, and a worker
that is lost costs its shards of the blocks that were not complete, never all that came before.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eddyscope.capture.options import Options
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
from eddyscope.plans import BY_GROUP, merged_shards
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
        self._number = -(-self.count // self._size)
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
        tree, total, done = _Blocks(self.engine, self._number), _InOrder(), 0

        def submit(shard: Shard) -> Iterator[tuple[Any, Any]]:
            future = self.engine.submit(task, job, self.content, shard, asked)
            yield self.engine.submit(receipt_of, future, priority=2), shard
            block = tree.add(self.engine.submit(statistics_of, future, priority=1))
            if block is not None:
                yield block[1], block[0]

        for known, outcome in flow(self.engine, self._shards(), submit):
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
        return total.whole()

    def _shards(self) -> Iterator[Shard]:
        order: IntArray = np.arange(self.count, dtype=np.int64)
        if self._number >= BY_GROUP:
            order = np.argsort(self.groups, kind="stable").astype(np.int64)
        for number, start in enumerate(range(0, self.count, self._size)):
            yield shard_of(self.session, number, np.sort(order[start : start + self._size]), self.groups)


class Pairing:
    """Joins parts, which come in their order, as a tree does: two neighbours, two such pairs, and so on.

    At any time few parts are held, of sizes that are powers of 2 and fall.

    Parameters
    ----------
    join : callable
        Makes one of two neighbours.
    """

    def __init__(self, join: Callable[[Any, Any], Any]) -> None:
        self._join, self._held = join, list[tuple[int, Any]]()

    def add(self, part: Any) -> None:
        """Take the next part."""
        self._held.append((1, part))
        while len(self._held) > 1 and self._held[-1][0] == self._held[-2][0]:
            self._last_two()

    def whole(self) -> Any:
        """All parts joined; the next part begins anew."""
        while len(self._held) > 1:
            self._last_two()
        return self._held.pop()[1]

    def _last_two(self) -> None:
        (count, one), (more, other) = self._held[-2:]
        self._held[-2:] = [(count + more, self._join(one, other))]


class _Blocks:
    """Puts the statistics of shards, which come in their order, together in blocks, on the workers."""

    def __init__(self, engine: Engine, shards: int) -> None:
        self._size, self._shards = merged_shards(shards), shards
        self._taken, self._pairing = 0, Pairing(lambda one, other: engine.submit(merged, one, other, priority=1))

    def add(self, future: Any) -> tuple[int, Any] | None:
        """Take the statistics of the next shard; number and future of its block where it is the last of that."""
        self._pairing.add(future)
        self._taken += 1
        if self._taken % self._size and self._taken < self._shards:
            return None
        return (self._taken - 1) // self._size, self._pairing.whole()


class _InOrder:
    """Merges blocks here, by the order of their numbers, whatever the order in which they come."""

    def __init__(self) -> None:
        self._next, self._early = 0, dict[int, Any]()
        self._pairing = Pairing(lambda one, other: merged(Outcome(one), Outcome(other)).unwrap())

    def take(self, number: int, value: Any) -> None:
        """Take a block."""
        self._early[number] = value
        while self._next in self._early:
            self._pairing.add(self._early.pop(self._next))
            self._next += 1

    def whole(self) -> Any:
        """The statistics of all blocks."""
        return self._pairing.whole()
