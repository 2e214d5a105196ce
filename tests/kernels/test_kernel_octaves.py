import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyscope.kernels.octaves import (
    energy_budget,
    octave_centre,
    octave_count,
    octave_first,
    octave_last,
    octave_of,
    octave_windows,
)


def test_octaves_double_and_the_last_takes_what_is_beyond():
    assert octave_count(128) == 7
    assert octave_first(7).tolist() == [0, 1, 3, 7, 15, 31, 63]
    assert octave_last(7, 128).tolist() == [0, 2, 6, 14, 30, 62, 127]
    assert octave_centre(7).tolist() == [0, 2, 5, 10, 22, 44, 90]
    assert octave_of(np.array([0, 1, 2, 3, 6, 7, 62, 63, 126, 127, 500]), 7).tolist() == [
        0,
        1,
        1,
        2,
        2,
        3,
        5,
        6,
        6,
        6,
        6,
    ]
    assert [octave_count(h) for h in (1, 2, 3, 4, 5, 8, 9, 64)] == [1, 1, 2, 2, 3, 3, 4, 6]


@given(st.integers(1, 3000))
def test_every_octave_holds_its_distances_and_none_is_empty(reach):
    count = octave_count(reach)
    octave = octave_of(np.arange(reach), count)
    first, last = octave_first(count), octave_last(count, reach)
    assert [int(np.flatnonzero(octave == j).min()) for j in range(count)] == first.tolist()
    assert [int(np.flatnonzero(octave == j).max()) for j in range(count)] == last.tolist()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300))
def test_shares_add_up_to_1(energy):
    energy = np.array(energy)
    share, density = energy_budget(energy, np.arange(energy.size), octave_count(energy.size))
    if energy.sum() > 0:
        assert share.sum() == pytest.approx(1, abs=1e-12)
    else:
        assert np.isnan(share).all() and np.isnan(density).all()


@pytest.mark.parametrize("reach", [5, 64, 100, 128])
def test_a_flat_field_has_flat_density(reach):
    share, density = energy_budget(np.full(reach, 0.3), np.arange(reach), octave_count(reach))
    np.testing.assert_allclose(density, 1, atol=1e-12)
    if reach == 128:
        assert share[-1] == pytest.approx(65 / 128)  # half of the energy in the last octave is flat


@given(st.integers(1, 600), st.integers(1, 200))
def test_octave_windows_are_a_partition_of_unity_in_energy_at_all_distances(reach, beyond):
    windows = octave_windows(np.arange(reach + beyond), octave_count(reach))
    np.testing.assert_allclose((windows**2).sum(axis=0), 1, atol=1e-10)
    energy = np.random.default_rng(0).exponential(size=reach + beyond)
    assert (windows**2 * energy).sum() == pytest.approx(energy.sum(), rel=1e-10)


def test_a_window_follows_its_formula_and_is_largest_at_its_centre():
    distance = np.arange(128)
    windows = octave_windows(distance, 7)
    bumps = np.exp(-((np.log2(1 + distance) - np.arange(7)[:, None] - 0.5) ** 2) / (2 * 0.6**2))
    np.testing.assert_allclose(windows, np.sqrt(bumps / bumps.sum(axis=0)))
    for j in range(1, 6):
        assert abs(np.log2(1 + windows[j].argmax()) - j - 0.5) < 0.2
