"""``eddyscope plan`` is eddyscope.plan typed differently; what cannot fit is refused before any work."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import eddyscope as es

pytest.importorskip("torch")
pytest.importorskip("transformers")

Run = Any


def lines(text: str) -> list[str]:
    """Lines without what depends on the process: the memory of libraries, and sums with it."""
    kept = [line for line in text.splitlines() if not re.match(r"Python|reserve|memory|budget", line)]
    return [re.sub(r"  +", "  ", line).rstrip() for line in kept]


def test_the_command_line_equals_the_python(typed: Run, model: Path, text: Path) -> None:
    line = "--documents 30 --context 32 --heads each --layers 1 --max-lag 9 --half --shard 8 --batch 4 --seed 3"
    done = typed("plan", model, "--text", text, *line.split())
    assert (done.status, done.err) == (0, "")
    loaded, tokenizer = es.load_model(str(model))
    documents = es.read_documents(text, tokenizer, count=30, context=32, seed=3)
    options: dict[str, Any] = {"heads": "each", "layers": [1], "max_lag": 9, "dtype": "float16", "batch": 4}
    expected = es.plan(loaded, documents, shard=8, **options)
    assert lines(done.out) == lines(str(expected))
    assert "passes     8 of 4 documents (hooks under eager attention)" in done.out
    assert "shards     4 of 8 documents" in done.out


def test_no_weights_are_read_unless_it_measures(typed: Run, model: Path, text: Path, tmp_path: Path) -> None:
    bare = Path(shutil.copytree(model, tmp_path / "bare"))
    (bare / "model.safetensors").unlink()
    line = ["plan", bare, "--text", text, "--documents", "20"]
    done = typed(*line)
    assert done.status == 0
    assert done.out.startswith(
        "model      GPT2LMHeadModel, 23k parameters: 2 layers of 3 heads, causal; kept: the head"
    )
    done = typed(*line, "--measure")
    assert done.status == 1
    assert done.err.startswith(f"Error: Model '{bare}' cannot be loaded")
    done = typed("plan", model, *line[2:], "--measure")
    assert re.search(r"\ntime +[0-9.]+ s to read all \([0-9.e-]+ s a document\), analysis aside\n", done.out)


def test_a_budget_says_what_it_is_enough_for(typed: Run, model: Path, text: Path) -> None:
    done = typed("plan", model, "--text", text, "--documents", "20", "--memory-budget", "64GB")
    assert "budget     64 GB: enough for run, run --keep statistics, capture --store, analyze STORE" in done.out
    done = typed("plan", model, "--text", text, "--documents", "20", "--memory-budget", "1MB")
    assert done.status == 2
    assert done.err.startswith("Error: 'run' takes up to ")
    assert "more than the 1.0 MB of the budget; the largest part is the libraries" in done.err
    done = typed("plan", model, "--text", text, "--memory-budget", "lots")
    assert done.status == 2
    assert done.err == "Error: The memory budget is 'lots', expected an amount such as 4GB, 800MB or 2GiB.\n"


@pytest.mark.parametrize("command", [["run", "--out"], ["capture", "--store"]])
def test_the_plan_stands_before_the_work(
    typed: Run, model: Path, text: Path, tmp_path: Path, command: list[str]
) -> None:
    name, place = command
    line = [name, model, "--text", text, "--documents", "20", place, tmp_path / "out"]
    done = typed(*line, "--memory-budget", "1MB")
    assert done.status == 2
    assert "more than the 1.0 MB of the budget" in done.err
    assert not any(text in done.err for text in ("Plan:", "Capturing"))
    assert not (tmp_path / "out").exists()
    more = ["--no-figures", "--no-intervals"] if name == "run" else []
    told = typed(*line, *more).err.splitlines()
    planned = next(i for i, said in enumerate(told) if said.startswith("Plan: 1 pass of 20 documents, up to "))
    assert planned < told.index("Capturing 20 documents of 40 tokens")
    assert ("on disk in 1 shard" in told[planned]) == (name == "capture")


def test_what_would_fit_is_said(typed: Run, model: Path, text: Path) -> None:
    loaded, tokenizer = es.load_model(str(model))
    documents = es.read_documents(text, tokenizer, count=1500, context=40, overlap=True)
    plan = es.plan(loaded, documents)
    budget = (plan.costs["statistics"].total + plan.costs["run"].total) // 2
    done = typed(
        *("run", model, "--text", text, "--documents", "1500", "--overlap", "--out", "never"),
        *("--memory-budget", budget, "-q"),
    )
    assert done.status == 2
    assert re.search(r"'run' takes up to .* for 1500 documents .* What would fit: --keep statistics \(.*\)", done.err)
    assert not Path("never").exists()
