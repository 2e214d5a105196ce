"""``eddyscope heads``: the same as the call in Python, whole folders, and refusals in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import eddyscope as es
from eddyscope.cli.model import resolve_model

pytest.importorskip("transformers")

READ = ("--context", 16, "--documents", 40)


def test_the_command_equals_the_call_and_writes_a_whole_folder(
    typed: Callable, model: Path, text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "heads"
    line = ("heads", model, "--text", text, *READ, "--budget", 0.67, "--draws", 2, "--curve", "--layers", "--out", out)
    found = typed(*line)
    assert found.status == 0, found.err
    assert "4 of 6 heads keep a pattern of their own" in found.out
    assert "rank correlation" in found.out
    assert "…" not in found.out, "the table of the curve is cut"
    assert "Zeroing by gradient importance: rise" in found.out
    written = json.loads((out / "heads.json").read_text())
    loaded = resolve_model(str(model))
    documents = es.read_documents(text, loaded.tokenizer, context=16, count=40, seed=0)
    expected = es.heads.plan(loaded.model, documents, budget=0.67, draws=2).plan.to_dict()
    assert [layer["kept"] for layer in written["layers"]] == [layer["kept"] for layer in expected["layers"]]
    assert written["model"] == expected["model"]
    np.testing.assert_allclose(written["loss"]["rise"], expected["loss"]["rise"], atol=1e-7)
    for name in ("before", "after"):
        assert written["cost"]["parameters"][name] == expected["cost"]["parameters"][name]
    files = json.loads((out / "run.json").read_text())["files"]
    assert sorted(files) == sorted(p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file())
    assert {"heads.csv", "curve.csv", "layers.csv", "redundancy.csv", "figures/head_curve.png"} <= set(files)
    curve = pd.read_csv(out / "curve.csv").set_index(["lost", "chosen_by", "patterns"])
    assert len(curve) == 88
    zeroed = written["loss"]["compared"]["zeroing by gradient importance"]["rise"]
    np.testing.assert_allclose(zeroed, curve.loc[("zero", "importance", 4), "rise"].iloc[0], atol=1e-7)
    with es.heads.apply(loaded.model, out / "heads.json"):
        pass
    again = typed(*line)
    assert again.status == 1
    assert "not empty" in again.err
    assert typed(*line[:-4], "--force", "--no-figures", "--out", out).status == 0
    assert not (out / "curve.csv").exists()


def test_a_saved_model_comes_back_with_its_plan(typed: Callable, model: Path, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "heads"
    line = ("heads", model, "--text", text, *READ, "--draws", 1, "--heal", "--heal-steps", 3, "--no-figures")
    found = typed(*line, "--save-model", "--quiet", "--out", out)
    assert (found.status, found.out) == (0, "")
    written = json.loads((out / "heads.json").read_text())
    assert written["criterion"] == "residual x importance, healed"
    assert "sharing before healing" in written["loss"]["compared"]
    assert sum(len(layer.kept) for layer in es.heads.read_plan(out).layers) == 3
    assert type(es.heads.load(out / "model")).__name__ == "GPT2LMHeadModel"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--criterion", "size"), "--criterion is 'size'; expected one of residual, importance"),
        (("--budget", "0.5", "--max-loss-rise", "0.1"), "Both --budget and --max-loss-rise were given"),
        (("--budget", "0"), "--budget is 0"),
        (("--max-loss-rise", "-1"), "expected a number above 0"),
        (("--heal-steps", "10"), "--heal-steps was given without --heal"),
        (("--documents", "auto"), "--documents auto does not apply to heads"),
    ],
)
def test_options_that_cannot_be_are_refused_before_any_work(
    options: tuple[str, ...], reason: str, typed: Callable, text: Path, tmp_path: Path
) -> None:
    found = typed("heads", "no-such-model", "--text", text, *options, "--out", tmp_path / "out")
    assert found.status == 2
    assert reason in found.err


def test_a_budget_below_one_pattern_a_layer_is_refused(
    typed: Callable, model: Path, text: Path, tmp_path: Path
) -> None:
    line = ("heads", model, "--text", text, *READ, "--draws", 1, "--budget", 0.1, "--out", tmp_path / "out")
    found = typed(*line)
    assert found.status == 2
    assert "1 patterns were asked for; expected 2 (one a layer) to 6 (all heads)" in found.err
    assert not (tmp_path / "out").exists()
