"""Models are loaded from folders and ids, whole or not at all, and without running code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import tiny

from eddyscope.capture import load_model
from eddyscope.errors import CaptureError, InputError, UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny("llama").save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def alter(folder: Path, change: Any) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file(change(weights), folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("family", "loaded"),
    [
        ("llama", "LlamaForCausalLM"),
        ("gpt2", "GPT2LMHeadModel"),
        ("bert", "BertModel"),
        ("roberta", "RobertaModel"),
        ("modernbert", "ModernBertModel"),
        ("bert-decoder", "BertLMHeadModel"),
    ],
)
def test_causal_models_keep_their_head_and_others_come_bare(family: str, loaded: str, tmp_path: Path) -> None:
    saved = tiny(family)
    saved.save_pretrained(tmp_path / family)
    model, tokenizer = load_model(str(tmp_path / family))
    assert type(model).__name__ == loaded
    assert (model.config._attn_implementation, model.training, tokenizer) == ("eager", False, None)
    loaded_weights = model.base_model.state_dict()
    assert all(torch.equal(loaded_weights[name], value) for name, value in saved.base_model.state_dict().items())


def test_a_name_is_a_folder_only_with_a_separator(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert type(load_model("./model")[0]).__name__ == "LlamaForCausalLM"
    with pytest.raises(CaptureError, match=r"Model 'model' cannot be loaded: .*looked up on the hub.*'\./model'"):
        load_model("model")
    with pytest.raises(CaptureError, match=r"a folder is written with a separator.* Bundled models are base, "):
        load_model("basee")
    with pytest.raises(CaptureError, match="Model 'nobody/nothing' cannot be loaded"):
        load_model("nobody/nothing")
    for name in ("./nothing", "a/b/c", "/nowhere"):
        with pytest.raises(InputError, match=f"There is no folder '{name}'"):
            load_model(name)
    with pytest.raises(InputError, match="is a file, expected the folder"):
        load_model("./model/config.json")


def test_a_bundled_model_comes_by_its_name_with_its_characters() -> None:
    model, tokenizer = load_model("base")
    assert type(model).__name__ == "GPT"
    np.testing.assert_array_equal(tokenizer.encode("To be")[0], model.encode("To be"))
    with pytest.raises(UsageError, match=r"'base' is a model of eddyscope, to which gguf_file \(--gguf-file\) and"):
        load_model("base", dtype="float16")


def test_a_pickle_is_refused_with_the_safe_way(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(CaptureError, match=r"a pickle \(pytorch_model\.bin\), which can run code.*safetensors"):
        load_model(str(folder))
    assert type(load_model(str(folder), trust_pickle=True)[0]).__name__ == "LlamaForCausalLM"


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "_orig_mod.module."])
def test_prefixes_of_wrappers_are_stripped(prefix: str, folder: Path) -> None:
    expected = load_file(folder / "model.safetensors")
    alter(folder, lambda weights: {prefix + name: tensor for name, tensor in weights.items()})
    model, _ = load_model(str(folder))
    loaded = model.state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in expected.items())


def test_weights_that_do_not_fit_are_an_error(folder: Path) -> None:
    name = "model.layers.1.self_attn.q_proj.weight"
    whole = load_file(folder / "model.safetensors")
    alter(folder, lambda weights: {n: t for n, t in weights.items() if n != name})
    with pytest.raises(CaptureError, match=rf"do not fit LlamaForCausalLM: 1 missing \(first '{name}'\)"):
        load_model(str(folder))
    save_file(whole | {"model.more": torch.zeros(2)}, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CaptureError, match=r"1 left over \(first 'model\.more'\)"):
        load_model(str(folder))
    save_file(whole | {name: torch.zeros(2, 2)}, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CaptureError, match=r"1 of another shape|cannot be loaded: .*size"):
        load_model(str(folder))


@pytest.mark.parametrize("name", ["./model", "base"])
def test_a_device_that_is_not_there_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(folder.parent)
    with pytest.raises(UsageError, match=r"cannot be moved to device 'nope': .*\. Leave device \(--device\) out"):
        load_model(name, device="nope")


def test_a_file_of_weights_that_was_cut_is_told_as_damaged(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(CaptureError, match=r"its safetensors file is damaged \(.*\)\. It may be cut; copy or download"):
        load_model(str(folder))


def test_a_folder_without_a_model_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no config\.json in"):
        load_model(str(tmp_path))
    (tmp_path / "weights.gguf").write_bytes(b"GGUF")
    with pytest.raises(InputError, match=r"For 'weights\.gguf' use gguf_file"):
        load_model(str(tmp_path))
    with pytest.raises(InputError, match=r"There is no file 'other\.gguf'.*GGUF files there: weights\.gguf"):
        load_model(str(tmp_path), gguf_file="other.gguf")


def test_code_that_comes_with_a_model_is_never_run(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "unheard-of", "auto_map": {"AutoModelForCausalLM": "own.Model", "AutoConfig": "own.C"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text("raise SystemExit('code was run')\n")
    with pytest.raises(CaptureError, match="cannot be loaded"):
        load_model(str(folder))


def test_the_dtype_can_be_chosen(folder: Path) -> None:
    assert next(load_model(str(folder), dtype="bfloat16")[0].parameters()).dtype == torch.bfloat16
    with pytest.raises(UsageError, match="dtype is 'int8', expected one of float32"):
        load_model(str(folder), dtype="int8")
