"""The effective rank lies between its in-sample and its held-out value."""

from __future__ import annotations

import numpy as np
import pytest

from eddyscope.kernels.laggroups import lag_groups
from eddyscope.kernels.pod import decompose
from eddyscope.trust.brackets import held_out_capture, rank_bracket
from eddyscope.trust.lag import lag_rank_bracket
from eddyscope.trust.partitions import folds
from eddyscope.trust.simulate import gaussian_gram, power_law, true_effective_rank


def brackets(beta, draws, entries=4_000):
    found = []
    for draw in range(draws):
        gram = gaussian_gram(power_law(entries, beta), 150, seed=draw)
        found.append(rank_bracket(gram, decompose(gram).eigenvalues, np.arange(150)))
    return found


def test_the_true_rank_lies_in_the_bracket_in_the_mean():
    found = brackets(2.0, 80)
    spectrum = power_law(4_000, 2.0)
    low, high = np.mean([f.low for f in found], axis=0), np.mean([f.high for f in found], axis=0)
    for index, tolerance in enumerate((0.10, 0.05)):
        assert low[index] <= true_effective_rank(spectrum, tolerance) <= high[index]
    assert low[0] == pytest.approx(5.8, abs=0.2)
    assert high[0] == pytest.approx(6.4, abs=0.2)


def test_where_held_out_capture_never_gets_there_the_bracket_is_open():
    (found,) = brackets(1.0, 1)
    assert np.isinf(found.high).all()
    assert found.status == ["unresolved"] * 3
    assert found.low[0] < true_effective_rank(power_law(4_000, 1.0), 0.10)
    assert found.greatest_capture < 0.5
    (noise,) = brackets(0.0, 1)
    assert noise.greatest_capture < 0.06


def test_held_out_capture_equals_a_direct_computation_that_never_sees_the_fold():
    rng = np.random.default_rng(0)
    fields = rng.normal(size=(30, 50)) * power_law(50, 0.7) + rng.normal(size=50)
    blocks = np.repeat(np.arange(10), 3)
    centred = fields - fields.mean(axis=0)
    found = held_out_capture(centred @ centred.T / 30, blocks, seed=2)
    fold = folds(blocks, 5, seed=2)
    along, total = np.zeros(50), 0.0
    for label in range(5):
        train, test = fields[fold != label], fields[fold == label]
        assert not np.isin(blocks[fold == label], blocks[fold != label]).any()
        basis = np.linalg.svd(train - train.mean(axis=0), full_matrices=False)[2][: len(train) - 1]
        along[: len(basis)] += (((test - train.mean(axis=0)) @ basis.T) ** 2).sum(axis=0)
        total += ((test - train.mean(axis=0)) ** 2).sum()
    np.testing.assert_allclose(found, (np.cumsum(along) / total)[: found.size], rtol=1e-9)


def test_ensembles_without_fluctuation_or_with_one_block_have_their_status():
    still = rank_bracket(np.zeros((20, 20)), np.zeros(19), np.arange(20))
    assert still.status == ["no fluctuation"] * 3
    one = rank_bracket(gaussian_gram(np.ones(9), 20), np.ones(9), np.zeros(20, dtype=np.int64))
    assert np.isinf(one.high).all()
    assert np.isnan(one.greatest_capture)


def test_the_bracket_of_the_lag_pod_is_narrow_where_rows_are_many():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(40, 90, 30)) * power_law(40, 1.0)[:, None, None]
    found = lag_rank_bracket(lag_groups(rows - rows.mean(axis=1, keepdims=True), np.arange(90) % 15))
    spectrum = power_law(40, 2.0)
    for low, high, tolerance in zip(found.low, found.high, (0.10, 0.05, 0.01), strict=True):
        assert low <= true_effective_rank(spectrum, tolerance) <= high
        assert high - low <= 2
