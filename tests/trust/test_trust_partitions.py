"""Halves, folds and subsets are made of whole source blocks."""

from __future__ import annotations

import numpy as np
import pytest

from eddyscope.trust.partitions import folds, half_splits, nested_subsets

BLOCKS = np.repeat(np.arange(40), np.random.default_rng(0).integers(1, 6, size=40))


def whole(chosen, blocks):
    return not np.isin(blocks[chosen], blocks[~chosen]).any()


def test_halves_are_whole_blocks_about_equal_and_different_every_time():
    halves = half_splits(BLOCKS, 8, seed=1)
    assert all(whole(half, BLOCKS) for half in halves)
    assert np.abs(2 * halves.sum(axis=1) - BLOCKS.size).max() <= 5
    assert len({half.tobytes() for half in halves}) == 8
    np.testing.assert_array_equal(halves, half_splits(BLOCKS, 8, seed=1))


def test_halves_of_single_documents_are_equal_and_every_pair_is_split_as_often_as_chance():
    halves = half_splits(np.arange(20), 2_000, seed=0)
    assert (halves.sum(axis=1) == 10).all()
    together = (halves[:, :, None] == halves[:, None, :]).mean(axis=0)
    assert together[np.triu_indices(20, 1)] == pytest.approx(9 / 19, abs=0.05)


def test_folds_are_whole_blocks_and_about_equal():
    fold = folds(BLOCKS, 5, seed=3)
    assert all(whole(fold == label, BLOCKS) for label in range(5))
    assert np.ptp(np.bincount(fold)) <= 5
    assert (fold != folds(BLOCKS, 5, seed=4)).any()


def test_subsets_are_nested_whole_blocks_of_about_the_share_asked():
    half, quarter = nested_subsets(BLOCKS, seed=5)
    assert np.isin(quarter, half).all()
    for index, share in ((half, 0.5), (quarter, 0.25)):
        chosen = np.isin(np.arange(BLOCKS.size), index)
        assert whole(chosen, BLOCKS)
        assert index.size == pytest.approx(share * BLOCKS.size, abs=3)
