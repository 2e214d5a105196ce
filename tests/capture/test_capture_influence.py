"""What is captured is what the model uses, and the recorded key-value heads are those that query heads read."""

from __future__ import annotations

import pytest
import torch
from tiny_models import tiny
from transformers.models.llama import modeling_llama

from eddyscope import models
from eddyscope.capture import capture, check
from eddyscope.documents import Documents
from eddyscope.errors import CheckError


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "gemma2"])
def test_every_layer_moves_the_outputs(family: str, documents: Documents) -> None:
    table = check(tiny(family), documents)
    influence = table[table["check"] == "influence"]
    assert len(influence) == table["layer"].nunique()
    assert influence["passed"].all()
    assert (influence["value"] > 0).all()


def test_a_layer_that_the_model_does_not_use_is_refused(documents: Documents) -> None:
    model = tiny("llama")
    torch.nn.init.zeros_(model.model.layers[1].self_attn.o_proj.weight)
    with pytest.raises(CheckError, match=r"'influence' failed in layer 'model\.layers\.1\.self_attn'"):
        capture(model, documents)


def test_the_gradients_of_the_model_are_not_touched(documents: Documents) -> None:
    model = models.untrained(models.GPTConfig("base", vocab_size=50, width=16, layers=2, heads=2, context=24), seed=1)
    capture(model, Documents.from_ids(documents.ids % 50))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_query_heads_read_the_key_value_heads_that_are_recorded(documents: Documents) -> None:
    table = check(tiny("llama", num_attention_heads=4, num_key_value_heads=2), documents)
    found = table[table["check"] == "key-value map"]
    assert len(found) == 1
    assert found["passed"].all()
    assert found["note"].str.endswith("of 2: 0, 1").all()


def test_another_order_of_key_value_heads_is_found(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    def interleaved(states: torch.Tensor, repeats: int) -> torch.Tensor:
        return states.repeat(1, repeats, 1, 1)

    monkeypatch.setattr(modeling_llama, "repeat_kv", interleaved)
    model = tiny("llama", num_attention_heads=4, num_key_value_heads=2)
    model.set_attn_implementation("eager")  # the fused one has a grouping of its own and would give other outputs
    with pytest.raises(CheckError, match="'key-value map' failed"):
        capture(model, documents)
