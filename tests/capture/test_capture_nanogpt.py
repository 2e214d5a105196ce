"""Checkpoints of nanoGPT: the model is rebuilt exactly, and nothing in the file is run."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray

from eddyscope.capture import capture, load_model
from eddyscope.documents import Documents
from eddyscope.errors import CaptureError, EddyscopeWarning, InputError, UsageError

Ids = NDArray[np.int64]
ARGS = {"n_layer": 2, "n_head": 4, "n_embd": 32, "block_size": 64, "bias": True, "vocab_size": 64, "dropout": 0.1}
CHARACTERS = "".join(chr(32 + index) for index in range(64))


def _twin(bias: bool = True) -> Any:
    """A GPT-2 of transformers that computes what a nanoGPT does."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=4, activation_function="gelu"
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.2 if bias or not name.endswith("bias") else 0.0)
    return model


def _state(twin: Any, prefix: str = "", bias: bool = True) -> dict[str, torch.Tensor]:
    """Its weights as nanoGPT names and lays them out: linear layers where GPT-2 has Conv1D."""
    state = {}
    for name, value in twin.state_dict().items():
        turned = name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))
        if bias or not name.endswith("bias"):
            state[prefix + name] = value.T.contiguous() if turned else value.clone()
    return state


def _save(path: Path, state: dict[str, Any], args: dict[str, Any] = ARGS, **more: Any) -> str:
    loss = torch.tensor(1.5)
    content = {"model": state, "model_args": args, "iter_num": 5, "best_val_loss": loss, "config": {"dataset": "poems"}}
    torch.save(content | more, path)
    return str(path)


def _meta(path: Path, content: Any = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    stoi = {character: index for index, character in enumerate(CHARACTERS)}
    plain = {"vocab_size": 64, "itos": {index: character for character, index in stoi.items()}, "stoi": stoi}
    path.write_bytes(pickle.dumps(plain if content is None else content))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("prefix", ["", "_orig_mod.", "module._orig_mod."])
@pytest.mark.filterwarnings("ignore:There is no meta.pkl")
def test_a_checkpoint_gives_the_attention_of_the_same_gpt2(prefix: str, bias: bool, tmp_path: Path, ids: Ids) -> None:
    twin = _twin(bias)
    path = _save(tmp_path / "ckpt.pt", _state(twin, prefix, bias), ARGS | {"bias": bias})
    model, _ = load_model(path)
    documents = Documents.from_ids(ids)
    ensemble, expected = capture(model, documents, heads="each"), capture(twin, documents, heads="each")
    assert ensemble.layers == ("transformer.h.0.attn", "transformer.h.1.attn")
    for mine, theirs in zip(ensemble.fields.values(), expected.fields.values(), strict=True):
        np.testing.assert_allclose(mine.values, theirs.values, atol=1e-5)
    tokens = torch.from_numpy(ids)
    with torch.inference_mode():
        torch.testing.assert_close(model(tokens), twin(tokens).logits, atol=1e-4, rtol=1e-4)
    assert ensemble.provenance["model"]["name"] == path
    assert ensemble.provenance["failed_checks"] == []


@pytest.mark.filterwarnings("ignore:There is no meta.pkl")
def test_masks_of_older_versions_are_left_out_and_a_head_that_was_not_stored_is_tied(tmp_path: Path) -> None:
    state = _state(_twin())
    del state["lm_head.weight"]
    state["transformer.h.0.attn.bias"] = torch.ones(1, 1, 64, 64).tril()
    args = {name: value for name, value in ARGS.items() if name not in ("bias", "vocab_size")}
    model, _ = load_model(_save(tmp_path / "ckpt.pt", state, args))
    assert (model.config.vocab_size, model.config.bias) == (64, True)
    torch.testing.assert_close(model.lm_head.weight, model.transformer["wte"].weight)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transformer.h.1.attn.c_attn.weight": None}, "1 missing .*c_attn"),
        ({"transformer.h.1.attn.gate": torch.zeros(3)}, "1 left over .*gate"),
        ({"transformer.wpe.weight": torch.zeros(7, 32)}, "1 of another shape .*wpe"),
    ],
)
def test_weights_that_do_not_fit_are_an_error(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    state = {name: value for name, value in (_state(_twin()) | change).items() if value is not None}
    with pytest.raises(CaptureError, match=f"do not fit the nanoGPT of its model_args: {message}"):
        load_model(_save(tmp_path / "ckpt.pt", state))


EMBEDDING = "transformer.wte.weight"


@pytest.mark.parametrize(
    ("value", "given"),
    [
        ("text", "str"),
        (torch.zeros(64, 32, dtype=torch.int64), "a tensor of torch.int64"),
        (torch.zeros(64, 32, dtype=torch.complex64), "a tensor of torch.complex64"),
        (torch.zeros(64, 32).to_sparse(), "a tensor of torch.float32, torch.sparse_coo"),
    ],
)
def test_weights_that_are_no_real_numbers_are_an_error(value: Any, given: str, tmp_path: Path) -> None:
    path = _save(tmp_path / "ckpt.pt", _state(_twin()) | {EMBEDDING: value})
    with pytest.raises(CaptureError, match=rf"Weight '{EMBEDDING}' in .* is {given}.*, expected a dense tensor"):
        load_model(path)


def test_a_weight_that_is_there_with_and_without_a_prefix_is_an_error(tmp_path: Path) -> None:
    state = _state(_twin())
    path = _save(tmp_path / "ckpt.pt", state | {f"module.{EMBEDDING}": torch.zeros(64, 32)})
    with pytest.raises(CaptureError, match=rf"has two weights '{EMBEDDING}', with and without the prefix"):
        load_model(path)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"vocab_size": 10**7}, "of another shape"),
        ({"vocab_size": 10**12}, "no usable vocab_size"),
        ({"block_size": 10**30}, "no usable block_size"),
        ({"n_layer": 10**6}, "have 1000000 layers, for which 29 weights do not do"),
        ({"n_head": 5}, "an n_embd that n_head does not divide"),
    ],
)
def test_sizes_that_the_weights_do_not_have_take_no_memory(args: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = _save(tmp_path / "ckpt.pt", _state(_twin()), ARGS | args)
    with pytest.raises(CaptureError, match=message):
        load_model(path)


DAMAGED = (
    b"",
    b"\x80",
    b"\x80\x02.",
    b"\x80\x02K\x01R.",
    b"\x80\x02}K\x05K\x06sb.",
    b"\x80\x04\x95" + b"\xff" * 7,
    b"text",
)


@pytest.mark.parametrize("content", DAMAGED, ids=repr)
def test_a_damaged_pickle_is_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "ckpt.pt"
    path.write_bytes(content)
    for trusted in (False, True):
        with pytest.raises(CaptureError, match=r"cannot be read: .*It may be cut|nothing of it was run"):
            load_model(str(path), trust_pickle=trusted)


class _Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return (Path.touch, (self.target,))


def test_code_in_a_checkpoint_is_never_run(tmp_path: Path) -> None:
    target = tmp_path / "run"
    path = _save(tmp_path / "ckpt.pt", _state(_twin()), trap=_Trap(target))
    with pytest.raises(CaptureError, match=r"can run code when it is loaded; nothing of it was run.*--trust-pickle"):
        load_model(path)
    assert not target.exists()


def test_the_tokenizer_is_read_where_pickles_are_trusted(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    path = _save(tmp_path / "out" / "ckpt.pt", _state(_twin()))
    _meta(tmp_path / "data" / "poems" / "meta.pkl")
    with pytest.warns(EddyscopeWarning, match=r"is a pickle and was not read; --trust-pickle.*\[no-tokenizer\]"):
        _, tokenizer = load_model(path)
    assert tokenizer is None
    _, tokenizer = load_model(path, trust_pickle=True)
    assert tokenizer.encode("AB")[0].tolist() == [33, 34]


def test_a_tokenizer_with_code_in_it_is_refused_even_where_pickles_are_trusted(tmp_path: Path) -> None:
    path, target = _save(tmp_path / "ckpt.pt", _state(_twin())), tmp_path / "run"
    _meta(tmp_path / "meta.pkl", {"itos": _Trap(target)})
    with pytest.raises(CaptureError, match=r"meta.pkl' is not the vocabulary of this checkpoint: it asks for pathlib"):
        load_model(path, trust_pickle=True)
    assert not target.exists()


def test_a_tokenizer_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    path = _save(tmp_path / "ckpt.pt", _state(_twin()))
    itos = dict(enumerate(CHARACTERS))
    _meta(tmp_path / "meta.pkl", {"itos": itos, "stoi": {character: 63 - index for index, character in itos.items()}})
    with pytest.raises(CaptureError, match="'stoi' does not give the ids that 'itos' has the characters at"):
        load_model(path, trust_pickle=True)


def test_other_files_are_refused_with_what_they_are(tmp_path: Path) -> None:
    torch.save({"state_dict": {}}, tmp_path / "other.pt")
    with pytest.raises(CaptureError, match="is not a checkpoint of nanoGPT: it has state_dict"):
        load_model(str(tmp_path / "other.pt"))
    (tmp_path / "cut.pt").write_bytes((tmp_path / "other.pt").read_bytes()[:200])
    with pytest.raises(CaptureError, match="cannot be read"):
        load_model(str(tmp_path / "cut.pt"))
    (tmp_path / "weights.bin").write_bytes(b"1")
    with pytest.raises(InputError, match=r"is a file, expected the folder of a model.*nanoGPT ends in \.pt"):
        load_model(str(tmp_path / "weights.bin"))
    with pytest.raises(UsageError, match=r"gguf_file .* does not apply"):
        load_model(str(tmp_path / "other.pt"), gguf_file="a.gguf")


def test_gpt2_tokens_have_the_characters_that_they_stand_for() -> None:
    tiktoken = pytest.importorskip("tiktoken")
    from eddyscope.tokenizers import as_tokenizer

    ranks = {bytes([byte]): byte for byte in range(256)} | {b"th": 256, b"the": 257}
    encoding = tiktoken.Encoding("tiny", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens={})
    tokenizer = as_tokenizer(encoding)
    ids, spans = tokenizer.encode("the é\ud800")
    assert ids.tolist() == [257, 32, 0xC3, 0xA9, 0xEF, 0xBF, 0xBD]
    assert spans.tolist() == [[0, 3], [3, 4], [4, 5], [4, 5], [5, 6], [5, 6], [5, 6]]
    assert tokenizer.encode("")[1].shape == (0, 2)
    assert tokenizer.vocabulary_size == 258


def test_a_checkpoint_runs_from_the_command_line(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from eddyscope.cli.app import app

    path = _save(tmp_path / "ckpt.pt", _state(_twin()))
    _meta(tmp_path / "meta.pkl")
    text, out = tmp_path / "text.txt", tmp_path / "out"
    words = np.random.default_rng(0).choice(list("ABCDEFGH IJKL"), size=800)
    text.write_text("".join(words), encoding="utf-8")
    options = ["--text", str(text), "--context", "32", "--documents", "12", "--no-figures", "--out", str(out)]
    read = CliRunner().invoke(app, ["run", path, *options, "--trust-pickle"])
    assert read.exit_code == 0, read.stderr
    assert "transformer.h.1.attn" in (out / "summary.csv").read_text(encoding="utf-8")
    planned = CliRunner().invoke(app, ["plan", path, "--text", str(text), "--context", "32", "--trust-pickle"])
    assert planned.exit_code == 0, planned.stderr
    assert "of 32 tokens" in planned.stdout
    checked = CliRunner().invoke(app, ["check", path, "--trust-pickle"])
    assert checked.exit_code == 0, checked.stderr
    refused = CliRunner().invoke(app, ["run", path, *options[:-1], str(tmp_path / "other")])
    assert refused.exit_code == 1
    assert "no-tokenizer" in refused.stderr
    assert "There is no tokenizer beside the model" in refused.stderr
