"""Everything beside the values of one layer: which part of the results the documents can bear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyscope.kernels.fieldmoments import FluctuationLevel
from eddyscope.kernels.gram import FieldPass
from eddyscope.kernels.morlet import wavelength
from eddyscope.lagfield import FloatArray, LagGeometry
from eddyscope.study.headstats import LagSource
from eddyscope.study.laganalysis import LagAnalysis
from eddyscope.study.lagpart import Variables
from eddyscope.study.modes import Pod
from eddyscope.study.options import Options
from eddyscope.study.published import EIGENVALUE_FLOOR
from eddyscope.study.quantities import budget_intervals, quantity_variables, spectrum_bounds
from eddyscope.study.sample import Sample
from eddyscope.study.sinks import sink_variables
from eddyscope.study.trusted import Trusted, no_trust, trust_gram, trust_lag
from eddyscope.study.trustvars import trust_coordinates, trust_variables
from eddyscope.trust.modes import effective_samples, excess_kurtosis


@dataclass(frozen=True)
class Decomposed:
    """What the decompositions of a field leave for this.

    Parameters
    ----------
    geometry : LagGeometry
    pods : list of Pod
        Without a window first, then one a band.
    windows : array, shape (window, lag)
        In the same order.
    passed : FieldPass
    min_query : int
    """

    geometry: LagGeometry
    pods: list[Pod]
    windows: FloatArray
    passed: FieldPass
    min_query: int


def lag_trust(
    source: LagSource,
    options: Options,
    sample: Sample,
    lags: LagAnalysis,
    level: FluctuationLevel | None,
    variables: Variables,
) -> Variables:
    """Intervals, resolved decay, brackets, convergence and sinks of what is along the lag, of one head of one layer.

    Parameters
    ----------
    source : LagSource
        With groups.
    options : Options
    sample : Sample
        With groups.
    lags : LagAnalysis
    level : FluctuationLevel or None
        None where the POD leaves out lags.
    variables : Variables
        All results so far.

    Returns
    -------
    Variables
        Some replace a status that was given before.
    """
    assert sample.groups is not None
    groups = np.unique(sample.groups).size
    energy = np.asarray(variables["lag_energy"][1])[np.isin(source.geometry.lags, lags.axis.lags)]
    ratio = float(wavelength(np.ones(1), options.omega0)[0])
    return {
        **trust_coordinates(groups),
        **_lag(source, options, sample, lags, variables),
        **quantity_variables(source, lags.axis, lags.sums, level, options.max_lag, options.seed),
        **budget_intervals(lags.axis, lags.sums, energy, groups),
        **spectrum_bounds(lags.found, lags.bands, ratio, groups),
        **sink_variables(source, options, lags.axis, variables),
    }


def _statuses(variables: Variables) -> dict[str, np.ndarray]:
    return {name: np.asarray(values) for name, (_, values) in variables.items() if name.endswith("_status")}


def pod_trust(options: Options, sample: Sample, computed: Decomposed, variables: Variables) -> Variables:
    """The same of the field POD and of every band.

    Parameters
    ----------
    options : Options
    sample : Sample
        With groups.
    computed : Decomposed
    variables : Variables
        All results so far.
    """
    entries = varying_entries(computed.geometry, computed.passed.energy, computed.windows, computed.min_query)
    floor = EIGENVALUE_FLOOR if options.preset == "published" else None
    trusted: list[Trusted] = [
        trust_gram(
            pod.gram,
            sample,
            entries=entries[index],
            tolerances=options.tolerances,
            seed=options.seed,
            floor=floor,
            follow_resolved=index == 0,
        )
        for index, pod in enumerate(computed.pods)
    ]
    return trusted_variables(trusted, options, sample, variables)


def trusted_variables(trusted: list[Trusted], options: Options, sample: Sample, variables: Variables) -> Variables:
    """What was found of the field POD, which is first, and of every band."""
    statuses, ranks = _statuses(variables), variables["field_eigenvalues"][1].size
    made = trust_variables("field_", trusted[:1], (), statuses, options.modes, ranks)
    made |= trust_variables("", trusted[1:], ("band",), statuses, options.modes, ranks)
    kept = sample.distinct
    for prefix, dims in (("field_", ()), ("", ("band",))):
        coefficients = np.asarray(variables[f"{prefix}coefficients"][1])
        kurtosis = excess_kurtosis(np.moveaxis(coefficients, -2, 0)[kept])
        made[f"{prefix}coefficient_kurtosis"] = ((*dims, "mode"), kurtosis)
    return made


def varying_entries(geometry: LagGeometry, energy: FloatArray, windows: FloatArray, min_query: int) -> list[int]:
    """Entries of the queries used that vary, inside each window.

    Parameters
    ----------
    geometry : LagGeometry
    energy : array, shape (entry,)
        ``<u^2>`` over documents.
    windows : array, shape (window, lag)
    min_query : int
    """
    used = geometry.query_mask(min_query) & (energy > 0)
    per_lag = np.add.reduceat(used.astype(np.int64), geometry.offsets[:-1])
    return [max(1, int(per_lag[window > 0].sum())) for window in windows]


def no_pod_trust(options: Options, groups: int, bands: int, status: str, variables: Variables) -> Variables:
    """What stands in its place where there is no decomposition: everything NaN, with the status that says why."""
    statuses, ranks = _statuses(variables), variables["field_eigenvalues"][1].size
    nothing = no_trust(groups, options.tolerances, ranks, status)
    made = trust_variables("field_", [nothing], (), statuses, options.modes, ranks)
    made |= trust_variables("", [nothing] * bands, ("band",), statuses, options.modes, ranks)
    for prefix in ("field_", ""):  # what nobody could look at is unknown, not zero
        for name in ("resolved_variances", "resolved_overlap", "mode_overlap", "mode_separated"):
            dims, values = made[f"{prefix}{name}"]
            made[f"{prefix}{name}"] = (dims, np.full_like(values, np.nan))
    for prefix, shape in (("field_", {}), ("", {"band": bands})):
        undefined = np.full((*shape.values(), options.modes), np.nan)
        made[f"{prefix}coefficient_kurtosis"] = ((*shape, "mode"), undefined)
    return made


def _lag(source: LagSource, options: Options, sample: Sample, lags: LagAnalysis, variables: Variables) -> Variables:
    """Of the lag POD."""
    axis, sums = lags.axis, lags.sums
    statuses, count = _statuses(variables), axis.lags.size
    effective = np.full(options.modes, np.nan)
    if sums is None:
        groups = source.masses.counts.size
        found = no_trust(groups, options.tolerances, count, axis.none_left)
        return trust_variables("lag_", [found], (), statuses, options.modes, count) | {
            "lag_effective_samples": (("mode",), effective)
        }
    modes = np.nan_to_num(np.asarray(variables["lag_modes"][1])[:, np.isin(source.geometry.lags, axis.lags)])
    correlation = source.correlation(options.sink, modes, sample.distinct)
    if correlation is not None:
        effective = effective_samples(sample.distinct.size, axis.queries.size, correlation)
    samples = float(np.nanmin(effective)) if np.isfinite(effective).any() else float(sample.distinct.size)
    found = trust_lag(sums, samples=samples, tolerances=options.tolerances, seed=options.seed)
    made = trust_variables("lag_", [found], (), statuses, options.modes, count)
    if correlation is None:  # which modes are apart depends on how far the rows of a document say the same
        made["lag_mode_separated"] = (("mode",), np.full(options.modes, np.nan))
    return made | {"lag_effective_samples": (("mode",), effective)}
