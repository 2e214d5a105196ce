"""Attention functions in the interface of transformers: the module's own eager, and the same in blocks of rows.

Registering is global and cannot be undone, so both are registered once, when this file is imported, and tell what they
see to whoever listens in the same context (a ``ContextVar``): nobody, unless a capture is running.

Each comes with its mask function. A function without one would be given no mask, and the model would see the future.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Protocol

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from eddyscope.capture.blockwise import Room, attend
from eddyscope.capture.implementations import eager_beside
from eddyscope.capture.rowmask import mask_rows, row_mask
from eddyscope.capture.source import Rows
from eddyscope.errors import CaptureError

#: The name of each way in the interface, for ``set_attn_implementation``.
FUNCTION, BLOCKS = "eddyscope_function", "eddyscope_blocks"

#: Keywords that change nothing about the weights: what the mask already carries, and what is meant for others.
CARRIED = frozenset(
    {
        "sliding_window",
        "is_causal",
        "position_ids",
        "cache_position",
        "use_cache",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "return_dict",
        "layer_idx",
        "num_items_in_batch",
        "deterministic",
    }
)


class Listener(Protocol):
    """Who is told what attention modules compute."""

    @property
    def room(self) -> Room:
        """Where modules that attend in blocks put them."""

    def value_norm(self, module: nn.Module, heads: int, value: Tensor) -> Tensor | None:
        """Norm of the values in the residual stream, where that is wanted."""

    def begins(self, module: nn.Module) -> Callable[[Any], None]:
        """A module begins to attend; returns who takes its rows."""

    def ends(self, module: nn.Module, output: Tensor) -> None:
        """A module has attended, with this output (document, query, head, feature)."""


_LISTENER: ContextVar[Listener | None] = ContextVar("eddyscope_attention_listener", default=None)


@contextmanager
def told(listener: Listener) -> Iterator[None]:
    """Tell a listener of all attention in this context."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def function_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **keywords: Any
) -> tuple[Tensor, Tensor | None]:
    """Attention by the module's own eager function, which its listener is told of."""
    eager = own_eager(type(module))
    known = _named(eager) | {"scaling", "dropout"}  # of every eager function, also of those that do not name them
    _refuse(module, keywords, "function", known | ({"s_aux"} if hasattr(module, "sinks") else set()))
    output, weights = eager(module, query, key, value, attention_mask, **keywords)
    listener = _LISTENER.get()
    if listener is not None:
        receive = listener.begins(module)
        if isinstance(weights, Tensor) and weights.ndim == 4:
            receive(Rows(weights, value_norm=listener.value_norm(module, query.shape[1], value)))
        else:
            receive(weights)
        listener.ends(module, output)
    return output, weights


def block_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    **keywords: Any,
) -> tuple[Tensor, None]:
    """Attention in blocks of query rows; returns no weights, as they are never there as a whole."""
    _refuse(module, keywords, "blocks", set())
    if module.training and dropout:
        raise CaptureError("Attention in blocks of rows has no dropout.", "Put the model in eval mode: model.eval().")
    if getattr(module, "sinks", None) is not None:
        raise _not_implemented(module, "sinks", "blocks")
    listener = _LISTENER.get()
    output = attend(
        query,
        key,
        value,
        lambda first, stop: mask_rows(attention_mask, first, stop),
        scaling=query.shape[-1] ** -0.5 if scaling is None else scaling,
        softcap=softcap,
        value_norm=None if listener is None else listener.value_norm(module, query.shape[1], value),
        see=None if listener is None else listener.begins(module),
        room=None if listener is None else listener.room,
    )
    output = output.transpose(1, 2).contiguous()
    if listener is not None:
        listener.ends(module, output)
    return output, None


def own_eager(kind: type) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """The eager attention function beside the class of an attention module, or beside the nearest class it is made of.

    Raises
    ------
    CaptureError
        Where there is none.
    """
    found = eager_beside(kind)
    if found is not None:
        return found
    raise CaptureError(
        f"{kind.__name__} has no eager attention function beside it, so its weights cannot be had by a function.",
        "Capture it with way='hooks' (--way hooks).",
    )


@lru_cache(maxsize=256)
def _named(function: Callable[..., Any]) -> frozenset[str]:
    """Keywords that a function names itself."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return frozenset(n for n, p in inspect.signature(function).parameters.items() if p.kind in kinds)


def _refuse(module: nn.Module, keywords: dict[str, Any], way: str, implemented: set[str] | frozenset[str]) -> None:
    """Any keyword that has a value and is not implemented is an error, as it might change the weights."""
    for name, value in keywords.items():
        if value is not None and value is not False and name not in implemented and name not in CARRIED:
            raise _not_implemented(module, name, way)


def _not_implemented(module: nn.Module, name: str, way: str) -> CaptureError:
    others = "way='hooks' (--way hooks)" if way == "function" else "way='hooks' or 'function' (--way hooks)"
    return CaptureError(
        f"{type(module).__name__} gives its attention '{name}', which way='{way}' does not implement.",
        f"Capture it with {others}.",
    )


AttentionInterface.register(FUNCTION, function_attention)
AttentionMaskInterface.register(FUNCTION, eager_mask)
AttentionInterface.register(BLOCKS, block_attention)
AttentionMaskInterface.register(BLOCKS, row_mask)
