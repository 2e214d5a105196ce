"""Synthetic causal attention with the features that matter for the cost and the numbers of an analysis."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


def synthetic_attention(documents: int, context: int, seed: int = 0) -> Array:
    """Draw causal attention of one layer, shape (document, query, key), float32, rows sum to 1.

    The softmax of recency (a slope in the logarithm of the distance), a period of 12 tokens whose amplitude and phase
    vary from document to document, and products of random query and key vectors that are correlated along the text.
    """
    rng = np.random.default_rng(seed)
    position = np.arange(context)
    distance = position[:, None] - position[None, :]
    recency = -1.2 * np.log1p(np.maximum(distance, 0))
    attention = np.empty((documents, context, context), dtype=np.float32)
    for document in attention:
        amplitude, phase = rng.normal(0, 0.5), rng.uniform(0, 2 * np.pi)
        logits = recency + amplitude * np.cos(2 * np.pi * distance / 12 + phase)
        logits += _correlated(rng, context) @ _correlated(rng, context).T
        logits = np.where(distance >= 0, logits, -np.inf)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        document[:] = weights / weights.sum(axis=1, keepdims=True)
    return attention


def _correlated(rng: np.random.Generator, context: int, width: int = 8, memory: float = 0.8) -> Array:
    """Random vectors along the text, each a mixture of the one before it and something new."""
    vectors = rng.normal(size=(context, width))
    for now in range(1, context):
        vectors[now] = memory * vectors[now - 1] + np.sqrt(1 - memory**2) * vectors[now]
    return np.asarray(vectors / np.sqrt(width))
