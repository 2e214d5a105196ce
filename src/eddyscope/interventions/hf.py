"""Edited attention in Hugging Face models: one registered attention function that asks the model's own eager attention.

The function is registered once, at import, together with the eager mask (without it a model would see the future), as
neither can be taken back. Each module carries its own edits, so that they last as long as they are wanted (in a
notebook also from cell to cell, which a context variable would not); others get their eager attention as it is.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from eddyscope.capture.implementations import Implementations, eager_beside, implementations_of, put_back
from eddyscope.errors import CaptureError
from eddyscope.interventions.layers import AttentionLayer

KEY = "eddyscope_edited"

WeightEdit = Callable[[Tensor], Tensor]

#: Keywords that do not change eager attention: what they ask for is in the mask already, or concerns other parts.
_INERT = frozenset(
    {
        "sliding_window",
        "position_ids",
        "cache_position",
        "use_cache",
        "past_key_values",
        "cache",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "return_dict",
        "is_causal",
        "num_items_in_batch",
        "deterministic",
        "head_mask",
        "token_type_ids",
    }
)


@dataclass
class _Switched:
    """What a model had before it took the edited attention, and how many edits hold it there."""

    before: Implementations
    holders: int = 0


@dataclass
class _Edits:
    """Edits of one module, and whether they were used since it was last called."""

    functions: list[WeightEdit] = field(default_factory=list)
    used: bool = False


#: Attribute of a module that holds its edits; a copy of the module takes them along.
_HELD = "_eddyscope_edits"
_SWITCHED: WeakKeyDictionary[nn.Module, _Switched] = WeakKeyDictionary()


def edited_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor | None]:
    """Eager attention of the module's own kind, with its edits.

    Parameters
    ----------
    module : torch.nn.Module
    query, key, value : Tensor
        Shape (batch, head, token, feature); keys and values may have fewer heads.
    attention_mask : Tensor, optional
        Added to the scores.
    **options
        What the module's own eager attention takes; any other keyword that could change the result is an error.

    Returns
    -------
    tuple of Tensor
        Output (batch, query, head, feature) and weights (batch, head, query, key).
    """
    eager = eager_of(type(module))
    known, open_ended = _parameters(eager)
    foreign = [n for n, v in options.items() if n not in known and n not in _INERT and v is not None]
    if foreign:
        raise CaptureError(
            f"{type(module).__name__} passes '{foreign[0]}' to its attention, which its eager attention does not take.",
            "Its attention cannot be edited.",
        )
    if not open_ended:
        options = {name: given for name, given in options.items() if name in known}
    edits: _Edits | None = getattr(module, _HELD, None)
    if edits is None:
        output: tuple[Tensor, Tensor | None] = eager(module, query, key, value, attention_mask, **options)
        return output
    # Values without features: the weights come out, and nothing is multiplied in vain.
    _, weights = eager(module, query, key, value[..., :0], attention_mask, **options)
    edits.used = True
    for edit in edits.functions:
        weights = edit(weights)
    groups = weights.shape[1] // value.shape[1]
    repeated = value if groups == 1 else value.repeat_interleave(groups, dim=1)
    return torch.matmul(weights, repeated).transpose(1, 2).contiguous(), weights


AttentionInterface.register(KEY, edited_attention)
AttentionMaskInterface.register(KEY, eager_mask)


def eager_of(kind: type[nn.Module]) -> Callable[..., Any]:
    """The eager attention beside a class of attention module, or beside one that it derives from.

    Raises
    ------
    CaptureError
        Where there is none.
    """
    found = eager_beside(kind)
    if found is not None:
        return found
    raise CaptureError(
        f"The attention of {kind.__name__} cannot be edited: it does not take part in the attention interface of "
        "transformers."
    )


@cache
def _parameters(eager: Callable[..., Any]) -> tuple[frozenset[str], bool]:
    """Keywords that an eager attention takes by name, and whether it takes any others."""
    parameters = inspect.signature(eager).parameters
    return frozenset(parameters), any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def put_on_hugging_face(model: nn.Module, edits: Mapping[AttentionLayer, WeightEdit], undo: ExitStack) -> None:
    """Put edits on the modules of a Hugging Face model.

    Parameters
    ----------
    model : torch.nn.Module
    edits : mapping of AttentionLayer to callable
    undo : contextlib.ExitStack
        Gets what takes them off again.

    Raises
    ------
    CaptureError
        Where the model does not take part in the attention interface, or has an attention function of its own.
    """
    for layer in edits:
        eager_of(type(layer.module))
    _hold_switched(model, undo)
    for layer, edit in edits.items():
        module = layer.module
        if not hasattr(module, _HELD):
            setattr(module, _HELD, _Edits())
        getattr(module, _HELD).functions.append(edit)
        undo.callback(_take_off, module, edit)
        undo.callback(module.register_forward_pre_hook(_forget).remove)
        undo.callback(module.register_forward_hook(_expect_used).remove)


def _take_off(module: nn.Module, edit: WeightEdit) -> None:
    held: _Edits = getattr(module, _HELD)
    held.functions = [other for other in held.functions if other is not edit]
    if not held.functions:
        delattr(module, _HELD)


def _forget(module: nn.Module, _: Any) -> None:
    getattr(module, _HELD).used = False


def _expect_used(module: nn.Module, _: Any, __: Any) -> None:
    """An edit that is passed by would go unnoticed otherwise."""
    if not getattr(module, _HELD).used:
        raise CaptureError(
            f"{type(module).__name__} computed its attention without the registered function, so it was not edited.",
            "Leave config._attn_implementation alone while edits are applied.",
        )


def _hold_switched(model: nn.Module, undo: ExitStack) -> None:
    """The edited attention in the model and all its parts, as long as any edit is on it."""
    state = _SWITCHED.get(model)
    if state is None:
        state = _Switched(implementations_of(model))
        _switch(model, state)
        _SWITCHED[model] = state
    state.holders += 1
    undo.callback(_let_go, weakref.ref(model), state)


def _let_go(model: weakref.ref[nn.Module], state: _Switched) -> None:
    state.holders -= 1
    if state.holders == 0:
        put_back(state.before)
        held = model()
        if held is not None:
            _SWITCHED.pop(held, None)


def _switch(model: nn.Module, state: _Switched) -> None:
    """Set the implementation and see that it was taken."""
    own = [name for _, name in state.before if name and not name.startswith(("eager", "sdpa", "flash", "flex"))]
    if own:
        raise CaptureError(
            f"{type(model).__name__} runs under the attention function '{own[0]}', which edits would replace.",
            "Give the model another one first: model.set_attn_implementation('eager').",
        )
    if not model._can_set_attn_implementation():  # type: ignore[operator]
        raise CaptureError(
            f"The attention of {type(model).__name__} cannot be edited: it does not take part in the attention "
            "interface of transformers."
        )
    try:
        model.set_attn_implementation(KEY)  # type: ignore[operator]
    except BaseException:
        put_back(state.before)
        raise
