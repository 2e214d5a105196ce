"""``eddyscope run`` is read_documents, capture and analyze typed differently; bad texts and names give one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import eddyscope as es
from eddyscope.cli.run import capture_options, reading_options
from eddyscope.errors import UsageError
from eddyscope.tokenizers import CharTokenizer

pytest.importorskip("torch")
pytest.importorskip("transformers")

Run = Any

SAME: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("--documents 9 --layers 0", {"count": 9, "context": 40}, {"layers": [0]}, {}),
    (
        "--documents 10 --context 24 --seed 5 --overlap --heads each --layers 1 --batch 3 --no-intervals",
        {"count": 10, "context": 24, "seed": 5, "overlap": True},
        {"heads": "each", "layers": [1], "batch": 3},
        {"intervals": False, "seed": 5},
    ),
    (
        "--documents 9 --max-lag 10 --layers transformer.h.0.attn --special none --no-intervals",
        {"count": 9, "context": 40, "special": "none"},
        {"max_lag": 10, "layers": ["transformer.h.0.attn"]},
        {"max_lag": 10, "intervals": False},
    ),
    (
        "--documents 9 --heads 2,0 --weight value-norm --way blocks --no-intervals",
        {"count": 9, "context": 40},
        {"heads": [2, 0], "weight": "value-norm", "way": "blocks"},
        {"intervals": False},
    ),
]


@pytest.mark.parametrize(("line", "reading", "capturing", "analysis"), SAME, ids=["plain", "heads", "max-lag", "ways"])
def test_the_command_line_equals_the_python(
    typed: Run,
    model: Path,
    text: Path,
    tmp_path: Path,
    line: str,
    reading: dict[str, Any],
    capturing: dict[str, Any],
    analysis: dict[str, Any],
) -> None:
    out = tmp_path / "out"
    done = typed("run", model, "--text", text, "--out", out, "--no-figures", "--no-report", "--quiet", *line.split())
    assert (done.status, done.out, done.err) == (0, "", "")
    loaded, tokenizer = es.load_model(str(model))
    documents = es.read_documents(text, tokenizer, **reading)
    expected = es.analyze(es.capture(loaded, documents, **capturing), **analysis)
    found = es.open_study(out)
    xr.testing.assert_identical(found.data, expected.data)
    assert found.documents is not None
    assert found.documents.texts == documents.texts
    assert found.provenance["text"] == documents.identity
    assert found.provenance["options"] == json.loads(json.dumps(expected.provenance["options"]))


@pytest.fixture(scope="module")
def done(typed: Run, model: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A plain run, what it printed and its folder."""
    out = tmp_path_factory.mktemp("run") / "out"
    return typed("run", model, "--text", text, "--out", out, "--no-figures", "--no-report"), out


def test_the_defaults(done: tuple[Any, Path]) -> None:
    printed, out = done
    assert printed.status == 0
    study = es.open_study(out)
    text = study.provenance["text"]
    assert (text["context"], text["count_asked"], text["count"], text["seed"]) == (40, 150, 150, 0)
    assert (study.provenance["options"]["heads"], study.provenance["model"]["dtype"]) == ("mean", "float32")


def test_the_stages_are_told(done: tuple[Any, Path], model: Path) -> None:
    told = done[0].err.splitlines()
    assert re.fullmatch(r"Plan: 3 passes of 64 documents, up to [0-9.]+ [GM]B of memory", told.pop(2))
    assert told == [
        f"Loading {model}",
        "Reading the text",
        "Capturing 150 documents of 40 tokens",
        "Analysing 2 layers",
        "Writing the results",
    ]
    assert done[0].out.startswith("tiny (GPT2LMHeadModel): 2 layers, 150 documents of 40 tokens, causal, head mean\n")


def test_the_record_says_how_the_results_came_about(done: tuple[Any, Path], text: Path) -> None:
    record = json.loads((done[1] / "run.json").read_text())
    assert set(record["seconds"]) == {"loading", "reading", "capturing", "analysing"}
    assert record["model"]["class"] == "GPT2LMHeadModel"
    assert len(record["model"]["config_sha256"]) == 64
    assert record["text"]["sources"][0]["name"] == text.name
    assert len(record["text"]["sources"][0]["sha256"]) == 64
    assert {"torch", "transformers", "numpy", "zarr", "eddyscope"} <= set(record["versions"])
    assert {c["check"] for c in record["checks"]} >= {"shape", "rows sum to 1", "masked keys", "causality", "outputs"}
    assert all(c["passed"] for c in record["checks"])
    assert record["failed_checks"] == []
    assert set(record["options"]) == {"capture", "analysis"}


def test_token_ids_in_place_of_a_text(typed: Run, model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.random.default_rng(0).integers(0, 270, size=(9, 20)))
    line = ["run", model, "--token-ids", tmp_path / "ids.npy", "--no-figures", "--no-report", "--no-intervals", "-q"]
    assert typed(*line, "--out", tmp_path / "out").status == 0
    assert es.open_study(tmp_path / "out").data.children["transformer.h.0.attn"].attrs["documents"] == 9
    refused = typed(*line, "--out", tmp_path / "other", "--context", "16")
    assert refused.status == 2
    assert "--context does not apply to --token-ids, whose documents are read as they are." in refused.err


def test_standard_input_and_json_lines(typed: Run, model: Path, text: Path, tmp_path: Path) -> None:
    words = text.read_text()
    line = ["run", model, "--documents", "8", "--context", "16", "--layers", "0"]
    line += ["--no-figures", "--no-report", "--no-intervals", "-q"]
    assert typed(*line, "--text", "-", "--out", tmp_path / "a", given=words).status == 0
    lines = tmp_path / "book.jsonl"
    lines.write_text(json.dumps({"body": words[:4000]}) + "\n" + json.dumps({"body": words[4000:]}) + "\n")
    assert typed(*line, "--text", lines, "--field", "body", "--out", tmp_path / "b").status == 0
    assert es.open_study(tmp_path / "a").provenance["text"]["sources"][0]["name"] == "-"
    assert es.open_study(tmp_path / "b").provenance["text"]["sources"][0]["records"] == 2


def test_fewer_documents_than_asked_for_are_told(typed: Run, model: Path, text: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text(text.read_text()[:800])
    done = typed(
        "run", model, "--text", short, "--out", tmp_path / "out", "--no-figures", "--no-report", "-q", "--layers", "0"
    )
    assert done.status == 0
    assert done.err.startswith("Warning: ")
    assert " of 150 documents: the text has " in done.err
    assert done.err.endswith("[few-documents]\n")
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert [w["slug"] for w in record["warnings"]] == ["few-documents"]


BAD_TEXTS = [
    ("short.txt", b"too short", [], "The text is shorter than one window: it has"),
    ("empty.txt", b"", [], "empty.txt is empty (0 bytes). Give a file with text in it."),
    ("latin.txt", "caf\u00e9 ".encode("latin-1") * 2000, [], "latin.txt cannot be decoded as utf-8 at byte 3."),
    ("binary.txt", bytes(range(256)) * 40, [], "binary.txt looks binary:"),
    ("a.jsonl", b'{"body": "x"}\n', [], "JSON Lines needs the name of the field that holds the text"),
    ("plain.txt", b"words " * 999, ["--encoding", "klingon"], "Unknown encoding 'klingon'."),
]


@pytest.mark.parametrize(("name", "data", "options", "message"), BAD_TEXTS, ids=[name for name, *_ in BAD_TEXTS])
def test_a_text_that_cannot_be_read_gives_one_line(
    typed: Run, model: Path, tmp_path: Path, name: str, data: bytes, options: list[str], message: str
) -> None:
    (tmp_path / name).write_bytes(data)
    done = typed("run", model, "--text", tmp_path / name, "--out", tmp_path / "out", "--quiet", *options)
    assert done.status in (1, 2)
    assert done.out == ""
    assert done.err.startswith(f"Error: {message}")
    assert done.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_encoding_is_an_option(typed: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes("caf\u00e9 au lait ".encode("latin-1") * 300)
    line = ["run", model, "--text", tmp_path / "latin.txt", "--encoding", "latin-1", "--context", "16"]
    line += [
        "--documents",
        "8",
        "--layers",
        "0",
        "--no-figures",
        "--no-report",
        "--no-intervals",
        "-q",
        "--out",
        tmp_path / "out",
    ]
    assert typed(*line).status == 0
    documents = es.open_study(tmp_path / "out").documents
    assert documents is not None
    assert documents.texts is not None
    assert "caf\u00e9" in "".join(documents.texts)


def test_a_missing_text_is_told_before_the_model_is_loaded(typed: Run, tmp_path: Path) -> None:
    done = typed("run", "no-such-model", "--text", tmp_path / "no.txt", "--out", tmp_path / "out")
    assert done.status == 1
    assert done.err.startswith(f"Error: There is no file or folder '{tmp_path / 'no.txt'}'.")
    done = typed("run", "no-such-model", "--token-ids", tmp_path / "no.npy", "--out", tmp_path / "out")
    assert done.err == f"Error: There is no file '{tmp_path / 'no.npy'}'.\n"


def test_a_path_has_a_separator(typed: Run, text: Path, tmp_path: Path) -> None:
    done = typed("run", "./no-such-folder", "--text", text, "--out", tmp_path / "out", "-q")
    assert done.status == 1
    assert done.err.startswith("Error: There is no folder './no-such-folder'.")


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """A folder as ``eddyscope train`` writes it, of a model of characters."""
    from eddyscope import models

    letters = [*"\n abcdefghijklmnopqrstuvwxyz"]
    config = models.GPTConfig(vocab_size=len(letters), width=16, layers=1, heads=2, context=24)
    models.save_model(models.untrained(config, seed=1, vocabulary=letters), tmp_path / "trained")
    return tmp_path / "trained"


def test_a_trained_folder_reads_characters(typed: Run, trained: Path, text: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd.txt"
    odd.write_text(text.read_text().replace("cat", "CAT"))
    done = typed(
        "run",
        trained,
        "--text",
        odd,
        "--documents",
        "9",
        "--no-figures",
        "--no-report",
        "-q",
        "--out",
        tmp_path / "out",
    )
    assert done.status == 0
    assert "tokens of the text stand for something that the vocabulary does not have. [replaced-tokens]" in done.err
    from eddyscope import models

    loaded = models.load(trained)
    tokenizer = CharTokenizer(loaded.vocabulary or "", fallback=" ", name="characters of trained")
    documents = es.read_documents(odd, tokenizer, context=24, count=9)
    xr.testing.assert_identical(es.open_study(tmp_path / "out").data, es.analyze(es.capture(loaded, documents)).data)
    refused = typed("run", trained, "--text", odd, "--out", tmp_path / "x", "--dtype", "bfloat16")
    assert refused.status == 2
    assert "is a model of eddyscope, to which gguf_file (--gguf-file) and dtype (--dtype) do not apply" in refused.err


def test_a_bundled_name_comes_first(typed: Run, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from eddyscope import models

    if "base" not in models.names():
        pytest.skip("no bundled models yet")
    (tmp_path / "base").mkdir()
    monkeypatch.chdir(tmp_path)
    line = ["run", "base", "--text", text, "--documents", "4", "--context", "16", "--layers", "0", "--no-intervals"]
    assert typed(*line, "--no-figures", "--no-report", "-q", "--out", "out").status == 0
    assert es.open_study("out").provenance["source"] == "eddyscope"


def test_a_check_that_fails_stops_the_run_or_marks_the_study(
    typed: Run, model: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A model whose later layers see later tokens: the causal mask of GPT-2's attention module is switched off.
    from transformers.models.gpt2 import modeling_gpt2

    def uniform(module: Any, query: Any, key: Any, value: Any, mask: Any, **more: Any) -> Any:
        weights = query.new_full((*query.shape[:-1], key.shape[-2]), 1 / key.shape[-2])
        return (weights @ value).transpose(1, 2), weights

    monkeypatch.setattr(modeling_gpt2, "eager_attention_forward", uniform)
    line = ["run", model, "--text", text, "--documents", "9", "--out", tmp_path / "out"]
    line += ["--no-figures", "--no-report", "--no-intervals"]
    done = typed(*line, "-q")
    assert done.status == 1
    assert "Check 'masked keys' failed in layer 'transformer.h.0.attn'" in done.err
    assert "(--allow-failed-checks)" in done.err
    assert not (tmp_path / "out").exists()
    done = typed(*line, "--allow-failed-checks")
    assert done.status == 0
    assert "[failed-checks]" in done.err
    assert "Failed checks: these numbers are not to be trusted" in done.out
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["failed_checks"]
    assert "Failed checks: these numbers are not to be trusted" in typed("show", tmp_path / "out").out


def test_something_must_be_read() -> None:
    with pytest.raises(UsageError, match=r"Nothing to read was given\. Give --text PATH"):
        reading_options()
    with pytest.raises(UsageError, match=r"Both --text and --token-ids were given"):
        reading_options(text=["a"], token_ids=Path("b"))
    for wrong, of in (("magic", "way"), ("norm", "weight")):
        with pytest.raises(UsageError, match=rf"--{of} is '{wrong}'; expected one of"):
            capture_options(**{of: wrong})
    with pytest.raises(UsageError, match=r"--heads is 'some'; expected mean or each, or numbers"):
        capture_options(heads="some")


def test_layers_are_positions_or_names() -> None:
    assert capture_options(layers="0, 3,-1")["layers"] == [0, 3, -1]
    assert capture_options(layers="model.layers.2.self_attn")["layers"] == ["model.layers.2.self_attn"]
    assert capture_options()["layers"] is None
