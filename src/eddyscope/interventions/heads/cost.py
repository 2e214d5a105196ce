"""What a plan saves: parameters, key-value cache, arithmetic, and the time and memory of a forward pass."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from eddyscope.capture.state import evaluated
from eddyscope.documents import Documents
from eddyscope.interventions.heads.applying import apply
from eddyscope.interventions.heads.plan import Plan
from eddyscope.interventions.heads.projections import Projections, projections
from eddyscope.interventions.heads.rebuild import rebuild
from eddyscope.interventions.layers import attention_layers
from eddyscope.interventions.losses import forward
from eddyscope.models.gpt import GPT

_REPEATS = 3


@dataclass(frozen=True)
class Counts:
    """Numbers of one model, before or after."""

    parameters: int
    kv_cache_bytes_per_token: int
    attention_flops_per_token: int


def count(model: Any, plan: Plan, context: int) -> tuple[Counts, Counts]:
    """Parameters, cache and arithmetic of a model before and after a plan.

    Parameters
    ----------
    model : torch.nn.Module
    plan : Plan
    context : int
        Keys that a query sees, for the arithmetic.

    Returns
    -------
    tuple of Counts
        A multiplication with its addition counts as two. Arithmetic is that of the attention blocks: projections,
        scores, mixing, values; every query against ``context`` keys. After: without the queries and keys that are not
        needed, with the mixing weights. Values are needed by every head.
    """
    layers = attention_layers(model)
    parameters = sum(p.numel() for p in model.parameters())
    size_of = next(p.element_size() for p in model.parameters())
    before = after = cache_before = cache_after = 0
    for layer, planned in zip(layers, plan.layers, strict=True):
        shape = projections(layer)
        kept, keys = len(planned.kept), len(planned.keys_kept(layer.key_value_heads))
        mixed = sum(bool(planned.mixing[head].any()) for head in planned.mixed)
        gone = (layer.heads - kept) * shape.query_parameters + (layer.key_value_heads - keys) * shape.key_parameters
        parameters -= gone - kept * len(planned.mixed)
        feature_bytes = shape.head_size * size_of
        cache_before += 2 * layer.key_value_heads * feature_bytes
        cache_after += (keys + layer.key_value_heads) * feature_bytes
        before += _flops(shape, layer.heads, layer.key_value_heads, layer.key_value_heads, layer.heads, context)
        after += _flops(shape, kept, keys, layer.key_value_heads, layer.heads, context) + 2 * context * kept * mixed
    whole = sum(p.numel() for p in model.parameters())
    return Counts(whole, cache_before, before), Counts(parameters, cache_after, after)


def _flops(shape: Projections, queries: int, keys: int, values: int, heads: int, context: int) -> int:
    """Arithmetic of one layer for one token."""
    feature = shape.head_size
    projected = 2 * shape.width * feature * (queries + keys + values + heads)  # the output's is that of all heads
    return projected + 2 * context * feature * (queries + heads)


def measure_cost(model: Any, plan: Plan, documents: Documents) -> dict[str, Any]:
    """The ``cost`` of a plan, as ``heads.json`` holds it: numbers before and after.

    Parameters
    ----------
    model : torch.nn.Module
    plan : Plan
    documents : Documents
        One of them is read, at full length, for time and memory.

    Returns
    -------
    dict
        ``timed`` says what was timed: a GPT of ``eddyscope.models`` is rebuilt, and explicit attention is timed on both
        sides; of other models the plan as it is applied, which computes every pattern first, so it is not faster.
    """
    before, after = count(model, plan, documents.context)
    ids = torch.from_numpy(documents.ids[:1]).to(next(model.parameters()).device)
    first = _time_and_memory(model, ids)
    if type(model) is GPT and all(layer.kept for layer in plan.layers):
        how = "rebuilt model, explicit softmax on both sides"
        second = _time_and_memory(rebuild(model, plan), ids)
    else:
        how = "plan applied to the whole model"
        with apply(model, plan):
            second = _time_and_memory(model, ids)
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in Counts.__dataclass_fields__}
    pairs |= {"tokens_per_second": (first[0], second[0]), "peak_memory_bytes": (first[1], second[1])}
    return {name: {"before": a, "after": b} for name, (a, b) in pairs.items()} | {
        "context": documents.context,
        "timed": how,
    }


def _time_and_memory(model: Any, ids: Tensor) -> tuple[float, int]:
    """Tokens a second of a forward pass (the best of some), and the most bytes of tensors that one held."""
    with evaluated(model):
        forward(model, ids)
        seconds = []
        for _ in range(_REPEATS):
            started = time.perf_counter()
            forward(model, ids)
            seconds.append(time.perf_counter() - started)
        memory = peak_of(lambda: forward(model, ids))
    return round(ids.numel() / min(seconds), 1), memory


class _Held(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Bytes of the tensors that operations make, as long as they live, and the most of them at one time."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now: int
        self.most: int
        self.now = self.most = 0
        self._known: WeakIdKeyDictionary = WeakIdKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and tensor.untyped_storage() not in self._known:
                storage = tensor.untyped_storage()
                size = storage.nbytes()
                self._known[storage] = size
                self.now += size
                self.most = max(self.most, self.now)
                weakref.finalize(storage, self._gone, size)
        return result

    def _gone(self, size: int) -> None:
        self.now -= size


def peak_of(action: Callable[[], Any]) -> int:
    """Most bytes of new tensors that an action holds at one time (weights and inputs, there before, do not count)."""
    held = _Held()
    with held:
        action()
    return held.most
