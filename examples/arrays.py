"""Attention that is at hand as an array: a period of 12 over recency, planted, comes out as a wavelength of 12.

python examples/arrays.py
"""

from __future__ import annotations

import numpy as np

import eddyscope as es

DOCUMENTS, LENGTH, PERIOD = 120, 160, 12


def planted(seed: int = 0) -> np.ndarray:
    """Causal attention of one layer, (documents, layers, L, L); its period fluctuates from document to document."""
    rng = np.random.default_rng(seed)
    lag = np.arange(LENGTH)[:, None] - np.arange(LENGTH)[None, :]
    amplitude, phase = rng.normal(size=(DOCUMENTS, 1, 1)), rng.uniform(0, 2 * np.pi, (DOCUMENTS, 1, 1))
    logits = -lag / 30 + 0.5 * amplitude * np.cos(2 * np.pi * lag / PERIOD + phase)
    logits = np.where(lag >= 0, logits + 0.1 * rng.normal(size=logits.shape), -np.inf)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True))[:, None].astype(np.float32)


def main() -> None:
    """Analyse it and print what was found."""
    ensemble = es.AttentionEnsemble.from_arrays(planted(), causal=True)
    study = es.analyze(ensemble)
    layer = study.layer(0)
    print(study)
    print(f"dominant wavelength: {float(layer['dominant_wavelength'][0]):.2f} tokens ({layer['status'].values[0]})")
    print(f"half of the fluctuation lies within {float(layer['median_lag']):.0f} tokens")


if __name__ == "__main__":
    main()
