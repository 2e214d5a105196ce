"""Which modes can be told apart, and on how many samples they rest."""

from __future__ import annotations

import numpy as np
import pytest

from eddyscope.trust.modes import effective_samples, excess_kurtosis, north_separated, row_correlation
from eddyscope.trust.resolved import resolved_decay


def test_norths_rule_separates_modes_whose_gap_exceeds_their_error():
    values = np.array([10.0, 5.0, 4.8, 1.0, 0.5])
    # Gaps over lambda: 0.5, 0.04, 0.79, 0.5; sqrt(2/150) = 0.115: the second and third mix.
    assert list(north_separated(values, 150)) == [True, False, False, True, False]
    assert list(north_separated(values, 4)) == [False, False, False, False, False]


def test_what_is_left_by_rounding_is_no_mode():
    assert list(north_separated(np.array([10.0, 5.0, 1e-16, 1e-18, 0.0]), 150)) == [True, True, False, False, False]
    assert not north_separated(np.zeros(4), 150).any()
    assert north_separated(np.zeros(0), 150).size == 0


def test_halves_agree_on_the_modes_that_are_planted():
    rng = np.random.default_rng(0)
    fields = rng.normal(size=(150, 3_000))
    fields[:, 0] *= 80.0
    fields[:, 1] *= 40.0
    centred = fields - fields.mean(axis=0)
    overlap = resolved_decay(centred @ centred.T / 150, np.arange(150), 3_000).halves.mode_overlap
    assert (overlap[:2] > 0.9).all()
    assert (overlap[2:] < 0.1).all()


def test_kurtosis_tells_a_pattern_of_few_documents_from_one_of_all():
    rng = np.random.default_rng(1)
    everywhere, once = rng.normal(size=4_000), np.zeros(4_000)
    once[7] = 1.0
    found = excess_kurtosis(np.stack([everywhere, once, np.zeros(4_000)], axis=1))
    assert found[0] == pytest.approx(0.0, abs=0.3)
    assert found[1] == pytest.approx(4_000 - 4, rel=0.01)
    assert np.isnan(found[2])


def test_rows_that_say_the_same_count_once_and_independent_rows_each():
    rng = np.random.default_rng(2)
    independent = rng.normal(size=(150, 20))
    shared = np.repeat(rng.normal(size=(150, 1)), 20, axis=1)
    mixed = np.sqrt(0.5) * shared + np.sqrt(0.5) * independent  # correlation 0.5, squared 0.25
    found = row_correlation(np.stack([independent, shared, mixed]))
    assert found == pytest.approx([0.0, 1.0, 0.25], abs=0.06)
    samples = effective_samples(150, 20, np.array([0.0, 1.0, 0.25]))
    np.testing.assert_allclose(samples, [3_000, 150, 3_000 / (1 + 19 * 0.25)])


def test_the_variance_of_a_lag_eigenvalue_follows_from_the_effective_samples():
    # Var(lambda_hat) = 2 lambda^2 / n with n effective samples, for a single Gaussian mode.
    rng = np.random.default_rng(3)
    documents, rows, draws = 50, 16, 2_000
    weight = np.sqrt(0.6)
    scores = weight * rng.normal(size=(draws, documents, 1)) + np.sqrt(1 - 0.6) * rng.normal(
        size=(draws, documents, rows)
    )
    spread = (scores**2).mean(axis=(1, 2)).var()
    correlation = np.mean(row_correlation(scores[:200]))
    assert correlation == pytest.approx(0.36, abs=0.03)
    assert 2 / spread == pytest.approx(float(effective_samples(documents, rows, correlation)), rel=0.15)


def test_rows_too_few_to_correlate_are_nan():
    assert np.isnan(row_correlation(np.zeros((1, 2, 5)))).all()
    assert np.isnan(row_correlation(np.zeros((1, 9, 5)))).all()
