"""What a worker keeps between tasks: the model, loaded once, and the session of the job that it works on."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from eddyscope.capture.batches import Reading
from eddyscope.capture.checks import Verdict
from eddyscope.capture.glance import Glance
from eddyscope.capture.inputs import InputReading
from eddyscope.capture.probing import is_half
from eddyscope.capture.reduce import LayerStore
from eddyscope.capture.session import Layer, Session, opened
from eddyscope.cluster.job import Job, Part, arrived, signature
from eddyscope.cluster.models import Passage
from eddyscope.errors import CaptureError
from eddyscope.lagfield import FloatArray, IntArray

#: How far what a worker reads may be from what is read by the caller, in single and in half precision.
AGREE = (1e-3, 5e-2)


class Desk:
    """The model and the session of one process.

    Attributes
    ----------
    lock : Lock
        To be held while the session is used: a model reads for one thread at a time.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._model: tuple[str, Any] | None = None
        self._job: tuple[str, Session] | None = None
        self._stores: dict[str, LayerStore] = {}
        self._open = ExitStack()

    def session(self, job: Job, content: bytes | None, reading: Reading, index: IntArray) -> Session:
        """A session for the documents of a shard.

        Parameters
        ----------
        job : Job
        content : bytes, optional
            The model, where it was sent.
        reading : Reading
            Of these documents alone.
        index : int array
            Their numbers in the whole, ascending.

        Raises
        ------
        CaptureError
            Where the model cannot be loaded, or is not the one that the caller has.
        """
        if self._job is None or self._job[0] != job.key:
            self._clear()
            self._job = (job.key, self._opened(job, content))
        verdict = Verdict(job.options.allow_failed_checks)
        part = Part.of(arrived(reading), index)
        return replace(self._job[1], reading=part, options=job.options, verdict=verdict, glance=Glance())

    def stores(self, session: Session, count: int) -> dict[str, LayerStore]:
        """Arrays for the fields of so many documents, used again and again, so that memory does not creep up."""
        there = min((store.values.shape[0] for store in self._stores.values()), default=0)
        if there < count:
            self._stores = session.stores(count)
        return self._stores

    def _opened(self, job: Job, content: bytes | None) -> Session:
        """The session of a job: the layers found and checked again, and compared with what the caller found."""
        model = self._loaded(job.passage, content)
        session = self._open.enter_context(opened(model, _documents(job.first), job.options))
        # Heads at a glance, which a session would look at when it ends, are seen to by the caller.
        session.options = replace(job.options, checks=False)
        missing = [name for name in job.layers if name not in session.layers]
        if missing:
            raise CaptureError(f"A worker finds no layer '{missing[0]}' in {job.passage.described}.", _REMEDY)
        layers = {
            name: Layer(layer.info, session.layers[name].site, layer.geometry.causal, layer.geometry)
            for name, layer in job.layers.items()
        }
        own = replace(session, layers=layers, reading=arrived(job.first))
        if job.signature:
            _expect_same(job, signature(own, np.zeros(1, dtype=np.int64)), is_half(session.source))
        return own

    def _loaded(self, passage: Passage, content: bytes | None) -> Any:
        if self._model is None or self._model[0] != passage.fingerprint:
            self._model = None  # before the next is loaded, so that never two are held
            self._model = (passage.fingerprint, passage.load(content))
        return self._model[1]

    def _clear(self) -> None:
        """Leave the session of the job before, whose model goes back to where it came from."""
        self._job, self._stores = None, {}
        before, self._open = self._open, ExitStack()
        before.close()


#: Of this process.
DESK = Desk()

_REMEDY = "Was the model changed after it was loaded, or has the worker other versions of libraries?"


def _documents(reading: Reading) -> Any:
    """What :func:`opened` takes for a reading."""
    return reading.arrays if isinstance(reading, InputReading) else np.stack(arrived(reading).tokens)


def _expect_same(job: Job, found: Mapping[str, FloatArray], half: bool) -> None:
    """What the worker reads of a document is what the caller reads: the same model, not its name and weights alone."""
    tolerance = AGREE[half or job.options.dtype == "float16"]
    for name, theirs in job.signature.items():
        if not found or not np.allclose(found[name], theirs, rtol=tolerance, atol=1e-6):
            raise CaptureError(
                f"A worker reads other attention in layer '{name}' of {job.passage.described} than its caller.", _REMEDY
            )
