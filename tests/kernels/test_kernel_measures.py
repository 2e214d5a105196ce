"""Measures of known spectra are what they should be; what cannot be measured is NaN and says why."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from eddyscope.kernels.decay import fit_decay
from eddyscope.kernels.rank import (
    effective_rank,
    entropy_rank,
    first_mode_energy,
    participation_ratio,
    stable_rank,
)

K = np.arange(1, 101)


@pytest.mark.parametrize("beta", [0.25, 1.0, 2.5])
def test_a_power_law_gives_its_exponent(beta):
    fit = fit_decay(7.0 * K**-beta)
    assert fit.beta == pytest.approx(beta, abs=1e-8)
    assert fit.t_spec == pytest.approx(1 / beta, rel=1e-8)
    assert fit.intercept == pytest.approx(np.log(7))
    assert fit.r2 == pytest.approx(1)
    assert fit.curvature == pytest.approx(0, abs=1e-8)
    assert (fit.points, fit.status) == (30, "ok")


def test_the_fit_is_least_squares_over_the_first_thirty():
    spectrum = np.sort(np.random.default_rng(0).exponential(size=60))[::-1]
    fit = fit_decay(spectrum)
    expected = stats.linregress(np.log(K[:30]), np.log(spectrum[:30]))
    assert fit.beta == pytest.approx(-expected.slope)
    assert fit.r2 == pytest.approx(expected.rvalue**2)
    spectrum[30:] = 1e-6 * spectrum[29]
    assert fit_decay(spectrum) == fit


def test_eigenvalues_at_the_floor_are_left_out():
    spectrum = np.concatenate([K[:12] ** -1.0, np.full(20, 1e-10)])
    assert (fit_decay(spectrum).points, fit_decay(spectrum).beta) == (12, pytest.approx(1))
    spectrum[12:] = 1.1e-10
    assert fit_decay(spectrum).points == 30
    absolute = fit_decay(1e-3 * K**-1.0, relative_floor=0.0, absolute_floor=1e-3 / 12.5)
    assert absolute.points == 12


@pytest.mark.parametrize(
    ("spectrum", "status", "points"),
    [
        (np.zeros(20), "no fluctuation", 0),
        (np.zeros(0), "no fluctuation", 0),
        (np.full(20, np.nan), "no fluctuation", 0),
        (K[:7] ** -1.0, "too few modes", 7),
        (np.concatenate([K[:7] ** -1.0, np.zeros(30)]), "too few modes", 7),
        (np.array([1.0]), "too few modes", 1),
    ],
)
def test_what_cannot_be_fitted_is_nan_and_says_why(spectrum, status, points):
    fit = fit_decay(spectrum)
    assert (fit.status, fit.points) == (status, points)
    assert np.isnan([fit.beta, fit.t_spec, fit.intercept, fit.r2, fit.curvature]).all()


def test_a_flat_spectrum_does_not_decay():
    fit = fit_decay(np.full(40, 0.3))
    assert fit.status == "no decay"
    assert fit.beta == pytest.approx(0, abs=1e-12)
    assert np.isnan(fit.t_spec) and np.isnan(fit.r2)


@pytest.mark.parametrize(("curvature", "status"), [(-0.6, "not a power law"), (-0.15, "ok"), (0.6, "not a power law")])
def test_a_bent_spectrum_is_not_a_power_law(curvature, status):
    x = np.log(K)
    fit = fit_decay(np.exp(-3 * x + curvature * x**2))
    assert (fit.status, fit.curvature) == (status, pytest.approx(curvature))
    assert np.isfinite(fit.beta)


def test_a_bend_within_its_interval_does_not_count():
    x = np.log(K[:30])
    scatter = 1.5 * np.random.default_rng(2).normal(size=30)
    bent = [fit_decay(np.exp(-x + 0.25 * x**2 + s * scatter)).status for s in (0.0, 1.0)]
    assert bent == ["not a power law", "ok"]


def test_the_effective_rank_is_the_fewest_modes_that_miss_at_most_this_share():
    spectrum = np.array([0.5, 0.3, 0.15, 0.04, 0.01])
    assert [effective_rank(spectrum, t) for t in (0.6, 0.5, 0.2, 0.1, 0.05, 0.01, 0.001)] == [1, 1, 2, 3, 3, 4, 5]
    assert effective_rank(np.full(133, 1.0), 0.10) == 120
    assert np.isnan(effective_rank(np.zeros(4), 0.1))


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=60), st.floats(1e-4, 0.99))
def test_the_effective_rank_follows_its_definition(values, tolerance):
    spectrum = np.sort(np.array(values))[::-1]
    rank = int(effective_rank(spectrum, tolerance))
    total = spectrum.sum()
    assert 1 <= rank <= spectrum.size
    assert spectrum[rank:].sum() <= tolerance * total * (1 + 1e-9) + 1e-12 * total
    assert rank == 1 or spectrum[rank - 1 :].sum() > tolerance * total * (1 - 1e-9)


def test_ranks_of_equal_modes_count_them_and_energy_is_a_share():
    spectrum = np.concatenate([np.full(7, 0.2), np.zeros(5)])
    assert entropy_rank(spectrum) == pytest.approx(7)
    assert stable_rank(spectrum) == pytest.approx(7)
    assert first_mode_energy(spectrum) == pytest.approx(1 / 7)
    skewed = np.array([0.75, 0.25])
    assert entropy_rank(skewed) == pytest.approx(np.exp(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25))))
    assert stable_rank(skewed) == pytest.approx(4 / 3)
    for measure in (entropy_rank, stable_rank, first_mode_energy):
        assert np.isnan(measure(np.zeros(5)))


def centred_gram(snapshots):
    u = snapshots - snapshots.mean(axis=0)
    return u @ u.T / len(u)


@pytest.mark.parametrize(("dimensions", "draws"), [(300, 20), (2000, 10), (20, 60)])
def test_white_noise_has_as_many_dimensions_as_it_has(dimensions, draws):
    rng = np.random.default_rng(dimensions)
    found = [participation_ratio(centred_gram(rng.normal(size=(60, dimensions)))) for _ in range(draws)]
    error = np.std(found) / np.sqrt(draws)
    assert np.mean(found) == pytest.approx(dimensions, abs=max(4 * error, 0.02 * dimensions))
    assert abs(np.mean(found) - dimensions) < 0.1 * dimensions
    naive = [np.trace(g) ** 2 / (g**2).sum() for g in [centred_gram(rng.normal(size=(60, dimensions)))]]
    assert naive[0] < 60


def test_it_is_the_ratio_of_averages_over_independent_differences():
    """The formula from the Gram against what makes it unbiased: four different documents in every product."""
    snapshots = np.random.default_rng(4).exponential(size=(9, 3)) * [3.0, 1.0, 0.2]
    square_of_trace, trace_of_square = [], []
    for i, j, k, m in permutations(range(9), 4):
        one, other = (snapshots[i] - snapshots[j]) / np.sqrt(2), (snapshots[k] - snapshots[m]) / np.sqrt(2)
        square_of_trace.append((one @ one) * (other @ other))
        trace_of_square.append((one @ other) ** 2)
    expected = np.mean(square_of_trace) / np.mean(trace_of_square)
    assert participation_ratio(centred_gram(snapshots)) == pytest.approx(expected, rel=1e-10)


def test_it_ignores_a_constant_field_and_orientation():
    rng = np.random.default_rng(5)
    snapshots = rng.normal(size=(30, 50)) * np.arange(1, 51) ** -0.5
    plain = participation_ratio(centred_gram(snapshots))
    turned = snapshots @ np.linalg.qr(rng.normal(size=(50, 50)))[0] + 100
    assert participation_ratio(centred_gram(turned)) == pytest.approx(plain, rel=1e-9)
    assert participation_ratio(5 * centred_gram(snapshots)) == pytest.approx(plain)


def test_too_few_documents_or_no_fluctuation_give_no_participation_ratio():
    rng = np.random.default_rng(6)
    assert np.isnan(participation_ratio(centred_gram(rng.normal(size=(7, 50)))))
    assert np.isfinite(participation_ratio(centred_gram(rng.normal(size=(8, 5)))))
    assert np.isnan(participation_ratio(np.zeros((20, 20))))
