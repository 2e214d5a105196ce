"""Where the queries, keys and values of a layer come from: sizes and weights of its projections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from eddyscope.interventions.layers import AttentionLayer
from eddyscope.lagfield import FloatArray

#: Names of separate projections in Hugging Face models.
_SEPARATE = (("q_proj", "k_proj", "v_proj"), ("query", "key", "value"), ("q_lin", "k_lin", "v_lin"))


@dataclass(frozen=True, eq=False)
class Projections:
    """Projections of one layer.

    Parameters
    ----------
    width : int
        Of the layer's input.
    head_size : int
        Features of a query, key or value.
    bias : bool
        Whether queries and keys have one.
    weights : tuple of Tensor, optional
        Of queries, keys and values, shape (head or key-value head, feature, width); None where the layout is not known.
    """

    width: int
    head_size: int
    bias: bool
    weights: tuple[Tensor, Tensor, Tensor] | None = None

    @property
    def query_parameters(self) -> int:
        """Parameters of the queries of one head."""
        return self.head_size * (self.width + self.bias)

    @property
    def key_parameters(self) -> int:
        """Parameters of the keys of one key-value head."""
        return self.query_parameters


def projections(layer: AttentionLayer) -> Projections:
    """Projections of a layer, with their weights where the layout is known."""
    module: Any = layer.module
    for names in _SEPARATE:
        if all(hasattr(module, name) for name in names):
            parts = [getattr(module, name) for name in names]
            tables = [part.weight for part in parts]
            return _of_tables(layer, tables, parts[0].bias is not None)
    if hasattr(module, "qkv"):  # the GPTs in eddyscope.models
        return _of_tables(layer, list(module.qkv.weight.chunk(3)), module.qkv.bias is not None)
    if hasattr(module, "c_attn"):  # GPT-2 stores (in, out)
        return _of_tables(layer, list(module.c_attn.weight.T.chunk(3)), module.c_attn.bias is not None)
    config = module.config
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return Projections(int(config.hidden_size), int(size), any("bias" in n for n, _ in module.named_parameters()))


def _of_tables(layer: AttentionLayer, tables: list[Tensor], bias: bool) -> Projections:
    heads = (layer.heads, layer.key_value_heads, layer.key_value_heads)
    weights = [table.reshape(n, -1, table.shape[1]) for table, n in zip(tables, heads, strict=True)]
    return Projections(tables[0].shape[1], weights[0].shape[1], bias, (weights[0], weights[1], weights[2]))


def magnitude(layer: AttentionLayer) -> FloatArray | None:
    """Norm of all query, key and value weights that a head uses, shape (head,); None where the layout is not known."""
    found = projections(layer).weights
    if found is None:
        return None
    size = layer.heads // layer.key_value_heads
    squares = [part.detach().double().square().sum(dim=(1, 2)).cpu().numpy() for part in found]
    return np.asarray(np.sqrt(squares[0] + np.repeat(squares[1], size) + np.repeat(squares[2], size)))
