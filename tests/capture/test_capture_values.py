"""Value-weighted attention: weights times the norm of what a value adds to the residual stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tiny_models import VOCABULARY, eager_attentions, tiny

import eddyscope as es
from eddyscope import models
from eddyscope.capture import blockwise, capture
from eddyscope.capture.values import Projection
from eddyscope.documents import Documents
from eddyscope.errors import CaptureError, InputError, UsageError

#: For each family: module of the first layer's attention and of its output projection.
PLACES = {
    "gpt2": ("transformer.h.0.attn", "transformer.h.0.attn.c_proj"),
    "llama": ("model.layers.0.self_attn", "model.layers.0.self_attn.o_proj"),
    "bert": ("encoder.layer.0.attention.self", "encoder.layer.0.attention.output.dense"),
    "opt": ("model.decoder.layers.0.self_attn", "model.decoder.layers.0.self_attn.out_proj"),
    "gpt_neox": ("gpt_neox.layers.0.attention", "gpt_neox.layers.0.attention.dense"),
    "modernbert": ("layers.0.attn", "layers.0.attn.Wo"),
    "distilbert": ("transformer.layer.0.attention", "transformer.layer.0.attention.out_lin"),
}


def values_of(model: Any, place: str, ids: NDArray[np.int64]) -> Any:
    """Values that an attention module mixes, as its eager function is given them."""
    module = model.get_submodule(place)
    home = __import__("sys").modules[type(module).__module__]
    eager, seen = home.eager_attention_forward, {}

    def watch(inner: Any, query: Any, key: Any, value: Any, *arguments: Any, **options: Any) -> Any:
        seen.setdefault(inner, value)
        return eager(inner, query, key, value, *arguments, **options)

    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    home.eager_attention_forward = watch
    try:
        with torch.inference_mode():
            model(input_ids=torch.from_numpy(ids))
    finally:
        home.eager_attention_forward = eager
        model.set_attn_implementation(before)
    return seen[module]


def hooks(model: Any) -> list[tuple[int, int]]:
    return [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]


def by_hand(model: Any, place: str, projection: str, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Each head's weights times the norm of its values put through the projection with all other heads at zero."""
    weights = torch.from_numpy(eager_attentions(model, ids)[0])
    heads = weights.shape[1]
    value = values_of(model, place, ids)
    value = value.repeat_interleave(heads // value.shape[1], dim=1)
    out = model.get_submodule(projection)
    with torch.inference_mode():
        nothing = out(torch.zeros(1, heads * value.shape[-1]))
        norms = []
        for head in range(heads):
            alone = torch.zeros_like(value)
            alone[:, head] = value[:, head]
            norms.append((out(alone.transpose(1, 2).flatten(2)) - nothing).norm(dim=-1))
    return (weights * torch.stack(norms, dim=1)[:, :, None, :]).numpy()


@pytest.mark.parametrize("way", ["auto", "blocks"])
@pytest.mark.parametrize("family", PLACES)
def test_it_is_the_weight_times_the_norm_of_the_projected_value(
    family: str, way: str, documents: Documents, ids: NDArray[np.int64], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blockwise, "BLOCK_BYTES_CPU", 5000)
    model = tiny(family)
    expected = by_hand(model, *PLACES[family], ids)
    before = hooks(model)
    ensemble = capture(model, documents, heads="each", weight="value-norm", way=way)
    np.testing.assert_allclose(ensemble[0].dense(), expected, atol=1e-5, rtol=1e-4)
    assert ensemble.layers[0] == PLACES[family][0]
    assert hooks(model) == before


@pytest.mark.parametrize("way", ["function", "blocks"])
def test_the_gpts_of_the_study_have_it_too(way: str) -> None:
    config = models.GPTConfig("ega-2", vocab_size=VOCABULARY, width=32, layers=2, heads=4, context=24)
    model = models.untrained(config, seed=1)
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (3, 24))
    plain = capture(model, ids, heads="each")
    ensemble = capture(model, ids, heads="each", weight="value-norm", way=way)
    inputs = []
    handle = model.blocks[0].attention.register_forward_pre_hook(lambda module, given: inputs.append(given[0]))
    with torch.inference_mode():
        model(torch.from_numpy(ids))
    handle.remove()
    attention = model.blocks[0].attention
    with torch.inference_mode():
        value = attention.qkv(inputs[0])[..., 64:].unflatten(-1, (4, 8))
        norms = torch.einsum("bjhd,whd->bhjw", value, attention.out.weight.unflatten(1, (4, 8))).norm(dim=-1).numpy()
    np.testing.assert_allclose(ensemble[0].dense(), plain[0].dense() * norms[:, :, None, :], rtol=1e-4, atol=1e-6)


def test_the_head_mean_is_the_mean_of_the_weighted_heads(documents: Documents) -> None:
    model = tiny("llama")
    each = capture(model, documents, heads="each", weight="value-norm")
    mean = capture(model, documents, weight="value-norm")
    some = capture(model, documents, heads=[3, 1], weight="value-norm")
    np.testing.assert_allclose(mean[1].values[:, 0], each[1].values.mean(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(some[1].values, each[1].values[:, [3, 1]])


def test_norms_keep_their_digits_where_a_value_lies_across_a_weak_direction() -> None:
    """A Gram matrix would lose half of the digits; the QR decomposition loses none."""
    torch.manual_seed(0)
    left, right = torch.linalg.qr(torch.randn(32, 4))[0], torch.linalg.qr(torch.randn(4, 4))[0]
    linear = torch.nn.Linear(4, 32, bias=False)
    linear.weight.data = left @ torch.diag(torch.tensor([1.0, 0.1, 1e-2, 1e-4])) @ right
    weak = right[3]
    found = Projection(linear, 1).norms(weak[None, None, None, :])
    np.testing.assert_allclose(float(found.detach()), 1e-4, rtol=1e-2)


def test_rows_that_do_not_sum_to_1_are_no_failed_check_and_the_study_says_what_they_are(documents: Documents) -> None:
    model = tiny("llama")
    ensemble = capture(model, documents, weight="value-norm")
    assert ensemble[0].row_sum is not None and abs(ensemble[0].row_sum - 1).max() > 0.1
    provenance = ensemble.provenance
    assert provenance["failed_checks"] == [] and provenance["weight"] == "value-norm"
    assert provenance["way"] == "attention function around eager"
    assert {c["check"] for c in provenance["checks"]} >= {"rows sum to 1", "masked keys", "causality"}
    study = es.analyze(ensemble, intervals=False)
    assert study.layer(0).attrs["weight"] == "value-norm"
    assert study.provenance["weight"] == "value-norm"
    assert study.provenance["analysis"]["sink"] == "keep"  # what is masked would have to be given to other keys
    assert study.layer(0)["scalogram"].attrs["field"] == "raw"


def test_a_leaking_mask_still_fails(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    """Value-weighted fields are held against their own size, so that mass above the diagonal shows."""
    from eddyscope.capture.checks import field_checks
    from eddyscope.lagfield import LagField

    dense = np.full((2, 8, 8), 50.0, dtype=np.float32)
    field = LagField.from_dense(dense, causal=True)
    whole = LagField(field.values, field.geometry, field.heads, field.first_key, dense.sum(-1)[:, None])
    checks = field_checks("layer", whole, None, False, half=False, whole=True, value_weighted=True)
    assert [(c.check, c.passed) for c in checks] == [("masked keys", False)]
    checks = field_checks("layer", field, None, False, half=False, whole=True, value_weighted=True)
    assert [(c.check, c.passed) for c in checks] == [("masked keys", True)]


def test_a_projection_that_is_not_known_is_refused_by_class(documents: Documents) -> None:
    model = tiny("llama")
    for layer in model.model.layers:
        layer.self_attn.o_proj = Wrapped(layer.self_attn.o_proj)
    with pytest.raises(CaptureError, match="from LlamaAttention: its output projection is not known"):
        capture(model, documents, weight="value-norm")
    assert model.config._attn_implementation == "sdpa"


class Wrapped(torch.nn.Module):
    """A linear map with something around it, as adapters have."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x)


def test_a_gate_between_heads_and_projection_is_refused(documents: Documents) -> None:
    model = tiny("llama")
    for layer in model.model.layers:
        layer.self_attn.o_proj.register_forward_pre_hook(lambda module, given: (given[0] * 0.5,))
    with pytest.raises(CaptureError, match=r"LlamaAttention.*something comes between the heads and it"):
        capture(model, documents, weight="value-norm")


def test_hooks_see_no_values(documents: Documents) -> None:
    with pytest.raises(CaptureError, match=r"Hooks see the weights of attention and not its values.*--way function"):
        capture(tiny("llama"), documents, weight="value-norm", way="hooks")


@pytest.mark.parametrize("heads", [[0, 3], (2,), np.array([3, 0])])
def test_a_list_of_heads_keeps_these_in_this_order(heads: Any, documents: Documents) -> None:
    model = tiny("llama")
    each = capture(model, documents, heads="each")
    some = capture(model, documents, heads=heads)
    assert some[0].heads == tuple(str(head) for head in heads)
    np.testing.assert_array_equal(some[1].values, each[1].values[:, list(heads)])
    np.testing.assert_array_equal(some[1].row_sum, each[1].row_sum[:, list(heads)])
    study = es.analyze(some, intervals=False)
    assert study.layer(0).attrs["heads"] == ",".join(str(head) for head in heads)
    assert study.provenance["options"]["heads"] == [int(head) for head in heads]


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ([], "expected numbers of heads from 0"),
        ([0, 0], "in which a head occurs twice"),
        ([-1], "expected numbers of heads from 0"),
        ([1.5], "expected numbers of heads from 0"),
    ],
)
def test_wrong_lists_of_heads_are_refused(heads: Any, message: str, documents: Documents) -> None:
    with pytest.raises(UsageError, match=message):
        capture(tiny("llama"), documents, heads=heads)


def test_a_head_that_is_not_there_is_named(documents: Documents) -> None:
    with pytest.raises(InputError, match="Head 4 was asked for, but there are 4 heads, 0 to 3"):
        capture(tiny("llama"), documents, heads=[0, 4])
    with pytest.raises(UsageError, match="weight is 'norm', expected 'attention' or 'value-norm'"):
        capture(tiny("llama"), documents, weight="norm")


def test_half_precision_storage_of_weighted_heads(documents: Documents) -> None:
    model = tiny("gpt2")
    full = capture(model, documents, heads=[1], weight="value-norm")
    half = capture(model, documents, heads=[1], weight="value-norm", dtype="float16")
    assert half[0].values.dtype == np.float16
    np.testing.assert_array_equal(half[0].values, full[0].values.astype(np.float16))
