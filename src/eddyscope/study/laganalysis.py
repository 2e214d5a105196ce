"""The part of an analysis that is along the lag: spectra, bands, energy budget and lag POD of one head."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyscope.errors import InputError
from eddyscope.kernels.laggroups import LagGroups
from eddyscope.lagfield import FloatArray, IntArray, LagGeometry
from eddyscope.study.bands import Band, band_windows, choose_bands, dominant_peaks
from eddyscope.study.headstats import FIRST_KEY, ROW_SUM, LagPart, LagSource
from eddyscope.study.lagpart import Variables, budget_variables, lag_pod, measure_variables, spectra_variables
from eddyscope.study.measures import NO_FLUCTUATION, measure
from eddyscope.study.options import Options
from eddyscope.study.rows import LagAxis, mass_range
from eddyscope.study.spectra import Spectra, spectra


@dataclass(frozen=True)
class LagAnalysis:
    """What is along the lag, of one head of one layer.

    Parameters
    ----------
    axis : LagAxis
        Of the energy budget and the lag POD.
    sums : LagGroups, or None
        Products of the fluctuation by group; None without groups, or where there are no full rows.
    found : Spectra
    bands : list of Band
    windows : array, shape (band, lag)
        On the field's whole lag axis.
    variables : Variables
    """

    axis: LagAxis
    sums: LagGroups | None
    found: Spectra
    bands: list[Band]
    windows: FloatArray
    variables: Variables


def analyze_lags(source: LagSource, options: Options, by_group: bool, spectral: LagPart | None = None) -> LagAnalysis:
    """Spectra, bands, energy budget and lag POD.

    Parameters
    ----------
    source : LagSource
    options : Options
    by_group : bool
        Whether there are groups, and so replicates.
    spectral : LagPart, optional
        Rows of the spectra where they are not those of the lag POD (the published preset).
    """
    own = source.lags(options.sink)
    assert own is not None and own.moments is not None
    covariance = own.moments.covariance(by_group)
    wavelet = own if spectral is None else spectral
    assert wavelet.moments is not None
    shown = covariance if spectral is None else wavelet.moments.covariance(by_group)
    found = spectra(wavelet.axis, shown, options, source.geometry.causal)
    peaks = [] if spectral is not None else dominant_peaks(found)
    bands = choose_bands(found, wavelet.axis, options, peaks)
    windows = lag_windows(source.geometry, bands, wavelet.axis, options)
    energy = np.diag(found.covariance.fluctuation)
    variables = {
        **_lag_variables(source, options, own.axis, covariance.fluctuation),
        **spectra_variables(found, wavelet.axis, source.geometry.lags, peaks, options.omega0),
        "lag_fluctuation_level": ((), _level(found)),
        **_band_variables(bands),
        "window": (("band", "lag"), windows),
        "energy_outside": ((), _energy_outside(energy, wavelet.axis, windows, source.geometry.lags)),
    }
    return LagAnalysis(own.axis, covariance.groups, found, bands, windows, variables)


def _lag_variables(source: LagSource, options: Options, axis: LagAxis, covariance: FloatArray) -> Variables:
    lags = source.geometry.lags
    eigenvalues, modes = lag_pod(covariance, axis, lags, options.modes)
    masses = source.masses.of()
    measured = measure(
        eigenvalues,
        options.tolerances,
        samples=(source.documents - 1) * axis.queries.size,
        documents=source.documents,
        without_energy=NO_FLUCTUATION if axis.queries.size else axis.none_left,
    )
    return {
        **budget_variables(np.diag(covariance), axis, lags),
        "lag_eigenvalues": (("rank",), padded(eigenvalues, rank_count(source, axis))),
        "lag_modes": (("mode", "lag"), modes),
        **measure_variables("lag_", [measured], ()),
        "sink_mass": ((), float(masses[FIRST_KEY, mass_range(source.geometry, axis, options.max_lag)].mean())),
        "row_mass": ((), float(masses[ROW_SUM].mean())),
        "queries_left_out": ((), axis.left_out),
    }


def _level(found: Spectra) -> float:
    """Share of the energy of the rows that fluctuates."""
    total = float(np.trace(found.covariance.total))
    return float(np.trace(found.covariance.fluctuation)) / total if total > 0 else float("nan")


def _band_variables(bands: list[Band]) -> Variables:
    def column(name: str) -> tuple[tuple[str, ...], FloatArray]:
        return ("band",), np.array([getattr(b, name) for b in bands], dtype=np.float64)

    return {
        "band": (("band",), np.arange(len(bands))),
        "band_label": (("band",), np.array([b.label for b in bands], dtype=object)),
        "dominant_scale": column("scale"),
        "dominant_wavelength": column("wavelength"),
        "dominant_lag": column("lag"),
        "band_first": column("first"),
        "band_last": column("last"),
        "status": (("band",), np.array([b.status for b in bands], dtype=object)),
    }


def lag_windows(geometry: LagGeometry, bands: list[Band], axis: LagAxis, options: Options) -> FloatArray:
    """Windows of the bands on the field's whole lag axis, shape (band, lag)."""
    windows = band_windows(bands, np.abs(geometry.lags), axis.octaves, options.window)
    return windows * allowed_lags(geometry.lags, geometry.causal, options)


def allowed_lags(lags: IntArray, causal: bool, options: Options) -> FloatArray:
    """1 for the lags that enter the POD, 0 for others."""
    allowed = np.ones(lags.size)
    if options.max_lag is not None:
        allowed[np.abs(lags) >= options.max_lag + (0 if causal else 1)] = 0
    if options.preset == "published":  # the script's window is zero on the other side of lag 0
        allowed[(lags < 0) if options.lags == "back" else (lags > 0)] = 0
    return allowed


def query_start(geometry: LagGeometry, options: Options) -> int:
    """First query of the field POD: L/8 of a causal field, whose early queries have few keys; else 0."""
    if options.min_query is not None:
        if options.min_query >= geometry.queries:
            raise InputError(
                f"min_query={options.min_query} leaves no query of {geometry.queries}.",
                "Choose a smaller one.",
            )
        return options.min_query
    return geometry.queries // 8 if geometry.causal else 0


def _energy_outside(energy: FloatArray, axis: LagAxis, windows: FloatArray, lags: IntArray) -> float:
    """``1 - sum_d e(d) max_m w_m(d)^2 / sum_d e(d)``."""
    total = float(energy.sum())
    if not total > 0:
        return float("nan")
    covered = np.zeros(axis.lags.size)
    shared = np.isin(axis.lags, lags)
    covered[shared] = windows[:, np.searchsorted(lags, axis.lags[shared])].max(axis=0) ** 2
    return 1.0 - float((energy * covered).sum()) / total


def rank_count(source: LagSource, axis: LagAxis) -> int:
    """Length of the rank axis: ranks of the field POD, or the number of lags of the lag POD where that is larger."""
    return max(1, source.field_ranks, axis.lags.size)


def padded(eigenvalues: FloatArray, ranks: int) -> FloatArray:
    """Eigenvalues up to so many ranks: zero past the rank, NaN where they are unknown."""
    rest = np.nan if eigenvalues.size and np.isnan(eigenvalues).all() else 0.0  # unknown, or past the rank
    return np.concatenate([eigenvalues, np.full(ranks - eigenvalues.size, rest)])
