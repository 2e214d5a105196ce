"""Means and differences over training seeds."""

from __future__ import annotations

import numpy as np
import pytest

from eddyscope.trust.differences import paired_difference
from eddyscope.trust.seeds import seeds_difference, seeds_estimate


def replicates(values):
    return (values.sum() - values) / (values.size - 1)


def drawn(rng, seeds, spread, shared, truth=0.0):
    """Values and replicates of trainings whose means differ by ``spread``, on documents that they share."""
    levels = truth + spread * rng.normal(size=seeds)
    documents = levels[:, None] + shared + 0.05 * rng.normal(size=(seeds, shared.size))
    return documents.mean(axis=1), np.stack([replicates(d) for d in documents])


def test_one_seed_against_several_is_the_difference_to_a_null_twin():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=15)
    one, twins = drawn(rng, 1, 0.0, shared, 0.3), drawn(rng, 3, 0.2, shared)
    ours = seeds_difference(*one, *twins)
    theirs = paired_difference(float(one[0][0]), one[1][0], *twins)
    assert (ours.value, ours.low, ours.high, ours.p) == pytest.approx((theirs.value, theirs.low, theirs.high, theirs.p))


def test_documents_cancel_in_pairs_and_add_up_without():
    rng = np.random.default_rng(1)
    shared = rng.normal(size=15)
    first, second = drawn(rng, 1, 0.0, shared, 0.2), drawn(rng, 1, 0.0, shared)
    paired, apart = seeds_difference(*first, *second), seeds_difference(*first, *second, paired=False)
    assert paired.value == apart.value
    assert apart.error > 5 * paired.error
    assert apart.freedom == pytest.approx(28, abs=0.5)
    fewer = tuple(a[..., :10] if a.ndim == 2 else a for a in second)
    assert np.isfinite(seeds_difference(*first, *fewer, paired=False).error)


def test_intervals_of_an_architecture_cover_it():
    rng = np.random.default_rng(2)
    held = {"mean": 0, "difference": 0}
    for _ in range(600):
        shared = rng.normal(size=15)
        first, second = drawn(rng, 3, 1.0, shared, 0.5), drawn(rng, 3, 1.0, shared)
        apart, alone = seeds_difference(*first, *second), seeds_estimate(*first)
        held["difference"] += apart.low <= 0.5 <= apart.high
        held["mean"] += alone.low <= 0.5 <= alone.high
    assert held["difference"] / 600 == pytest.approx(0.95, abs=0.03)
    assert held["mean"] / 600 == pytest.approx(0.96, abs=0.03)


def test_what_is_undefined_has_no_interval():
    assert np.isnan(seeds_estimate(np.ones(1), np.ones((1, 7))).low)
    assert np.isnan(seeds_estimate(np.array([np.nan]), np.ones((1, 15))).low)
    assert seeds_difference(np.ones(1), np.ones((1, 15)), np.ones(1), np.ones((1, 15))).p == 1.0
