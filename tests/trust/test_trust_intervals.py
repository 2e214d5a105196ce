"""Intervals by the jackknife over groups of documents."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eddyscope.kernels.decay import fit_decay
from eddyscope.kernels.laggroups import lag_groups
from eddyscope.kernels.lagstats import lag_covariance
from eddyscope.kernels.pod import decompose
from eddyscope.kernels.rank import participation_ratio
from eddyscope.sampling import balanced_groups
from eddyscope.trust.jackknife import jackknife, reciprocal, selection_frequency
from eddyscope.trust.lag import energy_replicates, level_replicates, mean_replicates
from eddyscope.trust.partitions import distinct_documents, equal_snapshots
from eddyscope.trust.scores import subgram
from eddyscope.trust.simulate import gaussian_gram, power_law, true_participation_ratio
from eddyscope.trust.spectrum import (
    SCALES,
    lag_intervals,
    part_measures,
    published_slope,
    spectrum_intervals,
    spectrum_replicates,
)

GROUPS = np.arange(150) % 15


def centred_gram(fields):
    centred = fields - fields.mean(axis=0)
    return centred @ centred.T / len(fields)


def test_the_interval_of_a_mean_is_that_of_student_over_group_means():
    groups = np.random.default_rng(0).normal(size=15)
    replicates = (groups.sum() - groups) / 14
    found = jackknife(groups.mean(), replicates)
    low, high = stats.t.interval(0.95, 14, loc=groups.mean(), scale=groups.std(ddof=1) / np.sqrt(15))
    assert found.error == pytest.approx(groups.std(ddof=1) / np.sqrt(15))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


def test_dimensions_have_their_interval_on_the_logarithm_and_shares_stay_shares():
    rng = np.random.default_rng(1)
    ratio = jackknife(50.0, 50.0 * np.exp(0.02 * rng.normal(size=15)), "log")
    assert ratio.low * ratio.high == pytest.approx(50.0**2)
    share = jackknife(0.01, 0.01 + 0.004 * rng.uniform(-1, 1, size=15), "share")
    assert 0 < share.low < 0.01 < share.high < 1
    nothing = jackknife(np.array([0.0, 1.0]), np.tile([0.0, 1.0], (15, 1)), "share")
    np.testing.assert_array_equal(nothing.low, [0.0, 1.0])
    with pytest.raises(ValueError, match="linear, log or share"):
        jackknife(1.0, np.ones(15), "square")


def test_below_eight_groups_there_is_no_interval():
    found = jackknife(np.ones(2), np.ones((7, 2)))
    assert np.isnan(found.low).all()
    assert list(found.status) == ["too few groups"] * 2
    assert jackknife(1.0, np.ones(8)).status == "ok"


def test_an_undefined_replicate_leaves_the_estimate_without_interval():
    replicates = np.ones(15)
    replicates[3] = np.nan
    found = jackknife(1.0, replicates)
    assert (float(found.estimate), found.status) == (1.0, "unresolved")
    assert np.isnan(found.high)


def test_the_interval_of_the_inverse_is_the_inverse_of_the_interval():
    wide = reciprocal(jackknife(0.5, np.linspace(0.3, 0.7, 15)))
    assert wide.high == np.inf  # beta may be 0
    narrow = reciprocal(jackknife(0.5, np.linspace(0.499, 0.501, 15)))
    assert narrow.low < 2.0 < narrow.high < 2.2


def test_integers_carry_the_share_of_replicates_that_choose_them():
    assert selection_frequency(3.0, [3, 3, 4, np.nan]) == 0.5
    assert selection_frequency(np.nan, [np.nan, 1.0]) == 0.5


def test_replicates_are_the_measures_of_the_ensemble_without_the_group():
    fields = np.random.default_rng(2).normal(size=(60, 200)) * power_law(200, 0.5) + 3.0
    groups = np.arange(60) % 10
    replicates = spectrum_replicates(centred_gram(fields), groups)
    for group in (0, 7):
        gram = centred_gram(fields[groups != group])
        values = decompose(gram).eigenvalues
        shares = values / values.sum()
        fit = fit_decay(values)
        entropy = np.exp(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())
        expected = [fit.beta, fit.r2, participation_ratio(gram), entropy, 1 / shares[0], shares[0]]
        np.testing.assert_allclose(replicates[group], expected, rtol=1e-9)


def test_every_measure_lies_in_its_interval():
    found = spectrum_intervals(gaussian_gram(power_law(2_000, 1.0), 150, seed=3), GROUPS)
    assert set(found) == {*SCALES, "t_spec_published"}
    for interval in found.values():
        assert interval.status == "ok"
        assert interval.low < interval.estimate < interval.high


def test_above_a_thousand_documents_the_leading_scores_give_the_same_error():
    gram = gaussian_gram(power_law(1_500, 1.2), 1_050, seed=4)
    groups = np.arange(1_050) % 8
    fast = spectrum_replicates(gram, groups)
    exact = np.stack([part_measures(gram, np.flatnonzero(groups != g)) for g in range(2)])
    error = np.sqrt(7 / 8 * ((fast - fast.mean(0)) ** 2).sum(0))
    # All replicates share an offset, which the error does not see.
    assert (np.abs((fast[0] - fast[1]) - (exact[0] - exact[1])) / error).max() < 0.02
    assert (np.abs(fast[:2] - exact) / exact).max() < 0.02


def test_every_document_twice_changes_nothing():
    fields = np.random.default_rng(5).normal(size=(150, 400)) * power_law(400, 0.5)
    single = centred_gram(fields)
    for order in (np.repeat(np.arange(150), 2), np.tile(np.arange(150), 2)):
        doubled = centred_gram(fields[order])
        labels = equal_snapshots(doubled)
        np.testing.assert_array_equal(
            np.unique(labels, return_inverse=True)[1], np.unique(order, return_inverse=True)[1]
        )
        groups = balanced_groups(labels, 15)
        for label in np.unique(labels):
            assert np.unique(groups[labels == label]).size == 1  # groups see it
        kept = distinct_documents(labels)
        assert kept.size == 150
        ours = spectrum_intervals(subgram(doubled, kept), groups[kept])
        theirs = spectrum_intervals(single, balanced_groups(np.arange(150), 15))
        for name, interval in theirs.items():
            assert ours[name].estimate == pytest.approx(interval.estimate)
            assert ours[name].low == pytest.approx(interval.low)
            assert ours[name].high == pytest.approx(interval.high)
        assert participation_ratio(doubled) < 0.95 * participation_ratio(single)  # what it would be otherwise


def test_distinct_documents_are_found_by_their_tokens():
    tokens = np.array([[1, 2], [3, 4], [1, 2], [4, 3], [3, 4]])
    np.testing.assert_array_equal(distinct_documents(tokens), [0, 1, 3])


@pytest.mark.parametrize("entries", [33_000, 100])
def test_the_participation_ratio_of_white_noise_is_its_dimension(entries):
    gram = gaussian_gram(np.ones(entries), 150, seed=6)
    found = spectrum_intervals(gram, GROUPS)["participation_ratio"]
    assert found.low <= entries <= found.high
    assert float(found.estimate) == pytest.approx(entries, rel=0.1)
    values = decompose(gram).eigenvalues
    assert values.sum() ** 2 / (values**2).sum() < 149  # the naive one


def test_a_constant_field_changes_no_participation_ratio():
    fields = np.random.default_rng(7).normal(size=(150, 300))
    pattern = 50 * np.random.default_rng(8).normal(size=300)
    assert participation_ratio(centred_gram(fields + pattern)) == pytest.approx(
        participation_ratio(centred_gram(fields))
    )


def test_half_the_documents_give_the_same_participation_ratio_within_the_interval():
    spectrum = power_law(4_000, 1.0)
    gram = gaussian_gram(spectrum, 150, seed=9)
    found = spectrum_intervals(gram, GROUPS)["participation_ratio"]
    assert found.low <= participation_ratio(subgram(gram, np.arange(0, 150, 2))) <= found.high
    assert found.low <= true_participation_ratio(spectrum) <= found.high


def test_group_sums_give_the_lag_covariance_of_any_documents():
    rng = np.random.default_rng(10)
    rows = rng.normal(size=(12, 40, 9)) + rng.normal(size=(12, 1, 9))
    groups = np.arange(40) % 8
    fluctuation = rows - rows.mean(axis=1, keepdims=True)
    sums = lag_groups(fluctuation, groups)
    for members in (groups < 8, groups < 3, groups != 5):
        chosen = np.array([members[groups == g].any() for g in range(8)])
        np.testing.assert_allclose(sums.covariance(chosen), lag_covariance(rows[:, members].copy()).fluctuation)
    test, train = groups >= 6, groups < 4
    about = (rows[:, test] - rows[:, train].mean(axis=1, keepdims=True)).reshape(12, -1)
    found = sums.about(np.arange(8) >= 6, np.arange(8) < 4)
    np.testing.assert_allclose(found, about @ about.T / about.shape[1])
    basis = np.linalg.qr(rng.normal(size=(12, 5)))[0]
    np.testing.assert_allclose(sums.project(basis).without(2), basis.T @ sums.without(2) @ basis)
    reference = lag_covariance(rows.copy(), groups)
    np.testing.assert_allclose(energy_replicates(sums), np.einsum("gdd->gd", reference.without_group))
    assert np.isnan(sums.about(np.zeros(8, dtype=bool), np.ones(8, dtype=bool))).all()


def test_lag_measures_have_intervals_that_hold_the_truth():
    rng = np.random.default_rng(11)
    rows = rng.normal(size=(40, 90, 30)) * power_law(40, 0.5)[:, None, None]
    found = lag_intervals(lag_groups(rows - rows.mean(axis=1, keepdims=True), np.arange(90) % 15))
    spectrum = power_law(40, 1.0)
    truth = {
        "participation_ratio": true_participation_ratio(spectrum),
        "first_mode_energy": 1 / spectrum.sum(),
        "stable_rank": spectrum.sum(),
        "beta_published": 1.0,
    }
    for name, value in truth.items():
        assert found[name].low <= value <= found[name].high


def test_means_and_levels_without_a_group_equal_a_direct_computation():
    rng = np.random.default_rng(12)
    fields, groups = rng.normal(size=(40, 30)) + 2.0, np.arange(40) % 8
    mean = fields.mean(axis=0)
    found = level_replicates(centred_gram(fields), (fields - mean) @ mean, float(mean @ mean), groups)
    for group, level in enumerate(found):
        kept = fields[groups != group]
        assert level == pytest.approx(kept.var(axis=0).sum() / (kept**2).mean(axis=0).sum())
    np.testing.assert_allclose(mean_replicates(fields, groups)[3], fields[groups != 3].mean(axis=0))


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("floor", [None, 1e-12])
def test_the_slope_of_replicates_is_that_of_the_headline(beta, floor):
    """Also where nothing decays: r2 of a flat spectrum is undefined in both."""
    eigenvalues = np.arange(1.0, 41.0) ** -beta
    fit = fit_decay(eigenvalues) if floor is None else fit_decay(eigenvalues, relative_floor=0.0, absolute_floor=floor)
    np.testing.assert_array_equal(published_slope(eigenvalues, floor), (fit.beta, fit.r2))
