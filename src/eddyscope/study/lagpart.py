"""The lag statistics of one field as variables: budget, scalogram, dominant scales, lag POD."""

from __future__ import annotations

from typing import Any

import numpy as np

from eddyscope.kernels.morlet import wavelength
from eddyscope.kernels.octaves import energy_budget, octave_first, octave_last, octave_of
from eddyscope.kernels.peaks import Peak
from eddyscope.kernels.pod import RANK_TOLERANCE
from eddyscope.lagfield import FloatArray, IntArray
from eddyscope.schema import NORMALISATIONS, PARTS, SIDES
from eddyscope.study.measures import SCALAR_MEASURES, Measures
from eddyscope.study.rows import LagAxis
from eddyscope.study.spectra import Spectra

#: Variables by name, each with its dimensions and values.
Variables = dict[str, tuple[tuple[str, ...], Any]]

#: Distances below it are near.
NEAR = 8


def budget_variables(energy: FloatArray, rows: LagAxis, lags: IntArray) -> Variables:
    """Lag energy budget: octave shares and densities, and the summaries of it.

    Parameters
    ----------
    energy : array, shape (lag of the rows,)
        Mean squared fluctuation.
    rows : LagAxis
    lags : int array
        The layer's whole lag axis, on which the energy is laid out (NaN beyond the full rows).
    """
    count = rows.octaves
    first, last = octave_first(count), octave_last(count, rows.distances)
    dims, share, density = octave_budget(energy, rows)
    near, far, median = budget_scalars(energy, rows)
    variables: Variables = {
        "octave": (("octave",), first),
        "octave_last": (("octave",), last),
        "octave_share": (dims, share),
        "octave_density": (dims, density),
        "lag_energy": (("lag",), on_axis(energy, rows.lags, lags)),
        "median_lag": ((), median),
        "near_share": ((), near),
        "far_share": ((), far),
    }
    if len(dims) > 1:
        variables["side"] = (("side",), np.array(SIDES, dtype=object))
    return variables


def budget_scalars(energy: FloatArray, rows: LagAxis) -> tuple[float, float, float]:
    """Near share, far share and median lag of the energy at each lag of the rows; NaN without energy."""
    at_distance = np.bincount(rows.distance, weights=energy, minlength=rows.distances)
    total = float(at_distance.sum())
    if not total > 0:
        return float("nan"), float("nan"), float("nan")
    far = np.arange(rows.distances) >= rows.reach / 2
    median = int(np.argmax(np.cumsum(at_distance) >= total / 2))
    return float(at_distance[:NEAR].sum() / total), float(at_distance[far].sum() / total), float(median)


def octave_budget(energy: FloatArray, rows: LagAxis) -> tuple[tuple[str, ...], FloatArray, FloatArray]:
    """Dimensions, share and density of the octaves; of a two-sided field for each side."""
    count = rows.octaves
    if rows.lags.min() >= 0:
        share, density = energy_budget(energy, rows.distance, count)
        return ("octave",), share, density
    # Lag 0 belongs to both sides, half each; both sides together add up to 1.
    octave, half = octave_of(rows.distance, count), np.where(rows.lags == 0, 0.5, 1.0)
    sides = [rows.lags >= 0, rows.lags <= 0]
    total = float(energy.sum())
    share = np.stack([np.bincount(octave[s], weights=(energy * half)[s], minlength=count) for s in sides])
    held = np.stack([np.bincount(octave[s], weights=half[s], minlength=count) for s in sides]) / rows.lags.size
    share = share / total if total > 0 else np.full_like(share, np.nan)
    return ("side", "octave"), share, np.divide(share, held, out=np.full_like(share, np.nan), where=held > 0)


def spectra_variables(found: Spectra, rows: LagAxis, lags: IntArray, peaks: list[Peak], omega0: float) -> Variables:
    """Scalogram, spectra, cone and every peak with what became of it."""
    scales = np.array([p.scale for p in peaks])
    return {
        "part": (("part",), np.array(PARTS, dtype=object)),
        "normalisation": (("normalisation",), np.array(NORMALISATIONS, dtype=object)),
        "scale": (("scale",), found.scales),
        "wavelength": (("scale",), found.wavelengths),
        "scale_status": (("scale",), np.array(found.status, dtype=object)),
        "scalogram": (("part", "scale", "lag"), on_axis(found.scalogram, rows.lags, lags)),
        "spectrum": (("part", "normalisation", "scale"), found.spectrum),
        "spectrum_other_edges": (("scale",), found.other_edges),
        "cone_low": (("scale",), found.cones[:, 0]),
        "cone_high": (("scale",), found.cones[:, 1]),
        "peak_scale": (("peak",), scales),
        "peak_wavelength": (("peak",), np.asarray(wavelength(scales, omega0))),
        "peak_prominence": (("peak",), np.array([p.prominence for p in peaks])),
        "peak_standard_error": (("peak",), np.array([p.standard_error for p in peaks])),
        "peak_status": (("peak",), np.array([p.status for p in peaks], dtype=object)),
    }


def lag_pod(covariance: FloatArray, rows: LagAxis, lags: IntArray, count: int) -> tuple[FloatArray, FloatArray]:
    """POD with every (document, full row) as a sample: eigenpairs of the fluctuation's lag covariance.

    Returns
    -------
    eigenvalues : array, shape (lag of the rows,)
        Descending, zero past the rank.
    modes : array, shape (mode, lag)
        Unit norm, entry of largest modulus positive, NaN beyond the full rows and past the rank. Both NaN where there
        is no full row.
    """
    if not rows.queries.size:
        return np.full(rows.lags.size, np.nan), np.full((count, lags.size), np.nan)
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1].T
    values = np.where(values > RANK_TOLERANCE * max(values[0], 0.0) * values.size, values, 0.0)
    modes = vectors[:count].copy()
    largest = np.abs(modes).argmax(axis=1)
    modes *= np.where(modes[np.arange(len(modes)), largest] < 0, -1.0, 1.0)[:, None]
    modes[values[: len(modes)] == 0] = np.nan
    if len(modes) < count:
        modes = np.concatenate([modes, np.full((count - len(modes), modes.shape[1]), np.nan)])
    return values, on_axis(modes, rows.lags, lags)


def on_axis(values: FloatArray, own: IntArray, lags: IntArray) -> FloatArray:
    """Lay values of the rows' lags out on the layer's whole lag axis, NaN elsewhere."""
    laid = np.full((*values.shape[:-1], lags.size), np.nan)
    start = int(own[0] - lags[0])
    laid[..., start : start + own.size] = values
    return laid


def measure_variables(prefix: str, measures: list[Measures], dims: tuple[str, ...]) -> Variables:
    """Measures and their statuses; ``dims`` is ("band",) for a list of spectra, or () for one."""

    def shaped(values: list[Any], dtype: type) -> np.ndarray:
        return np.array(values if dims else values[0], dtype=dtype)

    variables: Variables = {}
    for name in SCALAR_MEASURES:
        variables[f"{prefix}{name}"] = (dims, shaped([m.values[name] for m in measures], float))
        variables[f"{prefix}{name}_status"] = (dims, shaped([m.statuses[name] for m in measures], object))
    of_rank = (*dims, "tolerance")
    variables[f"{prefix}effective_rank"] = (of_rank, shaped([m.effective_rank for m in measures], float))
    statuses = [m.effective_rank_status for m in measures]
    variables[f"{prefix}effective_rank_status"] = (of_rank, shaped(statuses, object))
    return variables
