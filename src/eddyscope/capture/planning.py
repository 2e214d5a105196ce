"""The plan of a capture: the sizes of a model, and what reading these documents will take."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from eddyscope.budget import budget_bytes, fitted, resident_bytes
from eddyscope.capture.batches import Reading, as_reading, batch_size
from eddyscope.capture.checks import Probe
from eddyscope.capture.hf import stated_sites
from eddyscope.capture.options import Options, whole_number
from eddyscope.capture.session import opened
from eddyscope.capture.shards import Sharding
from eddyscope.capture.state import named_device
from eddyscope.capture.waychoice import chosen_source
from eddyscope.errors import InputError, UsageError
from eddyscope.plans import ModelSize, Plan, Work


def prepared(
    model: Any,
    documents: Any,
    options: Options,
    goal: str,
    *,
    shard: int | None = None,
    budget: int | str | None = None,
) -> tuple[Plan, Options]:
    """The plan of one goal, and the options with the batch and the way that keep it within the budget.

    Parameters
    ----------
    goal : str
        One of :data:`eddyscope.plans.GOALS`.
    shard : int, optional
    budget : int or str, optional
        Without one the options stay as they are.

    Raises
    ------
    UsageError
        Where nothing that was left open makes it fit; says what would.
    """
    plan = plan_of(model, documents, options, shard=shard, budget=budget_bytes(budget))
    if plan.budget is None:
        return plan, options
    free = {
        "batch": options.batch is None,
        "way": options.way == "auto" and plan.work.way == "hooks",
        "shard": shard is None and goal == "store",
    }
    plan = fitted(plan, goal, tuple(name for name, is_free in free.items() if is_free))
    way = plan.work.way if options.way == "auto" and plan.work.way == "blocks" else options.way
    return plan, replace(options, batch=plan.work.batch, way=way)


def plan_within(model: Any, documents: Any, options: Options, *, shard: int | None, budget: int | str | None) -> Plan:
    """The plan of whatever fits in the budget: a run, else statistics alone, else fields on disk.

    Raises
    ------
    UsageError
        Where none of them fits.
    """
    refused: UsageError | None = None
    for goal in ("run", "statistics", "store"):
        try:
            return prepared(model, documents, options, goal, shard=shard, budget=budget)[0]
        except UsageError as error:
            refused = refused or error
    assert refused is not None
    raise refused


def plan_of(
    model: Any, documents: Any, options: Options, *, shard: int | None = None, budget: int | None = None
) -> Plan:
    """The plan of a capture; see :func:`eddyscope.capture.plan`.

    Parameters
    ----------
    model : torch.nn.Module
        Its weights are not looked at, so it may be on the device ``meta``.
    documents
        What :func:`eddyscope.capture` takes.
    options : Options
    shard : int, optional
    budget : int, optional
        Bytes.
    """
    shard = whole_number("shard", shard, "document")
    reading = _covering(model, as_reading(documents), options)
    found = model_size(model, options, reading.longest)
    kept = found.heads if options.heads == "each" else 1 if options.heads == "mean" else len(options.heads)
    device = named_device(options.device or "cpu")
    batch = batch_size(options.batch, found.heads, reading.longest, device)
    work = Work(
        documents=reading.count,
        tokens=reading.longest,
        kept=kept,
        batch=min(batch, reading.count),
        shard=1,
        max_lag=options.max_lag,
        item=2 if options.dtype == "float16" else 4,
        way=found.way,
    )
    a_document = sum(kept * (work.entries(c) * work.item + 8 * work.tokens) for c in found.layers)
    sharding = Sharding.of(shard, batch, options.batch is not None, a_document, reading.count)
    work = replace(work, shard=sharding.shard, batch=min(work.batch, sharding.batch) if shard else work.batch)
    return Plan(found, work, process_bytes(model), budget)


def _covering(model: Any, reading: Reading, options: Options) -> Reading:
    """Documents that are inputs of a model, once it has read one and shown how many positions it has."""
    if reading.documents is not None:
        return reading
    source, probe = chosen_source(model, options, reading.longest), Probe()
    with source.ready(), source.listening(probe):
        source.read(reading.beginning(0, 0, source.device))
    return reading.covering(max((n for seen in probe.seen.values() for n in seen.shape[2:]), default=1))


def measured(plan: Plan, model: Any, documents: Any, options: Options) -> Plan:
    """The plan with the time that reading takes, from a first shard that is read and let go."""
    given = replace(options, batch=plan.work.batch, way=plan.work.way if options.way == "auto" else options.way)
    with opened(model, documents, replace(given, checks=False)) as session:
        first = torch.arange(min(plan.work.shard, session.reading.count)).numpy()
        session.fields(first[: plan.work.batch])  # the first batch also warms up
        started = time.perf_counter()
        session.fields(first)
        taken = time.perf_counter() - started
    return replace(plan, seconds=taken / len(first) * session.reading.count)


def model_size(model: Any, options: Options, length: int) -> ModelSize:
    """Sizes of a model, from its modules and their shapes.

    Raises
    ------
    CaptureError, InputError
        Where its attention cannot be read, or a layer that was asked for is not there.
    """
    model = getattr(model, "_orig_mod", model)
    ways: tuple[str, ...] = ("hooks",)
    way = "hooks"
    whole = False
    if _only_asked(model):
        layers, heads = _by_config(model), _heads(model.config)
    else:
        source = chosen_source(model, options, length)
        layers = [site.causal is True and site.kind == "self" for site in source.sites]
        layers = _chosen(layers, [site.name for site in source.sites], options)
        stated = source.identity().get("heads")
        heads = stated if isinstance(stated, int) else 1
        ways, way, whole = source.ways, source.by, source.name != "huggingface"
    if not layers:
        raise InputError(
            f"{type(model).__name__} is read by an extractor, which names its layers only as it reads: it has no plan.",
            "Leave out the budget, and capture a few documents to see what they take.",
        )
    vocabulary = _vocabulary(model)
    width, inner = _widths(model, vocabulary)
    return ModelSize(
        name=_name(model),
        layers=tuple(layers),
        heads=heads,
        weights=sum(p.numel() * p.element_size() for p in [*model.parameters(), *model.buffers()]),
        width=width,
        inner=inner,
        outputs=vocabulary if whole else 0,
        item=next((p.element_size() for p in model.parameters() if p.is_floating_point()), 4),
        ways=ways,
        way=way,
    )


def process_bytes(model: nn.Module) -> int:
    """Memory that this process takes, without the weights of the model."""
    resident = resident_bytes()
    here = [p for p in [*model.parameters(), *model.buffers()] if p.device.type == "cpu"]
    return max(0, resident - sum(p.numel() * p.element_size() for p in here))


def _is_meta(model: nn.Module) -> bool:
    return any(p.is_meta for p in model.parameters())


def _only_asked(model: Any) -> bool:
    """A model without weights whose attention is found by letting it read, which it cannot."""
    return _is_meta(model) and hasattr(model, "config") and next(iter(stated_sites(model)), None) is None


def _by_config(model: Any) -> list[bool]:
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    count = getattr(config, "num_hidden_layers", None)
    return [False] * (count if isinstance(count, int) and count > 0 else 1)


def _heads(config: Any) -> int:
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    heads = getattr(config, "num_attention_heads", None)
    found = [h for h in (heads if isinstance(heads, (list, tuple)) else [heads]) if isinstance(h, int)]
    return max(found, default=1)


def _chosen(layers: list[bool], names: list[str], options: Options) -> list[bool]:
    """The layers that are captured; names of runs of shared modules count as the module."""
    if options.layers is None:
        return layers
    kept = set()
    for layer in options.layers:
        if isinstance(layer, str):
            place = next((i for i, name in enumerate(names) if name == layer.split("#")[0]), None)
        else:
            place = layer % len(names) if -len(names) <= layer < len(names) else None
        if place is None:
            raise InputError(f"Layer {layer!r} is not in this model.", f"It has {len(names)} layers.")
        kept.add(place)
    return [causal for i, causal in enumerate(layers) if i in kept]


def _vocabulary(model: Any) -> int:
    try:
        table = model.get_input_embeddings()
    except (NotImplementedError, AttributeError):
        table = None
    if isinstance(table, nn.Embedding):
        return int(table.weight.shape[0])
    return max((int(m.weight.shape[0]) for m in model.modules() if isinstance(m, nn.Embedding)), default=0)


def _widths(model: nn.Module, vocabulary: int) -> tuple[int, int]:
    """Width of the residual stream (the commonest side of a weight) and of the MLP (the largest)."""
    sides = Counter(side for p in model.parameters() if p.ndim >= 2 for side in p.shape[-2:] if side != vocabulary)
    if not sides:
        return 1, 1
    return sides.most_common(1)[0][0], max(sides)


def _name(model: Any) -> str:
    parameters = sum(p.numel() for p in model.parameters())
    unit, factor = next(((u, f) for u, f in (("B", 1e9), ("M", 1e6), ("k", 1e3)) if parameters >= f), ("", 1.0))
    digits = 1 if parameters / factor < 10 else 0
    return f"{type(model).__name__}, {parameters / factor:.{digits}f}{unit} parameters"
