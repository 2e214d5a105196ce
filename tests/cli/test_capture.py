"""``eddyscope capture`` is capture_fields typed differently, and what is killed goes on to the same result."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import eddyscope as es
from eddyscope.cli.capture import place_options
from eddyscope.cli.run import capture_options
from eddyscope.errors import UsageError

pytest.importorskip("torch")
pytest.importorskip("transformers")

Run = Any


def assert_same(one: es.AttentionEnsemble, other: es.AttentionEnsemble) -> None:
    """Equal to the last bit."""
    assert one.info == other.info
    for name in one.layers:
        for part in ("values", "first_key", "row_sum"):
            assert np.array_equal(getattr(one[name], part), getattr(other[name], part)), (name, part)
    assert one.documents is not None
    assert other.documents is not None
    assert one.documents.to_dataset().identical(other.documents.to_dataset())


SAME: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("--documents 9", {"count": 9, "context": 40}, {}),
    (
        "--documents 10 --context 24 --seed 5 --heads each --layers 1 --half --max-lag 9 --shard 4",
        {"count": 10, "context": 24, "seed": 5},
        {"heads": "each", "layers": [1], "dtype": "float16", "max_lag": 9, "shard": 4},
    ),
]


@pytest.mark.parametrize(("line", "reading", "options"), SAME, ids=["plain", "options"])
def test_the_command_line_equals_the_python(
    typed: Run, model: Path, text: Path, tmp_path: Path, line: str, reading: dict[str, Any], options: dict[str, Any]
) -> None:
    done = typed("capture", model, "--text", text, "--store", tmp_path / "a.zarr", "--quiet", *line.split())
    assert (done.status, done.out, done.err) == (0, "", "")
    loaded, tokenizer = es.load_model(str(model))
    documents = es.read_documents(text, tokenizer, **reading)
    expected = es.capture_fields(loaded, documents, tmp_path / "b.zarr", **options)
    found = es.open_fields(tmp_path / "a.zarr")
    assert found.size == expected.size
    assert_same(found.ensemble(), expected.ensemble())
    assert found.provenance["options"] == expected.provenance["options"]


@pytest.fixture(scope="module")
def store(typed: Run, model: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """What a plain capture printed, and its store."""
    path = tmp_path_factory.mktemp("capture") / "fields.zarr"
    line = ["capture", model, "--text", text, "--store", path, "--documents", "20", "--shard", "8"]
    return typed(*line), path


def test_what_is_told(store: tuple[Any, Path], model: Path) -> None:
    printed, path = store
    assert printed.status == 0
    told = printed.err.splitlines()
    assert f"Loading {model}" in told
    assert "Capturing 20 documents of 40 tokens" in told
    assert re.search(r"\n16 of 20 documents are read, [0-9.]+ a second: about [0-9.]+ s left\n", printed.err)
    assert printed.out == (
        f"The fields are in {path}: 2 layers, 20 documents.\nAnalyse them with: eddyscope analyze {path} --out DIR\n"
    )


def test_a_store_is_analysed_as_a_run_is(
    typed: Run, store: tuple[Any, Path], model: Path, text: Path, tmp_path: Path
) -> None:
    line = ["--no-figures", "--no-intervals", "-q"]
    done = typed("analyze", store[1], "--out", tmp_path / "a", *line)
    assert (done.status, done.err) == (0, "")
    read = ["--text", text, "--documents", "20", "--batch", "8"]
    assert typed("run", model, *read, "--out", tmp_path / "b", *line).status == 0
    one, other = es.open_study(tmp_path / "a"), es.open_study(tmp_path / "b")
    xr.testing.assert_identical(one.data, other.data)
    assert one.provenance["model"] == other.provenance["model"]
    assert one.provenance["checks"] == other.provenance["checks"]
    assert one.documents is not None
    assert other.documents is not None
    assert one.documents.texts == other.documents.texts


def test_some_layers_of_a_store(typed: Run, store: tuple[Any, Path], tmp_path: Path) -> None:
    line = ["analyze", store[1], "--layers", "1", "--no-figures", "--no-intervals", "-q", "--out", tmp_path / "a"]
    assert typed(*line).status == 0
    assert es.open_study(tmp_path / "a").layers == ("transformer.h.1.attn",)
    refused = typed(*line[:-1], tmp_path / "b", "--two-sided")
    assert refused.status == 2
    assert refused.err.startswith("Error: --two-sided does not apply to fields that were captured")


def test_a_damaged_store_is_named_and_nothing_is_written(typed: Run, store: tuple[Any, Path], tmp_path: Path) -> None:
    import shutil

    path = Path(shutil.copytree(store[1], tmp_path / "fields.zarr"))
    chunk = next((path / "shards/00001/layers/transformer.h.1.attn/values").glob("c*"))
    data = chunk.read_bytes()
    name = chunk.relative_to(path / "shards/00001").as_posix()
    for damage, said in (
        (data[: len(data) // 2], f"{name} has {len(data) // 2} bytes instead of {len(data)}."),
        (data[:-1] + bytes([data[-1] ^ 1]), f"{name} has changed since it was written."),
    ):
        chunk.write_bytes(damage)
        done = typed("analyze", path, "--out", tmp_path / "out", "--no-figures", "--no-intervals", "-q")
        assert done.status == 1
        assert done.out == ""
        assert done.err.startswith(f"Error: '{path}/shards/00001' is damaged: {said} Capture it again with resume=True")
        assert done.err.count("\n") == 1
        assert not (tmp_path / "out").exists()


def test_nothing_is_overwritten(typed: Run, store: tuple[Any, Path], model: Path, text: Path, tmp_path: Path) -> None:
    line = ["capture", "no-such-model", "--text", text, "--store"]
    done = typed(*line, store[1])  # before a model is loaded
    assert done.status == 1
    assert done.err.startswith(f"Error: There is a store of fields at '{store[1]}' already, with 3 of 3 shards. Go on")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    done = typed(*line, tmp_path / "mine", "--force")
    assert done.err.startswith(f"Error: '{tmp_path / 'mine'}' exists and is not a store of fields")
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_a_full_disk_keeps_whole_shards(typed: Run, model: Path, text: Path, small_disk: Path) -> None:
    path = small_disk / "f.zarr"
    line = ["capture", model, "--text", text, "--documents", "40", "--shard", "2", "--heads", "each", "-q"]
    done = typed(*line, "--store", path)
    assert done.status == 1
    assert re.search(r"Warning: The store takes up to .*, and .* are free at .*\[little-space\]", done.err)
    assert "Error: No space is left on the disk while writing '" in done.err
    if path.exists():
        assert es.open_fields(path).verify() == {}
        assert sorted(os.listdir(path / "shards")) == [f"{n:05d}" for n in es.open_fields(path).whole]


def test_an_interrupt_says_how_to_go_on(
    typed: Run, model: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    from eddyscope.capture.session import Session

    monkeypatch.setattr(Session, "fields", interrupt)
    done = typed("capture", model, "--text", text, "--store", tmp_path / "f.zarr", "--documents", "8", "-q")
    assert done.status == 130
    assert done.err == "Interrupted; shards that were whole by then are kept: go on with --resume.\n"
    assert not (tmp_path / "f.zarr").exists()  # there were none


def test_what_differs_is_named(typed: Run, store: tuple[Any, Path], model: Path, text: Path) -> None:
    line = ["capture", model, "--text", text, "--store", store[1], "--resume", "-q", "--documents", "20"]
    assert typed(*line).status == 0
    done = typed(*line, "--heads", "each", "--seed", "3")
    assert done.status == 1
    assert "was begun with something else: seed of the text is 3, was 0;" in done.err
    assert "heads of the options is 'each', was 'mean'" in done.err


def test_options_that_exclude_each_other(typed: Run, model: Path, text: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--resume and --force were both given"):
        place_options(tmp_path / "f.zarr", resume=True, force=True)
    done = typed("capture", model, "--text", text, "--store", tmp_path / "f.zarr", "--documents", "auto")
    assert done.status == 2
    assert done.err.startswith("Error: --documents auto is of eddyscope run")
    assert capture_options()["heads"] == "mean"


def test_a_store_in_another_place_is_pointed_out(typed: Run, store: tuple[Any, Path]) -> None:
    done = typed("show", store[1])
    assert done.err == (
        f"Error: '{store[1]}' holds captured fields, not a study. Make one with: eddyscope analyze {store[1]} "
        "--out DIR\n"
    )


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """A folder as ``eddyscope train`` writes it, of a small model of characters, which needs no transformers."""
    from eddyscope import models

    vocabulary = [*"\n abcdefghijklmnopqrstuvwxyz"]
    config = models.GPTConfig(vocab_size=len(vocabulary), width=16, layers=2, heads=2, context=24)
    models.save_model(models.untrained(config, seed=1, vocabulary=vocabulary), tmp_path / "letters")
    return tmp_path / "letters"


@pytest.mark.slow
def test_a_killed_capture_of_1000_documents_goes_on_to_the_same_result(
    letters: Path, text: Path, tmp_path: Path
) -> None:
    (tmp_path / "book.txt").write_text(text.read_text() * 4)
    line = [sys.executable, "-c", "from eddyscope.cli import main; main()", "capture", str(letters)]
    line += ["--text", str(tmp_path / "book.txt")]
    line += ["--documents", "1000", "--shard", "25", "--heads", "each"]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    killed = tmp_path / "killed.zarr"
    process = subprocess.Popen([*line, "--store", str(killed), "-q"], env=alone)
    until(lambda: (killed / "shards/00004").exists(), process)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    there = es.open_fields(killed).whole
    assert 5 <= len(there) < 40
    times = [(killed / f"shards/{n:05d}/zarr.json").stat().st_mtime_ns for n in there]
    for path, resume in ((killed, ["--resume"]), (tmp_path / "whole.zarr", [])):
        subprocess.run([*line, "--store", str(path), "-q", *resume], env=alone, check=True)
    assert [(killed / f"shards/{n:05d}/zarr.json").stat().st_mtime_ns for n in there] == times
    assert sorted(os.listdir(killed / "shards")) == [f"{n:05d}" for n in range(40)]

    one, other = es.open_fields(killed), es.open_fields(tmp_path / "whole.zarr")
    for (first, kept), (second, also) in zip(one.iterate(), other.iterate(), strict=True):
        assert np.array_equal(kept, also)
        for name, field in first.items():
            for part in ("values", "first_key", "row_sum"):
                assert getattr(field, part).tobytes() == getattr(second[name], part).tobytes()
    assert one.ensemble().provenance["checks"] == other.ensemble().provenance["checks"]


def until(done: Any, process: subprocess.Popen[bytes]) -> None:
    """Wait until something is done; the process must not end before."""
    for _ in range(6000):
        if done():
            return
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.02)
    raise AssertionError("waited for two minutes")
