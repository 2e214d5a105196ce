"""The capture itself: probe, read batch by batch, reduce layer by layer, check, assemble."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from eddyscope.capture.batches import Reading, as_reading, batch_size, check_limits
from eddyscope.capture.checks import (
    MASKED,
    Probe,
    Seen,
    Verdict,
    causality_check,
    changed_later,
    field_checks,
    layer_checks,
    outputs_check,
)
from eddyscope.capture.reduce import LayerStore, weights_of
from eddyscope.capture.source import Site, Source
from eddyscope.capture.sources import source_for
from eddyscope.capture.state import moved
from eddyscope.ensemble import AttentionEnsemble, LayerInfo
from eddyscope.errors import CaptureError, EddyscopeError, EddyscopeWarning, InputError, UsageError
from eddyscope.lagfield import IntArray, LagField, LagGeometry

#: Tokens that the probe reads: enough for the checks, and cheap beside the capture.
CHECK_TOKENS = 32
#: Tokens that it reads when no checks are wanted, to find out which layers show what.
LOOK_TOKENS = 8


@dataclass(frozen=True)
class Options:
    """The options of :func:`eddyscope.capture`, see there."""

    heads: str
    layers: tuple[int | str, ...] | None
    batch: int | None
    max_lag: int | None
    device: str | None
    dtype: str
    drop_bad: bool
    allow_failed_checks: bool
    checks: bool

    def __post_init__(self) -> None:
        if self.heads not in ("mean", "each"):
            raise UsageError(f"heads is {self.heads!r}, expected 'mean' or 'each'.")
        if self.dtype not in ("float32", "float16"):
            raise UsageError(f"dtype is {self.dtype!r}, expected 'float32' or 'float16'.")
        if self.batch is not None and self.batch < 1:
            raise UsageError(f"batch is {self.batch}, expected at least 1 document.")


@dataclass(frozen=True)
class Layer:
    """A layer that is captured: what it is, and whether its field is causal."""

    info: LayerInfo
    site: Site
    causal: bool


def run(
    model: Any, documents: Any, options: Options, progress: Callable[[int, int], None] | None = None
) -> AttentionEnsemble:
    """Capture a model; see :func:`eddyscope.capture.capture`."""
    started = time.perf_counter()
    source = source_for(model)
    reading = as_reading(documents)
    check_limits(reading, source.vocabulary, source.context)
    identity = source.identity()
    verdict = Verdict(options.allow_failed_checks)
    with moved(source.model, options.device), _explained(source, reading):
        device = str(source.device)
        probe, silent = _probe(source, reading, options, verdict, str(identity.get("implementation", "")))
        layers = _chosen(probe, options.layers)
        stores = _stores(layers, probe, reading, options)
        _read(source, reading, stores, options, progress)
    fields, kept = _fields(stores, options)
    if options.checks:
        half = _half(source) or options.dtype == "float16"
        for name, layer in layers.items():
            whole = reading.longest == reading.length
            verdict.add(field_checks(name, fields[name], layer.info.window, layer.site.own_sink, half, whole))
    verdict.warn()
    provenance = {
        "source": source.name,
        "way": source.way,
        "model": identity,
        "versions": _versions(),
        "text": reading.documents.identity,
        "options": {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(options).items()},  # as JSON keeps it
        "checks": verdict.records(),
        "failed_checks": verdict.failed,
        "layers_without_attention": source.unreadable | silent,
        "documents_dropped": sorted(set(range(len(reading.tokens))) - set(kept.tolist())),
        "padding_rows_excluded": reading.padding,
        "device": device,
        "threads": torch.get_num_threads(),
        "seconds": round(time.perf_counter() - started, 3),
    }
    chosen = reading.documents if len(kept) == len(reading.tokens) else reading.documents.select(kept)
    return AttentionEnsemble(fields, {n: layer.info for n, layer in layers.items()}, chosen, provenance)


@contextlib.contextmanager
def _explained(source: Source, reading: Reading) -> Iterator[None]:
    """Turn what a model raises while it reads into an error that says what it was reading."""
    try:
        yield
    except (EddyscopeError, KeyboardInterrupt):
        raise
    except torch.OutOfMemoryError as error:
        raise CaptureError(
            f"Out of memory on {source.device} while reading documents of {reading.longest} tokens.",
            "Use a smaller batch, fewer layers, heads='mean', or max_lag.",
        ) from error
    except (IndexError, RuntimeError, ValueError, TypeError) as error:
        limit = "" if source.context is None else f" (it was made for {source.context})"
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        beyond = source.context is not None and reading.longest > source.context
        raise CaptureError(
            f"{type(source.model).__name__} failed to read documents of {reading.longest} tokens{limit}: {reason}.",
            f"Make documents of at most {source.context} tokens (--context {source.context})." if beyond else None,
        ) from error


def _half(source: Source) -> bool:
    return source.dtype in (torch.float16, torch.bfloat16)


def _probe(
    source: Source, reading: Reading, options: Options, verdict: Verdict, implementation: str
) -> tuple[dict[str, Seen], dict[str, str]]:
    """Let the model read the beginning of the first good document; find its layers and check them.

    Returns
    -------
    seen : dict
        By layer, in the order in which they are called.
    silent : dict
        Layers that gave no weights, with what they gave.
    """
    tokens = CHECK_TOKENS if options.checks else LOOK_TOKENS
    for document in range(len(reading.tokens)):
        ids = reading.ids(np.array([document]), source.device)[:, :tokens]
        probe = Probe()
        with source.ready(), source.listening(probe):
            captured = source.outputs(ids)
        _expect_layers(source, probe)
        spoiled = next((name for name, seen in probe.seen.items() if not seen.finite), None)
        if spoiled is None:
            break
        if not options.drop_bad:
            raise _not_finite(spoiled, document)
    else:
        raise CaptureError(
            f"All {len(reading.tokens)} documents give NaN or Inf, nothing is left to analyse.",
            "Half precision overflows in some models: load the model in float32.",
        )
    if options.checks:
        _check_layers(source, probe, verdict)
        with _as_given(source):
            plain = source.outputs(ids)
        verdict.add([outputs_check(captured, plain, implementation, _half(source))])
        del captured, plain
        _check_causality(source, probe, ids, verdict)
    return probe.seen, {
        name: f"{type(site.module).__name__} gave {what}" for name, (site, what) in probe.silent.items()
    }


@contextlib.contextmanager
def _as_given(source: Source) -> Iterator[None]:
    """The model as the user gave it, only in eval mode and without gradients."""
    from eddyscope.capture.state import evaluated

    with evaluated(source.model):
        yield


def _expect_layers(source: Source, probe: Probe) -> None:
    """At least one layer must have shown a map."""
    if probe.seen:
        return
    if not probe.silent:
        raise CaptureError(f"None of the {len(source.sites)} attention modules of {type(source.model).__name__} ran.")
    name, (site, what) = next(iter(probe.silent.items()))
    raise CaptureError(
        f"No attention can be read from {type(source.model).__name__} ({source.way}): "
        f"{type(site.module).__name__} gave {what} instead of weights in layer '{name}'"
        + (f" and {len(probe.silent) - 1} more." if len(probe.silent) > 1 else "."),
        "Set its attention implementation to 'eager' (model.set_attn_implementation('eager')) and try again.",
    )


def _is_causal(seen: Seen) -> bool:
    """What the module states, and what the data show where it states nothing or calls itself two-sided.

    A module that states to be causal counts as causal, so that a lost mask fails the check instead of passing as
    two-sided attention. Others are causal where nothing at all lies above the diagonal.
    """
    return seen.site.kind == "self" and (seen.site.causal is True or seen.above <= MASKED)


def _check_layers(source: Source, probe: Probe, verdict: Verdict) -> None:
    stated = source.identity().get("heads")
    for name, seen in probe.seen.items():
        heads = stated if isinstance(stated, int) else None
        verdict.add(layer_checks(name, seen, _is_causal(seen), heads, _half(source)))


def _check_causality(source: Source, probe: Probe, ids: torch.Tensor, verdict: Verdict) -> None:
    """Read with the second half changed; causal layers must show the same in the first half.

    In a model without causal layers the same tokens are read again. Either way the pass is made as the capture will
    read, so it also shows that the short cut past the head gives the same attention; where it does not, the capture
    reads through the whole model.
    """
    causal = {name: _is_causal(seen) for name, seen in probe.seen.items()}
    changed = changed_later(ids) if any(causal.values()) else ids
    for attempt in ("short", "full"):
        again = Probe()
        with source.ready(), source.listening(again):
            source.read(changed)
        checks = [
            causality_check(name, seen, again.seen[name], causal[name], _half(source))
            for name, seen in probe.seen.items()
            if name in again.seen and (causal[name] or changed is ids)
        ]
        if set(again.seen) == set(probe.seen) and all(c.passed for c in checks):
            break
        if attempt == "short":
            source.read_in_full()
    verdict.add(checks)


def _chosen(probe: dict[str, Seen], wanted: tuple[int | str, ...] | None) -> dict[str, Layer]:
    """The layers to capture, in reading order."""
    names = list(probe)
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
    return {
        n: Layer(_info(n, i, probe[n]), probe[n].site, _is_causal(probe[n])) for i, n in enumerate(names) if n in kept
    }


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


def _stores(
    layers: dict[str, Layer], probe: dict[str, Seen], reading: Reading, options: Options
) -> dict[str, LayerStore]:
    """Empty arrays for every layer; layers of one kind share their geometry."""
    geometries = {
        causal: LagGeometry(reading.length, reading.length, causal, options.max_lag)
        for causal in {layer.causal for layer in layers.values()}
    }
    count = len(reading.tokens)
    return {
        name: LayerStore(
            name, geometries[layer.causal], count, probe[name].shape[1], options.heads == "each", options.dtype
        )
        for name, layer in layers.items()
    }


def _read(
    source: Source,
    reading: Reading,
    stores: dict[str, LayerStore],
    options: Options,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Read all documents; every layer's weights are reduced in its hook."""
    heads = max(store.heads for store in stores.values())
    size = batch_size(options.batch, heads, reading.longest, source.device)
    now: IntArray = np.empty(0, dtype=np.int64)

    def receive(name: str, site: Site, weights: Any) -> None:
        if name in stores:
            stores[name].take(weights_of(name, site, weights), now)

    done = 0
    with source.ready(), source.listening(receive):
        for now in reading.batches(size):
            source.read(reading.ids(now, source.device))
            if not options.drop_bad:
                _refuse_bad(stores, now)
            done += len(now)
            if progress is not None:
                progress(done, len(reading.tokens))


def _refuse_bad(stores: dict[str, LayerStore], documents: IntArray) -> None:
    for name, store in stores.items():
        if store.bad[documents].any():
            raise _not_finite(name, int(documents[store.bad[documents]][0]))


def _not_finite(layer: str, document: int) -> CaptureError:
    return CaptureError(
        f"Attention of layer '{layer}' has NaN or Inf in document {document}.",
        "Leave such documents out with drop_bad=True (--drop-bad).",
    )


def _fields(stores: dict[str, LayerStore], options: Options) -> tuple[dict[str, LagField], IntArray]:
    """The fields of all documents that are finite in every layer, and which documents those are."""
    bad = np.any([store.bad for store in stores.values()], axis=0)
    kept = np.flatnonzero(~bad)
    if kept.size == 0:
        raise CaptureError(f"All {bad.size} documents give NaN or Inf, nothing is left to analyse.")
    if bad.any():
        dropped = np.flatnonzero(bad).tolist()
        layer = next(name for name, store in stores.items() if store.bad.any())
        message = (
            f"Left out {len(dropped)} of {bad.size} documents with NaN or Inf, first in layer '{layer}': {dropped}."
        )
        warnings.warn(EddyscopeWarning(message, "dropped-documents"), stacklevel=4)
    return {name: store.field(kept if bad.any() else None) for name, store in stores.items()}, kept


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("eddyscope", "torch", "transformers", "numpy"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
