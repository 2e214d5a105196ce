"""Dimension names, units and descriptions of results: one place, so that one thing has one word."""

from __future__ import annotations

from typing import Any

FORMAT_VERSION = 1

#: Fixed dimension words. ``entry`` is the packed (query, key) axis, expanded on access.
DIMENSIONS = (
    "document",
    "other_document",
    "layer",
    "head",
    "query",
    "key",
    "entry",
    "lag",
    "side",
    "scale",
    "part",
    "normalisation",
    "band",
    "octave",
    "rank",
    "mode",
    "tolerance",
    "peak",
    "measure",
    "quantity",
    "fraction",
    "resolved_rank",
    "jackknife_group",
    "sink_measure",
    "null",
    "comparison",
    "top_mode",
    "place",
    "query_head",
)

PARTS = ("total", "mean", "fluctuation")
NORMALISATIONS = ("energy", "rectified", "standardised")
SIDES = ("back", "ahead")

#: Variables that are kept packed, and what they become when a layer is looked at.
PACKED = {
    "packed_mean_field": "mean_field",
    "packed_modes": "modes",
    "packed_field_modes": "field_modes",
    "packed_coherence": "coherence",
    "packed_coherence_phase": "coherence_phase",
    "packed_coherence_chance": "coherence_chance",
    "packed_phase_consistency": "phase_consistency",
    "packed_amplitude_correlation": "amplitude_correlation",
}

_MEASURES: dict[str, tuple[str, str]] = {
    "beta_published": ("decay exponent of the first 30 eigenvalues, as published", "1"),
    "t_spec_published": ("spectral concentration index 1/beta, as published", "1"),
    "r2": ("share of the variance of log eigenvalues that the power law explains", "1"),
    "fit_intercept": ("log of the first eigenvalue on the fitted line", "1"),
    "fit_curvature": ("coefficient of (log rank)^2 where it is fitted too", "1"),
    "effective_rank": ("H*(tolerance): fewest modes that miss at most this share of the energy", "modes"),
    "participation_ratio": ("effective dimension tr^2(Sigma)/tr(Sigma^2)", "modes"),
    "entropy_rank": ("exponential of the entropy of the energy shares", "modes"),
    "stable_rank": ("total energy over that of the first mode", "modes"),
    "first_mode_energy": ("share of the energy in the first mode", "1"),
    "beta_resolved": ("decay exponent of the variances that two halves of the documents agree on", "1"),
    "t_spec_resolved": ("spectral concentration index 1/beta of the resolved exponent", "1"),
    "resolved_curvature": ("coefficient of (log rank)^2 on the resolved window", "1"),
    "resolved_window": ("largest rank up to which the modes of two halves span the same subspace", "modes"),
    "resolved_variances": ("geometric mean of train and held-out variance along train modes", "1"),
    "resolved_overlap": ("overlap of the subspaces of two halves, chance taken off", "1"),
    "resolved_variances_replicates": ("resolved variances with one group of documents left out", "1"),
    "mode_overlap": ("squared inner product of the modes of two halves of the documents", "1"),
    "mode_separated": ("1 where North's rule tells the mode from its neighbours", "1"),
    "coefficient_kurtosis": ("excess kurtosis of the coefficients over documents", "1"),
    "noise_reduced_eigenvalues": ("eigenvalues with the floor of the sample taken off", "1"),
    "greatest_capture": ("largest share of held-out energy that modes of the others hold", "1"),
    "effective_samples": ("independent samples that each lag mode rests on", "samples"),
    "measure_at": ("measures at N/4, N/2 and N documents", ""),
    "measure_convergence": ("whether each measure still changes with the number of documents", ""),
    "measure_convergence_reason": ("why", ""),
    "measure_replicates": ("measures with one group of documents left out", ""),
    "effective_rank_low": ("lower bound of H*: in-sample", "modes"),
    "effective_rank_high": ("upper bound of H*: from the capture of held-out documents", "modes"),
    "effective_rank_at": ("H*(tolerance) at N/4, N/2 and N documents", "modes"),
    "effective_rank_convergence": ("whether it still changes with the number of documents", ""),
    "effective_rank_convergence_reason": ("why", ""),
}

_VARIABLES: dict[str, tuple[str, str]] = {
    "octave_share": ("share of the fluctuation energy at the distances of the octave", "1"),
    "octave_density": ("share over the octave's share of lags; 1 is flat", "1"),
    "lag_energy": ("mean squared fluctuation at each lag", "1"),
    "scalogram": ("wavelet energy <|W|^2> by scale and lag", "1"),
    "spectrum": ("mean of the scalogram over the cone of influence", "1"),
    "octave_share_replicates": ("octave shares with one group of documents left out", "1"),
    "spectrum_replicates": ("the fluctuation's energy spectrum with one group of documents left out", "1"),
    "spectrum_low": ("lower end of the 95 % interval of the fluctuation's energy spectrum", "1"),
    "spectrum_high": ("upper end of the 95 % interval of the fluctuation's energy spectrum", "1"),
    "spectrum_other_edges": ("energy spectrum of the fluctuation under the other edge rule", "1"),
    "scale_status": ("ok, edge-affected or above Nyquist", ""),
    "wavelength": ("wavelength of each scale", "tokens"),
    "cone_low": ("first lag index inside the cone of influence", "tokens"),
    "cone_high": ("last lag index inside the cone of influence", "tokens"),
    "peak_scale": ("scale of each local maximum of the flattened spectrum", "tokens"),
    "peak_wavelength": ("its wavelength", "tokens"),
    "peak_prominence": ("its prominence in log energy", "1"),
    "peak_standard_error": ("jackknife standard error of the prominence", "1"),
    "peak_status": ("what became of it", ""),
    "dominant_scale": ("scale of the band, NaN for octaves", "tokens"),
    "dominant_wavelength": ("wavelength of the band, NaN for octaves", "tokens"),
    "dominant_lag": ("distance at which the band's energy is largest, or the octave's centre", "tokens"),
    "band_first": ("first distance of an octave band, NaN for a scale", "tokens"),
    "band_last": ("last distance of an octave band, NaN for a scale", "tokens"),
    "status": ("what kind of band this is", ""),
    "window": ("lag window of each band", "1"),
    "energy_outside": ("share of the fluctuation energy that no window covers", "1"),
    "eigenvalues": ("POD eigenvalues of each band", "1"),
    "total_energy": ("sum of all POD eigenvalues of each band, where only the leading ones are known", "1"),
    "coefficients": ("POD coefficients of each document", "1"),
    "mode_profile": ("mean of each mode over queries, by lag", "1"),
    "gram": ("snapshot Gram of each band, with the factor 1/N", "1"),
    "field_eigenvalues": ("POD eigenvalues without a window", "1"),
    "field_total_energy": ("sum of all POD eigenvalues without a window, where only the leading ones are known", "1"),
    "field_coefficients": ("POD coefficients without a window", "1"),
    "field_mode_profile": ("mean of each mode over queries, by lag, without a window", "1"),
    "field_gram": ("snapshot Gram without a window, with the factor 1/N", "1"),
    "lag_eigenvalues": ("eigenvalues of the fluctuation's lag covariance", "1"),
    "lag_modes": ("lag profiles: eigenvectors of the fluctuation's lag covariance", "1"),
    "coherence": ("modulus of the coherence of the query's own position with each key", "1"),
    "coherence_phase": ("argument of the coherence", "radians"),
    "coherence_scale": ("scale at which coherence was computed, NaN where it was not", "tokens"),
    "mean_field": ("attention averaged over documents", "1"),
    "modes": ("POD modes of each band, unit norm", "1"),
    "field_modes": ("POD modes without a window, unit norm", "1"),
    "fluctuation_level": ("share of the squared attention that fluctuates from document to document", "1"),
    "lag_fluctuation_level": ("the same for the rows of the lag statistics", "1"),
    "sink_mass": ("mean attention to the first key", "1"),
    "row_mass": ("mean row sum; below 1 where the model has a sink of its own", "1"),
    "energy_by_query": ("share of the fluctuation energy of each query", "1"),
    "early_share": ("share of the first mode's energy in the first eighth of the queries", "1"),
    "median_lag": ("smallest distance with half of the fluctuation energy at or below it", "tokens"),
    "near_share": ("share of the fluctuation energy at distances below 8", "1"),
    "far_share": ("share of the fluctuation energy in the farther half of the distances", "1"),
    "queries_left_out": ("queries whose mass beside the sink falls below 0.05 in some document", "queries"),
    "median_lag_selected": ("share of the replicates with the same median lag", "1"),
    "peak_octave_selected": ("share of the replicates with the same octave of largest density", "1"),
    "quantity_at": ("quantities at N/4, N/2 and N documents", "1"),
    "quantity_convergence": ("whether each quantity still changes with the number of documents", ""),
    "quantity_convergence_reason": ("why", ""),
    "quantity_replicates": ("quantities with one group of documents left out", "1"),
    "documents_at": ("documents at N/4, N/2 and N", "documents"),
    "sink_share": ("share of the documents in which the key draws attention from everywhere", "1"),
    "sink_key_mass": ("mean attention to the key from far queries", "1"),
    "moving_sinks": ("sinks a document at places that are none in half of the documents", "keys"),
    "moving_sink_mass": ("mean attention from far queries to one of these", "1"),
    "sinks": ("the sinks in words", ""),
    "sink_other": ("lag statistics under the other treatment of sinks", ""),
    "sink_matters": ("1 where those in use lie beyond the interval of these", "1"),
    "sink_other_treatment": ("what the other treatment is", ""),
    "coherence_chance": ("squared coherence that independent phases give, whatever the amplitudes do", "1"),
    "coherence_debiased": ("squared coherence with chance taken off", "1"),
    "phase_consistency": ("pairwise phase consistency, amplitudes left aside", "1"),
    "amplitude_correlation": ("correlation of the amplitudes over documents", "1"),
    "null_value": ("each measure of each null model", ""),
    "null_replicates": ("the same with one group of documents left out", ""),
    "null_difference": ("trained minus null, mean over seeds", ""),
    "null_difference_low": ("lower end of its 95 % interval, corrected by nothing", ""),
    "null_difference_high": ("upper end of its 95 % interval, corrected by nothing", ""),
    "null_p": ("two-sided probability of such a difference by chance", "1"),
    "null_p_holm": ("the same, corrected for all layers and measures looked at (Holm)", "1"),
    "null_octave_density": ("octave densities of each null model", "1"),
    "null_spectrum": ("energy spectrum of the fluctuation of each null model", "1"),
    "null_eigenvalues": ("POD eigenvalues without a window of each null model", "1"),
    "null_lag_eigenvalues": ("lag POD eigenvalues of each null model", "1"),
    "uniform_spectrum": ("energy spectrum of uniform attention over the allowed keys", "1"),
    "top_document": ("documents of the largest coefficients of each mode", ""),
    "top_query_share": ("share of the coefficient that each query gives", "1"),
    "top_key_share": ("share of the coefficient that each key gives", "1"),
    "top_key": ("of each query, the key that gives most of its part", ""),
    "top_pair_share": ("share of the coefficient that this pair gives", "1"),
    "field_top_document": ("documents of the largest coefficients of each mode, without a window", ""),
    "field_top_query_share": ("share of the coefficient that each query gives, without a window", "1"),
    "field_top_key_share": ("share of the coefficient that each key gives, without a window", "1"),
    "field_top_key": ("of each query, the key that gives most of its part, without a window", ""),
    "field_top_pair_share": ("share of the coefficient that this pair gives, without a window", "1"),
    "head_median_lag": ("smallest distance with half of the head's mass beside the first key at or below it", "tokens"),
    "head_near_share": ("share of the head's mass beside the first key at distances below 8", "1"),
    "head_far_share": ("share of it in the farther half of the distances", "1"),
    "head_previous_token_share": ("mean attention of the head to the token before the query", "1"),
    "head_sink_share": ("mean attention of the head to the first key", "1"),
    "head_induction_score": ("mean attention to the token that followed the query's token last time", "1"),
    "head_entropy": ("mean entropy of the head's rows", "nats"),
    "query_head": ("head of the model", ""),
    "group": ("jackknife group of each document, -1 where there are too few", ""),
}


def attributes(name: str, **extra: Any) -> dict[str, Any]:
    """Attributes of a variable: description, units, and whatever else is given.

    Parameters
    ----------
    name : str
        Name of the variable; the prefixes ``field_``, ``lag_`` and ``packed_`` and the suffixes ``_status``, ``_low``
        and ``_high`` are known.
    **extra
        Added as they are, None left out.
    """
    described: dict[str, Any] = {}
    base = name.removeprefix("packed_")
    stem = base.removeprefix("field_").removeprefix("lag_")
    if base in _VARIABLES:
        described["long_name"], described["units"] = _VARIABLES[base]
    elif stem in _MEASURES:
        described["long_name"], described["units"] = _MEASURES[stem]
    elif base.endswith("_status") and (stem.removesuffix("_status") in _MEASURES or base[:-7] in _VARIABLES):
        described["long_name"], described["units"] = f"status of {base.removesuffix('_status')}", ""
    else:
        for suffix, end in (("_low", "lower"), ("_high", "upper")):
            whole = attributes(base.removesuffix(suffix)) if base.endswith(suffix) else {}
            if whole:
                described["long_name"] = f"{end} end of the 95 % interval: {whole['long_name']}"
                described["units"] = whole["units"]
    described.update({key: value for key, value in extra.items() if value is not None})
    return described
