"""What one model says on the claims: a few numbers a layer, each with its jackknife replicates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from eddyscope.ensemble import AttentionEnsemble
from eddyscope.errors import InputError
from eddyscope.kernels.gram import field_pass
from eddyscope.kernels.lagstats import lag_covariance
from eddyscope.kernels.morlet import LagTransform
from eddyscope.kernels.rank import participation_ratio
from eddyscope.lagfield import FloatArray, IntArray, LagField
from eddyscope.reproduction.heads import head_patterns
from eddyscope.study.lagpart import lag_pod, octave_budget
from eddyscope.study.options import make_options
from eddyscope.study.published import EIGENVALUE_FLOOR, published_rows, published_scales, published_transform
from eddyscope.study.rows import LagRows, lag_rows
from eddyscope.study.sample import Sample, sample_of
from eddyscope.study.study import Study
from eddyscope.trust.brackets import rank_bracket
from eddyscope.trust.lag import energy_replicates
from eddyscope.trust.spectrum import SCALES, sample_eigenvalues, spectrum_measures, spectrum_replicates

#: Layers that the claims speak of.
LAYERS = 6
TOLERANCES = make_options().tolerances


@dataclass(frozen=True)
class Measured:
    """A number for each layer.

    Parameters
    ----------
    value : array, shape (layer,)
    replicates : array, shape (group, layer)
        With one group of documents left out.
    """

    value: FloatArray
    replicates: FloatArray

    def mean(self, layers: slice) -> tuple[float, FloatArray]:
        """Value and replicates of the mean over some layers."""
        return float(self.value[layers].mean()), np.asarray(self.replicates[:, layers].mean(axis=1))


@dataclass(frozen=True)
class Evidence:
    """What one model, trained or not, says on the claims.

    Parameters
    ----------
    mean_octave : Measured
        Energy-weighted mean octave of the lag energy budget, ``sum_j j share_j``; our defaults.
    energy : Measured
        Logarithm of the scalogram energy of the raw field, summed over scales and positions; preset ``published``.
    t_spec : Measured
        Published form at the strongest scale; preset ``published``. NaN where nothing can be fitted.
    participation : Measured
        Logarithm of the participation ratio of the field POD; our defaults.
    head_patterns : Measured
        Effective number of patterns over heads; NaN where head means alone were kept.
    rank_low, rank_high : array, shape (layer, tolerance)
        Bracket of H* at the strongest scale; preset ``published``.
    profiles : array, shape (layer, lag)
        First lag mode, unit norm; our defaults.
    profile_replicates : array, shape (group, layer, lag)
    resolved : array, shape (3, layer)
        T_spec of the resolved exponent with the ends of its interval, NaN where it is not resolved; of trained models
        that were analysed with intervals.
    """

    mean_octave: Measured
    energy: Measured
    t_spec: Measured
    participation: Measured
    head_patterns: Measured
    rank_low: FloatArray
    rank_high: FloatArray
    profiles: FloatArray
    profile_replicates: FloatArray
    resolved: FloatArray


def gather(ensemble: AttentionEnsemble, defaults: Study | None = None) -> Evidence:
    """Evidence of one model.

    Parameters
    ----------
    ensemble : AttentionEnsemble
        Of the head mean, or with each head kept.
    defaults : Study, optional
        Of the head mean with our defaults and intervals, for the resolved exponents.

    Raises
    ------
    InputError
        Where there are not six causal layers, or too few documents for intervals.
    """
    sample = sample_of(ensemble)
    causal = all(field.causal for field in ensemble.fields.values())
    if len(ensemble.layers) != LAYERS or not causal or sample.groups is None:
        raise InputError(
            f"The claims are about {LAYERS} causal layers and at least 8 groups of documents, got "
            f"{len(ensemble.layers)} layers and {ensemble.count} documents."
        )
    layers = [_layer(ensemble.fields[name], sample) for name in ensemble.layers]
    resolved = [np.full(3, np.nan) if defaults is None else _resolved(defaults.packed(n)) for n in ensemble.layers]

    def measured(name: str) -> Measured:
        return Measured(
            np.array([layer[name][0] for layer in layers]), np.stack([layer[name][1] for layer in layers], axis=1)
        )

    profiles = measured("profile")
    return Evidence(
        **{name: measured(name) for name in ("mean_octave", "energy", "t_spec", "participation", "head_patterns")},
        rank_low=np.stack([layer["rank"][0] for layer in layers]),
        rank_high=np.stack([layer["rank"][1] for layer in layers]),
        profiles=profiles.value,
        profile_replicates=profiles.replicates,
        resolved=np.stack(resolved, axis=1),
    )


def head_mean(ensemble: AttentionEnsemble) -> AttentionEnsemble:
    """The ensemble of head means of one that kept each head."""
    return replace(ensemble, fields={name: _head_mean(field) for name, field in ensemble.fields.items()})


def _head_mean(field: LagField) -> LagField:
    if field.heads == ("mean",):
        return field
    assert field.first_key is not None and field.row_sum is not None
    means = [part.mean(axis=1, keepdims=True) for part in (field.values, field.first_key, field.row_sum)]
    return LagField(means[0], field.geometry, ("mean",), means[1], means[2])


def _layer(field: LagField, sample: Sample) -> dict[str, Any]:
    """Values and replicates of one layer by name."""
    assert sample.groups is not None
    mean, geometry = _head_mean(field), field.geometry
    patterns = (np.nan, np.full(np.unique(sample.groups).size, np.nan))
    spectra, counts = _published_spectra(published_rows(mean, "back"), sample.groups)
    strongest = float(published_scales()[spectra.sum(axis=0).argmax()])
    window = np.exp(-(mean.lags**2) / (2 * strongest**2))
    gram = field_pass(mean.values[:, 0], geometry, window[None], 0).grams[0]
    whole = field_pass(mean.values[:, 0], geometry, np.ones((1, mean.lags.size)), geometry.queries // 8).grams[0]
    return {
        **_along_lag(mean, sample.groups),
        "energy": _log_energy(spectra.sum(axis=1), counts),
        "t_spec": _t_spec(gram, sample),
        "rank": _bracket(gram, sample),
        "participation": _participation(whole, sample),
        "head_patterns": patterns if field.heads == ("mean",) else head_patterns(field, sample.groups),
    }


def _along_lag(field: LagField, groups: IntArray) -> dict[str, tuple[Any, FloatArray]]:
    """Mean octave, and the first lag mode."""
    rows = lag_rows(field, make_options().sink)
    found = lag_covariance(rows.values, groups)
    assert found.groups is not None and found.without_group is not None
    energy = np.diag(found.fluctuation)
    parts = energy_replicates(found.groups)
    return {
        "mean_octave": (_mean_octave(energy, rows), np.array([_mean_octave(part, rows) for part in parts])),
        "profile": (
            _first_mode(found.fluctuation, rows),
            np.stack([_first_mode(covariance, rows) for covariance in found.without_group]),
        ),
    }


def _mean_octave(energy: FloatArray, rows: LagRows) -> float:
    share = octave_budget(energy, rows)[1]
    return float((np.arange(share.size) * share).sum())


def _first_mode(covariance: FloatArray, rows: LagRows) -> FloatArray:
    return np.asarray(lag_pod(covariance, rows, rows.lags, 1)[1][0])


def _published_spectra(rows: LagRows, groups: IntArray) -> tuple[FloatArray, IntArray]:
    """Spectra as published, summed over the documents of each group, shape (group, scale), and their numbers."""
    labels, counts = np.unique(groups, return_counts=True)
    products = []
    for label in labels:
        flat = rows.values[:, groups == label].reshape(rows.lags.size, -1)
        products.append(flat @ flat.T / rows.queries.size)
    return _transform(rows.lags.size).spectra(np.stack(products)), counts


def _log_energy(sums: FloatArray, counts: IntArray) -> tuple[float, FloatArray]:
    """Logarithm of the energy over all scales and positions, of a document and row."""
    without = (sums.sum() - sums) / (counts.sum() - counts)
    with np.errstate(divide="ignore"):
        return float(np.log(sums.sum() / counts.sum())), np.log(without)


@lru_cache(maxsize=4)
def _transform(length: int) -> LagTransform:
    return published_transform(length, published_scales())


def _t_spec(gram: FloatArray, sample: Sample) -> tuple[float, FloatArray]:
    """Inverse of the published exponent; NaN where there is none or it is not positive."""
    assert sample.groups is not None
    kept, groups = sample.gram(gram), sample.of_distinct(sample.groups)
    values = sample_eigenvalues(kept)
    beta = float(spectrum_measures(values, np.nan, EIGENVALUE_FLOOR)[0])
    parts = spectrum_replicates(kept, groups, EIGENVALUE_FLOOR)[:, list(SCALES).index("beta_published")]
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(parts > 0, 1 / parts, np.nan)
    return (1 / beta if beta > 0 else float("nan")), inverse


def _bracket(gram: FloatArray, sample: Sample) -> tuple[FloatArray, FloatArray]:
    kept = sample.gram(gram)
    found = rank_bracket(kept, sample_eigenvalues(kept), sample.of_distinct(sample.blocks), TOLERANCES)
    return found.low, found.high


def _participation(gram: FloatArray, sample: Sample) -> tuple[float, FloatArray]:
    assert sample.groups is not None
    kept, groups = sample.gram(gram), sample.of_distinct(sample.groups)
    column = list(SCALES).index("participation_ratio")
    with np.errstate(invalid="ignore"):
        return float(np.log(participation_ratio(kept))), np.log(spectrum_replicates(kept, groups)[:, column])


def _resolved(defaults: Any) -> FloatArray:
    names = ("field_t_spec_resolved", "field_t_spec_resolved_low", "field_t_spec_resolved_high")
    if names[0] not in defaults or str(defaults["field_t_spec_resolved_status"].values) != "ok":
        return np.full(3, np.nan)
    return np.array([float(defaults[name]) for name in names])
