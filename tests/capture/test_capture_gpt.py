"""The project's own GPTs are captured as they attend, gates included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from eddyscope.capture import capture, ways
from eddyscope.documents import Documents
from eddyscope.errors import CaptureError
from eddyscope.models import GPT, GPTConfig


def gpt(variant: str) -> GPT:
    model = GPT(GPTConfig(variant=variant, vocab_size=64, context=32, layers=2, heads=4, width=32)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and ".gate." not in name:
                parameter.mul_(6)
    return model


@pytest.mark.parametrize("variant", ["base", "ega-1", "ega-2", "ega-c", "ega-1-causal"])
def test_fields_are_the_weights_that_the_modules_return(variant: str, ids: NDArray[np.int64]) -> None:
    model = gpt(variant)
    expected: list[Any] = []
    handles = [b.attention.register_forward_hook(lambda m, a, out: expected.append(out[1])) for b in model.blocks]
    with torch.inference_mode():
        model(torch.from_numpy(ids))
    for handle in handles:
        handle.remove()
    ensemble = capture(model, Documents.from_ids(ids), heads="each")
    assert ensemble.layers == ("blocks.0.attention", "blocks.1.attention")
    for field, weights in zip(ensemble.fields.values(), expected, strict=True):
        assert field.causal
        np.testing.assert_allclose(field.dense(), weights.numpy(), atol=1e-6)
    assert ensemble.provenance["failed_checks"] == []


@pytest.mark.parametrize("variant", ["base", "ega-1", "ega-1-causal"])
def test_only_the_published_gate_looks_ahead_and_that_is_noted(variant: str, documents: Documents) -> None:
    checks = capture(gpt(variant), documents).provenance["checks"]
    ahead = [c for c in checks if c["check"] == "looks ahead"]
    causal = [c for c in checks if c["check"] == "causality"]
    if variant == "ega-1":
        assert [c["layer"] for c in ahead] == ["blocks.0.attention", "blocks.1.attention"] and not causal
        assert min(c["value"] for c in ahead) > 1e-4
    else:
        assert not ahead and max(c["value"] for c in causal) < 1e-5


def test_a_fused_model_in_training_is_left_so(documents: Documents) -> None:
    model = gpt("base").train()
    reference = capture(model, documents)
    for block in model.blocks:
        block.attention.fused = True
    ensemble = capture(model, documents)
    np.testing.assert_array_equal(ensemble[1].values, reference[1].values)
    assert model.training and all(block.attention.fused for block in model.blocks)
    assert ensemble.provenance["model"]["implementation"] == "fused"


def test_auto_computes_attention_in_blocks_and_leaves_edits_to_whole_weights(documents: Documents) -> None:
    model = gpt("base")
    assert capture(model, documents).provenance["way"] == "attention in blocks of query rows"
    first = model.attentions()[0]
    first.edits = [lambda weights: torch.eye(weights.shape[-1]).expand_as(weights)]
    edited = capture(model, documents)
    assert edited.provenance["way"] == "attention function around eager"
    np.testing.assert_array_equal(edited[0].dense(), np.broadcast_to(np.eye(24), (5, 1, 24, 24)))
    with pytest.raises(CaptureError, match=r"is edited, for which whole weights are needed.*--way hooks"):
        capture(model, documents, way="blocks")


def test_maps_too_large_for_memory_are_whole_where_they_are_edited(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "WHOLE_BYTES", 0)
    model = gpt("base")
    model.attentions()[0].edits = [lambda weights: weights]
    assert capture(model, documents, max_lag=8).provenance["way"] == "attention function around eager"
