"""A capture to disk, shard by shard, that goes on where it was interrupted."""

from __future__ import annotations

import hashlib
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from eddyscope.capture.batches import batch_size
from eddyscope.capture.options import Options, whole_number
from eddyscope.capture.session import Progress, Session, opened
from eddyscope.errors import EddyscopeWarning, StoreError, UsageError
from eddyscope.fieldplace import check_free, create_fields, is_fields, open_fields
from eddyscope.fieldstore import FieldStore, StoredLayer
from eddyscope.plans import size as in_words

#: Bytes of fields that a shard holds by default, and the most documents; small enough that a lost shard costs little.
SHARD_BYTES = 256 << 20
SHARD_DOCUMENTS = 64
#: Values of each weight that the fingerprint of a model looks at, spread over all of it.
_LOOKED_AT = 4096
#: What may differ between a capture and the one that goes on with it: names of places, and where and how it runs.
_FREE = {
    "model": ("name", "implementation"),
    "options": ("batch", "device", "memory_budget"),
}


#: Captures the shards of a store that are missing.
Writer = Callable[[Session, FieldStore, Progress | None], None]


@dataclass(frozen=True)
class Sharding:
    """How documents are split.

    Parameters
    ----------
    shard : int
        Documents of a shard.
    batch : int
        Documents that are read at a time.
    """

    shard: int
    batch: int

    @classmethod
    def of(cls, shard: int | None, batch: int, fixed: bool, bytes_a_document: int, count: int) -> Sharding:
        """As asked for; by default a whole number of batches of a moderate size, so that shards change no batch.

        Parameters
        ----------
        shard : int or None
            What was asked for.
        batch : int
            Documents that would be read at a time.
        fixed : bool
            Whether the batch was asked for, so that shards have to make room for it.
        bytes_a_document : int
            Size of the fields of one document.
        count : int
            Number of documents.
        """
        if shard is None:
            shard = max(1, min(SHARD_DOCUMENTS, SHARD_BYTES // max(1, bytes_a_document)))
            shard = max(batch, shard) if fixed else shard
            shard -= shard % batch if shard > batch else 0
        return cls(min(shard, count), min(batch, shard, count))


def capture_to_store(
    model: Any,
    documents: Any,
    path: str | Path,
    options: Options,
    *,
    shard: int | None = None,
    resume: bool = False,
    force: bool = False,
    budget: int | str | None = None,
    progress: Progress | None = None,
    write: Writer | None = None,
) -> FieldStore:
    """Capture a model to disk; see :func:`eddyscope.capture.capture_fields`.

    ``write`` captures the shards that are missing; by default this process does.
    """
    shard = whole_number("shard", shard, "document")
    if resume and force:
        raise UsageError("resume and force were both given: a store is either gone on with or replaced.")
    target = Path(path).absolute()
    check_free(target, force, resume)
    begun = not (resume and is_fields(target))
    if not begun and options.way == "auto":  # as a budget may have chosen it
        options = replace(options, way=open_fields(path).provenance["options"]["way"])
    elif begun and budget is not None:
        from eddyscope.capture.planning import prepared

        plan, options = prepared(model, documents, options, "store", shard=shard, budget=budget)
        shard = plan.work.shard
    with opened(model, documents, options) as session:
        store = _begin(session, path, shard, force) if begun else _go_on(session, path, shard)
        try:
            (write or write_shards)(session, store, progress)
            session.dropped(store.kept())
        except BaseException:
            if begun and not store.kept().size:
                shutil.rmtree(target, ignore_errors=True)
            raise
    store.finish({"heads": session.at_a_glance})
    return store


def fingerprint(model: nn.Module) -> str:
    """Digest of names, shapes and types of all weights, and of some thousand values of each.

    Another training step changes nearly all values, so that looking at some tells models apart, at the price of
    reading a small part of a large model.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        flat = tensor.detach().flatten()
        some = flat[:: max(1, flat.numel() // _LOOKED_AT)].contiguous().cpu()
        digest.update(some.view(torch.uint8).numpy().tobytes() if some.numel() else b"")
    return digest.hexdigest()


def stored_layers(session: Session) -> dict[str, StoredLayer]:
    """What the store has to know of the layers of a session."""
    return {
        name: StoredLayer(layer.info, layer.geometry, session.heads.labels(layer.info.query_heads))
        for name, layer in session.layers.items()
    }


def bytes_a_document(layers: Mapping[str, StoredLayer], dtype: str) -> int:
    """Bytes of the fields of one document in all layers, uncompressed."""
    item = np.dtype(dtype).itemsize
    return sum(len(x.heads) * (x.geometry.size * item + 8 * x.geometry.queries) for x in layers.values())


def _begin(session: Session, path: str | Path, shard: int | None, force: bool) -> FieldStore:
    """A new store without shards."""
    layers, options = stored_layers(session), session.options
    heads = max(layer.info.query_heads for layer in session.layers.values())
    batch = batch_size(options.batch, heads, session.reading.longest, session.source.device)
    size = bytes_a_document(layers, options.dtype)
    sharding = Sharding.of(shard, batch, options.batch is not None, size, session.reading.count)
    _warn_of_space(Path(path), size * session.reading.count)
    provenance = session.provenance([])
    provenance.pop("seconds")
    provenance["shards"] = {"documents": sharding.shard, "batch": sharding.batch}
    provenance["fingerprint"] = _fingerprints(session)
    documents = session.reading.documents
    return create_fields(path, layers, documents, session.reading.count, sharding.shard, provenance, force=force)


def _warn_of_space(path: Path, needed: int) -> None:
    """Say so where the disk may not hold all: a warning, as fields are compressed and room can be made meanwhile."""
    place = next(parent for parent in (path.absolute(), *path.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        message = (
            f"The store takes up to {in_words(needed)}, and {in_words(free)} are free at '{place}'. Where it ends "
            "before its time, make room and go on with resume=True (--resume)."
        )
        warnings.warn(EddyscopeWarning(message, "little-space"), stacklevel=6)


def _go_on(session: Session, path: str | Path, shard: int | None) -> FieldStore:
    """The store that is there, after it was compared with what is to be captured now."""
    store = open_fields(path)
    batch = session.options.batch
    found = list(_differences(session, store))
    for name, given, stored in (("shard", shard, store.size), ("batch", batch, store.provenance["shards"]["batch"])):
        if given is not None and given != stored:
            found.append(f"{name} is {given}, was {stored}")
    if found:
        more = f"; {len(found) - 3} more differ" if len(found) > 3 else ""
        raise StoreError(
            f"The store '{path}' was begun with something else: {'; '.join(found[:3])}{more}.",
            "Go on with what it was begun with, choose another name, or replace it with force=True (--force).",
        )
    _warn_of_other_machine(session, store)
    store.clear_partial()
    for number, error in store.verify().items():
        warnings.warn(
            EddyscopeWarning(f"Shard {number} is captured again: {error.message}", "damaged-shard"), stacklevel=5
        )
        store.remove_shard(number)
    return store


def write_shards(session: Session, store: FieldStore, progress: Progress | None) -> None:
    """Capture the shards that are missing."""
    given = session.options
    session.options = replace(given, batch=store.provenance["shards"]["batch"])
    failed = len(session.verdict.failed)
    count = session.reading.count
    done = sum(len(store.documents_of(number)) for number in store.whole)
    missing = store.missing
    stores = session.stores(len(store.documents_of(missing[0]))) if missing else {}
    try:
        for number in missing:
            index = store.documents_of(number)
            started, before = time.perf_counter(), len(session.verdict.checks)

            def report(within: int, _: int, done: int = done) -> None:
                if progress is not None:
                    progress(done + within, count)

            fields, kept = session.fields(index, report, stores)
            record = {
                "checks": [asdict(check) for check in session.verdict.checks[before:]],
                "seconds": round(time.perf_counter() - started, 3),
                "device": session.device,
                "threads": torch.get_num_threads(),
            }
            store.write_shard(number, fields, kept, record)
            # Those that passed are in the record; a capture of many shards would carry them all to its end.
            session.verdict.checks[before:] = [c for c in session.verdict.checks[before:] if not c.passed]
            done += len(index)
    finally:
        session.options = given
    if len(session.verdict.failed) > failed:
        session.verdict.warn()


def _fingerprints(session: Session) -> dict[str, str]:
    digest = hashlib.sha256()
    for document in range(session.reading.count):
        inputs = session.reading.inputs(np.array([document]), torch.device("cpu"))
        for name, value in sorted(inputs.items()):
            digest.update(f"{name} {tuple(value.shape)} {value.dtype}\n".encode())
            digest.update(value.contiguous().view(torch.uint8).numpy().tobytes())
    return {"weights": fingerprint(session.source.model), "documents": digest.hexdigest()}


def _differences(session: Session, store: FieldStore) -> Iterator[str]:
    """What differs between a session and the capture that a store was begun with, in words."""
    now: dict[str, Any] = {
        "model": session.identity,
        "text": session.reading.identity,
        "options": session.options.as_dict(),
    }
    for part, values in now.items():
        yield from _changed(part, values, store.provenance[part], _FREE.get(part, ()))
    if session.source.way != store.provenance["way"]:
        yield f"the way is {session.source.way!r}, was {store.provenance['way']!r}"
    names = {"weights": "weights of the model", "documents": "tokens of the documents"}
    found = _fingerprints(session)
    yield from (f"the {names[k]} differ" for k, v in found.items() if v != store.provenance["fingerprint"][k])
    if stored_layers(session) != store.layers:
        yield "the layers differ"


def _changed(part: str, now: Mapping[str, Any], before: Mapping[str, Any], free: Sequence[str]) -> Iterator[str]:
    for name in dict.fromkeys([*now, *before]):
        first, second = now.get(name), before.get(name)
        if name not in free and first != second:
            if isinstance(first, (str, int, float, type(None))) and isinstance(second, (str, int, float, type(None))):
                yield f"{name} of the {part} is {first!r}, was {second!r}"
            else:
                yield f"{name} of the {part} differs"


def _warn_of_other_machine(session: Session, store: FieldStore) -> None:
    """Float32 results depend in their last bits on device, threads and versions: no error, but to be known."""
    now = session.provenance([])
    found = [
        f"{name} {now[name]} instead of {store.provenance[name]}"
        for name in ("device", "threads")
        if now[name] != store.provenance[name]
    ]
    before = store.provenance["versions"]
    found += [f"{k} {v} instead of {before.get(k)}" for k, v in now["versions"].items() if v != before.get(k)]
    if found:
        message = f"The store goes on with {', '.join(found)}: its shards may differ in the last bits from one capture."
        warnings.warn(EddyscopeWarning(message, "resumed-elsewhere"), stacklevel=5)
