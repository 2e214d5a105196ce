"""eddyscope windows: the command line equals the Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import eddyscope as es
from eddyscope.capture import load_model


@pytest.fixture(scope="module")
def written(typed: Callable[..., Any], model: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("windows") / "out"
    given = ("--text", text, "--context", 24, "--documents", 40, "--windows", "4,8", "--octaves", "--modes", 1)
    result = typed("windows", model, *given, "--max-loss-rise", "0.001,0.1", "--measurements", 10, "--out", out)
    assert result.status == 0, result.err
    return out, result


def test_the_command_line_equals_the_python(written: Any, model: Path, text: Path) -> None:
    out, _ = written
    loaded, tokenizer = load_model(str(model))
    documents = es.read_documents(text, tokenizer, context=24, count=40, seed=0)
    found = es.windows.find(
        loaded, documents, max_loss_rise=[0.001, 0.1], windows=[4, 8], octaves=True, measurements=10, name=str(model)
    )
    assert es.windows.load(out) == found.plans[0]
    assert es.windows.load(out / "windows-0.1.json") == found.plans[1]
    curve = pd.read_csv(out / "curve.csv", dtype={"head": str})
    pd.testing.assert_frame_equal(curve, found.curve)
    assert found.agreement is not None
    again = es.windows.open_agreement(out)
    pd.testing.assert_frame_equal(again.cells, found.agreement.cells)
    pd.testing.assert_frame_equal(again.correlations, found.agreement.correlations)
    modes = pd.read_csv(out / "modes.csv", dtype={"head": str})
    pd.testing.assert_frame_equal(modes, es.windows.modes_owed(loaded, documents, [1]))


def test_everything_is_written_and_listed(written: Any) -> None:
    out, result = written
    there = sorted(p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file())
    record = json.loads((out / "run.json").read_text())
    assert sorted(record["files"]) == there
    assert {"windows.json", "figures/window_curve.png", "figures/agreement.pdf"} <= set(there)
    assert "no sliding windows" in record["config"]
    assert "w 4" in result.out
    assert "0.001" in result.out


def test_the_report_shows_what_was_owed_as_the_python_does(
    written: Any, typed: Callable[..., Any], model: Path, text: Path, tmp_path: Path
) -> None:
    out, _ = written
    loaded, tokenizer = load_model(str(model))
    study = es.analyze(es.capture(loaded, es.read_documents(text, tokenizer, context=24, count=8, seed=0)))
    study.save(tmp_path / "study.zarr")
    given = ("report", tmp_path / "study.zarr", "-q", "--out")
    assert typed(*given, tmp_path / "typed.html", "--windows", out).status == 0
    es.open_study(tmp_path / "study.zarr").report(tmp_path / "called.html", windows=es.windows.open_agreement(out))
    pages = [(tmp_path / name).read_text(encoding="utf-8") for name in ("typed.html", "called.html")]
    assert pages[0].partition("<time>")[0] == pages[1].partition("<time>")[0]
    assert "What the loss owes to each distance" in pages[0]
    most = es.windows.open_agreement(out).cells.nlargest(1, "rise").iloc[0]
    assert f"distances {most['first']}-{most['last']}: {most['rise']:.3g} (" in pages[0]
    es.open_study(tmp_path / "study.zarr").save(tmp_path / "again.zarr")
    both = typed(*given, tmp_path / "both.html", tmp_path / "again.zarr", "--windows", out)
    assert (both.status, (tmp_path / "both.html").exists()) == (2, False)
    assert "Windows are of one model, and there are 2 studies." in both.err


def test_a_folder_that_holds_something_is_refused_before_any_work(
    written: Any, typed: Callable[..., Any], model: Path, text: Path
) -> None:
    result = typed("windows", model, "--text", text, "--out", written[0])
    assert result.status == 1
    assert "exists and is not empty" in result.err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--heads", "mean"), "expected all or each"),
        (("--sink", "mask"), "expected keep or drop"),
        (("--max-loss-rise", "0"), "expected numbers above 0"),
        (("--windows", "2.5"), "expected whole numbers of tokens"),
        (("--documents", "auto"), "does not apply to windows"),
    ],
)
def test_options_that_cannot_be_exit_with_2(
    typed: Callable[..., Any], model: Path, text: Path, tmp_path: Path, given: tuple[str, str], said: str
) -> None:
    result = typed("windows", model, "--text", text, "--out", tmp_path / "out", *given)
    assert result.status == 2
    assert said in result.err
    assert not (tmp_path / "out").exists()
