"""``eddyscope demo`` writes a study of each model, and never over another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import eddyscope as es

pytest.importorskip("torch")


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from eddyscope.cli import main; main()", "demo", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_folder_that_holds_something_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "ega-1").mkdir()
    (tmp_path / "ega-1" / "mine.txt").write_text("mine")
    done = demo("--out", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith("Error: The folder '")
    assert "exists and is not empty" in done.stderr
    assert not (tmp_path / "base").exists()


@pytest.mark.slow
def test_the_demo_leaves_a_study_of_both_models(tmp_path: Path) -> None:
    done = demo("--out", str(tmp_path / "demo"), "--documents", "24")
    assert done.returncode == 0, done.stderr
    assert "base reads 24 windows of 256 characters" in done.stdout
    for name in ("base", "ega-1"):
        folder = tmp_path / "demo" / name
        assert {p.name for p in folder.iterdir()} == {
            "study.zarr",
            "summary.csv",
            "summary.json",
            "run.json",
            "report.html",
            "figures",
        }
        assert len(es.open_study(folder).layers) == 6
    run = json.loads((tmp_path / "demo" / "ega-1" / "run.json").read_text())
    assert any(c["check"] == "looks ahead" for c in run["checks"])
