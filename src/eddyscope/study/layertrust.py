"""Everything beside the values of one layer: which part of the results the documents can bear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyscope.kernels.gram import FieldPass
from eddyscope.kernels.laggroups import LagGroups
from eddyscope.kernels.morlet import wavelength
from eddyscope.lagfield import FloatArray, LagField
from eddyscope.study.bands import Band
from eddyscope.study.lagpart import Variables
from eddyscope.study.modes import Pod
from eddyscope.study.options import Options
from eddyscope.study.published import EIGENVALUE_FLOOR
from eddyscope.study.quantities import Level, budget_intervals, quantity_variables, spectrum_bounds
from eddyscope.study.rows import LagRows
from eddyscope.study.sample import Sample
from eddyscope.study.sinks import sink_variables
from eddyscope.study.spectra import Spectra
from eddyscope.study.trusted import Trusted, no_trust, trust_gram, trust_lag
from eddyscope.study.trustvars import trust_coordinates, trust_variables
from eddyscope.trust.modes import effective_samples, excess_kurtosis, row_correlation


@dataclass(frozen=True)
class Computed:
    """What the analysis of a layer leaves for this: its rows, spectra and decompositions.

    Parameters
    ----------
    rows : LagRows
        Of the lag statistics; the fluctuation.
    sums : LagGroups or None
        Their products by group; None where there are no full rows.
    found : Spectra
    bands : list of Band
    pods : list of Pod
        Without a window first, then one a band.
    windows : array, shape (window, lag)
        In the same order.
    passed : FieldPass
    values : array, shape (document, entry)
        Snapshots that the decompositions saw.
    min_query : int
    variables : Variables
        All results so far.
    """

    rows: LagRows
    sums: LagGroups | None
    found: Spectra
    bands: list[Band]
    pods: list[Pod]
    windows: FloatArray
    passed: FieldPass
    values: FloatArray
    min_query: int
    variables: Variables


def layer_trust(field: LagField, options: Options, sample: Sample, computed: Computed) -> Variables:
    """Intervals, resolved decay, brackets, convergence and sinks of one head of one layer.

    Parameters
    ----------
    field : LagField
    options : Options
    sample : Sample
        With groups.
    computed : Computed

    Returns
    -------
    Variables
        Some replace a status that was given before.
    """
    assert sample.groups is not None
    groups = np.unique(sample.groups).size
    energy = np.asarray(_values(computed, "lag_energy"))
    energy = energy[np.isin(field.lags, computed.rows.lags)]
    return {
        **trust_coordinates(groups),
        **_pods(field, options, sample, computed),
        **_lag(field, options, sample, computed),
        **quantity_variables(
            field, computed.rows, computed.sums, _level(field, computed), sample, options.max_lag, options.seed
        ),
        **budget_intervals(computed.rows, computed.sums, energy, groups),
        **spectrum_bounds(computed.found, computed.bands, float(wavelength(np.ones(1), options.omega0)[0]), groups),
        **sink_variables(field, options, computed.rows, computed.variables, sample),
    }


def _values(computed: Computed, name: str) -> np.ndarray:
    return np.asarray(computed.variables[name][1])


def _statuses(computed: Computed) -> dict[str, np.ndarray]:
    return {name: np.asarray(values) for name, (_, values) in computed.variables.items() if name.endswith("_status")}


def _pods(field: LagField, options: Options, sample: Sample, computed: Computed) -> Variables:
    """Of the field POD and of every band."""
    used = field.geometry.query_mask(computed.min_query) & (computed.passed.energy > 0)
    per_lag = np.add.reduceat(used.astype(np.int64), field.geometry.offsets[:-1])
    statuses = _statuses(computed)
    floor = EIGENVALUE_FLOOR if options.preset == "published" else None
    ranks = computed.variables["field_eigenvalues"][1].size
    trusted: list[Trusted] = [
        trust_gram(
            pod.gram,
            sample,
            entries=max(1, int(per_lag[window > 0].sum())),
            tolerances=options.tolerances,
            seed=options.seed,
            floor=floor,
            follow_resolved=index == 0,
        )
        for index, (pod, window) in enumerate(zip(computed.pods, computed.windows, strict=True))
    ]
    made = trust_variables("field_", trusted[:1], (), statuses, options.modes, ranks)
    made |= trust_variables("", trusted[1:], ("band",), statuses, options.modes, ranks)
    kept = sample.distinct
    for prefix, dims in (("field_", ()), ("", ("band",))):
        coefficients = np.asarray(_values(computed, f"{prefix}coefficients"))
        kurtosis = excess_kurtosis(np.moveaxis(coefficients, -2, 0)[kept])
        made[f"{prefix}coefficient_kurtosis"] = ((*dims, "mode"), kurtosis)
    return made


def _lag(field: LagField, options: Options, sample: Sample, computed: Computed) -> Variables:
    """Of the lag POD."""
    assert sample.groups is not None
    rows, sums = computed.rows, computed.sums
    statuses, count = _statuses(computed), rows.lags.size
    if sums is None:
        groups = np.unique(sample.groups).size
        found, effective = no_trust(groups, options.tolerances, count, rows.none_left), np.full(options.modes, np.nan)
    else:
        modes = np.nan_to_num(_values(computed, "lag_modes")[:, np.isin(field.lags, rows.lags)])
        scores = np.tensordot(modes, rows.values, axes=1)[:, sample.distinct]
        effective = effective_samples(sample.distinct.size, rows.queries.size, row_correlation(scores))
        samples = float(np.nanmin(effective)) if np.isfinite(effective).any() else float(sample.distinct.size)
        found = trust_lag(sums, samples=samples, tolerances=options.tolerances, seed=options.seed)
    made = trust_variables("lag_", [found], (), statuses, options.modes, count)
    return made | {"lag_effective_samples": (("mode",), effective)}


def _level(field: LagField, computed: Computed) -> Level | None:
    """None where lags are left out of the POD: its Gram lacks their energy."""
    if not (computed.windows[0] == 1).all():
        return None
    used = field.geometry.query_mask(computed.min_query)
    mean = np.where(used, computed.passed.mean, 0.0)
    projection = (computed.values @ mean.astype(computed.values.dtype)).astype(np.float64)
    return Level(computed.pods[0].gram, projection - projection.mean(), float((mean**2).sum()))
