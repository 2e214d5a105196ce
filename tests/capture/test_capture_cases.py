"""Things that people who capture models run into: handled right, or refused with cause and remedy."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray
from tiny_models import VOCABULARY, eager_attentions, tiny

from eddyscope.capture import capture
from eddyscope.documents import Documents
from eddyscope.ensemble import AttentionEnsemble
from eddyscope.errors import CaptureError, CheckError, EddyscopeWarning, InputError


def test_a_model_under_sdpa_gives_one_map_per_layer(documents: Documents) -> None:
    model = tiny("llama")
    assert model.config._attn_implementation == "sdpa"
    ensemble = capture(model, documents)
    assert ensemble.layers == tuple(f"model.layers.{i}.self_attn" for i in range(2))
    assert ensemble.provenance["way"] == "forward hooks under eager"
    assert model.config._attn_implementation == "sdpa"


def test_a_config_that_asks_for_attention_works_and_is_left_alone(documents: Documents) -> None:
    model = tiny("gpt2", attn_implementation="eager", output_attentions=True)
    reference = capture(tiny("gpt2"), documents)
    ensemble = capture(model, documents)
    assert model.config.output_attentions is True
    np.testing.assert_array_equal(ensemble[0].values, reference[0].values)


def _without_mask(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any) -> Any:
    eager = sys.modules[type(module).__module__].eager_attention_forward  # type: ignore[attr-defined]
    return eager(module, query, key, value, attention_mask, **options)


transformers.AttentionInterface.register("lost_its_mask", _without_mask)


def test_an_attention_function_that_lost_its_mask_is_refused(documents: Documents) -> None:
    model = tiny("llama")
    model.set_attn_implementation("lost_its_mask")
    with pytest.raises(
        CheckError, match=r"'masked keys' failed in layer 'model\.layers\.0\.self_attn'.*above the"
    ) as e:
        capture(model, documents)
    assert "register its mask function" in str(e.value)
    assert model.config._attn_implementation == "lost_its_mask"


def test_a_failed_check_can_be_allowed_and_marks_the_ensemble(documents: Documents) -> None:
    model = tiny("llama")
    model.set_attn_implementation("lost_its_mask")
    with pytest.warns(EddyscopeWarning, match=r"although checks failed.*\[failed-checks\]"):
        ensemble = capture(model, documents, allow_failed_checks=True)
    assert "masked keys in layer 'model.layers.0.self_attn'" in ensemble.provenance["failed_checks"]
    assert "causality in layer 'model.layers.1.self_attn'" in ensemble.provenance["failed_checks"]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "roberta"])
def test_padded_documents_give_the_fields_of_each_alone(family: str, side: str, ids: NDArray[np.int64]) -> None:
    model = tiny(family)
    lengths = [24, 16, 20, 16, 24]
    mask = np.zeros(ids.shape, dtype=bool)
    padded = np.zeros_like(ids)
    for row, length in enumerate(lengths):
        place = slice(0, length) if side == "right" else slice(24 - length, 24)
        mask[row, place] = True
        padded[row, place] = ids[row, :length]
    with pytest.warns(EddyscopeWarning, match=r"16 to 24 tokens.*\[unequal-lengths\]"):
        ensemble = capture(model, Documents.from_ids(padded, mask=mask))
    assert ensemble.provenance["padding_rows_excluded"] == 20
    assert ensemble.documents is not None and ensemble.documents.mask is None
    np.testing.assert_array_equal(ensemble.documents.ids, ids[:, :16])
    for row, length in enumerate(lengths):
        alone = eager_attentions(model, ids[row : row + 1, :length]).mean(axis=2)[:, 0, :16, :16]
        for layer, attention in enumerate(alone):
            np.testing.assert_allclose(ensemble[layer].dense()[row, 0], attention, atol=1e-5)


def test_padding_within_a_document_is_refused(ids: NDArray[np.int64]) -> None:
    mask = np.ones(ids.shape, dtype=bool)
    mask[2, 7] = False
    with pytest.raises(InputError, match="Document 2 has padding between its tokens"):
        capture(tiny("gpt2"), Documents.from_ids(ids, mask=mask))


def test_a_model_in_training_with_dropout_is_captured_in_eval_mode(documents: Documents) -> None:
    dropout = {"attn_pdrop": 0.5, "resid_pdrop": 0.5, "embd_pdrop": 0.5}
    model = tiny("gpt2", **dropout)
    reference = capture(model, documents)
    model.train()
    model.transformer.h[0].eval()  # a part that was frozen
    before = [module.training for module in model.modules()]
    ensemble = capture(model, documents)
    assert [module.training for module in model.modules()] == before
    np.testing.assert_array_equal(ensemble[1].values, reference[1].values)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_models_give_float32_fields(dtype: torch.dtype, documents: Documents) -> None:
    model = tiny("llama").to(dtype)
    ensemble = capture(model, documents)
    assert {field.values.dtype for field in ensemble.fields.values()} == {np.dtype(np.float32)}
    rows = [c for c in ensemble.provenance["checks"] if c["check"] == "rows sum to 1"]
    assert {c["tolerance"] for c in rows} == {1e-2}
    assert max(c["value"] for c in rows) < 1e-2
    assert next(model.parameters()).dtype == dtype


@pytest.mark.parametrize("given", ["outputs", "attentions", "array", "tensor"])
def test_attention_in_the_place_of_the_model_is_refused_with_the_way(
    given: str, documents: Documents, ids: NDArray[np.int64]
) -> None:
    model = tiny("gpt2", attn_implementation="eager")
    outputs = model.generate(
        torch.from_numpy(ids), max_new_tokens=2, output_attentions=True, return_dict_in_generate=True, do_sample=False
    )
    things = {
        "outputs": (outputs, "generate the text first"),
        "attentions": (outputs.attentions, "from_arrays"),
        "array": (np.zeros((2, 1, 8, 8)), "from_arrays"),
        "tensor": (torch.zeros(2, 1, 8, 8), "from_arrays"),
    }
    thing, remedy = things[given]
    with pytest.raises(InputError, match=f"in the place of the model.*{remedy}"):
        capture(thing, documents)
    if given == "attentions":
        with pytest.raises(InputError, match="ragged, one entry per generated token"):
            AttentionEnsemble.from_arrays(thing)


@pytest.fixture
def spoiled() -> Any:
    """A model that gives NaN for documents with the last token id."""
    model = tiny("gpt2", tie_word_embeddings=False)
    with torch.no_grad():
        model.transformer.wte.weight[VOCABULARY - 1] = torch.nan
    return model


@pytest.mark.parametrize("document", [0, 3])
def test_a_document_with_nan_is_named_with_its_layer(spoiled: Any, document: int, ids: NDArray[np.int64]) -> None:
    ids = np.minimum(ids, VOCABULARY - 2)
    ids[document, 10] = VOCABULARY - 1
    with pytest.raises(CaptureError, match=rf"'transformer\.h\.0\.attn' has NaN or Inf in document {document}\."):
        capture(spoiled, Documents.from_ids(ids))
    with pytest.warns(EddyscopeWarning, match=rf"Left out 1 of 5 documents.*\[{document}\]\. \[dropped-documents\]"):
        ensemble = capture(spoiled, Documents.from_ids(ids), drop_bad=True)
    kept = np.delete(np.arange(5), document)
    assert ensemble.documents is not None
    np.testing.assert_array_equal(ensemble.documents.ids, ids[kept])
    assert ensemble.provenance["documents_dropped"] == [document]
    reference = capture(spoiled, Documents.from_ids(ids[kept]))
    np.testing.assert_allclose(ensemble[1].values, reference[1].values, atol=1e-6)


def test_nothing_left_is_an_error(spoiled: Any, ids: NDArray[np.int64]) -> None:
    ids[:, 3] = VOCABULARY - 1
    with pytest.raises(CaptureError, match="All 5 documents give NaN or Inf"):
        capture(spoiled, Documents.from_ids(ids), drop_bad=True)


@pytest.mark.parametrize(
    ("model_class", "config_class", "shown"),
    [
        ("MambaForCausalLM", "MambaConfig", "MambaMixer"),
        ("RwkvForCausalLM", "RwkvConfig", r"RwkvSelfAttention\) give shape \(1, 16, 32\)"),
        ("LongformerModel", "LongformerConfig", "LongformerSelfAttention"),
    ],
)
def test_models_without_readable_attention_are_refused_by_class(
    model_class: str, config_class: str, shown: str, documents: Documents
) -> None:
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "pad_token_id": 0}
    model = getattr(transformers, model_class)(getattr(transformers, config_class)(**sizes))
    with pytest.raises(CaptureError, match=rf"No attention can be read from {model_class}: .*{shown}"):
        capture(model, documents)


def test_weights_that_are_asked_for_do_not_outlive_their_layer(documents: Documents) -> None:
    torch.manual_seed(0)
    config = transformers.BloomConfig(vocab_size=VOCABULARY, hidden_size=32, n_layer=3, n_head=4)
    model = transformers.BloomForCausalLM(config).eval()
    kept: list[int] = []
    model.transformer.register_forward_hook(
        lambda module, arguments, output: kept.append(sum(a is not None for a in output.attentions or ()))
    )
    ensemble = capture(model, documents, checks=False)
    assert ensemble.provenance["way"] == "forward hooks, asked for with output_attentions"
    assert len(ensemble.layers) == 3
    # The pass that finds the sites keeps all three; those that read documents keep none.
    assert kept[0] == 3
    assert set(kept[1:]) == {0}


def test_layers_of_a_hybrid_model_without_attention_are_named(documents: Documents) -> None:
    config = transformers.Lfm2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        layer_types=["conv", "full_attention", "conv"],
        pad_token_id=0,
    )
    ensemble = capture(transformers.Lfm2ForCausalLM(config).eval(), documents)
    assert ensemble.layers == ("model.layers.1.self_attn",)
    skipped = ensemble.provenance["layers_without_attention"]
    assert skipped == {"model.layers.0": "Lfm2ShortConv", "model.layers.2": "Lfm2ShortConv"}


def test_a_sink_of_the_models_own_is_kept_as_missing_mass(documents: Documents) -> None:
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
    model = transformers.GptOssForCausalLM(config).eval()
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.sinks.fill_(2.0)
    ensemble = capture(model, documents)
    row_sum = ensemble[0].row_sum
    assert row_sum is not None and row_sum.max() < 1 and row_sum.min() < 0.9
    notes = [c["note"] for c in ensemble.provenance["checks"] if c["check"] == "rows sum to 1"]
    assert any("sink of its own" in note for note in notes)


def test_a_module_that_is_no_known_model_is_refused_by_class(documents: Documents) -> None:
    with pytest.raises(CaptureError, match=r"^Linear is not a kind of model that can be captured"):
        capture(torch.nn.Linear(2, 2), documents)
    with pytest.raises(InputError, match="The model is a str, expected"):
        capture("gpt2", documents)


def test_token_ids_outside_the_vocabulary_are_refused(ids: NDArray[np.int64]) -> None:
    ids[1, 1] = VOCABULARY
    with pytest.raises(CaptureError, match=r"token id 64, but the model knows ids below 64.*own tokenizer"):
        capture(tiny("llama"), Documents.from_ids(ids))


def test_documents_longer_than_the_model_reads_are_an_error_that_says_so() -> None:
    ids = np.random.default_rng(1).integers(5, VOCABULARY, (1, 80))
    with (
        pytest.warns(EddyscopeWarning, match="80 tokens, the model was made for 64"),
        pytest.raises(CaptureError, match=r"documents of 80 tokens \(it was made for 64\): .* \(--context 64\)\.$"),
    ):
        capture(tiny("gpt2"), Documents.from_ids(ids))
