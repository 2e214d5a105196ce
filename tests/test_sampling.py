from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyscope.sampling import balanced_groups, merge_blocks, place_windows, touching_runs

lengths = st.lists(st.integers(0, 60), min_size=1, max_size=6)
labels = st.lists(st.integers(0, 8), min_size=1, max_size=40)


@given(lengths, st.integers(1, 12), st.integers(1, 20), st.integers(0, 2**32))
def test_windows_lie_in_their_source_and_never_overlap(lengths, size, count, seed):
    placed = place_windows(lengths, size, count, np.random.default_rng(seed))
    assert sum(map(len, placed)) == min(count, sum(length // size for length in lengths))
    for length, starts in zip(lengths, placed, strict=True):
        assert all(0 <= start <= length - size for start in starts)
        assert all(later - earlier >= size for earlier, later in pairwise(starts))


@given(lengths, st.integers(1, 12), st.integers(1, 80), st.integers(0, 2**32))
def test_overlapping_windows_lie_in_their_source_and_differ(lengths, size, count, seed):
    placed = place_windows(lengths, size, count, np.random.default_rng(seed), overlap=True)
    assert sum(map(len, placed)) == min(count, sum(max(length - size + 1, 0) for length in lengths))
    for length, starts in zip(lengths, placed, strict=True):
        assert all(0 <= start <= length - size for start in starts)
        assert all(later > earlier for earlier, later in pairwise(starts))


@pytest.mark.parametrize("overlap", [False, True])
def test_the_seed_decides(overlap):
    def draw(seed):
        return np.concatenate(place_windows([1000, 500], 10, 20, np.random.default_rng(seed), overlap))

    np.testing.assert_array_equal(draw(1), draw(1))
    assert not np.array_equal(draw(1), draw(2))


def test_every_placement_in_a_source_is_equally_likely():
    # Two windows of 2 in 6 tokens: (0,2) (0,3) (0,4) (1,3) (1,4) (2,4).
    rng = np.random.default_rng(0)
    seen = Counter(tuple(place_windows([6], 2, 2, rng)[0].tolist()) for _ in range(6000))
    assert sorted(seen) == [(0, 2), (0, 3), (0, 4), (1, 3), (1, 4), (2, 4)]
    assert all(abs(n - 1000) < 5 * np.sqrt(1000) for n in seen.values())


def test_sources_give_windows_in_proportion_to_their_slots():
    rng = np.random.default_rng(0)
    drawn = np.mean([[len(s) for s in place_windows([105, 55, 9], 10, 3, rng)] for _ in range(4000)], axis=0)
    np.testing.assert_allclose(drawn, [2.0, 1.0, 0.0], atol=0.05)


def test_windows_seldom_touch_where_text_is_plentiful():
    starts = place_windows([150 * 100 * 20], 100, 150, np.random.default_rng(0))[0]
    assert len(set(touching_runs(np.zeros(150, dtype=int), starts, 100))) >= 148


def test_windows_that_touch_or_overlap_run_together():
    source = np.array([0, 0, 1, 0, 0, 1])
    starts = np.array([20, 0, 10, 10, 31, 12])
    run = touching_runs(source, starts, 10)
    assert run[1] == run[3] == run[0]  # 0-9, 10-19, 20-29 touch
    assert run[2] == run[5]  # 10-19 and 12-21 overlap
    assert len({run[0], run[4], run[2]}) == 3  # 31 leaves a gap; another source is apart


def test_blocks_join_through_shared_labels_and_equal_sequences():
    # 0 and 1 share a label, 1 and 2 a sequence, 2 and 4 a label; 3 stands alone.
    blocks = merge_blocks(np.array([5, 5, 2, 9, 2]), [b"a", b"b", b"b", b"c", b"d"])
    assert blocks.tolist() == [0, 0, 0, 1, 0]


@given(labels, st.data())
def test_blocks_are_numbered_by_their_first_document(labels, data):
    sequences = data.draw(st.lists(st.binary(max_size=1), min_size=len(labels), max_size=len(labels)))
    blocks = merge_blocks(np.array(labels), sequences)
    assert list(dict.fromkeys(blocks.tolist())) == list(range(blocks.max() + 1))
    for a in range(len(labels)):
        for b in range(a):
            if labels[a] == labels[b] or sequences[a] == sequences[b]:
                assert blocks[a] == blocks[b]


@given(labels, st.integers(1, 10))
def test_groups_are_made_of_whole_blocks_and_balanced(labels, number):
    blocks = np.array(labels)
    groups = balanced_groups(blocks, number)
    sizes = np.bincount(groups)
    assert len(sizes) == min(number, len(set(labels)))
    assert all(len(set(groups[blocks == b])) == 1 for b in labels)
    # Filling the smallest group: groups differ by no more than the largest block.
    assert sizes.max() - sizes.min() <= np.bincount(blocks).max()
    np.testing.assert_array_equal(groups, balanced_groups(blocks, number))


def test_the_largest_block_goes_first_to_the_smallest_group():
    assert balanced_groups(np.array([7, 1, 1, 1, 3, 3, 4]), 2).tolist() == [0, 0, 0, 0, 1, 1, 1]
