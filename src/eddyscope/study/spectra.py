"""Scalogram and global spectra of one field, through its lag covariance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyscope.kernels.lagstats import LagCovariance, standardise
from eddyscope.kernels.morlet import (
    LagTransform,
    cone,
    default_scales,
    lag_transform,
    scale_limits,
    wavelength,
)
from eddyscope.lagfield import FloatArray
from eddyscope.study.options import Options
from eddyscope.study.published import published_scales, published_transform
from eddyscope.study.rows import LagAxis

#: What the dominant scales must survive: the edge rule that is not in use.
OTHER_EDGES = {"reflect": "zero", "zero": "reflect", "replicate": "zero"}


@dataclass(frozen=True)
class Spectra:
    """Spectral results of one field of one head.

    Parameters
    ----------
    scales, wavelengths : array, shape (scale,)
        Tokens.
    status : tuple of str
        ``ok``, ``edge-affected`` or ``above Nyquist`` for each scale.
    scalogram : array, shape (part, scale, lag)
        Total, mean, fluctuation; they add up.
    spectrum : array, shape (part, normalisation, scale)
    other_edges : array, shape (scale,)
        Spectrum of the fluctuation under the other edge rule; NaN in the published preset.
    replicates : array, shape (group, scale), or None
        Spectra of the fluctuation with one group of documents left out.
    covariance : LagCovariance
    edges : str
    cones : array, shape (scale, 2)
        First and last position inside the cone; NaN where it is empty.
    """

    scales: FloatArray
    wavelengths: FloatArray
    status: tuple[str, ...]
    scalogram: FloatArray
    spectrum: FloatArray
    other_edges: FloatArray
    replicates: FloatArray | None
    covariance: LagCovariance
    edges: str
    cones: FloatArray

    @property
    def fluctuation(self) -> FloatArray:
        """Global energy spectrum of the fluctuation, shape (scale,)."""
        return np.asarray(self.spectrum[2, 0])

    def clear(self) -> np.ndarray:
        """Scales that neither Nyquist nor the edges touch, shape (scale,)."""
        return np.array([s == "ok" for s in self.status])


def spectra(axis: LagAxis, covariance: LagCovariance, options: Options, causal: bool) -> Spectra:
    """Scalogram and spectra of rows in lag coordinates.

    Parameters
    ----------
    axis : LagAxis
    covariance : LagCovariance
        Of the rows; without groups there are no replicates.
    options : Options
    causal : bool
    """
    transform, other = _transforms(axis.lags.size, options, causal)
    mean, fluctuation = transform.scalogram(covariance.mean), transform.scalogram(covariance.fluctuation)
    parts = np.stack([mean + fluctuation, mean, fluctuation])
    scales = np.array(transform.scales)
    return Spectra(
        scales=scales,
        wavelengths=wavelength(scales, options.omega0),
        status=scale_status(scales, axis.lags.size, options.omega0),
        scalogram=parts,
        spectrum=_normalisations(parts, transform, covariance),
        other_edges=np.full(scales.size, np.nan) if other is None else other.spectra(covariance.fluctuation[None])[0],
        replicates=None if covariance.without_group is None else transform.spectra(covariance.without_group),
        covariance=covariance,
        edges="replicate" if options.preset == "published" else transform.edges,
        cones=_cones(transform),
    )


def _transforms(lags: int, options: Options, causal: bool) -> tuple[LagTransform, LagTransform | None]:
    """The transform in use, and the one under the other edge rule."""
    if options.preset == "published":
        scales = published_scales() if options.scales is None else np.array(options.scales)
        return published_transform(lags, scales), None
    scales = default_scales(lags, options.omega0) if options.scales is None else np.array(options.scales)
    edges = options.edges or ("reflect" if causal else "zero")
    return (
        lag_transform(lags, tuple(scales), options.omega0, edges, not causal),
        lag_transform(lags, tuple(scales), options.omega0, OTHER_EDGES[edges], not causal),
    )


def scale_status(scales: FloatArray, lags: int, omega0: float) -> tuple[str, ...]:
    """Whether Nyquist or the edges touch each scale."""
    smallest, clear, _ = scale_limits(lags, omega0)
    slack = 1 + 1e-9
    return tuple(
        "above Nyquist" if a * slack < smallest else "edge-affected" if a > clear * slack else "ok" for a in scales
    )


def _normalisations(parts: FloatArray, transform: LagTransform, covariance: LagCovariance) -> FloatArray:
    """Global spectra of all parts: energy, energy over scale, and with each lag standardised first."""
    energy = np.stack([transform.spectrum(part) for part in parts])
    variance = np.diag(covariance.fluctuation)
    standard = transform.spectra(
        np.stack([standardise(c, variance) for c in (covariance.total, covariance.mean, covariance.fluctuation)])
    )
    undefined = np.isnan(energy) | (not variance.max(initial=0.0) > 0)
    return np.stack([energy, energy / np.array(transform.scales), np.where(undefined, np.nan, standard)], axis=1)


def _cones(transform: LagTransform) -> FloatArray:
    if transform.whole_axis:
        return np.tile([0.0, transform.lags - 1.0], (len(transform.scales), 1))
    ends = np.array([cone(transform.lags, a, transform.two_sided) for a in transform.scales])
    ends[ends[:, 1] < ends[:, 0]] = np.nan
    return ends
