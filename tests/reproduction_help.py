"""Ensembles of six layers for which each claim is true, false or open, by construction."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

import eddyscope as es
import planted
from eddyscope.reproduction.evidence import Evidence, gather
from eddyscope.reproduction.judgement import Judged, Witness, judge

N, L = 30, 96


def evidence(layers: Sequence[np.ndarray]) -> Evidence:
    """Evidence of a model whose layers gave this attention, (document, [head,] query, key) each."""
    return gather(es.AttentionEnsemble.from_arrays({f"layer{k}": layer for k, layer in enumerate(layers)}))


def moving(pattern: np.ndarray, seed: int, length: int = L, amplitude: np.ndarray | None = None) -> np.ndarray:
    """Attention whose logits hold a profile along the lag, as strong as the document has it."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(size=N) if amplitude is None else amplitude
    profile = pattern[np.clip(planted.distances(length).astype(int), 0, length - 1)]
    jitter = 0.05 * rng.normal(size=(N, length, length))
    return planted.softmax_rows(strength[:, None, None] * profile + jitter)


def hill(place: float, width: float = 1.5, height: float = 1.0) -> np.ndarray:
    """A profile along the lag with one peak."""
    return height * np.exp(-((np.arange(L) - place) ** 2) / (2 * width**2))


def ripple() -> np.ndarray:
    """A profile that changes its sign between lags 2 and 10."""
    lag = np.arange(L)
    return np.cos(2 * np.pi * lag / 4) * np.exp(-((lag - 6) ** 2) / 18)


@cache
def still(documents: int = N, length: int = L) -> tuple[np.ndarray, ...]:
    """Six layers of noise."""
    return tuple(planted.noise(documents, length, seed=900 + k, strength=0.2) for k in range(6))


@cache
def twins(documents: int = N, length: int = L) -> tuple[Evidence, ...]:
    """Evidence of untrained twins, three or (of many documents) one: noise, flat in lag and in depth."""
    return tuple(
        evidence([planted.noise(documents, length, seed=50 * twin + k, strength=0.2) for k in range(6)])
        for twin in range(3 if documents == N else 1)
    )


def replaced(layers: dict[int, np.ndarray], documents: int = N, length: int = L) -> list[np.ndarray]:
    """Noise, but for these layers (counted from 0)."""
    return [layers.get(k, layer) for k, layer in enumerate(still(documents, length))]


def judged(
    name: str,
    trained: Sequence[Evidence],
    untrained: Sequence[Evidence] | None = None,
    against: Sequence[Evidence] | None = None,
    against_twins: Sequence[Evidence] | None = None,
) -> Judged:
    """One claim, of an architecture (`ega-1` where it is compared with another)."""
    null = tuple(twins() if untrained is None else untrained)
    if against is None:
        witnesses = [Witness("base", "base", "", tuple(trained), null)]
    else:
        witnesses = [
            Witness("base", "base", "", tuple(against), tuple(null if against_twins is None else against_twins)),
            Witness("ega-1", "ega-1", "", tuple(trained), null),
        ]
    return next(j for j in judge(witnesses) if j.claim.name == name)
