"""Null models: what they keep and what they destroy."""

from __future__ import annotations

import numpy as np
import pytest

from eddyscope.documents import Documents
from eddyscope.kernels.lagstats import lag_covariance
from eddyscope.kernels.octaves import energy_budget, octave_count
from eddyscope.kernels.rank import participation_ratio
from eddyscope.trust.nulls import random_phases, shuffled_documents, uniform_rows


def field_ratio(rows):
    flat = rows.transpose(1, 0, 2).reshape(rows.shape[1], -1)
    flat = flat - flat.mean(axis=0)
    return participation_ratio(flat @ flat.T / len(flat))


@pytest.mark.parametrize("lags", [32, 33])
def test_random_phases_keep_the_spectrum_of_every_row(lags):
    rows = np.random.default_rng(0).normal(size=(lags, 20, 6))
    null = random_phases(rows, seed=1)
    power = [np.abs(np.fft.rfft(r, axis=0)) for r in (rows, null)]
    np.testing.assert_allclose(power[0], power[1], atol=1e-12)
    np.testing.assert_allclose((rows**2).sum(axis=0), (null**2).sum(axis=0))
    np.testing.assert_array_equal(null, random_phases(rows, seed=1))
    assert np.abs(null - random_phases(rows, seed=2)).max() > 0.1


def test_random_phases_keep_how_rows_of_a_document_relate():
    row = np.random.default_rng(1).normal(size=(32, 20, 1))
    null = random_phases(np.repeat(row, 5, axis=2), seed=3)
    np.testing.assert_allclose(null, np.repeat(null[:, :, :1], 5, axis=2))


def test_a_pattern_that_recurs_is_lost_and_noise_stays_noise():
    rng = np.random.default_rng(2)
    noise = rng.normal(size=(32, 150, 16))
    pattern = np.exp(-((np.arange(32) - 12) ** 2) / 4.0)[:, None, None]
    recurring = noise + 4 * rng.normal(size=(1, 150, 1)) * pattern
    assert field_ratio(random_phases(recurring)) > 3 * field_ratio(recurring)
    assert field_ratio(random_phases(noise)) == pytest.approx(field_ratio(noise), rel=0.15)


def test_uniform_attention_is_what_the_mask_alone_gives():
    lags, queries = np.arange(16), np.arange(16, 32)
    rows = uniform_rows(lags, queries, 32, causal=True)
    np.testing.assert_allclose(rows[:, 3], 1 / 20)
    dense = np.tril(np.ones((32, 32)))
    dense /= dense.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(rows, np.array([[dense[q, q - d] for q in queries] for d in lags]))
    split = lag_covariance(rows[:, None, :].copy())
    assert np.abs(split.fluctuation).max() == 0
    share, density = energy_budget(np.diag(split.total), lags, octave_count(16))
    assert share.sum() == pytest.approx(1)
    np.testing.assert_allclose(density, 1)


def test_uniform_attention_without_the_first_keys_and_to_both_sides():
    rows = uniform_rows(np.arange(8), np.arange(4, 8), 8, causal=True, masked=1)
    for row, query in enumerate(range(4, 8)):
        assert rows[:query, row] == pytest.approx(1 / query)
        np.testing.assert_array_equal(rows[query:, row], 0)
    both = uniform_rows(np.arange(-2, 3), np.arange(2, 6), 8, causal=False)
    np.testing.assert_allclose(both, 1 / 8)


def documents(**extra):
    ids = np.random.default_rng(3).integers(5, 50, size=(6, 40))
    ids[:, 0], ids[3] = 1, ids[2]
    special = np.zeros(ids.shape, dtype=bool)
    special[:, 0] = True
    return Documents.from_ids(ids, special=special, **extra)


def test_shuffled_documents_have_the_same_tokens_in_another_order():
    before = documents()
    after = shuffled_documents(before, seed=1)
    np.testing.assert_array_equal(np.sort(after.ids, axis=1), np.sort(before.ids, axis=1))
    np.testing.assert_array_equal(after.ids[:, 0], before.ids[:, 0])  # the special token
    assert (after.ids != before.ids).mean() > 0.8
    np.testing.assert_array_equal(after.ids, shuffled_documents(before, seed=1).ids)
    assert (after.ids != shuffled_documents(before, seed=2).ids).any()
    assert after.identity["shuffled"] == 1
    assert "shuffled" not in before.identity


def test_equal_documents_stay_equal_and_blocks_stay():
    after = shuffled_documents(documents(), seed=1)
    np.testing.assert_array_equal(after.ids[2], after.ids[3])
    np.testing.assert_array_equal(after.blocks, documents().blocks)


def test_padding_stays_in_place():
    mask = np.ones((6, 40), dtype=bool)
    mask[:, 30:] = False
    before = documents(mask=mask)
    np.testing.assert_array_equal(shuffled_documents(before).ids[:, 30:], before.ids[:, 30:])
