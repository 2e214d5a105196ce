"""Blocks of Grams as tasks: each pair of blocks of documents is one, and reads these documents alone."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eddyscope.cluster.engine import Engine
from eddyscope.cluster.flow import flow
from eddyscope.cluster.outcome import attempt
from eddyscope.fieldplace import open_fields
from eddyscope.kernels.gramblocks import gram_block
from eddyscope.lagfield import BoolArray, FloatArray, LagField, LagGeometry
from eddyscope.study.blockpasses import Snapshots

#: Blocks of documents that a worker keeps for the tasks that follow.
_KEPT = 2


class StoredHead:
    """The field of one head of a layer on disk, of which some documents can be read.

    Parameters
    ----------
    place : str
        Of the store.
    layer, label : str
    """

    def __init__(self, place: str, layer: str, label: str) -> None:
        self._store, self._layer, self._label = open_fields(place), layer, label
        self._ends = np.cumsum(self._store.counts())
        self.geometry: LagGeometry = self._store.layers[layer].geometry
        self.documents = int(self._ends[-1])
        self.dtype: np.dtype[Any] = np.dtype(self._store.provenance["options"]["dtype"])

    def read(self, documents: slice) -> LagField:
        """The field of some documents that follow each other, from the shards that hold them."""
        start, stop, _ = documents.indices(self.documents)
        parts = []
        for shard in range(int(np.searchsorted(self._ends, start, "right")), self._ends.size):
            begin = int(self._ends[shard - 1]) if shard else 0
            if begin >= stop:
                break
            own = self._store.read_shard(shard, [self._layer])[0][self._layer].select_head(self._label)
            parts.append(own.select_documents(slice(max(0, start - begin), stop - begin)))
        return _joined(parts)


@dataclass(frozen=True)
class GramJob:
    """What a worker has to know to form blocks of the Grams of one head.

    Parameters
    ----------
    run : str
        One for each analysis: another store may stand in the same place later.
    place, layer, label : str
        See :class:`StoredHead`.
    sink : str
    usable : bool array, or None
        See :class:`~eddyscope.study.blockpasses.Snapshots`.
    weights : array, shape (window, lag)
    min_query : int
    mean : array, shape (entry,)
    """

    run: str
    place: str
    layer: str
    label: str
    sink: str
    usable: BoolArray | None
    weights: FloatArray
    min_query: int
    mean: FloatArray

    @property
    def key(self) -> tuple[str, ...]:
        """By which workers know snapshots that they have read."""
        return (self.run, self.place, self.layer, self.label, self.sink)


class GramsOn:
    """Forms the Grams of one layer of a store on a cluster.

    Parameters
    ----------
    engine : Engine
    place : str
        Of the store.
    layer : str
    """

    def __init__(self, engine: Engine, place: str, layer: str) -> None:
        self._engine, self._place, self._layer = engine, place, layer
        self._run = uuid.uuid4().hex

    def __call__(
        self, snapshots: Snapshots, weights: FloatArray, min_query: int, mean: FloatArray, tiles: Sequence[slice]
    ) -> Iterator[tuple[int, int, FloatArray]]:
        """Blocks in the order of their numbers, whatever the order in which workers form them."""
        label = snapshots.field.read(slice(0, 1)).heads[0]
        known = (self._place, self._layer, label, snapshots.sink, snapshots.usable)
        job = GramJob(self._run, *known, weights, min_query, mean)
        pairs = [(i, j) for i in range(len(tiles)) for j in range(i, len(tiles))]

        def submit(number: int) -> list[tuple[Any, int]]:
            i, j = pairs[number]
            return [(self._engine.submit(block_of, job, tiles[i], tiles[j]), number)]

        early: dict[int, FloatArray] = {}
        following = 0
        for number, outcome in flow(self._engine, range(len(pairs)), submit):
            early[number] = outcome.unwrap()
            while following in early:  # sums over blocks depend on their order
                yield (*pairs[following], early.pop(following))
                following += 1


@attempt
def block_of(job: GramJob, i: slice, j: slice) -> FloatArray:
    """Inner products of two blocks of documents, shape (window, document of i, document of j), on a worker."""
    mine = _SHELF.read(job, i)
    theirs = mine if i == j else _SHELF.read(job, j)
    return gram_block(mine, theirs, _SHELF.field(job).geometry, job.weights, job.min_query, job.mean)


class _Shelf:
    """Blocks of documents that a worker has read lately."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fields: dict[tuple[str, ...], StoredHead] = {}
        self._blocks: OrderedDict[tuple[Any, ...], FloatArray] = OrderedDict()

    def field(self, job: GramJob) -> StoredHead:
        if job.key not in self._fields:
            self._fields = {job.key: StoredHead(job.place, job.layer, job.label)}
        return self._fields[job.key]

    def read(self, job: GramJob, documents: slice) -> FloatArray:
        key = (*job.key, documents.start, documents.stop)
        with self._lock:
            if key in self._blocks:
                self._blocks.move_to_end(key)
                return self._blocks[key]
            while len(self._blocks) >= _KEPT:
                self._blocks.popitem(last=False)
            found = Snapshots(self.field(job), job.sink, job.usable).read(documents)
            self._blocks[key] = found
            return found


_SHELF = _Shelf()


def _joined(parts: list[LagField]) -> LagField:
    """The documents of all parts, in their order."""
    if len(parts) == 1:
        return parts[0]
    arrays = [np.concatenate([getattr(own, name) for own in parts]) for name in ("values", "first_key", "row_sum")]
    return LagField(arrays[0], parts[0].geometry, parts[0].heads, arrays[1], arrays[2])
