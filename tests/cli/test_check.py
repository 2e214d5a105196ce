"""``eddyscope check`` prints what ``check`` finds; the exit status says whether all of it passed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

Run = Any


def _lines(text: str) -> dict[str, list[str]]:
    """Lines by their first word."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        found.setdefault(line.partition(" ")[0], []).append(" ".join(line.split()))
    return found


def test_a_model_that_passes(typed: Run, model: Path) -> None:
    done = typed("check", model)
    assert done.status == 0
    assert done.err.splitlines() == [f"Loading {model}", "Checking"]
    lines = _lines(done.out)
    assert lines["source"] == ["source huggingface, forward hooks under eager"]
    assert lines["layers"] == ["layers 2: causal"]
    assert lines["heads"] == ["heads 3"]
    assert lines["key-value"] == ["key-value heads 3"]
    assert lines["windows"] == ["windows none"]
    assert lines["shape"][0].startswith("shape 2 of 2 layers 3 heads, 32 queries")
    assert [line.startswith("rows sum to 1 2 of 2 layers ") for line in lines["rows"]] == [True, True]
    assert done.out.endswith("\nAll checks passed.\n")


def test_layers_are_chosen_and_bad_ones_refused(typed: Run, model: Path) -> None:
    done = typed("check", model, "--layers", "1")
    assert done.status == 0
    assert _lines(done.out)["layers"] == ["layers 1 captured: causal"]
    refused = typed("check", model, "--layers", "5")
    assert refused.status == 1
    assert refused.out == ""
    assert "Error: Layer 5 is not in this model." in refused.err


def test_windows_and_grouped_queries_are_counted(typed: Run, tmp_path: Path) -> None:
    import transformers

    config = transformers.Gemma2Config(
        vocab_size=60, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, sliding_window=6, max_position_embeddings=64,
    )  # fmt: skip
    transformers.Gemma2ForCausalLM(config).save_pretrained(tmp_path / "gemma")
    done = typed("check", tmp_path / "gemma")
    assert done.status == 0
    lines = _lines(done.out)
    assert "key-value heads 2" in lines["key-value"]
    assert lines["windows"] == ["windows 6 tokens in 2 layers, none in 1 layer"]
    assert lines["window"][0].startswith("window 2 of 2 layers 0 1e-06 largest weight beyond")


def test_a_lost_mask_is_named_with_layer_value_and_tolerance(
    typed: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.models.gpt2 import modeling_gpt2

    def uniform(module: Any, query: Any, key: Any, value: Any, mask: Any, **more: Any) -> Any:
        weights = query.new_full((*query.shape[:-1], key.shape[-2]), 1 / key.shape[-2])
        return (weights @ value).transpose(1, 2), weights

    monkeypatch.setattr(modeling_gpt2, "eager_attention_forward", uniform)
    done = typed("check", model)
    assert done.status == 1
    assert "Error" not in done.err and "Warning" not in done.err
    words = " ".join(done.out.split())
    assert "masked keys 0 of 2 layers 0.031 1e-06" in words
    for layer in range(2):
        where = f"masked keys in layer transformer.h.{layer}.attn"
        assert f"{where}: 0.0312, tolerance 1e-06 (largest weight above the diagonal)" in done.out.splitlines()
    assert "All checks passed" not in done.out


def test_a_bundled_model_passes_and_a_published_gate_is_noted(typed: Run) -> None:
    from eddyscope import models

    if not {"base", "ega-1"} <= set(models.names()):
        pytest.skip("no bundled models here")
    base, gate = typed("check", "base"), typed("check", "ega-1")
    assert (base.status, gate.status) == (0, 0)
    assert "ooks ahead" not in base.out
    assert _lines(gate.out)["looks"][0].startswith("looks ahead noted 0.")
    assert "Looks ahead, as known of this kind of model, which is no failure" in gate.out
    assert gate.out.endswith("\nAll checks passed.\n")
