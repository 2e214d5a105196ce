"""End to end: what an analysis says of the reliability of its own numbers."""

import warnings

import numpy as np
import pytest

import eddyscope as es
import planted
from eddyscope.study.nulls import run_nulls
from eddyscope.study.nulltable import NULL_MEASURES, describe_differences
from eddyscope.study.words import conclusions
from eddyscope.trust.jackknife import jackknife

N, L = 40, 32


def analysed(attention, **options):
    return es.analyze(es.AttentionEnsemble.from_arrays({"a": attention}), **options)


@pytest.fixture(scope="module")
def noise():
    return planted.noise(N, L, 1)


@pytest.fixture(scope="module")
def study(noise):
    return analysed(noise)


def test_every_document_twice_says_the_same_as_once(noise, study):
    once, twice = study.layer(0), analysed(np.concatenate([noise, noise])).layer(0)
    for name in ("field_participation_ratio", "field_beta_published", "lag_participation_ratio", "fluctuation_level"):
        for end in ("", "_low", "_high"):
            np.testing.assert_allclose(twice[name + end], once[name + end], rtol=1e-6, err_msg=name + end)
    np.testing.assert_allclose(twice["field_effective_rank_high"], once["field_effective_rank_high"])
    assert twice["group"].values[:N].tolist() == twice["group"].values[N:].tolist()


def test_intervals_hold_their_numbers(study):
    data = study.layer(0)
    checked = 0
    for name in data.data_vars:
        if f"{name}_low" in data and np.isfinite(data[f"{name}_low"]).all() and name != "spectrum":
            assert (data[f"{name}_low"] <= data[name] + 1e-12).all(), name
            assert (data[name] <= data[f"{name}_high"] + 1e-12).all(), name
            checked += 1
    assert checked > 20


def test_white_noise_has_no_decay_and_its_rank_counts_documents(study):
    data = study.layer(0)
    assert str(data["field_beta_resolved_status"].values) == "unresolved"
    assert np.isnan(data["field_beta_resolved"])
    assert set(data["field_effective_rank_status"].values) == {"unresolved"}
    said = conclusions(data)
    assert any(s.startswith("Decay: not resolved, two halves of the documents agree on") for s in said)
    assert any("it says how many documents there are" in s for s in said)


def test_coherence_stands_beside_what_chance_gives(noise, study):
    data, plain = study.layer(0), analysed(noise, intervals=False).layer(0)
    np.testing.assert_allclose(data["coherence"], plain["coherence"], rtol=1e-4, atol=1e-5)
    assert "coherence_chance" not in plain
    gamma, chance = data["coherence"].isel(band=0), data["coherence_chance"].isel(band=0)
    np.testing.assert_allclose(data["coherence_debiased"].isel(band=0), (gamma**2 - chance) / (1 - chance), atol=1e-6)
    assert np.isnan(data["phase_consistency"].isel(band=1)).all()


def test_without_intervals_there_is_nothing_that_resamples(noise):
    data = analysed(noise, intervals=False).layer(0)
    assert [n for n in data.variables if n.endswith(("_low", "_replicates", "_convergence"))] == ["cone_low"]
    assert "field_beta_resolved" not in data
    (said,) = conclusions(data)
    assert said.startswith("No intervals")


def test_fewer_than_eight_groups_give_no_intervals(noise):
    data = analysed(noise[:7]).layer(0)
    assert "field_participation_ratio_low" not in data


def test_a_sink_that_is_left_in_is_warned_about_and_both_results_are_kept(noise):
    share = np.random.default_rng(2).uniform(0.3, 0.8, size=(N, L))
    sunk = planted.add_sink(noise, share)
    with pytest.warns(es.EddyscopeWarning, match=r"Sinks are left in the lag statistics .* \[strong-sink\]$"):
        kept = analysed(sunk, sink="keep").layer(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        masked = analysed(sunk).layer(0)
    plain = analysed(noise, sink="mask").layer(0)
    names = list(masked["sink_measure"].values)
    np.testing.assert_allclose(
        kept["sink_other"][names.index("lag_participation_ratio")], plain["lag_participation_ratio"], rtol=1e-6
    )
    np.testing.assert_allclose(
        masked["sink_other"][names.index("lag_participation_ratio")], kept["lag_participation_ratio"], rtol=1e-6
    )
    assert str(masked["sinks"].values).startswith("key 0 (")
    assert str(plain["sinks"].values) == ""


def test_masking_the_first_two_keys_brings_back_the_field_without_them(noise):
    sunk = noise.copy()
    sunk[:, 2:] *= 0.4
    sunk[:, 2:, :2] += 0.3
    first, second = (es.AttentionEnsemble.from_arrays({"a": a}) for a in (noise, sunk))
    for name in ("lag_energy", "lag_participation_ratio", "median_lag"):
        plain, masked = (es.analyze(e, sink="first=2", intervals=False).layer(0)[name] for e in (first, second))
        np.testing.assert_allclose(masked, plain, rtol=1e-6, err_msg=name)


def test_a_band_of_lags_cannot_mask_the_second_key(noise):
    ensemble = es.AttentionEnsemble.from_arrays({"a": noise}, max_lag=8)
    with pytest.raises(es.EddyscopeError, match=r"sink='first=2' needs the attention to these keys from everywhere"):
        es.analyze(ensemble, sink="first=2")


def test_random_phases_leave_the_first_layers_lag_statistics_only_where_nothing_recurs():
    attention = planted.bump(N, L, 10, 2, seed=3)
    ensemble = es.AttentionEnsemble.from_arrays({"a": attention})
    study = run_nulls(es.analyze(ensemble), ensemble, "phases,uniform")
    data = study.layer(0)
    apart = data["null_difference"].sel(comparison="phases")[NULL_MEASURES.index("lag_participation_ratio")]
    assert float(apart) < 0  # a bump at one distance is one pattern; with random phases it is anywhere
    assert "lag_participation_ratio lower" in describe_differences(data, "phases")
    assert np.isfinite(data["uniform_spectrum"]).any()
    assert study.summary()["phases_lag_participation_ratio"][0] > study.summary()["lag_participation_ratio"][0]


def test_null_models_that_need_a_model_say_so(noise, study):
    ensemble = es.AttentionEnsemble.from_arrays({"a": noise})
    with pytest.raises(es.EddyscopeError, match=r"The null model twin needs a model, and only attention was given\."):
        run_nulls(study, ensemble, "twin")
    with pytest.raises(es.EddyscopeError, match=r"null must be among twin, shuffled, uniform, phases, got 'triplet'\."):
        run_nulls(study, ensemble, "triplet")


def test_a_study_with_null_models_comes_back_from_disk(noise, study, tmp_path):
    ensemble = es.AttentionEnsemble.from_arrays({"a": noise})
    with_nulls = run_nulls(study, ensemble, "phases")
    with_nulls.save(tmp_path / "study.zarr")
    again = es.open_study(tmp_path / "study.zarr")
    assert again.packed(0).identical(with_nulls.packed(0))


def test_each_head_has_its_own_intervals_and_differences():
    heads = np.stack([planted.noise(N, L, 1), planted.bump(N, L, 10, 2, seed=3)], axis=1)
    ensemble = es.AttentionEnsemble.from_arrays({"a": heads})
    study = run_nulls(es.analyze(ensemble), ensemble, "phases")
    alone = analysed(heads[:, 1]).layer(0)
    second = study.layer(0, head=1)
    for name in ("field_participation_ratio_low", "lag_participation_ratio_high", "near_share_low"):
        np.testing.assert_allclose(second[name], alone[name], rtol=1e-9, err_msg=name)
    assert study.layer(0)["null_p_holm"].dims == ("head", "comparison", "null_measure")


def test_octave_shares_and_spectrum_keep_the_replicates_of_their_intervals(study):
    data = study.packed(0)
    shares, spectrum = data["octave_share_replicates"].values, data["spectrum_replicates"].values
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    low, high = jackknife(data["octave_share"].values, shares, "share").low, data["octave_share_high"].values
    np.testing.assert_allclose(low, data["octave_share_low"].values)
    assert (low <= high).all()
    bounds = jackknife(data["spectrum"].values[2, 0], spectrum, "log")
    np.testing.assert_allclose(bounds.high, data["spectrum_high"].values)
