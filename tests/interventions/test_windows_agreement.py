"""Energy against loss owed: known ranks, and a layer whose loss sits where its energy does."""

from __future__ import annotations

import numpy as np
import pytest
from windows_help import documents, gpt

import eddyscope as es
from eddyscope.interventions.windows.agreement import spearman
from eddyscope.interventions.windows.energy import budget, energy_beyond
from eddyscope.lagfield import LagField


def attention(count: int = 30, length: int = 32, two_sided: bool = False) -> np.ndarray:
    scores = np.random.default_rng(0).normal(size=(count, length, length)) * 2
    if not two_sided:
        scores[:, ~np.tri(length, dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("two_sided", [False, True])
def test_the_budget_is_that_of_the_study(two_sided: bool) -> None:
    ensemble = es.AttentionEnsemble.from_arrays(attention(two_sided=two_sided)[:, None], causal=not two_sided)
    study = es.analyze(ensemble, intervals=False)
    groups = np.arange(30) % 10
    found = budget(ensemble[ensemble.layers[0]].select_head(0), groups)
    share = study.layer(0)["octave_share"]
    np.testing.assert_allclose(found.share, share if not two_sided else share.sum("side"))
    if not two_sided:
        np.testing.assert_allclose(found.density, study.layer(0)["octave_density"])
    assert found.share_without.shape == (10, found.share.size)
    left = es.AttentionEnsemble.from_arrays(attention(two_sided=two_sided)[groups != 3][:, None], causal=not two_sided)
    np.testing.assert_allclose(
        found.share_without[3], budget(left[left.layers[0]].select_head(0), groups[groups != 3]).share
    )


@pytest.mark.parametrize("keep_first", [False, True])
def test_energy_beyond_a_window_is_what_the_window_takes_away(keep_first: bool) -> None:
    dense = attention(5, 12)
    found = energy_beyond(LagField.from_dense(dense, causal=True), 0, keep_first)
    lag = np.arange(12)[:, None] - np.arange(12)[None]
    counted = (dense**2).mean(0) * ((np.arange(12) > 0) | (not keep_first))
    expected = [counted[lag >= w].sum() / counted[lag >= 0].sum() for w in range(13)]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_rank_correlations_of_known_ranks() -> None:
    rising = np.array([0.1, 0.2, 0.3, 0.4])
    assert spearman(rising, rising**3) == 1.0
    assert spearman(rising, -rising) == -1.0
    assert np.isnan(spearman(rising, np.ones(4)))
    assert np.isnan(spearman(rising[:3], rising[:3]))
    assert spearman(np.r_[rising, np.nan], np.r_[rising, 5.0]) == 1.0


def test_each_layer_and_octave_has_its_energy_and_its_loss() -> None:
    found = es.windows.find(gpt(), documents(40), windows=[4], octaves=True, measurements=2).agreement
    assert found is not None
    cells = found.cells
    assert len(cells) == 2 * 4  # octaves of the full rows of 20 tokens: 0, 1-2, 3-6, 7-9
    np.testing.assert_allclose(cells.groupby("layer")["share"].sum(), 1.0)
    assert list(cells["last"][:4]) == [0, 2, 6, 9]
    assert (cells["low"] <= cells["rise"]).all()
    assert (cells["rise"] <= cells["high"]).all()
    table = found.correlations
    assert list(table["layer"]) == ["all", "0", "1"] * 2
    assert list(table["cells"]) == [8, 4, 4] * 2
    expected = spearman(cells["share"].to_numpy(), cells["rise"].to_numpy())
    assert table["correlation"][0] == pytest.approx(expected)
