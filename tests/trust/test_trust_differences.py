"""Paired differences and Holm's correction."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eddyscope.trust.differences import holm, paired_difference


def replicates(values):
    return (values.sum() - values) / (values.size - 1)


def test_what_the_documents_do_to_both_cancels():
    rng = np.random.default_rng(0)
    shared, own = rng.normal(size=15), 0.01 * rng.normal(size=(2, 15))
    first, second = shared + own[0] + 0.05, shared + own[1]
    found = paired_difference(first.mean(), replicates(first), second.mean(), replicates(second))
    paired = stats.ttest_rel(first, second)
    assert found.p == pytest.approx(paired.pvalue)
    assert found.low <= 0.05 <= found.high
    assert found.p < 1e-4
    assert stats.ttest_ind(first, second).pvalue > 0.5


def test_seeds_of_the_twin_widen_the_difference():
    rng = np.random.default_rng(1)
    first, twin = rng.normal(size=15), 0.001 * rng.normal(size=(3, 15))
    near = twin + np.array([0.0, 0.001, -0.001])[:, None]
    far = twin + np.array([0.0, 2.0, -2.0])[:, None]
    for seeds, freedom in ((near, pytest.approx(14, abs=0.1)), (far, pytest.approx(2, abs=0.3))):
        found = paired_difference(
            first.mean(), replicates(first), seeds.mean(1), np.stack([replicates(s) for s in seeds])
        )
        assert found.freedom == freedom
    assert found.error == pytest.approx(np.sqrt(4 * (1 + 1 / 3) + first.var(ddof=1) / 15), rel=0.05)


def test_few_groups_and_undefined_values_give_no_difference():
    found = paired_difference(1.0, np.ones(7), 0.0, np.zeros(7))
    assert found.value == 1.0
    assert np.isnan(found.p)
    assert np.isnan(paired_difference(np.nan, np.ones(15), 0.0, np.zeros(15)).p)


def test_equal_values_do_not_differ():
    assert paired_difference(1.0, np.ones(15), 1.0, np.ones(15)).p == 1.0


def test_holms_rule_by_hand():
    corrected = holm(np.array([0.01, np.nan, 0.04, 0.03]))
    np.testing.assert_allclose(corrected, [0.03, np.nan, 0.06, 0.06])
    np.testing.assert_array_equal(holm(np.full((2, 2), 0.9)), np.ones((2, 2)))


def test_holm_keeps_false_alarms_of_a_family_at_five_per_cent():
    rng = np.random.default_rng(2)
    alarms = [(holm(rng.uniform(size=30)) < 0.05).any() for _ in range(2_000)]
    assert np.mean(alarms) == pytest.approx(0.05, abs=0.015)
