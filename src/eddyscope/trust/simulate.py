"""Gaussian ensembles with a known spectrum, for tests and for the examples of the documentation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]

#: Numbers drawn at a time.
_CHUNK = 4096


def power_law(entries: int, beta: float) -> FloatArray:
    """Eigenvalues ``k^-beta``, k = 1..entries."""
    return np.asarray(np.arange(1, entries + 1, dtype=np.float64) ** -beta)


def gaussian_gram(
    spectrum: FloatArray, documents: int, seed: int | np.random.Generator = 0, amplitude: FloatArray | None = None
) -> FloatArray:
    """Snapshot Gram of Gaussian fields, ``K = C Z diag(lambda) Z' C / N``, C the centring, without keeping the fields.

    Parameters
    ----------
    spectrum : array, shape (entry,)
        Eigenvalues of the true covariance.
    documents : int
    seed : int or numpy Generator
    amplitude : array, shape (document,), optional
        Factor on each document's field, which makes the ensemble a scale mixture.

    Returns
    -------
    array, shape (document, document)
        Centred, with the factor 1/N.
    """
    rng = np.random.default_rng(seed)
    gram = np.zeros((documents, documents))
    for start in range(0, spectrum.size, _CHUNK):
        part = spectrum[start : start + _CHUNK]
        fields = rng.standard_normal((documents, part.size)) * np.sqrt(part)
        if amplitude is not None:
            fields *= amplitude[:, None]
        fields -= fields.mean(axis=0)
        gram += fields @ fields.T
    return gram / documents


def true_participation_ratio(spectrum: FloatArray) -> float:
    """``(sum lambda)^2 / sum lambda^2`` of the true eigenvalues."""
    return float(spectrum.sum() ** 2 / (spectrum**2).sum())


def true_effective_rank(spectrum: FloatArray, tolerance: float) -> int:
    """``H*(tolerance)`` of the true eigenvalues, descending."""
    missed = spectrum.sum() - np.cumsum(spectrum)
    return int(np.argmax(missed <= tolerance * spectrum.sum())) + 1
