"""Sums over documents from which the statistics of pairs of coefficients follow, for fields that come in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.pairs import PairStatistics

FloatArray = NDArray[np.floating[Any]]
ComplexArray = NDArray[np.complexfloating[Any, Any]]

#: Queries transformed together, as in :mod:`eddyscope.kernels.pairs`.
_ROWS_TOGETHER = 16


@dataclass
class PairSums:
    """Sums of x, the query's own coefficient, with y, that of every key; all of the shape (query, key), float64.

    Parameters
    ----------
    crossed : complex array
        ``sum x conj y``.
    power, own_power : array
        ``sum |y|^2`` and, of shape (query, 1), ``sum |x|^2``.
    weighted : array
        ``sum |x|^2 |y|^2``.
    amplitude, own_amplitude : array
        ``sum |y|`` and, of shape (query, 1), ``sum |x|``.
    shared : array
        ``sum |x| |y|``.
    direction : complex array
        ``sum exp(i phi)``, phi the phase of ``x conj y``.
    documents : int
    """

    crossed: ComplexArray
    power: FloatArray
    own_power: FloatArray
    weighted: FloatArray
    amplitude: FloatArray
    own_amplitude: FloatArray
    shared: FloatArray
    direction: ComplexArray
    documents: int = 0

    @classmethod
    def empty(cls, length: int) -> PairSums:
        """Sums of no document yet, of a field with so many queries and keys."""
        shape, own = (length, length), (length, 1)
        zeros = np.zeros
        return cls(
            zeros(shape, dtype=np.complex128), zeros(shape), zeros(own), zeros(shape), zeros(shape), zeros(own),
            zeros(shape), zeros(shape, dtype=np.complex128),
        )  # fmt: skip

    def add(self, dense: FloatArray, transform: ComplexArray, causal: bool) -> None:
        """Count the documents of a block.

        Parameters
        ----------
        dense : array, shape (document, query, key)
            The fluctuation about the mean of all documents, or the raw field.
        transform : complex array, shape (position, key)
            From :func:`eddyscope.kernels.coherence.key_transform`.
        causal : bool
            True: rows end at the query.
        """
        documents, queries, keys = dense.shape
        working = np.dtype(np.float64 if dense.dtype == np.float64 else np.float32)
        halves = [np.ascontiguousarray(part.T, dtype=working) for part in (transform.real, transform.imag)]
        for first in range(0, queries, _ROWS_TOGETHER):
            stop = min(first + _ROWS_TOGETHER, queries)
            reach = stop if causal else keys
            rows = np.ascontiguousarray(dense[:, first:stop, :reach], dtype=working).reshape(-1, reach)
            parts = [(rows @ half[:reach, :reach]).reshape(documents, -1, reach) for half in halves]
            here = np.arange(first, stop)
            own = parts[0][:, here - first, here] + 1j * parts[1][:, here - first, here].astype(np.float64)
            self._add(slice(first, stop), slice(reach), own, *parts)
        self.documents += documents

    def _add(self, q: slice, k: slice, own: ComplexArray, real: FloatArray, imaginary: FloatArray) -> None:
        square: FloatArray = np.abs(own) ** 2
        amplitude = np.sqrt(square)
        size = real * real + imaginary * imaginary
        self.crossed[q, k] += _complex(own, real, imaginary)
        self.power[q, k] += size.sum(axis=0, dtype=np.float64)
        self.own_power[q, 0] += square.sum(axis=0)
        self.weighted[q, k] += _over_documents(square, size)
        np.sqrt(size, out=size)
        self.amplitude[q, k] += size.sum(axis=0, dtype=np.float64)
        self.own_amplitude[q, 0] += amplitude.sum(axis=0)
        self.shared[q, k] += _over_documents(amplitude, size)
        with np.errstate(divide="ignore", invalid="ignore"):
            unit = np.where(amplitude > 0, own / amplitude, 0)
        inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0).astype(size.dtype, copy=False)
        self.direction[q, k] += _complex(unit, real * inverse, imaginary * inverse)

    def statistics(self, causal: bool) -> PairStatistics:
        """Coherence and what is beside it, as :func:`eddyscope.kernels.pairs.field_pairs` gives it."""
        count = self.documents
        own_mean, mean = self.own_amplitude / count, self.amplitude / count
        spread = (self.own_power / count - own_mean**2) * (self.power / count - mean**2)
        energy = self.own_power * self.power
        with np.errstate(divide="ignore", invalid="ignore"):
            agreement = (np.abs(self.direction) ** 2 - count) / (count * (count - 1.0))
            found = PairStatistics(
                np.where(energy > 0, self.crossed / np.sqrt(energy), np.nan),
                np.where(energy > 0, self.weighted / energy, np.nan),
                np.where(energy > 0, agreement, np.nan),
                np.where(
                    spread > 0, (self.shared / count - own_mean * mean) / np.sqrt(np.maximum(spread, 0.0)), np.nan
                ),
            )
        beyond = np.abs(found.coherence) > 1  # by rounding
        found.coherence[beyond] /= np.abs(found.coherence[beyond])
        if causal:
            above = np.triu_indices(mean.shape[0], 1)
            for whole in (found.coherence, found.chance, found.phase_consistency, found.amplitude_correlation):
                whole[above] = np.nan
        return found


def _complex(own: ComplexArray, real: FloatArray, imaginary: FloatArray) -> ComplexArray:
    """``sum_s own[s, i] conj(y[s, i, j])``."""
    return np.asarray(
        _over_documents(own.real, real)
        + _over_documents(own.imag, imaginary)
        + 1j * (_over_documents(own.imag, real) - _over_documents(own.real, imaginary))
    )


def _over_documents(weight: FloatArray, values: FloatArray) -> FloatArray:
    """``sum_s weight[s, i] values[s, i, j]``, shape (query, key), float64."""
    summed = np.einsum("si,sij->ij", weight.astype(values.dtype, copy=False), values)
    return np.asarray(summed, dtype=np.float64)
