"""Statistics of pairs of complex coefficients over documents: coherence, its chance level, phase, amplitude."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.coherence import ROWS_TOGETHER, RowsOf, centred_rows
from eddyscope.kernels.namespace import working
from eddyscope.lagfield import LagGeometry

FloatArray = NDArray[np.floating[Any]]
ComplexArray = NDArray[np.complexfloating[Any, Any]]


#: Variance of an amplitude, over its squared mean, that is rounding.
_ROUNDING = 1e-12


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


@dataclass
class PairSums:
    """Sums over documents of x, the query's own coefficient, with y, that of every key, shape (query, key), float64.

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
    def empty(cls, queries: int, keys: int) -> PairSums:
        """Sums of no document yet."""
        shape, own = (queries, keys), (queries, 1)
        zeros = np.zeros
        return cls(
            zeros(shape, dtype=np.complex128), zeros(shape), zeros(own), zeros(shape), zeros(shape), zeros(own),
            zeros(shape), zeros(shape, dtype=np.complex128),
        )  # fmt: skip

    def add(self, rows_of: RowsOf, documents: int, transform: ComplexArray) -> None:
        """Count some documents.

        Parameters
        ----------
        rows_of : callable
            See :func:`eddyscope.kernels.coherence.centred_rows`: of the fluctuation about the mean of all documents, or
            of the raw field.
        documents : int
        transform : complex array, shape (position, key)
            From :func:`eddyscope.kernels.coherence.key_transform`.
        """
        queries = self.power.shape[0]
        for first in range(0, queries, ROWS_TOGETHER):
            stop = min(first + ROWS_TOGETHER, queries)
            rows = rows_of(first, stop)
            rows = np.ascontiguousarray(rows, dtype=working(rows))
            reach = rows.shape[2]
            # Real and imaginary parts each in order, (key, position), as all that follows runs over them.
            halves = [half[:reach, :reach].T.astype(rows.dtype) for half in (transform.real, transform.imag)]
            real, imaginary = ((rows.reshape(-1, reach) @ half).reshape(rows.shape) for half in halves)
            here = np.arange(first, stop)
            own = real[:, here - first, here] + 1j * imaginary[:, here - first, here].astype(np.float64)
            self.add_coefficients(first, own, real, imaginary)
        self.documents += documents

    def add_coefficients(self, first: int, own: ComplexArray, real: FloatArray, imaginary: FloatArray) -> None:
        """Add coefficients of some queries; the documents are to be counted beside.

        Parameters
        ----------
        first : int
            First query.
        own : complex array, shape (document, query)
            x.
        real, imaginary : array, shape (document, query, key)
            Parts of y, of the leading keys.
        """
        q, k = slice(first, first + own.shape[1]), slice(real.shape[2])
        square: FloatArray = np.abs(own) ** 2
        amplitude = np.sqrt(square)
        size = real * real + imaginary * imaginary
        self.crossed[q, k] += _crossed(own, real, imaginary)
        self.power[q, k] += size.sum(axis=0, dtype=np.float64)
        self.own_power[q, 0] += square.sum(axis=0)
        self.weighted[q, k] += _over_documents((square,), size)[0]
        np.sqrt(size, out=size)
        self.amplitude[q, k] += size.sum(axis=0, dtype=np.float64)
        self.own_amplitude[q, 0] += amplitude.sum(axis=0)
        self.shared[q, k] += _over_documents((amplitude,), size)[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            unit = np.where(amplitude > 0, own / amplitude, 0)
        inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
        self.direction[q, k] += _crossed(unit, real * inverse, imaginary * inverse)

    def statistics(self, causal: bool) -> PairStatistics:
        """What follows from the sums.

        Parameters
        ----------
        causal : bool
            True: keys after the query give NaN.

        Returns
        -------
        PairStatistics
            NaN where there is no energy; the phase consistency also below two documents, the amplitude correlation
            where an amplitude does not vary.
        """
        count = self.documents
        own_mean, mean = self.own_amplitude / count, self.amplitude / count
        own_spread, spread = self.own_power / count - own_mean**2, self.power / count - mean**2
        vary = (own_spread > _ROUNDING * own_mean**2) & (spread > _ROUNDING * mean**2)
        energy = self.own_power * self.power
        with np.errstate(divide="ignore", invalid="ignore"):
            agreement = (np.abs(self.direction) ** 2 - count) / (count * (count - 1.0))
            found = PairStatistics(
                np.where(energy > 0, self.crossed / np.sqrt(energy), np.nan),
                np.where(energy > 0, self.weighted / energy, np.nan),
                np.where(energy > 0, agreement, np.nan),
                np.where(vary, (self.shared / count - own_mean * mean) / np.sqrt(own_spread * spread), np.nan),
            )
        beyond = np.abs(found.coherence) > 1  # by rounding
        found.coherence[beyond] /= np.abs(found.coherence[beyond])
        if causal:
            above = np.triu_indices(mean.shape[0], 1)
            for whole in (found.coherence, found.chance, found.phase_consistency, found.amplitude_correlation):
                whole[above] = np.nan
        return found


def pair_statistics(own: ComplexArray, real: FloatArray, imaginary: FloatArray) -> PairStatistics:
    """Statistics of one coefficient a row with many others.

    Parameters
    ----------
    own : complex array, shape (document, query)
        x.
    real, imaginary : array, shape (document, query, key)
        Parts of y.
    """
    sums = PairSums.empty(*real.shape[1:])
    sums.add_coefficients(0, own, real, imaginary)
    sums.documents = own.shape[0]
    return sums.statistics(causal=False)


def field_pairs(
    values: FloatArray, geometry: LagGeometry, transform: ComplexArray, mean: FloatArray | None = None
) -> PairStatistics:
    """Statistics of the query's own position with every key position, of a field's transform along the key axis.

    Parameters
    ----------
    values : array, shape (document, entry)
        Packed snapshots, of which a few rows at a time are laid out.
    geometry : LagGeometry
        Whole: as many keys as queries, and all lags.
    transform : complex array, shape (key, key)
        From :func:`eddyscope.kernels.coherence.key_transform`.
    mean : array, shape (entry,), float64, optional
        Mean field, for the statistics of the fluctuation; those of the raw field without it.

    Returns
    -------
    PairStatistics
        Shape (query, key), NaN for keys that a causal query does not see. The coherence is that of
        :func:`eddyscope.kernels.coherence.packed_coherence`, at about the same cost.
    """
    sums = PairSums.empty(geometry.queries, geometry.keys)
    sums.add(centred_rows(values, geometry, mean), values.shape[0], transform)
    return sums.statistics(geometry.causal)


def _crossed(own: ComplexArray, real: FloatArray, imaginary: FloatArray) -> ComplexArray:
    """``sum_s x[s, i] conj(y[s, i, j])``, shape (query, key), in double precision."""
    weights = (own.real, own.imag)
    (real_real, imaginary_real), (real_imaginary, imaginary_imaginary) = (
        _over_documents(weights, part) for part in (real, imaginary)
    )
    found: ComplexArray = real_real + imaginary_imaginary + 1j * (imaginary_real - real_imaginary)
    return found


def _over_documents(weights: tuple[FloatArray, ...], values: FloatArray) -> FloatArray:
    """``sum_s weight[s, i] values[s, i, j]``, shape (weight, query, key), in double precision."""
    narrow = np.stack(weights, axis=1).transpose(2, 1, 0).astype(values.dtype)  # (query, weight, document)
    return np.asarray((narrow @ values.transpose(1, 0, 2)).transpose(1, 0, 2), dtype=np.float64)
