"""What windows save: key-value cache and attention arithmetic of one document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eddyscope.interventions.layers import AttentionLayer
from eddyscope.interventions.windows.removal import keeps_first


@dataclass(frozen=True)
class Cost:
    """Key-value cache and attention arithmetic of one document of the context's length.

    Parameters
    ----------
    cache_entries : int, or None
        Keys (as many values) that are kept at the last token, over all layers and key-value heads; None for models
        that keep none, as they look both ways.
    cache_bytes : int, or None
        In the model's own number type.
    flops : int
        Of scores and mixing of values, a multiplication and an addition counted as two; projections are left out, as
        windows do not change them.
    """

    cache_entries: int | None
    cache_bytes: int | None
    flops: int

    def as_dict(self) -> dict[str, int | None]:
        """JSON-able form."""
        return {"cache_entries": self.cache_entries, "cache_bytes": self.cache_bytes, "flops": self.flops}


def cost(
    model: Any, layers: Sequence[AttentionLayer], context: int, windows: Sequence[Sequence[int]], sink: str
) -> Cost:
    """Cost of one document under windows.

    Parameters
    ----------
    model : torch.nn.Module
    layers : sequence of AttentionLayer
    context : int
        Tokens of the document.
    windows : sequence of sequence of int
        For each layer one window, or one for each head. A key-value head keeps as many keys as the longest window of
        the query heads that read it.
    sink : {"keep", "drop"}
        With ``keep``, one more key where the window is shorter than the context.
    """
    size = next(model.parameters()).element_size()
    entries = bytes_kept = flops = 0
    for layer, own in zip(layers, windows, strict=True):
        each = [min(w, layer.window or context, context) for w in (own if len(own) > 1 else list(own) * layer.heads)]
        first, features = keeps_first(layer, sink), head_size(layer, model)
        group = layer.heads // layer.key_value_heads
        kept = [keys_kept(max(each[h * group : (h + 1) * group]), context, first) for h in range(layer.key_value_heads)]
        entries += sum(kept)
        bytes_kept += sum(kept) * 2 * features * size
        flops += sum(4 * features * keys_read(w, context, first, layer.causal) for w in each)
    if not all(layer.causal for layer in layers):
        return Cost(None, None, flops)
    return Cost(entries, bytes_kept, flops)


def keys_kept(window: int, context: int, keep_first: bool) -> int:
    """Keys in the cache of one key-value head at the last token."""
    return context if window >= context else window + int(keep_first)


def keys_read(window: int, context: int, keep_first: bool, causal: bool) -> int:
    """Keys that all queries of a document read, of one head."""
    query = np.arange(context)
    behind = np.minimum(query + 1, window)
    ahead = 0 if causal else np.minimum(context - 1 - query, window - 1)
    return int((behind + ahead).sum() + (int((query >= window).sum()) if keep_first else 0))


def head_size(layer: AttentionLayer, model: Any) -> int:
    """Features of a head."""
    for name in ("head_dim", "attention_head_size"):
        own = getattr(layer.module, name, None)
        if isinstance(own, int):
            return own
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    width = getattr(config, "hidden_size", None) or config.width
    return int(width) // layer.heads
