"""Measures of single heads: planted heads come out as what they are, and sums do not depend on how they are cut."""

from __future__ import annotations

import numpy as np
import pytest

from eddyscope.kernels.headmeasures import HeadSums, far_from, looked_at
from eddyscope.lagfield import FloatArray

LENGTH = 32


def measured(maps: FloatArray, causal: bool = True) -> dict[str, float]:
    """Measures of one head from maps of shape (document, query, key)."""
    first, stop = looked_at(LENGTH, causal)
    sums = HeadSums.empty(1, LENGTH, LENGTH)
    sums.add(0, maps[:, first:stop], first)
    sums.rows = len(maps) * (stop - first)
    return {name: float(values[0]) for name, values in sums.measures(far_from(LENGTH, causal)).items()}


def at_lag(lag: int) -> FloatArray:
    """A head that looks exactly so far back; at the first key where there is nothing so far back."""
    maps = np.zeros((2, LENGTH, LENGTH))
    queries = np.arange(LENGTH)
    maps[:, queries, np.maximum(queries - lag, 0)] = 1
    return maps


def test_a_head_that_copies_the_previous_token() -> None:
    found = measured(at_lag(1))
    assert found["median_lag"] == 1
    assert found["previous_token_share"] == 1
    assert found["near_share"] == 1
    assert found["far_share"] == 0
    assert found["entropy"] == 0
    assert found["sink_share"] == 0


def test_a_head_that_looks_far_back() -> None:
    found = measured(at_lag(12))
    assert found["median_lag"] == 12
    assert found["far_share"] == 1
    assert found["near_share"] == found["previous_token_share"] == 0


def test_a_head_on_the_first_key_is_a_sink_and_has_no_distance() -> None:
    maps = np.zeros((2, LENGTH, LENGTH))
    maps[:, :, 0] = 1
    found = measured(maps)
    assert found["sink_share"] == 1
    assert np.isnan([found["median_lag"], found["near_share"], found["far_share"]]).all()


def test_a_sink_leaves_the_distances_of_the_rest_as_they_are() -> None:
    sink = np.zeros((2, LENGTH, LENGTH))
    sink[:, :, 0] = 1
    found = measured(0.9 * sink + 0.1 * at_lag(5))
    assert found["median_lag"] == 5
    assert found["near_share"] == pytest.approx(1)
    assert found["sink_share"] == pytest.approx(0.9)
    assert found["entropy"] == pytest.approx(-0.9 * np.log(0.9) - 0.1 * np.log(0.1))


def test_uniform_attention_has_the_entropy_of_its_keys() -> None:
    maps = np.tril(np.ones((1, LENGTH, LENGTH)))
    maps /= maps.sum(-1, keepdims=True)
    first, stop = looked_at(LENGTH, True)
    assert measured(maps)["entropy"] == pytest.approx(np.log(np.arange(first + 1, stop + 1)).mean())


def test_two_sided_distances_count_both_sides() -> None:
    maps = np.zeros((1, LENGTH, LENGTH))
    queries = np.arange(LENGTH)
    maps[:, queries, np.maximum(queries - 2, 0)] += 0.5
    maps[:, queries, np.minimum(queries + 6, LENGTH - 1)] += 0.5
    found = measured(maps, causal=False)
    assert found["median_lag"] == 2
    assert found["far_share"] == pytest.approx(0.5)  # 4 and more of a range of 8


@pytest.mark.parametrize("cuts", [[8], [1, 15], [3, 7, 11]])
def test_blocks_of_rows_and_documents_add_up(cuts: list[int]) -> None:
    rng = np.random.default_rng(0)
    maps = rng.dirichlet(np.ones(LENGTH), size=(3, 16))
    whole = HeadSums.empty(1, LENGTH, LENGTH)
    whole.add(0, maps, 16)
    parts = HeadSums.empty(1, LENGTH, LENGTH)
    for document in range(3):
        start = 0
        for stop in [*cuts, 16]:
            parts.add(0, maps[document : document + 1, start:stop], 16 + start)
            start = stop
    for name in ("by_lag", "first_key", "entropy", "previous"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12)
    brute = np.zeros(2 * LENGTH - 1)
    for query in range(16):
        for key in range(1, LENGTH):
            brute[16 + query - key + LENGTH - 1] += maps[:, query, key].sum()
    np.testing.assert_allclose(whole.by_lag[0], brute, rtol=1e-12)
