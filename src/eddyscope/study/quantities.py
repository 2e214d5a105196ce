"""Intervals of what is not a spectrum: energy budget, wavelet spectra, masses, fluctuation level."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eddyscope.kernels.fieldmoments import FluctuationLevel
from eddyscope.kernels.laggroups import LagGroups
from eddyscope.kernels.peaks import refine_peak
from eddyscope.lagfield import FloatArray, IntArray
from eddyscope.study.bands import Band
from eddyscope.study.headstats import FIRST_KEY, ROW_SUM, LagSource
from eddyscope.study.lagpart import Variables, budget_scalars, octave_budget
from eddyscope.study.rows import LagAxis, mass_range
from eddyscope.study.spectra import Spectra
from eddyscope.trust.convergence import convergence_curve, judge
from eddyscope.trust.jackknife import jackknife, selection_frequency
from eddyscope.trust.lag import energy_replicates

#: Numbers with an interval, in the order of the coordinate ``quantity``, each with the scale of its interval.
QUANTITIES = {
    "near_share": "share",
    "far_share": "share",
    "sink_mass": "share",
    "row_mass": "linear",
    "fluctuation_level": "share",
}


def quantity_variables(
    source: LagSource,
    rows: LagAxis,
    sums: LagGroups | None,
    level: FluctuationLevel | None,
    max_lag: int | None,
    seed: int,
) -> Variables:
    """Intervals, replicates and convergence of :data:`QUANTITIES`.

    Parameters
    ----------
    source : LagSource
        With groups.
    rows : LagAxis
    sums : LagGroups or None
        Of these rows; None where there are none.
    level : FluctuationLevel or None
        None where the POD leaves out lags: the level's interval is then undefined.
    max_lag : int, optional
    seed : int
    """
    measures = _measures(source, rows, sums, level, max_lag)
    sizes = source.masses.counts
    everyone = np.arange(sizes.size)
    curve = convergence_curve(measures, everyone, sizes=sizes, seed=seed)
    replicates = np.stack([measures(np.delete(everyone, group)) for group in everyone])
    made: Variables = {"quantity": (("quantity",), np.array(list(QUANTITIES), dtype=object))}
    verdicts = []
    for index, (name, scale) in enumerate(QUANTITIES.items()):
        found = jackknife(float(curve.values[2, index]), replicates[:, index], scale)
        made[f"{name}_low"], made[f"{name}_high"] = ((), found.low), ((), found.high)
        made[f"{name}_status"] = ((), np.asarray(str(found.status), dtype=object))
        verdicts.append(
            judge(curve.values[:, index], curve.documents, float(found.low), float(found.high), str(found.status))
        )
    return made | {
        "quantity_replicates": (("jackknife_group", "quantity"), replicates),
        "quantity_at": (("fraction", "quantity"), curve.values),
        "quantity_convergence": (("quantity",), np.array([v.verdict for v in verdicts], dtype=object)),
        "quantity_convergence_reason": (("quantity",), np.array([v.reason for v in verdicts], dtype=object)),
        "documents_at": (("fraction",), curve.documents),
    }


def _measures(
    source: LagSource, rows: LagAxis, sums: LagGroups | None, level: FluctuationLevel | None, max_lag: int | None
) -> Callable[[IntArray], FloatArray]:
    """The quantities of the documents of some groups."""
    queries = mass_range(source.geometry, rows, max_lag)
    groups = np.arange(source.masses.counts.size)

    def measures(index: IntArray) -> FloatArray:
        near = far = np.nan
        if sums is not None:
            energy = sums.energy(np.isin(groups, index))
            near, far, _ = budget_scalars(energy, rows)
        masses = source.masses.of(index)
        sink, mass = masses[FIRST_KEY, queries].mean(), masses[ROW_SUM].mean()
        return np.array([near, far, sink, mass, np.nan if level is None else level.of(index)])

    return measures


def budget_intervals(rows: LagAxis, sums: LagGroups | None, energy: FloatArray, groups: int) -> Variables:
    """Replicates and intervals of octave shares; how many replicates choose the same peak octave and median lag."""
    dims, share, _ = octave_budget(energy, rows)
    parts = np.full((groups, energy.size), np.nan) if sums is None else energy_replicates(sums)
    budgets = [octave_budget(part, rows) for part in parts]
    shares = jackknife(share, np.stack([b[1] for b in budgets]), "share")
    held = octave_budget(np.ones(energy.size), rows)[
        1
    ]  # each octave's share of the lags, by which a density is divided
    medians = [budget_scalars(part, rows)[2] for part in parts]
    return {
        "octave_share_replicates": (("jackknife_group", *dims), np.stack([b[1] for b in budgets])),
        "octave_share_low": (dims, shares.low),
        "octave_share_high": (dims, shares.high),
        "octave_density_low": (dims, _over(shares.low, held)),
        "octave_density_high": (dims, _over(shares.high, held)),
        "median_lag_selected": ((), selection_frequency(budget_scalars(energy, rows)[2], medians)),
        "peak_octave_selected": (
            (),
            selection_frequency(_densest(share, held), [_densest(b[1], held) for b in budgets]),
        ),
    }


def _over(values: FloatArray, held: FloatArray) -> FloatArray:
    return np.asarray(np.divide(values, held, out=np.full_like(values, np.nan), where=held > 0))


def _densest(share: FloatArray, held: FloatArray) -> float:
    """Octave of largest density, both sides together; NaN where nothing fluctuates."""
    both = share.reshape(-1, share.shape[-1]).sum(axis=0), held.reshape(-1, held.shape[-1]).sum(axis=0)
    density = _over(*both)
    return float(np.nanargmax(density)) if np.isfinite(density).any() else float("nan")


def spectrum_bounds(found: Spectra, bands: list[Band], omega0_ratio: float, groups: int) -> Variables:
    """Replicates and intervals of the fluctuation's energy spectrum; intervals of the wavelengths of bands.

    Parameters
    ----------
    found : Spectra
        With replicates.
    bands : list of Band
    omega0_ratio : float
        Wavelength over scale.
    groups : int
        Of the jackknife.
    """
    size = found.scales.size
    low, high = np.full(size, np.nan), np.full(size, np.nan)
    parts = np.full((groups, size), np.nan)
    ends = np.full((2, len(bands)), np.nan)
    if found.replicates is not None:
        bounds = jackknife(found.fluctuation, found.replicates, "log")
        low, high, parts = bounds.low, bounds.high, found.replicates
        for index, band in enumerate(bands):
            if not band.octaves:
                ends[:, index] = _wavelength_bounds(found, band.scale)
    return {
        "spectrum_replicates": (("jackknife_group", "scale"), parts),
        "spectrum_low": (("scale",), low),
        "spectrum_high": (("scale",), high),
        "dominant_wavelength_low": (("band",), ends[0] * omega0_ratio),
        "dominant_wavelength_high": (("band",), ends[1] * omega0_ratio),
    }


def _wavelength_bounds(found: Spectra, scale: float) -> tuple[float, float]:
    """Interval of a peak's scale: the parabola at the same grid point in every replicate."""
    assert found.replicates is not None
    index = int(np.abs(np.log(found.scales / scale)).argmin())
    if not np.all(found.replicates > 0) or abs(refine_peak(found.fluctuation, found.scales, index) / scale - 1) > 1e-6:
        return float("nan"), float("nan")  # a given scale, or a shoulder: nothing was refined
    bounds = jackknife(scale, [refine_peak(part, found.scales, index) for part in found.replicates], "log")
    return float(bounds.low), float(bounds.high)
