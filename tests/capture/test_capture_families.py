"""Captured attention is the model's own: equal to ``output_attentions=True`` under eager, family by family."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_models import CAUSAL, FAMILIES, eager_attentions, tiny

from eddyscope.capture import capture
from eddyscope.documents import Documents


@pytest.mark.parametrize("family", FAMILIES)
def test_each_head_equals_output_attentions_under_eager(
    family: str, documents: Documents, ids: NDArray[np.int64]
) -> None:
    model = tiny(family)
    expected = eager_attentions(model, ids)
    ensemble = capture(model, documents, heads="each", batch=2)
    assert len(ensemble.layers) == len(expected)
    for field, attention in zip(ensemble.fields.values(), expected, strict=True):
        np.testing.assert_allclose(field.dense(), attention, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_head_mean_is_the_mean_of_the_heads(family: str, documents: Documents, ids: NDArray[np.int64]) -> None:
    model = tiny(family)
    expected = eager_attentions(model, ids).mean(axis=2)
    ensemble = capture(model, documents)
    for field, attention in zip(ensemble.fields.values(), expected, strict=True):
        assert field.heads == ("mean",)
        np.testing.assert_allclose(field.dense()[:, 0], attention, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_causality_is_found_and_all_checks_pass(family: str, documents: Documents) -> None:
    ensemble = capture(tiny(family), documents)
    assert {field.causal for field in ensemble.fields.values()} == {family in CAUSAL}
    checks = ensemble.provenance["checks"]
    assert all(check["passed"] for check in checks)
    assert ensemble.provenance["failed_checks"] == []
    expected = {"shape", "rows sum to 1", "masked keys", "outputs", "causality" if family in CAUSAL else "repeatable"}
    assert expected <= {check["check"] for check in checks}
    for layer in ensemble.layers:
        assert {c["check"] for c in checks if c["layer"] == layer} >= {"shape", "rows sum to 1"}


@pytest.mark.parametrize("family", ["mistral", "gemma2", "modernbert"])
def test_windows_are_recorded_and_held_against_the_maps(family: str, documents: Documents) -> None:
    ensemble = capture(tiny(family), documents)
    windowed = [name for name, info in ensemble.info.items() if info.window is not None]
    assert {ensemble.info[name].window for name in windowed} == {4 if family == "modernbert" else 6}
    assert {c["layer"] for c in ensemble.provenance["checks"] if c["check"] == "window"} == set(windowed)
    for name in windowed:
        field, window = ensemble[name], ensemble.info[name].window
        assert window is not None
        farthest = window - 1 if field.causal else window
        assert field.at_lag(farthest).max() > 0
        assert field.at_lag(farthest + 1).max() == 0


def test_grouped_queries_are_kept_per_query_head_with_their_map(ids: NDArray[np.int64]) -> None:
    model = tiny("llama", num_attention_heads=9, num_key_value_heads=3, hidden_size=36)
    ensemble = capture(model, Documents.from_ids(ids), heads="each")
    info = ensemble.info["model.layers.1.self_attn"]
    assert ensemble[1].heads == tuple("012345678")
    assert (info.query_heads, info.key_value_heads) == (9, 3)
    assert info.key_value_map == (0, 0, 0, 1, 1, 1, 2, 2, 2)
    # Query heads of one group share their keys: copy one query projection over the group, and their maps agree.
    import torch

    with torch.no_grad():
        weight = model.model.layers[1].self_attn.q_proj.weight
        weight[4:8] = weight[0:4]
    dense = capture(model, Documents.from_ids(ids), heads="each")[1].dense()
    np.testing.assert_allclose(dense[:, 1], dense[:, 0], atol=1e-6)
    assert np.abs(dense[:, 3] - dense[:, 0]).max() > 0.01


def test_layers_that_share_their_weights_are_told_apart(documents: Documents) -> None:
    ensemble = capture(tiny("albert"), documents)
    name = "encoder.albert_layer_groups.0.albert_layers.0.attention"
    assert ensemble.layers == (name, f"{name}#2", f"{name}#3")
