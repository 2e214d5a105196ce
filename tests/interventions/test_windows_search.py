"""The search: known curves, the best by trying all, and what the energy says between two measurements."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from eddyscope.interventions.windows.curve import Unit
from eddyscope.interventions.windows.search import (
    Search,
    ladder,
    measured_windows,
    predicted,
    state_of,
    widen,
    widen_by,
)

CONTEXT = 32
STEPS = ladder(CONTEXT)


class Additive:
    """A reader whose rise is a sum over layers of known, falling functions of the window."""

    def __init__(self, curves: np.ndarray) -> None:
        self.curves = curves

    def settle(self, state: Mapping[int, Any]) -> None:
        """Nothing to keep."""

    def measured(self, state: Mapping[int, Any]) -> np.ndarray:
        windows = [CONTEXT if removals[0] is None else removals[0].first for removals in state.values()]
        return np.full(3, sum(curve[STEPS.index(w)] for curve, w in zip(self.curves, windows, strict=True)))


def curves(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    reach, height = rng.uniform(1, 12, size=(3, 1)), rng.uniform(0.05, 2, size=(3, 1))
    return height * np.exp(-np.array(STEPS) / reach) * (np.array(STEPS) < CONTEXT)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("limit", [0.01, 0.1])
def test_windows_stay_within_the_rise_and_are_nearly_the_shortest(seed: int, limit: float) -> None:
    known = curves(seed)
    reader: Any = Additive(known)
    units = [Unit(layer, None, 4) for layer in range(3)]
    found = Search(reader, units, STEPS, known, limit, 200).run()
    assert found.rise <= limit
    assert found.exhausted
    every = itertools.product(range(len(STEPS)), repeat=3)
    best = min(
        sum(STEPS[s] for s in steps) for steps in every if sum(known[i, s] for i, s in enumerate(steps)) <= limit
    )
    assert sum(STEPS[s] for s in found.steps) <= 1.25 * best


def test_a_wrong_prediction_costs_measurements_and_not_the_bound() -> None:
    known = curves(1)
    reader: Any = Additive(known)
    units = [Unit(layer, None, 4) for layer in range(3)]
    found = Search(reader, units, STEPS, known[::-1] * 5, 0.05, 200).run()
    assert found.rise <= 0.05
    for most in (1, 2, 4, 8):
        few = Search(reader, units, STEPS, known[::-1] * 5, 0.05, most).run()
        assert few.measurements <= most
        assert few.rise <= 0.05


def test_between_two_windows_the_rise_goes_with_the_energy() -> None:
    beyond = np.r_[1.0, np.linspace(0.9, 0.0, CONTEXT)]
    found = predicted([4, 16], np.array([0.8, 0.2]), beyond, STEPS, CONTEXT)
    at = dict(zip(STEPS, found, strict=True))
    assert at[4] == 0.8
    assert at[16] == 0.2
    assert at[CONTEXT] == 0.0
    expected = 0.2 + 0.6 * (beyond[8] - beyond[16]) / (beyond[4] - beyond[16])
    assert at[8] == pytest.approx(expected)
    assert at[2] == pytest.approx(0.8 / beyond[4] * beyond[2])
    assert (np.diff(found) <= 0).all()


def test_without_a_curve_the_energy_stands_for_the_rise() -> None:
    beyond = np.linspace(1, 0, CONTEXT + 1) ** 2
    found = predicted([], np.empty(0), beyond, STEPS, CONTEXT)
    np.testing.assert_allclose(found, beyond[STEPS])


def test_noise_below_zero_counts_as_no_rise_and_curves_fall() -> None:
    found = predicted([1, 2, 4], np.array([0.1, -0.01, 0.02]), np.linspace(1, 0, CONTEXT + 1), STEPS, CONTEXT)
    assert (found >= 0).all()
    assert (np.diff(found) <= 0).all()


def test_widening_gives_back_most_for_the_keys_it_takes() -> None:
    rises = np.array([[0.5, 0.4, 0.0], [0.5, 0.1, 0.0]])
    assert widen((0, 0), rises, [1, 2, 4]) == (0, 1)
    assert widen((2, 2), rises, [1, 2, 4]) == (2, 2)


def test_a_large_excess_lengthens_several_windows_before_the_next_measurement() -> None:
    rises = np.array([[0.5, 0.4, 0.0], [0.5, 0.1, 0.0]])
    assert widen_by((0, 0), rises, [1, 2, 4], 0.3) == (0, 1)
    assert widen_by((0, 0), rises, [1, 2, 4], 0.45) == (1, 1)
    assert widen_by((0, 0), rises, [1, 2, 4], 0.55) == (2, 1)
    assert widen_by((0, 0), rises, [1, 2, 4], 9.0) == (2, 2)


def test_the_ladder_ends_at_the_context() -> None:
    assert ladder(20) == [1, 2, 3, 4, 6, 8, 12, 16, 20]
    assert measured_windows(16) == [1, 2, 4, 8]
    assert measured_windows(17) == [1, 2, 4, 8, 16]


def test_windows_of_heads_come_together_in_their_layer() -> None:
    units = [Unit(0, 0, 2), Unit(0, 1, 2), Unit(1, 0, 2), Unit(1, 1, 2)]
    state = state_of(units, [3, 8, 8, 8], 8)
    assert state[0][0].first == 3  # type: ignore[union-attr]
    assert state[0][1] is None
    assert state[1] == (None, None)
