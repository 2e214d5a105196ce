"""Encoder-decoders: encoder, decoder and cross attention are layers of their own, by the name of their module."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray
from tiny_models import VOCABULARY

import eddyscope as es
from eddyscope.capture import capture
from eddyscope.documents import Documents
from eddyscope.errors import InputError

Ids = NDArray[np.int64]


def _t5(**more: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 1, "num_heads": 4}
    config = transformers.T5Config(vocab_size=VOCABULARY, decoder_start_token_id=3, **(sizes | more))
    return transformers.T5ForConditionalGeneration(config).eval()


def _bart() -> Any:
    torch.manual_seed(0)
    config = transformers.BartConfig(
        vocab_size=VOCABULARY,
        d_model=32,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=2,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=64,
        decoder_start_token_id=2,
    )
    return transformers.BartForConditionalGeneration(config).eval()


def _expected(model: Any, encoder: Ids, decoder: Ids) -> dict[str, list[NDArray[np.float32]]]:
    model.set_attn_implementation("eager")
    ids, own = torch.from_numpy(encoder), torch.from_numpy(decoder)
    with torch.inference_mode():
        output = model(
            input_ids=ids, attention_mask=torch.ones_like(ids), decoder_input_ids=own, output_attentions=True
        )
    kinds = ("encoder_attentions", "decoder_attentions", "cross_attentions")
    return {kind: [a.numpy() for a in output[kind]] for kind in kinds}


def _shifted(ids: Ids, start: int) -> Ids:
    return np.concatenate([np.full_like(ids[:, :1], start), ids[:, :-1]], axis=1)


def _kinds(ensemble: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {"encoder_attentions": [], "decoder_attentions": [], "cross_attentions": []}
    for name, field in ensemble.fields.items():
        kind = "cross" if ensemble.info[name].kind == "cross" else name.removeprefix("model.").split(".")[0]
        found[f"{kind}_attentions"].append(field)
    return found


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_each_part_equals_output_attentions_under_eager(family: str, ids: Ids) -> None:
    model = _t5() if family == "t5" else _bart()
    ensemble = capture(model, Documents.from_ids(ids), heads="each", batch=2)
    expected = _expected(model, ids, _shifted(ids, 3 if family == "t5" else 2))
    found = _kinds(ensemble)
    for kind, attentions in expected.items():
        assert len(found[kind]) == len(attentions)
        for field, attention in zip(found[kind], attentions, strict=True):
            np.testing.assert_allclose(field.dense(), attention, atol=1e-5)
    assert {f.causal for f in found["decoder_attentions"]} == {True}
    assert {f.causal for f in found["encoder_attentions"] + found["cross_attentions"]} == {False}
    assert ensemble.provenance["failed_checks"] == []


def test_layers_go_by_the_name_of_their_module_and_say_what_they_are(documents: Documents) -> None:
    ensemble = capture(_t5(), documents)
    assert {name: info.kind for name, info in ensemble.info.items()} == {
        "encoder.block.0.layer.0": "self",
        "encoder.block.1.layer.0": "self",
        "decoder.block.0.layer.0": "self",
        "decoder.block.0.layer.1": "cross",
    }
    (note,) = ensemble.provenance["notes"]
    assert "decoder reads the encoder's tokens shifted right by one, after token 3" in note


def test_the_decoder_reads_what_the_documents_give_it(ids: Ids) -> None:
    model, own = _t5(), np.random.default_rng(5).integers(5, VOCABULARY, (5, 9))
    ensemble = capture(model, {"input_ids": ids, "decoder_input_ids": own}, heads="each", batch=2)
    expected = _expected(model, ids, own)
    found = _kinds(ensemble)
    for kind, attentions in expected.items():
        for field, attention in zip(found[kind], attentions, strict=True):
            np.testing.assert_allclose(field.dense(), attention, atol=1e-5)
    assert (found["cross_attentions"][0].geometry.queries, found["cross_attentions"][0].geometry.keys) == (9, 24)
    assert ensemble.documents is None
    assert ensemble.provenance["text"]["inputs"]["decoder_input_ids"] == {"shape": [9], "dtype": "int64"}
    assert ensemble.provenance["failed_checks"] == []


def test_a_study_of_all_parts_gives_cross_attention_no_lag(ids: Ids) -> None:
    own = np.random.default_rng(5).integers(5, VOCABULARY, (5, 16))
    study = es.analyze(capture(_t5(), {"input_ids": ids, "decoder_input_ids": own}), intervals=False)
    summary = study.summary().set_index("layer")
    assert summary.loc["decoder.block.0.layer.1", "status"].startswith("cross attention")
    assert np.isnan(summary.loc["decoder.block.0.layer.1", "median_lag"])
    assert np.isfinite(summary.loc["encoder.block.0.layer.0", "median_lag"])
    assert np.isfinite(summary["fluctuation_level"]).all()


def test_an_encoder_alone_is_captured_as_an_encoder(documents: Documents) -> None:
    model = _t5()
    ensemble = capture(model.get_encoder(), documents)
    both = capture(model, documents)
    assert len(ensemble.layers) == 2
    np.testing.assert_array_equal(ensemble[0].values, both[0].values)


def test_speech_needs_tokens_for_its_decoder() -> None:
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        num_mel_bins=8,
        max_source_positions=20,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=2,
    )
    model = transformers.WhisperForConditionalGeneration(config).eval()
    sound = np.random.default_rng(0).normal(size=(3, 8, 40)).astype(np.float32)
    with pytest.raises(InputError, match=r"decoder of WhisperFor.* needs tokens.*Add 'decoder_input_ids'"):
        capture(model, {"input_features": sound})
    words = np.random.default_rng(1).integers(3, VOCABULARY, (3, 12))
    ensemble = capture(model, {"input_features": sound, "decoder_input_ids": words})
    shapes = [(f.geometry.queries, f.geometry.keys) for f in ensemble.fields.values()]
    assert sorted(shapes) == [(12, 12), (12, 20), (20, 20)]
