"""What runs on workers: the capture of a shard to disk or into statistics, and the merging of statistics."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from eddyscope.capture.batches import Reading
from eddyscope.capture.session import Session, versions
from eddyscope.cluster.desk import DESK
from eddyscope.cluster.job import Job, Receipt, glance_of
from eddyscope.cluster.outcome import Outcome, attempt
from eddyscope.errors import StoreError
from eddyscope.fieldplace import open_fields
from eddyscope.lagfield import IntArray, LagField
from eddyscope.study.headstats import HeadStatistics, LagPart, head_statistics, lag_part

#: Statistics by layer and head.
Statistics = dict[str, dict[str, HeadStatistics]]
#: Lag statistics by layer, head and treatment of sinks.
Parts = dict[tuple[str, str, str], LagPart]


@dataclass(frozen=True)
class Shard:
    """Documents that a task reads.

    Parameters
    ----------
    number : int
    index : int array, shape (document,)
        Their numbers in the whole, ascending.
    count : int
        Documents of the whole.
    reading : Reading
        Of these documents alone.
    groups : int array, shape (document,), optional
        Jackknife group of each.
    """

    number: int
    index: IntArray
    count: int
    reading: Reading
    groups: IntArray | None = None

    def groups_of(self, kept: IntArray) -> IntArray:
        """Groups of some of them."""
        assert self.groups is not None
        return self.groups[np.searchsorted(self.index, kept)]


@attempt
def shard_to_store(job: Job, content: bytes | None, shard: Shard, place: str, capture: str) -> Receipt:
    """Capture a shard and write it into its place; nothing but a receipt travels back.

    Parameters
    ----------
    job : Job
    content : bytes, optional
        The model, where it was sent.
    shard : Shard
    place : str
        Of the store, which must be the same for all workers.
    capture : str
        Digest of the capture that the store was begun with.
    """
    with DESK.lock:
        store = _same_store(place, capture)
        started = time.perf_counter()
        session, fields, kept = _read(job, content, shard)
        receipt = _receipt(session, shard, kept)
        record = {
            "checks": [asdict(check) for check in receipt.checks],
            "seconds": round(time.perf_counter() - started, 3),
            "device": receipt.place["device"],
            "threads": receipt.place["threads"],
        }
        store.write_shard(shard.number, fields, kept, record)
        return receipt


@attempt
def shard_statistics(
    job: Job, content: bytes | None, shard: Shard, sinks: Sequence[str]
) -> tuple[Receipt, Statistics | None]:
    """Capture a shard into statistics, which stay on the worker until they are merged; None without good documents."""
    with DESK.lock:
        session, fields, kept = _read(job, content, shard)
        found: Statistics | None = None
        if kept.size:
            groups, kinds = shard.groups_of(kept), _kinds(session)
            found = {
                name: {
                    label: head_statistics(own.select_head(label), groups, sinks, kinds[name]) for label in own.heads
                }
                for name, own in fields.items()
            }
        return _receipt(session, shard, kept), found


@attempt
def shard_again(
    job: Job, content: bytes | None, shard: Shard, queries: Mapping[tuple[str, str, str], IntArray]
) -> tuple[Receipt, Parts | None]:
    """Lag statistics of a shard among these queries alone, where other documents have left out some."""
    with DESK.lock:
        session, fields, kept = _read(job, content, shard)
        parts: Parts | None = None
        if kept.size:
            groups, kinds = shard.groups_of(kept), _kinds(session)
            parts = {
                (name, label, sink): lag_part(fields[name].select_head(label), groups, sink, kinds[name], among)
                for (name, label, sink), among in queries.items()
            }
        return _receipt(session, shard, kept), parts


def receipt_of(shard: Outcome) -> Outcome:
    """What of a shard's statistics travels to the caller at once."""
    return shard if shard.error is not None else Outcome(shard.value[0], warnings=shard.warnings)


def statistics_of(shard: Outcome) -> Outcome:
    """What of a shard's statistics is merged."""
    return shard.of(None) if shard.error is not None else shard.of(shard.value[1])


@attempt
def merged(first: Outcome, second: Outcome) -> Any:
    """Statistics of the documents of both; nothing and something is something."""
    one, other = first.value, second.value
    if one is None or other is None:
        return other if one is None else one
    return {key: _merged(value, other[key]) for key, value in one.items()}


def _merged(one: Any, other: Any) -> Any:
    if isinstance(one, Mapping):
        return {label: head.merged(other[label]) for label, head in one.items()}
    return one.merged(other)


def _read(job: Job, content: bytes | None, shard: Shard) -> tuple[Session, dict[str, LagField], IntArray]:
    session = DESK.session(job, content, shard.reading, shard.index)
    fields, kept = session.fields(shard.index, None, DESK.stores(session, shard.reading.count))
    return session, fields, kept


def _receipt(session: Session, shard: Shard, kept: IntArray) -> Receipt:
    place = {"device": session.device, "threads": torch.get_num_threads(), "versions": versions()}
    return Receipt(kept, tuple(session.verdict.checks), place, glance_of(session, shard.count))


def _kinds(session: Session) -> dict[str, str]:
    """``self`` or ``cross``, by layer; value-weighted attention is never masked, which the caller sees to."""
    return {name: layer.info.kind for name, layer in session.layers.items()}


def _same_store(place: str, capture: str) -> Any:
    """The store that the caller began; StoreError where this worker sees none, or another one."""
    try:
        store = open_fields(place)
    except StoreError as error:
        raise StoreError(
            f"A worker does not see the store '{place}' that was begun for it: {error.message}",
            "Put it in a folder that all workers share.",
        ) from error
    if store.capture != capture:
        raise StoreError(f"A worker sees another store at '{place}' than its caller.", "Is the folder a shared one?")
    return store
