"""Allocation: least squares against an independent solver, budgets against all others, ties and limits."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest

from eddyscope.errors import UsageError
from eddyscope.interventions.heads.allocation import (
    LayerPath,
    best_mixing,
    by_score,
    cheapest_sets,
    distribute,
    in_proportion,
    layer_plans,
    map_form,
    weighted_form,
    zeroing_plans,
)


def maps(heads: int = 5, entries: int = 40, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(heads, entries))


def test_the_mix_of_maps_is_that_of_a_least_squares_solver() -> None:
    found, kept = maps(), [0, 3]
    cost, mixing = best_mixing(map_form(found @ found.T), kept)
    expected = np.linalg.lstsq(found[kept].T, found.T, rcond=None)[0].T
    np.testing.assert_allclose(mixing, expected, atol=1e-4)
    residual = ((found - expected @ found[kept]) ** 2).sum(axis=1) / (found**2).sum(axis=1)
    assert cost == pytest.approx(residual.sum(), rel=1e-4)


def test_terms_between_heads_move_the_mix_towards_what_is_least_together() -> None:
    rng = np.random.default_rng(1)
    samples = rng.normal(size=(300, 16))
    form = samples.T @ samples
    cost, mixing = best_mixing(form, [1, 2])
    change = mixing @ np.eye(4)[[1, 2]] - np.eye(4)

    def price(change: np.ndarray) -> float:
        return float(change.ravel() @ form @ change.ravel())

    assert cost == pytest.approx(price(change), rel=1e-4)
    for _ in range(50):
        other = change.copy()
        other[np.ix_([0, 3], [1, 2])] += 0.05 * rng.normal(size=(2, 2))
        assert price(other) >= cost - 1e-6


def test_all_heads_kept_cost_nothing_and_equal_heads_cost_nothing_to_share() -> None:
    found = maps(4)
    found[2] = 0.7 * found[0]
    form = map_form(found @ found.T)
    cost, mixing = best_mixing(form, range(4))
    assert cost == 0
    np.testing.assert_array_equal(mixing, np.eye(4))
    path = cheapest_sets(form)
    assert path.kept[2] in ((0, 1, 3), (1, 2, 3))
    assert path.cost[2] == pytest.approx(0, abs=1e-4)
    assert path.cost[1] > 0.1
    assert [len(kept) for kept in path.kept] == [1, 2, 3, 4]


def test_kept_sets_are_the_cheapest_of_all_where_elimination_misses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    forms = [map_form(found @ found.T) for found in (np.abs(maps(6, 7, seed)) for seed in range(4))]
    for form in forms:
        path = cheapest_sets(form)
        for size in range(1, 7):
            best = min(best_mixing(form, kept)[0] for kept in combinations(range(6), size))
            assert path.cost[size - 1] == pytest.approx(best, rel=1e-9)
    every = [cheapest_sets(form).cost for form in forms]
    monkeypatch.setattr("eddyscope.interventions.heads.allocation._ALL_SETS", 1)
    eliminated = [cheapest_sets(form) for form in forms]
    assert all(set(small) < set(large) for path in eliminated for small, large in pairwise(path.kept))
    assert all((path.cost >= cost - 1e-12).all() for path, cost in zip(eliminated, every, strict=True))
    assert any((path.cost > cost + 1e-3).any() for path, cost in zip(eliminated, every, strict=True))


def test_patterns_go_where_they_cost_least_over_all_ways_to_give_them_out() -> None:
    rng = np.random.default_rng(2)
    paths = [
        LayerPath(tuple(tuple(range(n + 1)) for n in range(4)), np.append(np.sort(rng.random(3))[::-1], 0.0))
        for _ in range(3)
    ]
    for patterns in range(3, 13):
        counts = distribute(paths, patterns)
        best = min(
            sum(path.cost[n - 1] for path, n in zip(paths, way, strict=True))
            for way in product(range(1, 5), repeat=3)
            if sum(way) == patterns
        )
        assert sum(counts) == patterns
        assert sum(path.cost[n - 1] for path, n in zip(paths, counts, strict=True)) == pytest.approx(best)


def test_importance_keeps_the_most_important_heads_of_all_layers() -> None:
    scores = [np.array([5.0, 1.0, 4.0]), np.array([0.1, 0.3, 0.2])]
    paths = [by_score(score) for score in scores]
    assert distribute(paths, 4) == (3, 1)
    assert paths[0].kept[1] == (0, 2)
    zeroed = zeroing_plans(["a", "b"], scores, 3)
    assert [layer.kept for layer in zeroed] == [(0, 1, 2), ()]
    assert not zeroed[1].mixing.any()


def test_a_budget_below_one_pattern_a_layer_or_above_all_heads_is_refused() -> None:
    paths = [by_score(np.ones(3))] * 2
    for patterns in (1, 7):
        with pytest.raises(UsageError, match="expected 2"):
            distribute(paths, patterns)


def test_in_proportion_gives_at_least_one_and_at_most_all() -> None:
    assert in_proportion(np.array([100.0, 10.0, 10.0]), [8, 8, 8], 12) == (8, 2, 2)
    assert in_proportion(np.array([1.0, 1.0]), [4, 4], 6) == (3, 3)
    assert in_proportion(np.array([np.nan, 1.0]), [4, 4], 4) == (1, 3)


def test_the_weighted_form_trusts_each_heads_own_terms_most() -> None:
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(50, 9))
    fisher, gram = samples.T @ samples / 50, np.eye(3)
    form = weighted_form(fisher, gram, samples=90).reshape(3, 3, 3, 3)
    half = 0.5 * fisher.reshape(3, 3, 3, 3)
    np.testing.assert_allclose(form[0, :, 1, :], 0.5 * half[0, :, 1, :])
    own = half[1, :, 1, :]
    np.testing.assert_allclose(form[1, :, 1, :], 0.9 * own + 0.1 * np.trace(own) / 3 * gram)


def test_plans_hold_the_kept_set_of_each_layer() -> None:
    found = maps(4)
    form = map_form(found @ found.T)
    (plan,) = layer_plans(["a"], [cheapest_sets(form)], [2], [form])
    assert plan.name == "a"
    assert plan.mixing.shape == (4, 2)
    np.testing.assert_array_equal(plan.mixing[list(plan.kept)], np.eye(2))
