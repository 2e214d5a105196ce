"""A session: a model made ready to read some documents, its layers found and checked."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from eddyscope.capture.batches import Reading, as_reading, batch_size, check_limits
from eddyscope.capture.checks import Seen, Verdict, field_checks, padding_check
from eddyscope.capture.glance import Glance, Induction, repeated_tokens
from eddyscope.capture.options import Options
from eddyscope.capture.probing import is_causal, is_half, not_finite, probe_layers
from eddyscope.capture.reduce import Heads, Keeper, LayerStore, rows_of
from eddyscope.capture.source import Site, Source
from eddyscope.capture.state import moved
from eddyscope.capture.waychoice import chosen_source
from eddyscope.ensemble import AttentionEnsemble, LayerInfo
from eddyscope.errors import CaptureError, EddyscopeError, EddyscopeWarning, InputError
from eddyscope.kernels.headmeasures import ALONG_THE_LAG, DOCUMENTS, MEASURES, far_from
from eddyscope.lagfield import FloatArray, IntArray, LagField, LagGeometry

#: Called with (documents done, documents in all).
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Layer:
    """A layer that is captured.

    Parameters
    ----------
    info : LayerInfo
    site : Site
    causal : bool
        Whether its field is causal.
    geometry : LagGeometry
        What is kept of each map.
    """

    info: LayerInfo
    site: Site
    causal: bool
    geometry: LagGeometry


@dataclass
class Session:
    """A model that is ready to be captured on these documents: its layers are found and checked.

    Made by :func:`opened`, and of use only inside it.

    Parameters
    ----------
    source : Source
    reading : Reading
    options : Options
    verdict : Verdict
        Every check so far.
    identity : dict
        Of the model.
    layers : dict of str to Layer
        In reading order.
    silent : dict of str to str
        Layers without attention, and what stands there.
    device : str
    started : float
        ``time.perf_counter()`` at the beginning.
    threads : int
        With which documents are read.
    """

    source: Source
    reading: Reading
    options: Options
    verdict: Verdict
    identity: dict[str, Any]
    layers: dict[str, Layer]
    silent: dict[str, str]
    device: str
    started: float
    threads: int = field(default_factory=torch.get_num_threads)
    glance: Glance = field(default_factory=Glance)
    at_a_glance: dict[str, dict[str, list[float | None]]] = field(default_factory=dict)

    @property
    def heads(self) -> Heads:
        """Which heads are kept."""
        return Heads(self.options.heads)

    @property
    def value_weighted(self) -> bool:
        """Whether weights are kept times the norm of the value, so that rows do not sum to 1."""
        return self.options.weight == "value-norm"

    def read(self, index: IntArray, keepers: Mapping[str, Keeper], progress: Progress | None = None) -> None:
        """Let the model read some documents; every layer's attention goes to its keeper as soon as it appears.

        Parameters
        ----------
        index : int array
            Documents, ascending. Keepers number them from 0 in this order.
        keepers : mapping of str to Keeper
            By the name of the layer; other layers are passed over.
        progress : callable, optional

        Raises
        ------
        CaptureError
            Where attention has NaN or Inf and such documents are not to be dropped; where a layer gives none.
        """
        heads = max(layer.info.query_heads for layer in self.layers.values())
        size = batch_size(self.options.batch, heads, self.reading.longest, self.source.device)
        batch = now = np.empty(0, dtype=np.int64)
        queries: Counter[str] = Counter()  # that were seen of these documents, by layer

        def receive(name: str, site: Site, given: Any) -> None:
            if name in self.layers:
                rows = rows_of(name, site, given)
                queries[name] += rows.weights.shape[2]
                if self.options.checks:
                    self.glance.take(name, rows, self.layers[name].geometry, batch)
                if name in keepers:
                    keepers[name].take(rows, now)

        done = 0
        with _explained(self.source, self.reading), self.source.ready(), self.source.listening(receive):
            for batch in self.reading.batches(size, index):
                now = np.searchsorted(index, batch)
                queries.clear()
                self.source.read(self.reading.inputs(batch, self.source.device))
                self._expect_all(queries, keepers, batch)
                if not self.options.drop_bad:
                    _refuse_bad(keepers, now, batch)
                done += len(batch)
                if progress is not None:
                    progress(done, len(index))

    def _expect_all(self, queries: Mapping[str, int], keepers: Mapping[str, Keeper], batch: IntArray) -> None:
        """Refuse a layer that was silent: what it had to fill holds other documents, or nothing."""
        for name in keepers:
            seen, expected = queries[name], self.layers[name].geometry.queries
            if seen < expected:
                raise CaptureError(
                    f"Layer '{name}' gave {seen} of {expected} rows of attention for the {len(batch)} documents from "
                    f"document {batch[0]} on, though it had given all before.",
                    "Leave it out with layers (--layers), if the model skips it on purpose.",
                )

    def stores(self, count: int) -> dict[str, LayerStore]:
        """Empty arrays for the fields of so many documents, by layer."""
        return {
            name: LayerStore(name, layer.geometry, count, layer.info.query_heads, self.heads, self.options.dtype)
            for name, layer in self.layers.items()
        }

    def fields(
        self,
        index: IntArray | None = None,
        progress: Progress | None = None,
        stores: Mapping[str, LayerStore] | None = None,
    ) -> tuple[dict[str, LagField], IntArray]:
        """The fields of some documents, checked, and which of them were kept (all but those with NaN or Inf).

        ``stores`` are the arrays to put them in, where these are used again and again; the fields before are then lost.
        """
        index = np.arange(self.reading.count) if index is None else index
        stores = self.stores(len(index)) if stores is None else stores
        for store in stores.values():
            store.bad[:] = False
        self.read(index, stores, progress)
        bad = np.any([store.bad[: len(index)] for store in stores.values()], axis=0)
        kept = slice(len(index)) if not bad.any() else np.flatnonzero(~bad)
        fields = {name: store.field(kept) for name, store in stores.items()}
        if not bad.all():
            self.check(fields)
        return fields, index[~bad]

    def check(self, fields: Mapping[str, LagField]) -> None:
        """Check the fields of some documents."""
        if not self.options.checks:
            return
        half = is_half(self.source) or self.options.dtype == "float16"
        whole = self.reading.longest == self.reading.length
        for name, taken in fields.items():
            layer = self.layers[name]
            window, own_sink = layer.info.window, layer.site.own_sink
            self.verdict.add(field_checks(name, taken, window, own_sink, half, whole, self.value_weighted))

    def finish(self) -> None:
        """Look at what every head does: at the first documents, where they were not read, and at repeated tokens."""
        if not self.options.checks:
            return
        missing = sorted(set(range(min(DOCUMENTS, self.reading.count))) - self.glance.seen)
        if missing:
            self.read(np.array(missing), {})
        induction = self._induction()
        for name, layer in self.layers.items():
            if name in self.glance.sums:
                measures = self.glance.sums[name].measures(far_from(layer.geometry.keys, layer.causal))
                score = induction.score(name) if layer.causal else None
                nothing = np.full(layer.info.query_heads, np.nan)
                measures["induction_score"] = nothing if score is None else score
                if layer.info.kind == "cross":  # between whose queries and keys there is no distance
                    measures |= dict.fromkeys(ALONG_THE_LAG, nothing)
                self.at_a_glance[name] = {measure: _json(measures[measure]) for measure in MEASURES}

    def _induction(self) -> Induction:
        """The attention of causal layers to repeated random tokens; nothing where the model reads no tokens alone."""
        source = self.source
        plain = set(self.reading.inputs(np.arange(1), source.device)) == {"input_ids"}
        decoder = plain and all(layer.causal for layer in self.layers.values())
        inputs = None
        if decoder and source.vocabulary is not None:
            inputs = repeated_tokens(source.model, source.vocabulary, source.context)
        if inputs is None:
            return Induction(0)
        found = Induction(inputs["input_ids"].shape[1] // 2)
        with _explained(source, self.reading), source.ready(), source.listening(found):
            source.read({name: value.to(source.device) for name, value in inputs.items()})
        return found

    def dropped(self, kept: IntArray) -> list[int]:
        """Documents that were left out, with a warning; CaptureError where nothing is left."""
        count = self.reading.count
        dropped = sorted(set(range(count)) - set(kept.tolist()))
        if len(dropped) == count:
            raise CaptureError(f"All {count} documents give NaN or Inf, nothing is left to analyse.")
        if dropped:
            message = f"Left out {len(dropped)} of {count} documents with NaN or Inf: {dropped}."
            warnings.warn(EddyscopeWarning(message, "dropped-documents"), stacklevel=5)
        return dropped

    def provenance(self, dropped: list[int]) -> dict[str, Any]:
        """What was done, JSON-able."""
        self.verdict.warn()
        return {
            "source": self.source.name,
            "way": self.source.way,
            "notes": list(self.source.notes),
            "model": self.identity,
            "versions": versions(),
            "text": self.reading.identity,
            "options": self.options.as_dict(),
            "weight": self.options.weight,
            **({"unnormalised": True} if self.value_weighted else {}),  # rows of which no sink can be masked
            "checks": self.verdict.records(),
            "heads": self.at_a_glance,
            "failed_checks": self.verdict.failed,
            "layers_without_attention": self.source.unreadable | self.silent,
            "documents_dropped": dropped,
            "padding_rows_excluded": self.reading.padding,
            "device": self.device,
            "threads": self.threads,
            "seconds": round(time.perf_counter() - self.started, 3),
        }

    def ensemble(self, fields: Mapping[str, LagField], kept: IntArray) -> AttentionEnsemble:
        """The fields of the documents that were kept, with their provenance."""
        dropped = self.dropped(kept)
        documents = self.reading.documents
        if dropped and documents is not None:
            documents = documents.select(kept)
        info = {name: layer.info for name, layer in self.layers.items()}
        return AttentionEnsemble(fields, info, documents, self.provenance(dropped))


@contextlib.contextmanager
def opened(model: Any, documents: Any, options: Options) -> Iterator[Session]:
    """Make a model ready to be captured on these documents; on leaving, it is as it was.

    Raises
    ------
    CaptureError, CheckError, InputError
        As :func:`eddyscope.capture` says.
    """
    started = time.perf_counter()
    reading = as_reading(documents)
    source = chosen_source(model, options, reading.longest)
    check_limits(reading, source.vocabulary, source.context)
    identity = source.identity()
    verdict = Verdict(options.allow_failed_checks)
    if options.checks and reading.padding:
        verdict.add([padding_check(reading.padding)])
    with moved(source.model, options.device):
        with _explained(source, reading):
            probe, silent = probe_layers(source, reading, options, verdict, str(identity.get("implementation", "")))
        layers = _chosen(probe, options, reading)
        reading = reading.covering(max(max(x.geometry.queries, x.geometry.keys) for x in layers.values()))
        device = str(source.device)
        session = Session(source, reading, options, verdict, identity, layers, silent, device, started)
        yield session
        session.finish()


@contextlib.contextmanager
def _explained(source: Source, reading: Reading) -> Iterator[None]:
    """Turn what a model raises while it reads into an error that says what it was reading."""
    try:
        yield
    except (EddyscopeError, KeyboardInterrupt):
        raise
    except torch.OutOfMemoryError as error:
        raise CaptureError(
            f"Out of memory on {source.device} while reading {reading.described}.",
            "Use a smaller batch, fewer layers, heads='mean', or max_lag.",
        ) from error
    except (IndexError, RuntimeError, ValueError, TypeError) as error:
        limit = "" if source.context is None else f" (it was made for {source.context})"
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        beyond = source.context is not None and reading.longest > source.context
        raise CaptureError(
            f"{type(source.model).__name__} failed to read {reading.described}{limit}: {reason}.",
            f"Make documents of at most {source.context} tokens (--context {source.context})." if beyond else None,
        ) from error


def _chosen(probe: dict[str, Seen], options: Options, reading: Reading) -> dict[str, Layer]:
    """The layers to capture, in reading order; layers of one kind share their geometry."""
    names, wanted = list(probe), options.layers
    if wanted is None:
        kept = set(names)
    else:
        kept = set()
        for layer in wanted:
            known = layer in names if isinstance(layer, str) else -len(names) <= layer < len(names)
            if not known:
                raise InputError(
                    f"Layer {layer!r} is not in this model.",
                    f"It has {len(names)} layers, in reading order: {', '.join(names[:3])}"
                    + (" ..." if len(names) > 3 else "."),
                )
            kept.add(layer if isinstance(layer, str) else names[layer])
        if not kept:
            raise InputError("No layers were chosen.", f"The model has {len(names)}.")
    geometries: dict[LagGeometry, LagGeometry] = {}
    layers = {}
    for index, name in enumerate(names):
        if name in kept:
            seen = probe[name]
            geometry = LagGeometry(*reading.sizes(seen.shape), is_causal(seen), options.max_lag)
            geometry = geometries.setdefault(geometry, geometry)
            layers[name] = Layer(_info(name, index, seen), seen.site, geometry.causal, geometry)
    return layers


def _info(name: str, index: int, seen: Seen) -> LayerInfo:
    heads = seen.shape[1]
    groups = seen.site.key_value_heads if 0 < seen.site.key_value_heads <= heads else heads
    return LayerInfo(
        name=name,
        index=index,
        kind=seen.site.kind,
        attention_class=type(seen.site.module).__name__,
        query_heads=heads,
        key_value_heads=groups,
        # Neighbouring query heads share a key-value head (repeat_kv repeats each one in place).
        key_value_map=tuple(head * groups // heads for head in range(heads)),
        window=seen.site.window,
    )


def _refuse_bad(keepers: Mapping[str, Keeper], places: IntArray, documents: IntArray) -> None:
    for name, keeper in keepers.items():
        bad = keeper.bad[places]
        if bad.any():
            raise not_finite(name, int(documents[bad][0]))


def versions() -> dict[str, str]:
    """Versions of what reads and reduces attention."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("eddyscope", "torch", "transformers", "numpy"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _json(values: FloatArray) -> list[float | None]:
    """Numbers as JSON keeps them: NaN as null, without the digits that depend on the order of sums."""
    return [round(float(v), 6) if np.isfinite(v) else None for v in values]
