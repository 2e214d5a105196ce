"""Model folders hold exactly what their config says, and opening one runs no code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from eddyscope.errors import StoreError
from eddyscope.models import load, read_model, save_model
from eddyscope.models.folder import load_weights, read_weights
from eddyscope.models.gpt import GPT


def test_a_saved_model_comes_back_the_same(lively: Callable[..., GPT], tmp_path: Path) -> None:
    model = lively("ega-c-causal").train()
    save_model(model, tmp_path / "kept", training={"step": 3})
    again = load(tmp_path / "kept")
    assert not again.training
    assert again.config == model.config
    assert again.vocabulary == model.vocabulary
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["config.json", "model.safetensors"]
    assert json.loads((tmp_path / "kept" / "config.json").read_text())["training"] == {"step": 3}


def test_half_precision_is_for_storage_only(lively: Callable[..., GPT], tmp_path: Path) -> None:
    model = lively("base")
    save_model(model, tmp_path, dtype=torch.float16)
    assert {tensor.dtype for tensor in load_file(tmp_path / "model.safetensors").values()} == {torch.float16}
    assert {parameter.dtype for parameter in read_model(tmp_path).parameters()} == {torch.float32}


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "module._orig_mod."])
def test_prefixes_of_wrappers_are_taken_off(lively: Callable[..., GPT], prefix: str) -> None:
    source, target = lively("ega-1"), lively("ega-1")
    with torch.no_grad():
        target.tokens.weight.zero_()
    load_weights(target, {f"{prefix}{name}": tensor for name, tensor in source.state_dict().items()})
    assert torch.equal(source.tokens.weight, target.tokens.weight)


def test_weights_that_do_not_fit_are_named(lively: Callable[..., GPT]) -> None:
    model = lively("base")
    weights = model.state_dict()
    del weights["norm.bias"]
    weights["extra.weight"] = torch.zeros(1)
    weights["norm.weight"] = torch.zeros(5)
    with pytest.raises(StoreError) as caught:
        load_weights(model, weights)
    message = str(caught.value)
    assert "do not fit a model of variant 'base'" in message
    assert "missing: norm.bias" in message
    assert "unexpected: extra.weight" in message
    assert "of another shape: norm.weight (5,) instead of (32,)" in message


def test_weights_that_do_not_fit_leave_the_model_alone(lively: Callable[..., GPT]) -> None:
    model = lively("base")
    before = model.tokens.weight.clone()
    with pytest.raises(StoreError):
        load_weights(model, {"tokens.weight": torch.zeros_like(before)})
    assert torch.equal(model.tokens.weight, before)


class Trap:
    """Unpickling this writes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (_spring, (str(self.target), "sprung"))


def _spring(path: str, text: str) -> None:
    Path(path).write_text(text)


@pytest.mark.parametrize("name", ["model.pt", "model.safetensors"])
def test_pickles_are_refused_and_not_opened(tmp_path: Path, name: str) -> None:
    sprung = tmp_path / "sprung"
    torch.save({"weights": Trap(sprung)}, tmp_path / name)
    with pytest.raises(StoreError, match=r"safetensors"):
        read_weights(tmp_path / name)
    assert not sprung.exists()


def test_a_pickle_under_its_own_name_is_told_why(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"read from .safetensors only, because a pickle runs code when it is opened"):
        read_weights(tmp_path / "model.pt")


def test_broken_folders_say_what_is_wrong(lively: Callable[..., GPT], tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is not a model folder: config.json cannot be read"):
        read_model(tmp_path)
    save_model(lively("base"), tmp_path)
    config = tmp_path / "config.json"
    content = json.loads(config.read_text())
    config.write_text(json.dumps({**content, "format_version": 2}))
    with pytest.raises(StoreError, match=r"format_version 2; this version of eddyscope reads up to 1. Upgrade"):
        read_model(tmp_path)
    config.write_text(json.dumps({**content, "config": {**content["config"], "experts": 4}}))
    with pytest.raises(StoreError, match=r"has unknown fields .*experts.*Upgrade eddyscope"):
        read_model(tmp_path)
    config.write_text('{"model_type": "gpt2"}')
    with pytest.raises(StoreError, match=r"does not describe a model of eddyscope"):
        read_model(tmp_path)
    config.write_text("{")
    with pytest.raises(StoreError, match=r"is not valid JSON"):
        read_model(tmp_path)
    config.write_text(json.dumps(content))
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(StoreError, match=r"model.safetensors' do not exist"):
        read_model(tmp_path)


def test_weights_of_another_variant_are_refused(lively: Callable[..., GPT], tmp_path: Path) -> None:
    save_model(lively("ega-1"), tmp_path)
    save_file(lively("base").state_dict(), tmp_path / "model.safetensors")
    with pytest.raises(StoreError, match=r"variant 'ega-1' \(missing: blocks.0.attention.gate.alpha"):
        read_model(tmp_path)
