"""Documents that are inputs of a model: images, and whatever else comes as a dict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray
from tiny_models import VOCABULARY, tiny

import eddyscope as es
from eddyscope.capture import capture
from eddyscope.documents import Documents
from eddyscope.errors import CaptureError, InputError
from eddyscope.report.pagedata.provenance import provenance_data

Ids = NDArray[np.int64]


def _vit(**more: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.ViTConfig(image_size=16, patch_size=4, **sizes, **more)
    return transformers.ViTForImageClassification(config).eval()


@pytest.fixture
def images() -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(10, 3, 16, 16)).astype(np.float32)


def test_a_vision_transformer_reads_patches_as_a_sequence(images: NDArray[np.float32]) -> None:
    model = _vit()
    ensemble = capture(model, {"pixel_values": images}, heads="each", batch=4)
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        expected = model(pixel_values=torch.from_numpy(images), output_attentions=True).attentions
    for field, attention in zip(ensemble.fields.values(), expected, strict=True):
        assert (field.geometry.queries, field.causal) == (17, False)  # 16 patches and the class token
        np.testing.assert_allclose(field.dense(), attention.numpy(), atol=1e-5)
    assert ensemble.provenance["failed_checks"] == []


def test_the_study_notes_the_order_of_patches(images: NDArray[np.float32]) -> None:
    study = es.analyze(capture(_vit(), {"pixel_values": images}))
    (note,) = study.provenance["notes"]
    assert "1-D sequence of patches" in note and "class token" in note
    assert note in provenance_data(study).notes
    assert study.summary().shape[0] == 2
    assert study.documents is None


def test_images_one_by_one_are_the_images_together(images: NDArray[np.float32]) -> None:
    together = capture(_vit(), {"pixel_values": images}, batch=1)
    one_by_one = capture(_vit(), [{"pixel_values": torch.from_numpy(image)} for image in images], batch=1)
    np.testing.assert_array_equal(together[1].values, one_by_one[1].values)
    assert together.provenance["text"] == one_by_one.provenance["text"]


def test_a_model_in_half_precision_reads_images_of_numpy(images: NDArray[np.float32]) -> None:
    ensemble = capture(_vit().to(torch.bfloat16), {"pixel_values": images.astype(np.float64)})
    assert ensemble[0].values.dtype == np.float32


def test_tokens_in_a_dict_are_documents(ids: Ids) -> None:
    model, mask = tiny("gpt2"), np.ones_like(ids)
    plain = capture(model, Documents.from_ids(ids))
    for given in ({"input_ids": ids}, {"input_ids": torch.from_numpy(ids), "attention_mask": mask}):
        ensemble = capture(model, given)
        assert ensemble.documents is not None
        np.testing.assert_array_equal(ensemble[1].values, plain[1].values)


def test_pairs_of_sentences_keep_their_token_types(ids: Ids) -> None:
    model = tiny("bert")
    types = np.zeros_like(ids)
    types[:, 12:] = 1
    ensemble = capture(model, {"input_ids": ids, "token_type_ids": types}, heads="each")
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        tokens = torch.from_numpy(ids)
        expected = model(input_ids=tokens, token_type_ids=torch.from_numpy(types), output_attentions=True).attentions
    np.testing.assert_allclose(ensemble[1].dense(), expected[1].numpy(), atol=1e-5)
    assert np.abs(ensemble[1].dense() - capture(model, Documents.from_ids(ids), heads="each")[1].dense()).max() > 0.01


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ({"pixel_values": np.zeros((2, 3, 4, 4)), "noise": np.zeros((3, 4))}, "different numbers of documents"),
        ({"pixel_values": np.zeros((0, 3, 4, 4))}, "no documents to read"),
        ({"pixel_values": "picture.png"}, "'pixel_values' is str of"),
        ([{"pixel_values": np.zeros((3, 4, 4))}, {"image": np.zeros(3)}], r"Document 1 has \['image'\]"),
        ([{"a": np.zeros((3, 4))}, {"a": np.zeros((3, 5))}], "'a' has 2 shapes over the documents"),
        ({"a": np.zeros((2, 3)), "a_mask": np.array([[1, 1], [1, 0]])}, "'a_mask' hides a part of document 1"),
        ({}, "a dict without inputs"),
    ],
)
def test_what_is_no_set_of_documents_is_refused_with_the_layout(documents: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        capture(_vit(), documents)


def test_inputs_that_the_model_does_not_take_are_an_error_with_those_that_it_does(images: NDArray[np.float32]) -> None:
    with pytest.raises(InputError, match=r"ViTFor.* takes no 'pixels'.*main input is 'pixel_values'"):
        capture(_vit(), {"pixels": images})


def test_an_input_that_would_be_passed_over_is_an_error(images: NDArray[np.float32], ids: Ids) -> None:
    llama = tiny("llama")  # takes any keyword, and hands it on
    positions = np.broadcast_to(np.arange(ids.shape[1])[::-1], ids.shape)
    with pytest.raises(InputError, match=r"LlamaForCausalLM takes no 'postion_ids', which the documents have"):
        capture(llama, {"input_ids": ids, "postion_ids": positions})
    backwards = capture(llama, {"input_ids": ids, "position_ids": positions})[0].values
    assert abs(backwards - capture(llama, Documents.from_ids(ids))[0].values).max() > 1e-3
    with pytest.raises(InputError, match=r"takes no 'interpolate', .*others are (?!.*kwargs)"):
        capture(_vit(), {"pixel_values": images, "interpolate": np.ones(len(images))})


def test_token_ids_in_a_dict_must_be_known_to_the_model(ids: Ids) -> None:
    beyond = ids.copy()
    beyond[0, 0] = VOCABULARY
    with pytest.raises(CaptureError, match=f"token id {VOCABULARY}, but the model knows ids below {VOCABULARY}"):
        capture(tiny("bert"), {"input_ids": beyond, "token_type_ids": np.ones_like(ids)})


def test_images_go_to_disk_in_shards_like_documents(images: NDArray[np.float32], tmp_path: Path) -> None:
    from eddyscope.capture import capture_fields

    store = capture_fields(_vit(), {"pixel_values": images}, tmp_path / "fields.zarr", shard=4)
    whole = capture(_vit(), {"pixel_values": images})
    np.testing.assert_allclose(store.ensemble()[1].values, whole[1].values, atol=1e-6)
    assert store.ensemble().documents is None
    assert store.ensemble().provenance["notes"] == whole.provenance["notes"]


def test_a_plan_for_images_counts_their_patches(images: NDArray[np.float32]) -> None:
    from eddyscope.capture import plan

    assert plan(_vit(), {"pixel_values": images}).work.tokens == 17


def test_statistics_of_cross_attention_have_no_lag_either(ids: Ids) -> None:
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4, decoder_start_token_id=0
    )
    model = transformers.T5ForConditionalGeneration(config).eval()
    pairs = {"input_ids": ids, "decoder_input_ids": ids[:, :16]}
    summary = es.analyze(capture(model, pairs, keep="statistics")).summary().set_index("layer")
    cross = summary.loc["decoder.block.0.layer.1"]
    assert cross["status"].startswith("cross attention")
    assert np.isnan(cross["median_lag"])
    assert np.isfinite(cross["fluctuation_level"])
    table = es.analyze(capture(model, pairs), intervals=False).heads_table().set_index("layer")
    along = ["median_lag", "near_share", "far_share", "previous_token_share"]
    assert table.loc["decoder.block.0.layer.1", along].isna().all().all()
    assert table.loc["decoder.block.0.layer.1", ["sink_share", "entropy"]].notna().all().all()
    assert table.loc["encoder.block.0.layer.0", along].notna().all().all()
