"""The analytic Morlet transform along the lag, as a matrix, and what follows from the lag covariance.

The transform of a row is linear, ``W = K_a x`` with one complex matrix a scale, edges folded in. So the ensemble
scalogram needs only the lag covariance ``C = <x x'>``: ``E(a, b) = K_a(b, :) C K_a(b, :)^H``, and the global
spectrum is linear in C: ``E(a) = sum_tt' M_a[t, t'] C[t, t']``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from eddyscope.kernels.costs import fourier_pays
from eddyscope.kernels.namespace import (
    is_numpy,
    like,
    namespace,
    products_over_first,
    products_over_last,
    zeros,
)

FloatArray = NDArray[np.floating[Any]]
ComplexArray = NDArray[np.complexfloating[Any, Any]]

SCALES_PER_OCTAVE = 8

#: Transforms and linear forms larger than this are not kept, in bytes.
_CACHE_BYTES = 64 << 20
#: Columns of a covariance that are transformed together, in bytes.
_FOURIER_BYTES = 64 << 20


def morlet_hat(frequency: FloatArray, scale: float, omega0: float, unit_energy: bool = True) -> FloatArray:
    """Fourier transform of the analytic Morlet wavelet at one scale.

    ``psi_hat_a(f) = pi^(-1/4) sqrt(2 pi a) exp(-(2 pi f a - omega0)^2 / 2)`` for f > 0, and 0 otherwise. With the
    factor ``pi^(-1/4)`` white noise of unit variance gives ``<|W|^2> = 1`` at every scale that Nyquist does not cut.

    Parameters
    ----------
    frequency : array
        In cycles per token.
    scale : float
        In tokens.
    omega0 : float
        Centre frequency of the mother wavelet, in radians.
    unit_energy : bool
        False leaves out ``pi^(-1/4)``, as the published script does.

    Returns
    -------
    array, the shape of ``frequency``

    References
    ----------
    Torrence and Compo (1998), Bull. Amer. Meteor. Soc. 79, table 1 and equation 6.
    """
    amplitude = np.sqrt(2 * np.pi * scale) * (np.pi**-0.25 if unit_energy else 1.0)
    gaussian = np.exp(-0.5 * (2 * np.pi * frequency * scale - omega0) ** 2)
    return np.where(frequency > 0, amplitude * gaussian, 0.0)


def wavelength(scale: float | FloatArray, omega0: float) -> Any:
    """Period of a sine at which ``|W|^2`` peaks in scale: ``4 pi a / (omega0 + sqrt(2 + omega0^2))``, in tokens.

    References
    ----------
    Torrence and Compo (1998), table 1.
    """
    return 4 * np.pi * np.asarray(scale) / (omega0 + np.sqrt(2 + omega0**2))


def scale_limits(lags: int, omega0: float) -> tuple[float, float, float]:
    """Smallest scale clear of Nyquist, largest clear of the edges, and largest at all, in tokens.

    ``(omega0 + 2) / pi``, ``n / (4 sqrt 2)`` and ``n / (2 sqrt 2)`` for n lags on the axis.
    """
    return (omega0 + 2) / np.pi, lags / (4 * np.sqrt(2)), lags / (2 * np.sqrt(2))


def default_scales(lags: int, omega0: float) -> FloatArray:
    """Log-spaced scales, eight an octave, from the Nyquist limit up to ``n / (2 sqrt 2)``; at least one."""
    smallest, _, largest = scale_limits(lags, omega0)
    count = max(0, int(np.floor(np.log2(largest / smallest) * SCALES_PER_OCTAVE + 1e-9))) + 1
    return smallest * 2.0 ** (np.arange(count) / SCALES_PER_OCTAVE)


def cone(lags: int, scale: float, two_sided: bool) -> tuple[float, float]:
    """Positions inside the cone of influence, ``sqrt(2) a <= b <= n - 1 - sqrt(2) a``.

    Above ``n / (4 sqrt 2)`` a causal axis respects only its far end; a two-sided axis keeps both, and its middle
    position where they meet.
    """
    reach = np.sqrt(2) * scale
    low, high = reach, lags - 1 - reach
    if scale > scale_limits(lags, 6.0)[1]:
        if two_sided:
            middle = (lags - 1) / 2
            low, high = min(low, middle), max(high, middle)
        else:
            low = 0.0
    return float(low), float(high)


def cone_weights(lags: int, scale: float, two_sided: bool) -> FloatArray:
    """Weight of each position in the mean over the cone; sums to 1, or all zero where the cone is empty.

    A position stands for ``[b - 1/2, b + 1/2]`` and counts by the fraction of it that lies inside: a cut at whole
    positions makes the spectrum step from scale to scale, and the steps look like peaks.
    """
    low, high = cone(lags, scale, two_sided)
    if high < low:
        return np.zeros(lags)
    position = np.arange(lags)
    inside = np.clip(np.minimum(position + 0.5, high) - np.maximum(position - 0.5, low), 0.0, 1.0)
    if inside.sum() == 0:  # a cone of one point
        inside[round((low + high) / 2)] = 1.0
    return np.asarray(inside / inside.sum())


def transform_matrix(
    lags: int,
    scale: float,
    omega0: float,
    edges: str,
    two_sided: bool,
    *,
    length: int,
    unit_energy: bool = True,
    columns: slice = slice(None),
) -> ComplexArray:
    """Matrix K of the transform at one scale: ``W = K x`` for a row x of n lags.

    Parameters
    ----------
    lags : int
        n, number of lags on the axis.
    scale, omega0 : float
    edges : {"zero", "reflect", "replicate"}
        What stands beyond the axis. ``reflect``: the mirror image, lag 0 (the first of a causal axis) not repeated,
        zeros beyond the far end of a causal axis, both ends of a two-sided one. ``replicate``: the end values.
    two_sided : bool
    length : int
        Length of the Fourier transform, at least twice n.
    unit_energy : bool
        See :func:`morlet_hat`.
    columns : slice
        Lags whose columns are wanted.

    Returns
    -------
    complex array, shape (position, lag)
    """
    kernel = fft.ifft(morlet_hat(fft.fftfreq(length), scale, omega0, unit_energy))
    position, lag = np.arange(lags)[:, None], np.arange(lags)[None, columns]
    matrix: ComplexArray = kernel[(position - lag) % length]
    if edges == "reflect":
        matrix += np.where(lag > 0, kernel[(position + lag) % length], 0)
        if two_sided:
            matrix += np.where(lag < lags - 1, kernel[(position - 2 * (lags - 1) + lag) % length], 0)
    elif edges == "replicate":
        beyond = np.arange(1, lags + 1)[None, :]
        before = kernel[(position + beyond) % length].sum(axis=1, keepdims=True)
        after = kernel[(position - (lags - 1) - beyond) % length].sum(axis=1, keepdims=True)
        matrix += np.where(lag == 0, before, 0) + np.where(lag == lags - 1, after, 0)
    return matrix


def laid_out(rows: FloatArray, edges: str, two_sided: bool, length: int) -> FloatArray:
    """Rows of n lags on a circle, with what stands beyond the axis, as :func:`transform_matrix` has it.

    Parameters
    ----------
    rows : array, shape (row, lag)
    edges, two_sided, length
        As in :func:`transform_matrix`; position -1 is the last on the circle.

    Returns
    -------
    array, shape (row, length)
    """
    xp, lags = namespace(rows), rows.shape[1]
    circle: FloatArray = zeros((rows.shape[0], length), rows)
    circle[:, :lags] = rows
    if edges == "reflect" and lags > 1:
        circle[:, length - lags + 1 :] += xp.flip(rows[:, 1:], axis=1)
        if two_sided:
            circle[:, lags : 2 * lags - 1] += xp.flip(rows[:, : lags - 1], axis=1)
    elif edges == "replicate":
        circle[:, length - lags :] += rows[:, :1]
        circle[:, lags : 2 * lags] += rows[:, lags - 1 :]
    return circle


@dataclass(frozen=True)
class LagTransform:
    """The Morlet transforms of one lag axis at a list of scales.

    Parameters
    ----------
    lags : int
        Number of lags on the axis.
    scales : tuple of float
        In tokens.
    omega0 : float
    edges : {"zero", "reflect", "replicate"}
        See :func:`transform_matrix`.
    two_sided : bool
    unit_energy : bool
        False for the published normalisation.
    length : int, optional
        Length of the Fourier transform; four times the lags by default.
    whole_axis : bool
        True: spectra are sums over all positions, without a cone (the published script).
    """

    lags: int
    scales: tuple[float, ...]
    omega0: float = 6.0
    edges: str = "reflect"
    two_sided: bool = False
    unit_energy: bool = True
    length: int | None = None
    whole_axis: bool = False

    @property
    def _length(self) -> int:
        return self.length or fft.next_fast_len(4 * self.lags)

    def _columns(self, index: int, columns: slice = slice(None)) -> ComplexArray:
        return transform_matrix(
            self.lags,
            self.scales[index],
            self.omega0,
            self.edges,
            self.two_sided,
            length=self._length,
            unit_energy=self.unit_energy,
            columns=columns,
        )

    def matrix(self, index: int) -> FloatArray:
        """Real and imaginary part of K at one scale, stacked: shape (2 position, lag), float64."""
        k = self._columns(index)
        return np.concatenate([k.real, k.imag])

    @cached_property
    def _kept(self) -> list[FloatArray] | None:
        if len(self.scales) * 2 * self.lags**2 * 8 > _CACHE_BYTES:
            return None
        return [self.matrix(i) for i in range(len(self.scales))]

    def _matrix(self, index: int) -> FloatArray:
        return self.matrix(index) if self._kept is None else self._kept[index]

    @cached_property
    def _weights(self) -> FloatArray:
        """Weight of each position in the global spectrum, shape (scale, position)."""
        if self.whole_axis:
            return np.ones((len(self.scales), self.lags))
        return np.stack([cone_weights(self.lags, a, self.two_sided) for a in self.scales])

    def scalogram(self, covariance: FloatArray) -> FloatArray:
        """``E(a, b) = K_a(b, :) C K_a(b, :)^H``.

        Parameters
        ----------
        covariance : array, shape (lag, lag)
            Symmetric lag covariance, float64; NumPy, or of any namespace, as the result then is.

        Returns
        -------
        array, shape (scale, position)
        """
        if fourier_pays(self.lags, self._length):
            return self._by_fourier(covariance)
        xp = namespace(covariance)
        energy = []
        for index in range(len(self.scales)):
            k = like(self._matrix(index), covariance)
            both = products_over_last(k @ covariance, k)
            energy.append(both[: self.lags] + both[self.lags :])
        stacked: FloatArray = xp.stack(energy)
        return stacked

    def _by_fourier(self, covariance: FloatArray) -> FloatArray:
        """The scalogram with ``K_a C`` by FFT, a few columns of C at a time."""
        xp = namespace(covariance)
        energy: FloatArray = zeros((len(self.scales), self.lags), covariance)
        frequency = fft.fftfreq(self._length)
        step = max(1, _FOURIER_BYTES // (32 * self._length))  # spectra, and these times the wavelet
        for start in range(0, self.lags, step):
            columns = slice(start, min(start + step, self.lags))
            # C is symmetric, so its rows are its columns; what lies beyond both ends is folded in before the transform
            spectra = _fourier(laid_out(covariance[columns, :], self.edges, self.two_sided, self._length))
            for index, scale in enumerate(self.scales):
                hat = like(morlet_hat(frequency, scale, self.omega0, self.unit_energy), covariance)
                transformed = _inverse_fourier(spectra * hat)[:, : self.lags]  # (column, position)
                k = self._columns(index, columns).T
                real, imaginary = like(k.real, covariance), like(k.imag, covariance)
                energy[index, ...] += products_over_first(xp.real(transformed), real)
                energy[index, ...] += products_over_first(xp.imag(transformed), imaginary)
        return energy

    def spectrum(self, scalogram: FloatArray) -> FloatArray:
        """Global spectrum: mean of a scalogram over the cone, shape (scale,); NaN where the cone is empty."""
        xp = namespace(scalogram)
        return self._in_cone(xp.sum(scalogram * like(self._weights, scalogram), axis=1))

    def _in_cone(self, energy: FloatArray) -> FloatArray:
        """Energies (..., scale), NaN where the cone is empty."""
        empty = ~self._weights.any(axis=1)
        known: FloatArray = energy + like(np.where(empty, np.nan, 0.0), energy)
        return known

    @cached_property
    def _spectrum_forms(self) -> FloatArray:
        """``M_a``, shape (scale, lag * lag): the global spectrum as a linear form of the covariance."""
        forms = np.empty((len(self.scales), self.lags**2))
        for index in range(len(self.scales)):
            k = self._matrix(index)
            weights = np.tile(self._weights[index], 2)
            forms[index] = (k.T @ (weights[:, None] * k)).reshape(-1)
        return forms

    def spectra(self, covariances: FloatArray) -> FloatArray:
        """Global spectra of many covariances at once (replicates of a jackknife).

        Parameters
        ----------
        covariances : array, shape (replicate, lag, lag)

        Returns
        -------
        array, shape (replicate, scale)
            NaN where the cone is empty.
        """
        xp = namespace(covariances)
        if len(self.scales) * self.lags**2 * 8 > _CACHE_BYTES:
            several: FloatArray = xp.stack(
                [self.spectrum(self.scalogram(covariances[i, ...])) for i in range(covariances.shape[0])]
            )
            return several
        flat = xp.reshape(covariances, (covariances.shape[0], -1))
        return self._in_cone(flat @ like(self._spectrum_forms.T, covariances))


def _fourier(array: Any) -> Any:
    """Fourier transform along the last axis, complex128."""
    if is_numpy(array):
        return fft.fft(array)  # knows that it is real
    xp = namespace(array)
    return xp.fft.fft(xp.astype(array, xp.complex128))


def _inverse_fourier(array: Any) -> Any:
    """The transform back, of complex numbers."""
    return fft.ifft(array, overwrite_x=True) if is_numpy(array) else namespace(array).fft.ifft(array)


@lru_cache(maxsize=8)
def lag_transform(
    lags: int, scales: tuple[float, ...], omega0: float, edges: str, two_sided: bool = False
) -> LagTransform:
    """A :class:`LagTransform` that layers of the same shape share."""
    return LagTransform(lags, scales, omega0, edges, two_sided)
