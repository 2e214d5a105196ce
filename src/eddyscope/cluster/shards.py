"""A capture to disk on a cluster: workers write the shards, and their numbers are all that travels back."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from eddyscope.capture import load_model
from eddyscope.capture.options import Options
from eddyscope.capture.session import Progress, Session
from eddyscope.capture.shards import capture_to_store
from eddyscope.cluster.address import checked
from eddyscope.cluster.engine import Engine, connected
from eddyscope.cluster.flow import flow
from eddyscope.cluster.handing import shard_of, take
from eddyscope.cluster.job import job_of
from eddyscope.cluster.models import Passage, passage_of
from eddyscope.cluster.work import Shard, shard_to_store
from eddyscope.fieldplace import check_free
from eddyscope.fieldstore import FieldStore


def capture_to_store_on(
    model: Any, documents: Any, path: str | Path, options: Options, workers: int | None, dask: Any, **given: Any
) -> FieldStore:
    """Capture a model to disk on a cluster; see :func:`eddyscope.capture.capture_fields`."""
    checked(workers, dask)
    check_free(Path(path).absolute(), given["force"], given["resume"])
    model = load_model(model)[0] if isinstance(model, str) else model
    with connected(workers, dask) as engine:
        passage, content = passage_of(model, engine)
        write = partial(_write_shards, engine, passage, content)
        return capture_to_store(model, documents, path, options, **given, write=write)


def _write_shards(
    engine: Engine, passage: Passage, content: Any, session: Session, store: FieldStore, progress: Progress | None
) -> None:
    """Let workers capture the shards that are missing."""
    missing, count = store.missing, session.reading.count
    done = sum(len(store.documents_of(number)) for number in store.whole)
    if not missing:
        return
    given = session.options
    session.options = replace(given, batch=store.provenance["shards"]["batch"])
    try:
        job = job_of(session, passage, uuid.uuid4().hex)
    finally:
        session.options = given
    place, failed, said = str(store.path.absolute()), len(session.verdict.failed), set[str]()

    def shards() -> Iterator[Shard]:
        for number in missing:
            yield shard_of(session, number, store.documents_of(number))

    def submit(shard: Shard) -> list[tuple[Any, int]]:
        return [(engine.submit(shard_to_store, job, content, shard, place, store.capture), shard.reading.count)]

    for size, outcome in flow(engine, shards(), submit):
        receipt = outcome.unwrap()
        take(session, receipt, said)
        session.verdict.checks += [check for check in receipt.checks if not check.passed]
        done += size
        if progress is not None:
            progress(done, count)
    store.clear_partial()  # what workers that were lost left
    if len(session.verdict.failed) > failed:
        session.verdict.warn()
