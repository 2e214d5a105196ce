"""Edits of attention: they change what they say, nothing else, and leave no trace."""

from __future__ import annotations

import copy
import gc
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import FAMILIES, tiny
from torch import Tensor

from eddyscope.errors import CaptureError, InputError
from eddyscope.interventions.editing import AppliedEdits, edited
from eddyscope.interventions.layers import AttentionLayer, attention_layers
from eddyscope.models import VARIANTS, GPTConfig, untrained

SIZES = {"vocab_size": 64, "context": 20, "layers": 2, "heads": 4, "width": 32}
IDS = torch.from_numpy(np.random.default_rng(0).integers(3, 64, size=(2, 20)))


def gpt(variant: str = "base") -> Any:
    model = untrained(GPTConfig(variant=variant, **SIZES), seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)
    return model


def outputs(model: Any) -> Tensor:
    with torch.no_grad():
        found = model(IDS) if not hasattr(model, "set_attn_implementation") else model(input_ids=IDS)
    return found if isinstance(found, Tensor) else found[0]


def unchanged(weights: Tensor, layer: AttentionLayer) -> Tensor:
    return weights.clone()


def itself_alone(weights: Tensor, layer: AttentionLayer) -> Tensor:
    return torch.eye(weights.shape[-1]).expand_as(weights)


MODELS = {**{f"gpt-{v}": (lambda v=v: gpt(v)) for v in VARIANTS}, **{f: (lambda f=f: tiny(f)) for f in FAMILIES}}


@pytest.mark.parametrize("name", MODELS)
def test_an_edit_that_changes_nothing_changes_no_output(name: str) -> None:
    model = MODELS[name]()
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation("eager")  # fused kernels round differently
    before = outputs(model)
    with edited(model, {layer.name: unchanged for layer in attention_layers(model)}):
        during = outputs(model)
    torch.testing.assert_close(during, before, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", MODELS)
def test_afterwards_the_model_is_bit_for_bit_as_before(name: str) -> None:
    model = MODELS[name]()
    before, state = outputs(model), copy.deepcopy(model.state_dict())
    implementation = getattr(model.config, "_attn_implementation", None)
    with edited(model, {layer.name: itself_alone for layer in attention_layers(model)}):
        during = outputs(model)
    assert not torch.allclose(during, before, atol=1e-3)
    assert torch.equal(outputs(model), before)
    assert getattr(model.config, "_attn_implementation", None) == implementation
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("name", ["gpt-base", "gpt-ega-1", "gpt2", "llama", "bert", "qwen2", "modernbert"])
def test_with_attention_to_itself_alone_tokens_do_not_see_each_other(name: str) -> None:
    model = MODELS[name]()
    with edited(model, {layer.name: itself_alone for layer in attention_layers(model)}):
        whole = outputs(model)
        alone = IDS.clone()
        alone[:, 5] = (alone[:, 5] + 7 - 3) % 61 + 3
        with torch.no_grad():
            moved = model(alone) if name.startswith("gpt-") else model(input_ids=alone)[0]
    same = (whole - moved).abs().amax(dim=(0, 2)) < 1e-6
    assert not same[5]
    assert same[np.arange(20) != 5].all()


def test_grouped_queries_meet_the_values_of_their_own_group() -> None:
    model = tiny("llama")
    layer = attention_layers(model)[0]
    assert (layer.heads, layer.key_value_heads) == (4, 2)
    seen: dict[str, Tensor] = {}

    def first_key(weights: Tensor, layer: AttentionLayer) -> Tensor:
        found = torch.zeros_like(weights)
        found[..., 0] = 1.0
        return found

    def see_values(module: Any, arguments: Any, output: Tensor) -> None:
        seen["values"] = output

    def see_mixed(module: Any, arguments: Any) -> None:
        seen["mixed"] = arguments[0]

    module: Any = layer.module
    handles = [module.v_proj.register_forward_hook(see_values), module.o_proj.register_forward_pre_hook(see_mixed)]
    with edited(model, {layer.name: first_key}):
        outputs(model)
    for handle in handles:
        handle.remove()
    values = seen["values"].unflatten(-1, (2, -1))[:, :1]  # (batch, 1, key-value head, feature)
    expected = values[:, :, [0, 0, 1, 1]].flatten(2).expand_as(seen["mixed"])
    torch.testing.assert_close(seen["mixed"], expected)


@pytest.mark.parametrize("name", ["gpt-base", "llama"])
def test_edits_apply_in_their_order_and_leave_in_any(name: str) -> None:
    model = MODELS[name]()
    before = outputs(model)
    layer = attention_layers(model)[1].name
    first = AppliedEdits(model, {layer: lambda weights, layer: weights * 0})
    zeroed = outputs(model)
    second = AppliedEdits(model, {layer: lambda weights, layer: weights + torch.eye(20)})
    only_itself = outputs(model)
    assert not torch.allclose(zeroed, only_itself)
    with edited(model, {layer: itself_alone}):
        torch.testing.assert_close(outputs(model), only_itself)
    first.remove()
    first.remove()  # nothing happens
    assert not torch.allclose(outputs(model), only_itself)
    second.remove()
    assert torch.equal(outputs(model), before)


def test_a_layer_that_the_model_does_not_have_is_named() -> None:
    with pytest.raises(
        InputError, match=r"'blocks\.9\.attention' is not an attention layer of GPT\. Its layers are blo"
    ):
        AppliedEdits(gpt(), {"blocks.9.attention": unchanged})


@pytest.mark.parametrize("name", ["gpt-base", "gpt2"])
def test_an_edit_must_keep_the_shape_and_an_error_leaves_no_trace(name: str) -> None:
    model = MODELS[name]()
    before, layer = outputs(model), attention_layers(model)[0].name
    with (
        pytest.raises(CaptureError, match=r"shape \(2, 2, 20, 20\), expected \(2, 4, 20, 20\)"),
        edited(model, {layer: lambda weights, layer: weights[:, :2]}),
    ):
        outputs(model)
    assert torch.equal(outputs(model), before)


def test_attention_that_passes_by_the_edits_is_an_error() -> None:
    model = tiny("gpt2")
    with edited(model, {attention_layers(model)[0].name: unchanged}):
        model.set_attn_implementation("eager")
        with pytest.raises(CaptureError, match="without the registered function, so it was not edited"):
            outputs(model)


def test_a_keyword_that_eager_attention_does_not_take_is_an_error() -> None:
    model = tiny("llama")
    with (
        edited(model, {attention_layers(model)[0].name: unchanged}),
        pytest.raises(CaptureError, match="passes 'softcap' to its attention"),
    ):
        model(input_ids=IDS, softcap=30.0)


def test_an_attention_function_of_the_users_own_is_not_replaced() -> None:
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, eager_mask
    from transformers.models.llama.modeling_llama import eager_attention_forward

    AttentionInterface.register("of_a_user", eager_attention_forward)
    AttentionMaskInterface.register("of_a_user", eager_mask)
    model = tiny("llama")
    model.set_attn_implementation("of_a_user")
    with pytest.raises(CaptureError, match="attention function 'of_a_user', which edits would replace"):
        AppliedEdits(model, {attention_layers(model)[0].name: unchanged})
    assert model.config._attn_implementation == "of_a_user"


def test_generation_with_a_cache_is_edited_too() -> None:
    model = tiny("llama")

    def mixed(weights: Tensor, layer: AttentionLayer) -> Tensor:
        return weights[:, :1].expand_as(weights)

    with edited(model, {layer.name: mixed for layer in attention_layers(model)}), torch.no_grad():
        whole = model(input_ids=IDS).logits
        start = model(input_ids=IDS[:, :12], use_cache=True)
        rest = model(input_ids=IDS[:, 12:], cache=start.cache, use_cache=True).logits
    torch.testing.assert_close(rest, whole[:, 12:], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["gpt-base", "llama"])
def test_edits_stay_although_nobody_holds_them_and_a_copy_takes_them_along(name: str) -> None:
    model = MODELS[name]()
    before, layer = outputs(model), attention_layers(model)[0].name
    AppliedEdits(model, {layer: itself_alone})
    gc.collect()
    during = outputs(model)
    assert not torch.allclose(during, before, atol=1e-3)
    torch.testing.assert_close(outputs(copy.deepcopy(model)), during)
