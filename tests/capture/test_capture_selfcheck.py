"""``check`` gives what a capture would find of itself, and a failed check is a result."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from tiny_models import VOCABULARY, tiny

from eddyscope import models
from eddyscope.capture import capture, check
from eddyscope.capture.selfcheck import random_documents
from eddyscope.documents import Documents
from eddyscope.errors import CaptureError, EddyscopeWarning, InputError

COLUMNS = ["check", "layer", "passed", "value", "tolerance", "note"]


def _without_mask(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **options: Any) -> Any:
    eager = sys.modules[type(module).__module__].eager_attention_forward  # type: ignore[attr-defined]
    return eager(module, query, key, value, attention_mask, **options)


transformers.AttentionInterface.register("check_without_mask", _without_mask)


@pytest.mark.parametrize("family", ["gpt2", "gemma2", "bert"])
@pytest.mark.parametrize("layers", [None, [1]])
def test_the_rows_are_the_checks_that_a_capture_records(
    family: str, layers: list[int] | None, documents: Documents
) -> None:
    table = check(tiny(family), documents, layers=layers)
    assert list(table.columns) == COLUMNS
    recorded = capture(tiny(family), documents, layers=layers).provenance["checks"]
    pd.testing.assert_frame_equal(table, pd.DataFrame(recorded))
    assert table["passed"].all()


def test_the_base_model_passes_on_random_tokens() -> None:
    if "base" not in models.names():
        pytest.skip("no bundled models here")
    table = check(models.load("base"))
    assert table["passed"].all()
    assert {"shape", "rows sum to 1", "masked keys", "outputs", "causality", "influence"} == set(table["check"])
    assert table["layer"].nunique() == 6


def test_a_published_gate_looks_ahead_and_passes() -> None:
    model = models.untrained(models.GPTConfig("ega-1", vocab_size=20, width=16, layers=2, heads=2, context=16), seed=1)
    table = check(model)
    ahead = table[table["check"] == "looks ahead"]
    assert len(ahead) == 2
    assert ahead["value"].max() > 1e-4
    assert table["passed"].all()


@pytest.mark.filterwarnings("error")
def test_a_lost_mask_is_a_result_and_no_error() -> None:
    model = tiny("llama")
    model.set_attn_implementation("check_without_mask")
    table = check(model)
    failed = table[~table["passed"]]
    assert {"masked keys", "causality"} <= set(failed["check"])
    lost = failed[failed["check"] == "masked keys"]
    assert set(lost["layer"]) == {"model.layers.0.self_attn", "model.layers.1.self_attn"}
    assert (lost["value"] > lost["tolerance"]).all()
    assert model.config._attn_implementation == "check_without_mask"


def test_random_tokens_are_the_same_each_time_and_none_that_the_config_names() -> None:
    model = tiny("llama")
    first, second = random_documents(model), random_documents(model)
    np.testing.assert_array_equal(first.ids, second.ids)
    assert first.ids.shape == (1, 32)
    assert first.ids.min() >= 3 and first.ids.max() < VOCABULARY
    short = tiny("gpt2", max_position_embeddings=12)
    assert random_documents(short).ids.shape == (1, 12)


def test_documents_with_nan_are_left_out_and_a_model_of_nan_is_refused(documents: Documents) -> None:
    model = tiny("gpt2")
    table = model.transformer.wte.weight
    with torch.no_grad():
        table[4] = float("nan")  # no document has it but the first
    ids = documents.ids.copy()
    ids[0, 3] = 4
    with pytest.warns(EddyscopeWarning, match=r"Left out 1 of 5 documents with NaN or Inf.*\[0\]"):
        found = check(model, Documents.from_ids(ids))
    assert found["passed"].all()
    with torch.no_grad():
        table.fill_(float("nan"))
    with pytest.raises(CaptureError, match=r"All 1 documents give NaN or Inf.*load the model in float32"):
        check(model)


def test_what_shows_no_attention_is_an_error() -> None:
    with pytest.raises(CaptureError, match="Linear is not a kind of model that can be captured"):
        check(torch.nn.Linear(2, 2))
    with pytest.raises(InputError, match="Layer 7 is not in this model"):
        check(tiny("gpt2"), layers=[7])


def test_a_model_that_does_not_say_its_vocabulary_needs_documents(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("gpt2")
    monkeypatch.setattr(type(model), "get_input_embeddings", lambda self: None)
    with pytest.raises(CaptureError, match=r"GPT2LMHeadModel does not say how many.*check\(model, documents\)"):
        check(model)
    assert check(model, documents)["passed"].all()
