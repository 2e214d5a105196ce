"""The GPT equals Hugging Face's GPT-2, shows its attention, and reads and writes characters."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from eddyscope.errors import InputError, UsageError
from eddyscope.models import VARIANTS, GPTConfig, untrained
from eddyscope.models.gpt import GPT, CausalSelfAttention
from eddyscope.models.training import fused_attention


def shown_attention(model: GPT, ids: Tensor) -> tuple[list[Tensor], Tensor]:
    seen: list[Tensor] = []
    handles = [
        module.register_forward_hook(lambda _module, _inputs, output: seen.append(output[1]))
        for module in model.modules()
        if isinstance(module, CausalSelfAttention)
    ]
    with torch.no_grad():
        logits = model(ids)
    for handle in handles:
        handle.remove()
    return seen, logits


def as_gpt2(model: GPT) -> torch.nn.Module:
    """Hugging Face's GPT-2 with the weights of a base model, eager attention and exact GELU."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=model.config.vocab_size,
        n_positions=model.config.context,
        n_embd=model.config.width,
        n_layer=model.config.layers,
        n_head=model.config.heads,
        activation_function="gelu",
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation="eager",
    )
    twin = transformers.GPT2LMHeadModel(config)
    weights = model.state_dict()
    renamed = {
        "transformer.wte.weight": weights["tokens.weight"],
        "transformer.wpe.weight": weights["positions.weight"],
    }
    renamed["lm_head.weight"] = weights["tokens.weight"]
    pairs = {
        "ln_1": "norm_attention",
        "attn.c_attn": "attention.qkv",
        "attn.c_proj": "attention.out",
        "ln_2": "norm_mlp",
        "mlp.c_fc": "expand",
        "mlp.c_proj": "contract",
    }
    for layer in range(model.config.layers):
        for theirs, ours in pairs.items():
            weight = weights[f"blocks.{layer}.{ours}.weight"]
            bias = weights.get(f"blocks.{layer}.{ours}.bias", torch.zeros(weight.shape[0]))
            renamed[f"transformer.h.{layer}.{theirs}.weight"] = weight.T if weight.dim() == 2 else weight
            renamed[f"transformer.h.{layer}.{theirs}.bias"] = bias
    renamed["transformer.ln_f.weight"], renamed["transformer.ln_f.bias"] = weights["norm.weight"], weights["norm.bias"]
    twin.load_state_dict(renamed, strict=True)
    return twin.eval()


def test_attention_and_logits_equal_those_of_hugging_faces_gpt2(lively: Callable[..., GPT]) -> None:
    model = lively("base", context=64)
    ids = torch.randint(0, model.config.vocab_size, (3, 64), generator=torch.Generator().manual_seed(0))
    attention, logits = shown_attention(model, ids)
    with torch.no_grad():
        theirs = as_gpt2(model)(ids, output_attentions=True, use_cache=False)
    assert len(attention) == len(theirs.attentions) == model.config.layers
    for ours, other in zip(attention, theirs.attentions, strict=True):
        assert (ours - other).abs().max() < 1e-5
    assert (logits - theirs.logits).abs().max() < 1e-5
    assert logits.std() > 0.3  # the comparison is not one of zeros


@pytest.mark.parametrize("variant", VARIANTS)
def test_rows_of_attention_sum_to_one_and_later_keys_get_nothing(lively: Callable[..., GPT], variant: str) -> None:
    model = lively(variant)
    ids = torch.randint(0, model.config.vocab_size, (2, 40), generator=torch.Generator().manual_seed(0))
    attention, _ = shown_attention(model, ids)
    assert len(attention) == model.config.layers
    for weights in attention:
        assert weights.shape == (2, model.config.heads, 40, 40)
        assert (weights.sum(-1) - 1).abs().max() < 1e-5
        assert torch.all(weights.triu(1) == 0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_gated_attention_is_the_renormalised_product(lively: Callable[..., GPT], variant: str) -> None:
    attention = lively(variant).attentions()[0]
    x = torch.randn(2, 20, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        _, weights = attention(x)
        q, k, _ = attention.qkv(x).chunk(3, dim=-1)
        for head in range(4):
            part = slice(8 * head, 8 * head + 8)
            scores = q[..., part] @ k[..., part].transpose(1, 2) / 8**0.5
            plain = scores.masked_fill(torch.ones(20, 20).triu(1).bool(), -torch.inf).softmax(-1)
            product = plain if attention.gate is None else plain * attention.gate(x)[:, head, None, :]
            expected = product / product.sum(-1, keepdim=True)
            assert torch.allclose(weights[:, head], expected, atol=1e-6)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_fused_path_gives_equal_logits_and_gradients(lively: Callable[..., GPT], variant: str) -> None:
    model = lively(variant)
    ids = torch.randint(0, model.config.vocab_size, (2, 48), generator=torch.Generator().manual_seed(0))

    def logits_and_gradients() -> list[Tensor]:
        model.zero_grad()
        logits = model(ids)
        F.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
        return [logits.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]

    shown = logits_and_gradients()
    with fused_attention(model):
        fused = logits_and_gradients()
        assert model.attentions()[0](torch.randn(1, 5, 32))[1] is None
    assert max((a - b).abs().max().item() for a, b in zip(shown, fused, strict=True)) < 1e-5
    assert not any(attention.fused for attention in model.attentions())


def test_query_key_and_value_have_no_bias() -> None:
    names = [name for name, _ in untrained(GPTConfig(width=32)).named_parameters()]
    assert not any("qkv.bias" in name for name in names)
    assert "blocks.0.attention.out.bias" in names


def test_dropout_is_off_outside_training() -> None:
    model = untrained(GPTConfig(width=32, dropout=0.5))
    ids = torch.arange(20)[None]
    assert torch.equal(model(ids), model(ids))


def test_text_goes_to_ids_and_back(lively: Callable[..., GPT]) -> None:
    model = lively("base")
    ids = model.encode("to be or not")
    assert all(isinstance(index, int) for index in ids)
    assert model.decode(ids) == "to be or not"
    assert model.decode(torch.tensor(ids)) == "to be or not"


def test_unknown_characters_become_spaces_and_are_counted(lively: Callable[..., GPT]) -> None:
    model = lively("base")
    text = "say [what] [now"
    assert model.decode(model.encode(text)) == "say  what   now"
    assert model.replaced(text) == {"[": 2, "]": 1}
    assert model.replaced("say what") == {}


def test_a_model_without_vocabulary_says_so() -> None:
    model = untrained(GPTConfig(width=32))
    for use in (lambda: model.encode("a"), lambda: model.decode([1]), lambda: model.replaced("a")):
        with pytest.raises(InputError, match=r"no vocabulary, so it cannot read or write text"):
            use()


def test_errors_name_what_was_given_and_expected(lively: Callable[..., GPT]) -> None:
    model = lively("base")
    with pytest.raises(InputError, match=r"The sequence has 49 tokens; expected at most the model's context of 48"):
        model(torch.zeros(1, 49, dtype=torch.long))
    with pytest.raises(InputError, match=r"Token id 99 is not in the vocabulary; expected 0 to 27"):
        model.decode([1, 99])
    with pytest.raises(InputError, match=r"The vocabulary has 2 characters; expected vocab_size = 65"):
        untrained(GPTConfig(width=32), vocabulary="ab")
    with pytest.raises(UsageError, match=r"Unknown model variant 'ega-3'; expected one of base, ega-1,"):
        GPTConfig(variant="ega-3")
    with pytest.raises(UsageError, match=r"width 30 is not a multiple of its 8 heads"):
        GPTConfig(width=30)
    with pytest.raises(UsageError, match=r"layers is 0; expected a whole number of at least 1"):
        GPTConfig(layers=0)
    with pytest.raises(UsageError, match=r"dropout is 1.0; expected at least 0 and below 1"):
        GPTConfig(dropout=1.0)


def test_untrained_twins_depend_on_the_seed_alone() -> None:
    config = GPTConfig(variant="ega-c", width=16, heads=2, layers=1)
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    first = untrained(config, seed=7)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(2)
    again, other = untrained(config, seed=7), untrained(config, seed=8)
    assert not first.training
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.tokens.weight, other.tokens.weight)
