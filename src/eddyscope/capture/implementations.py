"""Which attention implementation a Hugging Face model runs under, and the eager one beside a class of its attention."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

#: Configs of a model and its parts, each with the name of its implementation.
Implementations = list[tuple[Any, str | None]]


def configs_of(model: nn.Module) -> list[Any]:
    """Every config in the model that names an attention implementation, each once, sub-configs too."""
    waiting: list[Any] = [
        m.config for m in model.modules() if hasattr(getattr(m, "config", None), "_attn_implementation")
    ]
    found: dict[int, Any] = {}
    while waiting:
        config = waiting.pop()
        if config is not None and id(config) not in found:
            found[id(config)] = config
            waiting.extend(getattr(config, key, None) for key in getattr(config, "sub_configs", ()))
    return list(found.values())


def implementations_of(model: nn.Module) -> Implementations:
    """What the model and all its parts run under, to be put back."""
    return [(config, config._attn_implementation_internal) for config in configs_of(model)]


def put_back(before: Implementations) -> None:
    """Let the model run under what it had before."""
    # Straight to the attribute: what was there before needs no check again, and gives no warnings.
    for config, name in before:
        config._attn_implementation_internal = name


def eager_beside(kind: type) -> Callable[..., tuple[Tensor, Tensor | None]] | None:
    """The eager attention function beside a class of attention, or beside the nearest class that it is made of."""
    for each in kind.__mro__:
        found = getattr(sys.modules.get(each.__module__), "eager_attention_forward", None)
        if found is not None:
            return found  # type: ignore[no-any-return]
    return None
