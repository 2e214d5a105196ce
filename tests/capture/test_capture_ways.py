"""The ways in which attention is seen give the same attention, or say why not."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray
from tiny_models import CAUSAL, FAMILIES, VOCABULARY, eager_attentions, tiny

from eddyscope import models
from eddyscope.capture import blockwise, capture, ways
from eddyscope.capture.interface import BLOCKS, FUNCTION
from eddyscope.capture.rowmask import RowMask
from eddyscope.documents import Documents
from eddyscope.errors import CaptureError, CheckError, UsageError


@pytest.fixture
def narrow_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few rows, so that 24 tokens take several."""
    monkeypatch.setattr(blockwise, "BLOCK_BYTES_CPU", 5000)


@pytest.mark.usefixtures("narrow_blocks")
@pytest.mark.parametrize("way", ["function", "blocks"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_way_equals_output_attentions_under_eager(
    family: str, way: str, documents: Documents, ids: NDArray[np.int64]
) -> None:
    model = tiny(family)
    before = model.config._attn_implementation
    expected = eager_attentions(model, ids)
    ensemble = capture(model, documents, heads="each", way=way, batch=2)
    assert len(ensemble.layers) == len(expected)
    for field, attention in zip(ensemble.fields.values(), expected, strict=True):
        assert field.causal == (family in CAUSAL)
        np.testing.assert_allclose(field.dense(), attention, atol=1e-5)
    assert ensemble.provenance["failed_checks"] == []
    assert model.config._attn_implementation == before


@pytest.mark.usefixtures("narrow_blocks")
@pytest.mark.parametrize("variant", ["base", "ega-2", "ega-c-causal"])
@pytest.mark.parametrize("way", ["function", "blocks"])
def test_every_way_gives_the_same_of_the_gpts_of_the_study(variant: str, way: str) -> None:
    config = models.GPTConfig(variant, vocab_size=VOCABULARY, width=32, layers=2, heads=4, context=24)
    model = models.untrained(config, seed=1)
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (3, 24))
    expected = capture(model, ids, heads="each")
    ensemble = capture(model, ids, heads="each", way=way)
    for name in expected.layers:
        np.testing.assert_allclose(ensemble[name].values, expected[name].values, atol=1e-6)
    assert all(module.attend is None for module in model.attentions())


@pytest.mark.usefixtures("narrow_blocks")
@pytest.mark.parametrize("family", ["llama", "mistral", "modernbert"])
def test_blocks_keep_a_band_of_lags_with_whole_row_sums(family: str, documents: Documents) -> None:
    model = tiny(family)
    expected = capture(model, documents, heads="each", max_lag=5)
    ensemble = capture(model, documents, heads="each", max_lag=5, way="blocks")
    for name in expected.layers:
        np.testing.assert_allclose(ensemble[name].values, expected[name].values, atol=1e-6)
        np.testing.assert_allclose(ensemble[name].row_sum, 1.0, atol=1e-5)
        np.testing.assert_allclose(ensemble[name].first_key, expected[name].first_key, atol=1e-6)


def test_the_way_taken_is_in_the_provenance(documents: Documents) -> None:
    model = tiny("llama")
    taken = {way: capture(model, documents, way=way).provenance["way"] for way in ("hooks", "function", "blocks")}
    assert taken == {
        "hooks": "forward hooks under eager",
        "function": "attention function around eager",
        "blocks": "attention in blocks of query rows",
    }
    assert capture(model, documents).provenance["way"] == taken["hooks"]


def test_auto_takes_blocks_for_a_band_of_lags_where_whole_maps_would_be_large(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "WHOLE_BYTES", 4 * 4 * 24 * 24 - 1)
    model = tiny("llama")
    assert "blocks" in capture(model, documents, max_lag=5).provenance["way"]
    assert "hooks" in capture(model, documents).provenance["way"]
    monkeypatch.setattr(ways, "WHOLE_BYTES", 4 * 4 * 24 * 24)
    assert "hooks" in capture(model, documents, max_lag=5).provenance["way"]


def test_a_model_that_computes_otherwise_under_eager_keeps_its_setting_by_the_function(
    documents: Documents, ids: NDArray[np.int64]
) -> None:
    model = tiny("gpt2", reorder_and_upcast_attn=True)
    called = []
    model.transformer.h[0].attn._upcast_and_reordered_attn = lambda *a: called.append(a)
    ensemble = capture(model, documents, way="function", heads="each")
    assert not called and model.config._attn_implementation == "sdpa"
    expected = eager_attentions(tiny("gpt2"), ids)
    np.testing.assert_allclose(ensemble[1].dense(), expected[1], atol=1e-5)


def test_the_registered_names_work_alone_and_tell_nobody(ids: NDArray[np.int64]) -> None:
    model, tokens = tiny("llama"), torch.from_numpy(ids)
    with torch.inference_mode():
        expected = model(input_ids=tokens).logits
        for name in (FUNCTION, BLOCKS):
            model.set_attn_implementation(name)
            torch.testing.assert_close(model(input_ids=tokens).logits, expected, atol=1e-4, rtol=1e-4)


def test_a_capture_hears_its_own_context_only(documents: Documents, ids: NDArray[np.int64]) -> None:
    """Another thread that runs a model under the same registered name adds nothing to a capture."""
    heard, other = tiny("llama"), tiny("llama")
    other.set_attn_implementation(FUNCTION)
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            with torch.inference_mode():
                other(input_ids=torch.from_numpy(ids[:2]))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        ensemble = capture(heard, documents, way="function")
    finally:
        stop.set()
        thread.join()
    np.testing.assert_array_equal(ensemble[0].values, capture(heard, documents, way="function")[0].values)


def _attends_with(name: str, value: Any) -> Any:
    """A llama whose attention is given one more keyword."""
    model = tiny("llama")
    for layer in model.model.layers:
        inner = layer.self_attn.forward
        layer.self_attn.forward = lambda *a, _inner=inner, **k: _inner(*a, **(k | {name: value}))
    return model


@pytest.mark.parametrize("way", ["function", "blocks"])
@pytest.mark.parametrize("name", ["s_aux", "position_bias", "indices", "cu_seq_lens_q", "sinks", "anything_new"])
def test_an_attention_keyword_that_a_way_does_not_implement_is_named(name: str, way: str, documents: Documents) -> None:
    model = _attends_with(name, torch.zeros(4))
    with pytest.raises(CaptureError, match=rf"LlamaAttention gives its attention '{name}', which way='{way}'"):
        capture(model, documents, way=way)
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("name", ["softcap", "sinks"])
def test_the_function_leaves_to_eager_what_eager_knows(name: str, documents: Documents) -> None:
    if name == "softcap":
        model = tiny("gemma2")
        expected = capture(model, documents)
        ensemble = capture(model, documents, way="function")
    else:
        model = _gpt_oss()
        expected = capture(model, documents)
        ensemble = capture(model, documents, way="function")
        assert expected[0].row_sum is not None and expected[0].row_sum.max() < 1
    np.testing.assert_array_equal(ensemble[0].values, expected[0].values)


def _gpt_oss() -> Any:
    config = transformers.GptOssConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        num_local_experts=2,
        num_experts_per_tok=1,
        sliding_window=6,
        pad_token_id=0,
        eos_token_id=2,
    )
    torch.manual_seed(0)
    return transformers.GptOssForCausalLM(config).eval()


def test_blocks_refuse_a_sink_of_the_models_own(documents: Documents) -> None:
    with pytest.raises(CaptureError, match=r"GptOssAttention gives its attention 's_aux', which way='blocks' does not"):
        capture(_gpt_oss(), documents, way="blocks")


def test_blocks_refuse_dropout(ids: NDArray[np.int64]) -> None:
    model = tiny("llama", attention_dropout=0.5).train()
    model.set_attn_implementation(BLOCKS)
    with pytest.raises(CaptureError, match=r"has no dropout.*eval"):
        model(input_ids=torch.from_numpy(ids))


def _own_attention(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any) -> Any:
    from transformers.models.llama.modeling_llama import eager_attention_forward

    return eager_attention_forward(module, query, key, value, attention_mask, **options)


transformers.AttentionInterface.register("ways_own_attention", _own_attention)


@pytest.mark.parametrize("way", ["function", "blocks"])
def test_a_registered_function_of_the_users_own_is_not_replaced(way: str, documents: Documents) -> None:
    """Case 3: a custom function that lost its mask is refused by hooks, and no other way hides it."""
    model = tiny("llama")
    model.set_attn_implementation("ways_own_attention")
    with pytest.raises(
        CaptureError, match=rf"'ways_own_attention' is registered by you, and way='{way}' would replace"
    ):
        capture(model, documents, way=way)
    with pytest.raises(CheckError, match="'masked keys' failed"):
        capture(model, documents, max_lag=5)


def test_models_outside_the_interface_are_refused_by_class(documents: Documents) -> None:
    model = tiny("llama")
    with pytest.raises(UsageError, match="way is 'magic', expected one of auto, hooks, function, blocks"):
        capture(model, documents, way="magic")
    attention = model.model.layers[1].self_attn
    plain = type(
        "PlainAttention", (torch.nn.Module,), {"forward": lambda self, hidden_states, **_: (hidden_states, None)}
    )
    model.model.layers[1].self_attn = plain()
    model.model._can_record_outputs = {"attentions": [type(attention), plain]}
    with pytest.raises(CaptureError, match=r"'model\.layers\.1\.self_attn' \(PlainAttention\) does not take part"):
        capture(model, documents, way="function")


@pytest.mark.parametrize("options", [{"way": "function"}, {"way": "blocks"}, {"weight": "value-norm"}])
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("XGLM", r"XGLMForCausalLM does not take part in the attention interface .*--way hooks"),
        ("Bloom", r"BloomForCausalLM.*asked for with output_attentions"),
    ],
)
def test_models_that_show_attention_to_hooks_alone_say_so(
    kind: str, message: str, options: dict[str, Any], documents: Documents
) -> None:
    sizes = {"vocab_size": VOCABULARY, "d_model": 32, "hidden_size": 32, "num_layers": 2, "n_layer": 2, "ffn_dim": 32}
    config = getattr(transformers, f"{kind}Config")(**sizes, attention_heads=4, n_head=4)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with pytest.raises(CaptureError, match=message):
        capture(model, documents, **options)
    capture(model, documents)


@pytest.mark.parametrize("way", ["function", "blocks"])
def test_a_layer_that_attends_twice_in_a_call_has_no_single_map_by_a_function(way: str, documents: Documents) -> None:
    config = transformers.DiffLlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4
    )
    model = transformers.DiffLlamaForCausalLM(config).eval()
    with pytest.raises(CaptureError, match=r"self_attn' \(DiffLlamaAttention\) attends more than once .*--way hooks"):
        capture(model, documents, way=way)


def test_a_model_that_looks_into_its_mask_is_refused_by_blocks(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("llama")
    inner = type(model.model.layers[0]).forward

    def looks(self: Any, hidden_states: Any, attention_mask: Any = None, **options: Any) -> Any:
        assert attention_mask is None or attention_mask.shape[-1] > 0
        return inner(self, hidden_states, attention_mask=attention_mask, **options)

    monkeypatch.setattr(type(model.model.layers[0]), "forward", looks)
    with pytest.raises(CaptureError, match=r"\(LlamaConfig\) looks into its attention mask \(its 'shape'\).*function"):
        capture(model, documents, way="blocks")
    capture(model, documents, way="function")


def test_row_masks_are_the_rows_of_the_whole_mask() -> None:
    from transformers.masking_utils import eager_mask, sliding_window_causal_mask_function

    padding = torch.ones(2, 9, dtype=torch.bool)
    padding[1, :3] = False
    arguments = {
        "batch_size": 2,
        "q_length": 9,
        "kv_length": 9,
        "mask_function": sliding_window_causal_mask_function(4),
        "attention_mask": padding,
        "dtype": torch.float32,
    }
    whole = eager_mask(**arguments)
    rows = [RowMask(arguments).rows(first, min(first + 4, 9)) for first in (0, 4, 8)]
    torch.testing.assert_close(torch.cat(rows, dim=2), whole)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("way", ["function", "blocks"])
def test_half_precision_gives_float32_fields_in_every_way(dtype: torch.dtype, way: str, documents: Documents) -> None:
    """Case 6."""
    model = tiny("llama").to(dtype)
    expected = capture(model, documents)
    ensemble = capture(model, documents, way=way)
    assert ensemble[0].values.dtype == np.float32
    np.testing.assert_allclose(ensemble[0].values, expected[0].values, atol=5e-3)
    np.testing.assert_allclose(ensemble[0].row_sum, 1.0, atol=1e-2)


@pytest.mark.parametrize("way", ["hooks", "function", "blocks"])
def test_grouped_queries_give_a_field_for_each_query_head(
    way: str, documents: Documents, ids: NDArray[np.int64]
) -> None:
    """Case 7: nine query heads on three key-value heads."""
    sizes = {"num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 36, "head_dim": 4}
    model = tiny("llama", **sizes)
    ensemble = capture(model, documents, heads="each", way=way)
    assert ensemble[0].heads == tuple(str(head) for head in range(9))
    info = ensemble.info[ensemble.layers[0]]
    assert info.key_value_map == (0, 0, 0, 1, 1, 1, 2, 2, 2)
    np.testing.assert_allclose(ensemble[1].dense(), eager_attentions(model, ids)[1], atol=1e-5)


def test_blocks_of_all_layers_share_their_memory_unless_gradients_need_their_own() -> None:
    room = blockwise.Room()
    with torch.no_grad():
        one, other = (room.take("weights", shape, torch.float32, torch.device("cpu")) for shape in ((4, 6), (2, 3)))
        assert one is not None and other is not None and one.data_ptr() == other.data_ptr()
        half = room.take("weights", (4, 6), torch.float16, torch.device("cpu"))
        assert half is not None and half.dtype == torch.float16
        larger = room.take("weights", (40, 6), torch.float32, torch.device("cpu"))
        assert larger is not None and larger.shape == (40, 6)
    assert room.take("weights", (4, 6), torch.float32, torch.device("cpu")) is None
