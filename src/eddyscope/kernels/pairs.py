"""Statistics of pairs of complex coefficients over documents: coherence, its chance level, phase, amplitude."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
ComplexArray = NDArray[np.complexfloating[Any, Any]]

#: Queries transformed together; keys beyond the last of them need no arithmetic in a causal field.
_ROWS_TOGETHER = 16


@dataclass(frozen=True)
class PairStatistics:
    """What can be said of x and y, both complex, over documents; all arrays of the shape (query, key).

    Parameters
    ----------
    coherence : complex array
        ``<x conj y> / sqrt(<|x|^2> <|y|^2>)``.
    chance : array
        ``m0 = sum |x|^2 |y|^2 / (sum |x|^2 sum |y|^2)``: expected squared coherence where the phases are independent,
        whatever the amplitudes do.
    phase_consistency : array
        Pairwise phase consistency ``(|sum exp(i phi)|^2 - N) / (N (N - 1))``, phi the phase of ``x conj y``: 0 in the
        mean for independent phases, 1 for a constant phase, amplitudes left aside.
    amplitude_correlation : array
        Correlation over documents of ``|x|`` and ``|y|``.

    References
    ----------
    Vinck, van Wingerden, Womelsdorf, Fries and Pennartz (2010), NeuroImage 51, 112-122.
    """

    coherence: ComplexArray
    chance: FloatArray
    phase_consistency: FloatArray
    amplitude_correlation: FloatArray


def pair_statistics(own: ComplexArray, real: FloatArray, imaginary: FloatArray) -> PairStatistics:
    """Statistics of one coefficient a row with many others.

    Parameters
    ----------
    own : complex array, shape (document, query)
        x.
    real, imaginary : array, shape (document, query, key)
        Parts of y.

    Returns
    -------
    PairStatistics
        NaN where there is no energy; the phase consistency also below two documents.
    """
    documents = own.shape[0]
    dtype = real.dtype
    square: FloatArray = np.abs(own) ** 2
    amplitude = np.sqrt(square)
    power = real * real + imaginary * imaginary
    own_total, total = square.sum(axis=0)[:, None], power.sum(axis=0, dtype=np.float64)
    numerator = _over_documents(own.real, real) + _over_documents(own.imag, imaginary)
    numerator = numerator + 1j * (_over_documents(own.imag, real) - _over_documents(own.real, imaginary))
    weighted = _over_documents(square, power)
    size = np.sqrt(power, out=power)
    mean, own_mean = size.mean(axis=0, dtype=np.float64), amplitude.mean(axis=0)[:, None]
    shared = _over_documents(amplitude, size) / documents - own_mean * mean
    spread = (own_total / documents - own_mean**2) * (total / documents - mean**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        direction = np.where(amplitude > 0, own / amplitude, 0)
        inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0).astype(dtype, copy=False)
        real, imaginary = real * inverse, imaginary * inverse
        along = _over_documents(direction.real, real) + _over_documents(direction.imag, imaginary)
        across = _over_documents(direction.imag, real) - _over_documents(direction.real, imaginary)
        consistency = (along**2 + across**2 - documents) / (documents * (documents - 1.0))
        energy = own_total * total
        return PairStatistics(
            np.where(energy > 0, numerator / np.sqrt(energy), np.nan),
            np.where(energy > 0, weighted / energy, np.nan),
            np.where(energy > 0, consistency, np.nan),
            np.where(spread > 0, shared / np.sqrt(np.maximum(spread, 0.0)), np.nan),
        )


def field_pairs(dense: FloatArray, transform: ComplexArray, causal: bool) -> PairStatistics:
    """Statistics of the query's own position with every key position, of a field's transform along the key axis.

    Parameters
    ----------
    dense : array, shape (document, query, key)
        The fluctuation. As many keys as queries.
    transform : complex array, shape (key, key)
        From :func:`eddyscope.kernels.coherence.key_transform`.
    causal : bool
        True: rows end at the query, and keys after it give NaN.

    Returns
    -------
    PairStatistics
        Shape (query, key). The coherence is that of :func:`eddyscope.kernels.coherence.cross_coherence`, at about the
        same cost.
    """
    documents, queries, keys = dense.shape
    working = np.dtype(np.float64 if dense.dtype == np.float64 else np.float32)
    real = np.ascontiguousarray(transform.real.T, dtype=working)  # (key, position)
    imaginary = np.ascontiguousarray(transform.imag.T, dtype=working)
    coherence = np.full((queries, keys), np.nan, dtype=np.complex128)
    chance, consistency, correlation = (np.full((queries, keys), np.nan) for _ in range(3))
    for first in range(0, queries, _ROWS_TOGETHER):
        stop = min(first + _ROWS_TOGETHER, queries)
        reach = stop if causal else keys
        rows = np.ascontiguousarray(dense[:, first:stop, :reach], dtype=working).reshape(-1, reach)
        shape = (documents, stop - first, reach)
        parts = [(rows @ half[:reach, :reach]).reshape(shape) for half in (real, imaginary)]
        here = np.arange(first, stop)
        own = parts[0][:, here - first, here] + 1j * parts[1][:, here - first, here]
        pairs = pair_statistics(own.astype(np.complex128), *parts)
        coherence[first:stop, :reach] = pairs.coherence
        chance[first:stop, :reach] = pairs.chance
        consistency[first:stop, :reach] = pairs.phase_consistency
        correlation[first:stop, :reach] = pairs.amplitude_correlation
    if causal:
        for whole in (coherence, chance, consistency, correlation):
            whole[np.triu_indices(queries, 1)] = np.nan
    return PairStatistics(coherence, chance, consistency, correlation)


def _over_documents(weight: FloatArray, values: FloatArray) -> FloatArray:
    """``sum_s weight[s, i] values[s, i, j]``, shape (query, key), float64."""
    summed = np.einsum("si,sij->ij", weight.astype(values.dtype, copy=False), values)
    return np.asarray(summed, dtype=np.float64)
