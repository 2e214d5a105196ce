"""The untrained twin: same architecture, fresh weights from a seed, the original left alone."""

from __future__ import annotations

import pytest
import torch

import eddyscope as es
from eddyscope import models
from eddyscope.documents import Documents
from eddyscope.models.config import GPTConfig

transformers = pytest.importorskip("transformers")


def tiny_llama() -> torch.nn.Module:
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=64, max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(7)
    return transformers.LlamaForCausalLM(config).eval()


def weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("kind", ["llama", "gpt"])
def test_a_twin_has_the_shapes_of_the_model_and_weights_of_its_own(kind: str) -> None:
    model = tiny_llama() if kind == "llama" else models.untrained(GPTConfig("base", 10, 32, 2, 2, 16), seed=5)
    before = weights(model)
    twin = models.untrained_twin(model, seed=1)
    assert type(twin) is type(model)
    assert not twin.training
    ours, theirs = weights(model), weights(twin)
    assert {n: w.shape for n, w in ours.items()} == {n: w.shape for n, w in theirs.items()}
    assert any(not torch.equal(ours[name], theirs[name]) for name in ours)
    assert all(torch.equal(before[name], ours[name]) for name in before)


@pytest.mark.parametrize("kind", ["llama", "gpt"])
def test_equal_seeds_give_equal_twins_whatever_the_global_seed(kind: str) -> None:
    model = tiny_llama() if kind == "llama" else models.untrained(GPTConfig("base", 10, 32, 2, 2, 16), seed=5)
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    first = weights(models.untrained_twin(model, seed=3))
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(2)
    second = weights(models.untrained_twin(model, seed=3))
    other = weights(models.untrained_twin(model, seed=4))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_a_twin_is_captured_like_its_model() -> None:
    model = tiny_llama()
    ids = torch.randint(3, 64, (3, 16), generator=torch.Generator().manual_seed(0)).numpy()
    documents = Documents.from_ids(ids)
    trained, fresh = (es.capture(m, documents) for m in (model, models.untrained_twin(model)))
    assert trained.layers == fresh.layers
    assert trained[0].geometry == fresh[0].geometry
