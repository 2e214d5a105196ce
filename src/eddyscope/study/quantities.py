"""Intervals of what is not a spectrum: energy budget, wavelet spectra, masses, fluctuation level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eddyscope.kernels.laggroups import LagGroups
from eddyscope.kernels.peaks import refine_peak
from eddyscope.lagfield import FloatArray, IntArray, LagField
from eddyscope.study.bands import Band
from eddyscope.study.lagpart import Variables, budget_scalars, octave_budget
from eddyscope.study.rows import LagRows, full_range
from eddyscope.study.sample import Sample
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


@dataclass(frozen=True)
class Level:
    """What the fluctuation level of any part of the documents follows from.

    Parameters
    ----------
    gram : array, shape (document, document)
        Of all lags; centred, with the factor 1/N.
    projection : array, shape (document,)
        ``<u_s, Abar>``.
    mean_energy : float
        ``|Abar|^2``.
    """

    gram: FloatArray
    projection: FloatArray
    mean_energy: float

    def of(self, index: IntArray) -> float:
        """``<|u|^2> / <|A|^2>`` of some documents, about their own mean."""
        inner = self.gram[np.ix_(index, index)] * self.gram.shape[0]
        moved = float(inner.mean())  # |m|^2, m the mean of their fluctuations
        fluctuation = float(np.trace(inner)) / index.size - moved
        total = fluctuation + self.mean_energy + 2 * float(self.projection[index].mean()) + moved
        return fluctuation / total if total > 0 else float("nan")


def quantity_variables(
    field: LagField,
    rows: LagRows,
    sums: LagGroups | None,
    level: Level | None,
    sample: Sample,
    max_lag: int | None,
    seed: int,
) -> Variables:
    """Intervals, replicates and convergence of :data:`QUANTITIES`.

    Parameters
    ----------
    field : LagField
        One head.
    rows : LagRows
    sums : LagGroups or None
        Of these rows; None where there are none.
    level : Level or None
        None where the POD leaves out lags: the level's interval is then undefined.
    sample : Sample
        With groups.
    max_lag : int, optional
    seed : int
    """
    assert sample.groups is not None
    labels = np.unique(sample.groups)
    members = [np.flatnonzero(sample.groups == label) for label in labels]
    measures = _measures(field, rows, sums, level, members, max_lag)
    everyone = np.arange(labels.size)
    sizes = np.array([m.size for m in members], dtype=np.int64)
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
    field: LagField,
    rows: LagRows,
    sums: LagGroups | None,
    level: Level | None,
    members: list[IntArray],
    max_lag: int | None,
) -> Callable[[IntArray], FloatArray]:
    """The quantities of the documents of some groups."""
    assert field.first_key is not None and field.row_sum is not None
    _, first, stop = full_range(field, max_lag)
    sink = field.first_key[:, 0, first:stop].mean(axis=1, dtype=np.float64)
    mass = field.row_sum[:, 0].mean(axis=1, dtype=np.float64)
    groups = np.arange(len(members))

    def measures(index: IntArray) -> FloatArray:
        documents = np.concatenate([members[i] for i in index])
        near = far = np.nan
        if sums is not None:
            energy = np.diag(sums.covariance(np.isin(groups, index)))
            near, far, _ = budget_scalars(energy, rows)
        return np.array(
            [
                near,
                far,
                sink[documents].mean(),
                mass[documents].mean(),
                np.nan if level is None else level.of(documents),
            ]
        )

    return measures


def budget_intervals(rows: LagRows, sums: LagGroups | None, energy: FloatArray, groups: int) -> Variables:
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
