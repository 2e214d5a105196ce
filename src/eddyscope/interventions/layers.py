"""The attention layers of a model, as interventions see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from eddyscope.errors import CaptureError


@dataclass(frozen=True, eq=False)
class AttentionLayer:
    """One attention module of a model.

    Parameters
    ----------
    name : str
        Qualified name of the module.
    index : int
        Position among the model's attention layers, from 0.
    module : torch.nn.Module
    heads, key_value_heads : int
        Query heads, and the key-value heads that they share: query head h reads key-value head
        ``h // (heads // key_value_heads)``.
    causal : bool
        Whether a query sees keys up to itself alone.
    window : int, optional
        Sliding window in tokens that the config states.
    """

    name: str
    index: int
    module: nn.Module
    heads: int
    key_value_heads: int
    causal: bool
    window: int | None = None


def attention_layers(model: Any) -> tuple[AttentionLayer, ...]:
    """Return the self-attention layers of a model, in order of definition.

    Parameters
    ----------
    model : torch.nn.Module
        A Hugging Face model, or one of the GPTs in ``eddyscope.models``.

    Raises
    ------
    CaptureError
        Where no attention can be read from the model, or a layer does not say how many heads it has.
    """
    from eddyscope.capture.sources import source_for  # capture knows where attention lies

    source = source_for(model)
    sites = [site for site in source.sites if site.kind == "self"]
    found = []
    for index, site in enumerate(sites):
        heads = _heads(site.module, source.model)
        if not heads:
            raise CaptureError(
                f"Layer '{site.name}' of {type(source.model).__name__} does not say how many heads it has."
            )
        shared = site.key_value_heads or heads
        found.append(
            AttentionLayer(site.name, index, site.module, heads, shared, bool(site.causal), site.window),
        )
    return tuple(found)


def _heads(module: nn.Module, model: nn.Module) -> int:
    """Query heads of a module: its own word, or the config's."""
    own = getattr(module, "heads", None)
    if isinstance(own, int):
        return own
    config: Any = getattr(module, "config", None) or getattr(model, "config", None)
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    return int(getattr(config, "num_attention_heads", 0) or 0)
