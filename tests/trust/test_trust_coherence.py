"""Coherence against what chance alone gives."""

from __future__ import annotations

import numpy as np
import pytest

from eddyscope.kernels.coherence import cross_coherence, key_transform
from eddyscope.kernels.pairs import field_pairs, pair_statistics
from eddyscope.lagfield import LagField
from eddyscope.trust.coherence import beyond_chance, coherence_threshold, debiased_coherence

DOCUMENTS, SCALE = 150, 2.55


def complex_noise(rng, *shape):
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)) / np.sqrt(2)


def statistics(x, y):
    return pair_statistics(x, np.ascontiguousarray(y.real), np.ascontiguousarray(y.imag))


def pairs_of(dense, transform, causal):
    field = LagField.from_dense(dense[:, None], causal)
    return field_pairs(field.values[:, 0], field.geometry, transform)


def far_alarms(gain_sigma, draws):
    """Share of key positions beyond four scales whose coherence exceeds the threshold, in white fields."""
    rng = np.random.default_rng(7)
    transform = key_transform(48, SCALE, 6.0)
    apart = np.abs(np.subtract.outer(np.arange(48), np.arange(48))) > 4 * SCALE
    found, analytic = [], []
    for _ in range(draws):
        gain = np.exp(gain_sigma * rng.normal(size=(DOCUMENTS, 1, 1)))
        pairs = pairs_of((rng.normal(size=(DOCUMENTS, 48, 48)) * gain).astype(np.float32), transform, causal=False)
        modulus = np.abs(pairs.coherence)
        found.append(beyond_chance(modulus, pairs.chance)[apart].mean())
        analytic.append((modulus**2 > 1 - 0.05 ** (1 / (DOCUMENTS - 1)))[apart].mean())
    return np.mean(found), np.mean(analytic)


def test_independent_positions_raise_five_per_cent_of_false_alarms():
    assert far_alarms(0.0, 40)[0] == pytest.approx(0.05, abs=0.005)


def test_a_shared_gain_fools_the_analytic_threshold_and_not_this_one():
    alarms, analytic = far_alarms(1.0, 10)
    assert alarms <= 0.06
    assert analytic > 0.5


def test_planted_coherence_comes_out_debiased():
    rng = np.random.default_rng(1)
    x = complex_noise(rng, DOCUMENTS, 400)
    y = 0.3 * x[:, :, None] + np.sqrt(1 - 0.09) * complex_noise(rng, DOCUMENTS, 400, 5)
    pairs = statistics(x, y)
    debiased = debiased_coherence(np.abs(pairs.coherence), pairs.chance)
    assert np.sqrt(debiased.mean()) == pytest.approx(0.3, abs=0.01)
    assert np.sqrt((np.abs(pairs.coherence) ** 2).mean()) > 0.305  # what chance adds


def test_a_shared_gain_shows_in_the_amplitudes_and_not_in_the_phases():
    rng = np.random.default_rng(2)
    gain = np.exp(rng.normal(size=(DOCUMENTS, 1)))
    pairs = statistics(
        gain * complex_noise(rng, DOCUMENTS, 100), gain[:, :, None] * complex_noise(rng, DOCUMENTS, 100, 5)
    )
    assert pairs.phase_consistency.mean() == pytest.approx(0.0, abs=0.002)
    assert pairs.amplitude_correlation.mean() > 0.5
    assert debiased_coherence(np.abs(pairs.coherence), pairs.chance).mean() == pytest.approx(0.0, abs=0.01)


def test_a_constant_phase_is_consistent_whatever_the_amplitudes():
    rng = np.random.default_rng(3)
    x = complex_noise(rng, DOCUMENTS, 3)
    y = (x * np.exp(-0.7j) * rng.lognormal(size=x.shape))[:, :, None]
    pairs = statistics(x, y)
    np.testing.assert_allclose(pairs.phase_consistency, 1.0)
    np.testing.assert_allclose(np.angle(pairs.coherence), 0.7)
    assert (np.abs(pairs.coherence) < 1).all()


def test_statistics_equal_their_definitions():
    rng = np.random.default_rng(4)
    x, y = complex_noise(rng, 20, 2), complex_noise(rng, 20, 2, 3)
    pairs = statistics(x, y)
    ours, theirs = x[:, 1], y[:, 1, 2]
    power = (np.abs(ours) ** 2).sum() * (np.abs(theirs) ** 2).sum()
    assert pairs.coherence[1, 2] == pytest.approx((ours * theirs.conj()).sum() / np.sqrt(power))
    assert pairs.chance[1, 2] == pytest.approx((np.abs(ours) ** 2 * np.abs(theirs) ** 2).sum() / power)
    cosines = np.cos(np.subtract.outer(np.angle(ours * theirs.conj()), np.angle(ours * theirs.conj())))
    assert pairs.phase_consistency[1, 2] == pytest.approx((cosines.sum() - 20) / (20 * 19))
    assert pairs.amplitude_correlation[1, 2] == pytest.approx(np.corrcoef(np.abs(ours), np.abs(theirs))[0, 1])


def test_a_planted_phase_comes_out_with_its_sign():
    # A wave of period 8 whose phase differs from document to document: position j is ahead of i by 2 pi (j - i) / 8.
    rng = np.random.default_rng(5)
    key = np.arange(64)
    wave = np.cos(2 * np.pi * key / 8 + rng.uniform(0, 2 * np.pi, size=(DOCUMENTS, 1)))
    field = np.repeat(wave[:, None, :], 64, axis=1)
    pairs = pairs_of(field, key_transform(64, 7.7, 6.0), causal=False)
    for ahead in (1, 2, 3):
        assert np.angle(pairs.coherence[32, 32 + ahead]) == pytest.approx(-2 * np.pi * ahead / 8, abs=0.05)
        assert np.angle(pairs.coherence[32, 32 - ahead]) == pytest.approx(2 * np.pi * ahead / 8, abs=0.05)


@pytest.mark.parametrize("causal", [True, False])
def test_the_coherence_is_that_of_the_analysis(causal):
    field = np.random.default_rng(6).normal(size=(30, 40, 40))
    field = np.tril(field) if causal else field
    transform = key_transform(40, 3.0, 6.0)
    pairs = pairs_of(field, transform, causal)
    np.testing.assert_allclose(pairs.coherence, cross_coherence(field, transform, causal), atol=1e-12)
    hidden = np.triu(np.ones((40, 40), dtype=bool), 1) & causal
    for values in (pairs.chance, pairs.phase_consistency, pairs.amplitude_correlation):
        np.testing.assert_array_equal(np.isnan(values), hidden)


def test_still_positions_have_no_coherence():
    pairs = statistics(np.zeros((10, 1), dtype=complex), np.zeros((10, 1, 2), dtype=complex))
    assert np.isnan(pairs.coherence).all()
    assert np.isnan(pairs.chance).all()
    assert not beyond_chance(np.abs(pairs.coherence), pairs.chance).any()


def test_the_threshold_is_that_of_an_exponential():
    assert coherence_threshold(np.array(1 / 150)) == pytest.approx(np.log(20) / 150)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(4))
def test_amplitudes_that_vary_by_rounding_alone_have_no_correlation(dtype, seed):
    rows = np.tril(np.random.default_rng(seed).random((1, 1, 12, 12)))
    field = LagField.from_dense(
        (rows / rows.sum(-1, keepdims=True)) * np.array([1.0, 0.9])[:, None, None, None], causal=True
    )
    values = field.values[:, 0].astype(dtype)
    # About the mean of two documents both deviate by the same amount: amplitudes are equal, coherence is 1.
    mean = values.astype(np.float64).mean(axis=0)
    pairs = field_pairs(values, field.geometry, key_transform(12, 3.0, 6.0), mean)
    seen = np.tril(np.ones((12, 12), dtype=bool))
    np.testing.assert_allclose(np.abs(pairs.coherence[seen]), 1, rtol=1e-5)
    assert np.isnan(pairs.amplitude_correlation).all()
