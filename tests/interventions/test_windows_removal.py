"""Distances taken away: what is left is the softmax over what may still be seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import FAMILIES, tiny
from windows_help import gpt, model_named, outputs

import eddyscope as es
from eddyscope.errors import UsageError
from eddyscope.interventions.editing import edited
from eddyscope.interventions.layers import AttentionLayer, attention_layers
from eddyscope.interventions.windows.plan import LayerWindow, WindowPlan, describe_model
from eddyscope.interventions.windows.removal import Removal, restrict, visible, without

IDS = torch.from_numpy(np.random.default_rng(0).integers(3, 64, size=(2, 20)))


def plan_of(model: Any, window: int, sink: str = "drop", context: int = 20) -> WindowPlan:
    layers = attention_layers(model)
    return WindowPlan(
        describe_model(model, layers), context, sink, tuple(LayerWindow(layer.name, window) for layer in layers)
    )


def layer_of(causal: bool, window: int | None = None) -> AttentionLayer:
    return AttentionLayer("a", 0, torch.nn.Identity(), 2, 2, causal, window)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("removal", [Removal(3), Removal(1), Removal(2, 5), Removal(0, 1)])
def test_what_is_left_is_the_softmax_over_what_may_be_seen(causal: bool, removal: Removal) -> None:
    scores = torch.randn(2, 2, 9, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    lag = torch.arange(9)[:, None] - torch.arange(9)[None]
    forbidden = (lag < 0) if causal else torch.zeros_like(lag, dtype=torch.bool)
    gone = (lag.abs() >= removal.first) & (lag.abs() < (removal.stop or 99))
    for sink in ("keep", "drop"):
        taken = gone & (torch.arange(9) > 0) if sink == "keep" else gone
        found = without(scores.masked_fill(forbidden, -torch.inf).softmax(-1), layer_of(causal), (removal,), sink)
        expected = scores.masked_fill(forbidden | taken, -torch.inf).softmax(-1)
        seeing = ~expected.isnan().any(-1)
        torch.testing.assert_close(found[seeing], expected[seeing])
        assert seeing.all(dim=1).all(dim=0)[1:].all()


def test_a_query_that_may_see_nothing_keeps_its_row() -> None:
    weights = torch.eye(4)[None, None]
    found = without(weights, layer_of(True), (Removal(0, 1),), "drop")
    assert torch.equal(found[0, 0, 0], weights[0, 0, 0])


def test_where_rounding_leaves_nothing_the_visible_keys_share_the_row() -> None:
    weights = torch.tensor([[[[1.0, 0, 0], [1.0, 0, 0], [1.0, 0, 0]]]])
    found = restrict(weights, visible((Removal(2),), 3, 3, causal=True, keep_first=False))
    torch.testing.assert_close(found[0, 0], torch.tensor([[1.0, 0, 0], [1.0, 0, 0], [0, 0.5, 0.5]]))


def test_each_head_loses_its_own_distances() -> None:
    weights = torch.rand(1, 2, 6, 6).tril()
    weights = weights / weights.sum(-1, keepdim=True)
    found = without(weights, layer_of(True), (None, Removal(1)), "drop")
    assert torch.equal(found[:, 0], weights[:, 0])
    torch.testing.assert_close(found[:, 1], torch.eye(6)[None])


def test_with_a_cache_distances_count_from_the_last_of_the_keys() -> None:
    whole = visible((Removal(3),), 8, 8, causal=True, keep_first=True)
    assert torch.equal(visible((Removal(3),), 2, 8, causal=True, keep_first=True), whole[:, -2:])


@pytest.mark.parametrize(("first", "stop"), [(-1, None), (3, 3)])
def test_a_range_that_cannot_be_is_refused(first: int, stop: int | None) -> None:
    with pytest.raises(UsageError, match=r"expected 0 <= first < stop"):
        Removal(first, stop)


@pytest.mark.parametrize("name", ["gpt-base", "gpt-ega-1", *FAMILIES])
def test_an_intervention_that_removes_nothing_changes_no_logit(name: str) -> None:
    model = model_named(name)
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation("eager")
    before = outputs(model, IDS)
    removals = (Removal(20),)
    edits = {layer.name: (lambda w, own: without(w, own, removals, "keep")) for layer in attention_layers(model)}
    with edited(model, edits):
        torch.testing.assert_close(outputs(model, IDS), before, atol=1e-6, rtol=0)
    with es.windows.apply(model, plan_of(model, 20)):
        torch.testing.assert_close(outputs(model, IDS), before, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["llama", "qwen2", "gpt_neox", "phi"])
def test_removing_all_but_the_last_token_equals_a_model_that_sees_only_it(name: str) -> None:
    model = tiny(name)  # rotary: a token alone does not know its position
    with es.windows.apply(model, plan_of(model, 1)):
        found = outputs(model, IDS)
    for position in (0, 7, 19):
        alone = outputs(model, IDS[:, position : position + 1])
        torch.testing.assert_close(found[:, position], alone[:, 0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["gpt-base", "gpt2"])
def test_the_same_with_learned_positions(name: str) -> None:
    model = model_named(name)
    with es.windows.apply(model, plan_of(model, 1)):
        found = outputs(model, IDS)
    for position in (0, 7, 19):
        token = IDS[:, position : position + 1]
        if name == "gpt2":
            with torch.no_grad():
                alone = model(input_ids=token, position_ids=torch.tensor([[position]])).logits
        else:
            other = gpt()
            with torch.no_grad():
                other.positions.weight[0] = other.positions.weight[position]
            alone = outputs(other, token)
        torch.testing.assert_close(found[:, position], alone[:, 0], atol=1e-5, rtol=1e-5)


def test_a_window_equals_the_sliding_window_of_the_library() -> None:
    windowed = tiny("mistral")
    assert windowed.config.sliding_window == 6
    free = tiny("mistral", sliding_window=None)
    expected, before = outputs(windowed, IDS), outputs(free, IDS)
    assert not torch.allclose(expected, before, atol=1e-3)
    with es.windows.apply(free, plan_of(free, 6)):
        torch.testing.assert_close(outputs(free, IDS), expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(outputs(free, IDS), before)


def test_generation_with_a_cache_is_windowed_too() -> None:
    model = tiny("llama")
    with es.windows.apply(model, plan_of(model, 4, sink="keep")), torch.no_grad():
        whole = model(input_ids=IDS).logits
        start = model(input_ids=IDS[:, :12], use_cache=True)
        rest = model(input_ids=IDS[:, 12:], cache=start.cache, use_cache=True).logits
    torch.testing.assert_close(rest, whole[:, 12:], atol=1e-4, rtol=1e-4)


def test_windows_reach_to_both_sides_of_an_encoder() -> None:
    model = tiny("bert")
    with es.windows.apply(model, plan_of(model, 1, sink="drop")):
        found = outputs(model, IDS)
        moved = IDS.clone()
        moved[:, 5] = (moved[:, 5] + 4) % 61 + 3
        same = (outputs(model, moved) - found).abs().amax(dim=(0, 2)) < 1e-6
    assert same.tolist() == [i != 5 for i in range(20)]
