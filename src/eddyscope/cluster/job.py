"""A capture as a job: all that a worker has to know of it, beside the documents of the shard that it is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch

from eddyscope.capture.batches import Reading, batch_size
from eddyscope.capture.checks import Check
from eddyscope.capture.glance import Glance
from eddyscope.capture.inputs import InputReading
from eddyscope.capture.options import Options
from eddyscope.capture.session import Session
from eddyscope.capture.shards import stored_layers
from eddyscope.capture.source import Inputs
from eddyscope.cluster.models import Passage
from eddyscope.fieldstore import StoredLayer
from eddyscope.kernels.headmeasures import DOCUMENTS, HeadSums
from eddyscope.lagfield import FloatArray, IntArray, LagField


@dataclass(frozen=True)
class Job:
    """A capture that workers take part in.

    Parameters
    ----------
    key : str
        One for each capture.
    passage : Passage
        How the model gets to a worker.
    options : Options
        With the batch and the way that were found here.
    first : Reading
        A document by which a worker finds and checks the layers.
    layers : mapping of str to StoredLayer
        What is to be captured, as it was found here.
    signature : mapping of str to array
        What that document gives here, see :func:`signature`; empty where it has NaN.
    """

    key: str
    passage: Passage
    options: Options
    first: Reading
    layers: Mapping[str, StoredLayer]
    signature: Mapping[str, FloatArray]


@dataclass(frozen=True)
class Receipt:
    """What a shard says of its capture, beside its fields.

    Parameters
    ----------
    kept : int array, shape (document,)
        Its documents without NaN or Inf.
    checks : tuple of Check
    place : mapping
        ``device``, ``threads`` and ``versions`` of the worker.
    glance : mapping of str to HeadSums, optional
        Where the shard has all documents that are looked at.
    """

    kept: IntArray
    checks: tuple[Check, ...]
    place: Mapping[str, Any]
    glance: Mapping[str, HeadSums] | None = None


def job_of(session: Session, passage: Passage, key: str) -> Job:
    """The job of a session that was opened here; lets the model read a document, to be compared on the workers."""
    reading = session.reading
    heads = max(layer.info.query_heads for layer in session.layers.values())
    batch = batch_size(session.options.batch, heads, reading.longest, session.source.device)
    options = replace(session.options, batch=batch)
    if session.source.way in session.source.ways:
        options = replace(options, way=session.source.way)
    index, found = np.zeros(1, dtype=np.int64), {}
    for document in range(min(DOCUMENTS, reading.count)):  # the first that is good, where there are bad ones
        index = np.array([document])
        found = signature(session, index)
        if found:
            break
    session.glance = Glance()  # what was read for this is read again, by a worker
    return Job(key, passage, options, sent(reading, index), stored_layers(session), found)


def signature(session: Session, index: IntArray) -> dict[str, FloatArray]:
    """Energy and mean lag of each head of each layer, shape (head, 2), of some documents; empty where they have NaN."""
    stores = session.stores(len(index))
    before = session.options
    session.options = replace(before, drop_bad=True)
    try:
        session.read(index, stores)
    finally:
        session.options = before
    found = {name: _measures(store.field()) for name, store in stores.items()}
    return found if all(np.isfinite(x).all() for x in found.values()) else {}


def _measures(field: LagField) -> FloatArray:
    values = field.values.astype(np.float64)
    lags = np.abs(field.geometry.entry_lag).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        energy = np.sqrt((values**2).sum(axis=(0, 2)))
        return np.stack([energy, (values @ lags).sum(axis=0) / values.sum(axis=(0, 2))], axis=1)


def sent(reading: Reading, index: IntArray) -> Reading:
    """Some documents as they travel: what the model takes alone, token ids in the fewest bytes."""
    if isinstance(reading, InputReading):
        chosen = torch.from_numpy(np.asarray(index))
        return replace(reading, arrays={name: value[chosen] for name, value in reading.arrays.items()})
    tokens = tuple(reading.tokens[i] for i in index)
    kind = np.min_scalar_type(max(int(t.max()) for t in tokens))
    return replace(reading, tokens=tuple(t.astype(kind) for t in tokens), documents=None, padding=0)


def arrived(reading: Reading) -> Reading:
    """The documents as a model reads them."""
    if isinstance(reading, InputReading):
        return reading
    return replace(reading, tokens=tuple(t.astype(np.int64) for t in reading.tokens))


class Part:
    """A reading of some documents that go by their numbers in the whole.

    Parameters
    ----------
    reading : Reading
        Of these documents alone.
    index : int array, shape (document,)
        Their numbers, ascending.
    """

    def __init__(self, reading: Reading, index: IntArray) -> None:
        self.reading, self.index = reading, index

    def __getattr__(self, name: str) -> Any:
        """Everything else is as in the reading."""
        return getattr(self.reading, name)

    @classmethod
    def of(cls, reading: Reading, index: IntArray) -> Reading:
        """The part, as the reading that it stands for."""
        return cast(Reading, cls(reading, index))

    def inputs(self, index: IntArray, device: torch.device) -> Inputs:
        """What the model takes for some of them."""
        return self.reading.inputs(np.searchsorted(self.index, index), device)

    def batches(self, size: int, index: IntArray) -> Iterator[IntArray]:
        """Those that are read together."""
        for batch in self.reading.batches(size, np.searchsorted(self.index, index)):
            yield self.index[batch]


def glance_of(session: Session, count: int) -> Mapping[str, HeadSums] | None:
    """What was seen of the first documents, where they are all in this shard."""
    return session.glance.sums if session.glance.seen >= set(range(min(DOCUMENTS, count))) else None
