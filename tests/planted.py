"""Ensembles with a known answer, made from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


def softmax_rows(logits: Array, causal: bool = True) -> Array:
    """Attention of logits (..., query, key), keys after the query masked where causal."""
    if causal:
        visible = np.tril(np.ones(logits.shape[-2:], dtype=bool))
        logits = np.where(visible, logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def distances(length: int) -> Array:
    """``query - key``, shape (query, key)."""
    return np.arange(length)[:, None] - np.arange(length)[None, :] + 0.0


def recency(length: int, reach: float = 30.0) -> Array:
    """Logits that fall with distance."""
    return -np.abs(distances(length)) / reach


def periodic(
    documents: int, length: int, period: float, seed: int = 0, strength: float = 0.5, noise: float = 0.1
) -> Array:
    """Causal attention whose period along the lag fluctuates in amplitude and phase from document to document."""
    rng = np.random.default_rng(seed)
    amplitude = strength * rng.normal(size=(documents, 1, 1))
    phase = rng.uniform(0, 2 * np.pi, size=(documents, 1, 1))
    wave = amplitude * np.cos(2 * np.pi * distances(length) / period + phase)
    jitter = noise * rng.normal(size=(documents, length, length))
    return softmax_rows(recency(length) + wave + jitter)


def bump(documents: int, length: int, distance: float, width: float, seed: int = 0, noise: float = 0.1) -> Array:
    """Causal attention with a Gaussian bump at one distance whose height fluctuates."""
    rng = np.random.default_rng(seed)
    height = 1.0 + 0.5 * rng.normal(size=(documents, 1, 1))
    shape = np.exp(-((distances(length) - distance) ** 2) / (2 * width**2))
    jitter = noise * rng.normal(size=(documents, length, length))
    return softmax_rows(recency(length, 60.0) + height * shape + jitter)


def noise(documents: int, length: int, seed: int = 0, strength: float = 0.5, causal: bool = True) -> Array:
    """Attention of white logits: what an untrained model gives, nearly."""
    rng = np.random.default_rng(seed)
    return softmax_rows(strength * rng.normal(size=(documents, length, length)), causal)


def with_spectrum(eigenvalues: Array, documents: int, length: int, seed: int = 0) -> tuple[Array, float]:
    """Causal attention whose fluctuation has exactly these POD eigenvalues over all queries, float64.

    Exactly uncorrelated coefficients with unit variance over documents times orthonormal patterns, added to uniform
    attention. Rows of the patterns sum to zero, so rows of the attention sum to 1.

    Returns
    -------
    attention : array, shape (document, query, key)
    factor : float
        The field's eigenvalues are the given ones times this, which keeps all weights positive.
    """
    rng = np.random.default_rng(seed)
    rank = len(eigenvalues)
    coefficients = rng.normal(size=(documents, rank))
    coefficients -= coefficients.mean(axis=0)
    coefficients = np.linalg.qr(coefficients)[0] * np.sqrt(documents)
    visible = np.tril(np.ones((length, length)))
    patterns = rng.normal(size=(rank, length, length)) * visible
    patterns -= visible * patterns.sum(axis=-1, keepdims=True) / visible.sum(axis=-1)[:, None]
    flat = np.linalg.qr(patterns.reshape(rank, -1).T)[0].T
    field = (coefficients * np.sqrt(eigenvalues)) @ flat
    mean = visible / visible.sum(axis=-1, keepdims=True)
    scale = 0.9 * (mean[visible > 0].min() / np.abs(field).max())
    return mean + scale * field.reshape(documents, length, length), scale**2


def impulse(documents: int, length: int, seed: int = 0, noise: float = 0.05) -> Array:
    """Causal attention of which each document gives another share to the query itself, at lag 0."""
    rng = np.random.default_rng(seed)
    height = 3.0 + 1.5 * rng.normal(size=(documents, 1, 1))
    jitter = noise * rng.normal(size=(documents, length, length))
    return softmax_rows(recency(length, 60.0) + height * (distances(length) == 0) + jitter)


def add_sink(attention: Array, share: float | Array) -> Array:
    """The same attention beside a sink on the first key that takes ``share``, (document, query) or one for all."""
    taken = np.broadcast_to(share, attention.shape[:-1])[..., None]
    mixed = (1 - taken) * attention
    mixed[..., :1] += taken
    return mixed
