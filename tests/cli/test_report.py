"""Reports and figures from the command line: written by runs, and again from what they left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eddyscope as es

Run = Any


@pytest.fixture(scope="module")
def out(typed: Run, arrays: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with its report."""
    place = tmp_path_factory.mktemp("runs") / "out"
    assert typed("analyze", arrays, "--out", place, "--no-figures", "-q").status == 0
    return place


def without_stamp(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    head, _, rest = text.partition("<time>")
    return head + rest.partition("</time>")[2]


def test_a_run_writes_its_report(out: Path) -> None:
    assert (out / "report.html").is_file()
    assert "report.html" in json.loads((out / "run.json").read_text())["files"]
    assert "attention.npz" in (out / "report.html").read_text(encoding="utf-8")


def test_the_run_says_where_to_start(typed: Run, arrays: Path, tmp_path: Path) -> None:
    done = typed("analyze", arrays, "--out", tmp_path / "out", "--no-figures", "--no-intervals")
    assert f"The results are in {tmp_path / 'out'}: start with report.html." in done.out
    assert "Writing the report" in done.err


def test_no_report_leaves_it_out(typed: Run, arrays: Path, tmp_path: Path) -> None:
    done = typed("analyze", arrays, "--out", tmp_path / "out", "--no-figures", "--no-report", "--no-intervals", "-q")
    assert done.status == 0
    assert not (tmp_path / "out" / "report.html").exists()


def test_report_writes_it_again(typed: Run, out: Path) -> None:
    before = without_stamp(out / "report.html")
    (out / "report.html").write_text("spoiled")
    done = typed("report", out)
    assert (done.status, done.out) == (0, f"The report is {out / 'report.html'}.\n")
    assert without_stamp(out / "report.html") == before


def test_report_equals_the_python_call(typed: Run, out: Path, tmp_path: Path) -> None:
    assert typed("report", out, "--out", tmp_path / "a.html", "-q").status == 0
    es.open_study(out).report(tmp_path / "b.html")
    assert without_stamp(tmp_path / "a.html") == without_stamp(tmp_path / "b.html")


def test_a_report_that_was_made_later_does_not_stand_in_the_way(typed: Run, arrays: Path, tmp_path: Path) -> None:
    line = ["analyze", arrays, "--out", tmp_path / "out", "--no-figures", "--no-report", "--no-intervals", "-q"]
    assert typed(*line).status == 0
    assert typed("report", tmp_path / "out", "-q").status == 0
    assert typed(*line, "--force").status == 0
    assert not (tmp_path / "out" / "report.html").exists()


def test_another_file_needs_force(typed: Run, out: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.html").write_text("years of work")
    done = typed("report", out, "--out", tmp_path / "mine.html")
    assert done.status == 1
    assert f"Error: The file '{tmp_path / 'mine.html'}' exists." in done.err
    assert (tmp_path / "mine.html").read_text() == "years of work"
    assert typed("report", out, "--out", tmp_path / "mine.html", "--force", "-q").status == 0


def test_several_studies_are_compared(typed: Run, out: Path, tmp_path: Path) -> None:
    es.open_study(out).save(tmp_path / "other.zarr")
    done = typed("report", out, tmp_path / "other.zarr", "--out", tmp_path / "both.html")
    assert done.status == 0
    text = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert "Attention of out and other" in text
    assert "Models beside each other" in text


def test_a_study_that_is_not_there_is_named(typed: Run, tmp_path: Path) -> None:
    done = typed("report", tmp_path / "nowhere")
    assert done.status == 1
    assert f"There is no study at '{tmp_path / 'nowhere'}'" in done.err


@pytest.mark.slow
def test_figures_for_a_paper(typed: Run, out: Path, tmp_path: Path) -> None:
    line = ["figures", out, "--style", "paper", "--names", "lag_energy,scalograms", "--out", tmp_path / "paper"]
    done = typed(*line)
    assert (done.status, done.out) == (0, f"8 files are in {tmp_path / 'paper'}.\n")
    names = {f"{n}-{w}.{f}" for n in ("lag_energy", "scalograms") for w in ("one", "two") for f in ("pdf", "png")}
    assert {p.name for p in (tmp_path / "paper").iterdir()} == names
    assert "exists and is not empty" in typed(*line).err
    assert typed(*line, "--force", "-q").status == 0


def test_figures_for_a_page_are_those_of_a_run(typed: Run, out: Path, tmp_path: Path) -> None:
    from eddyscope.report import write_figures

    place = tmp_path / "figures"
    assert typed("figures", out, "--names", "lag_energy", "--formats", "png", "--out", place, "-q").status == 0
    (expected,) = write_figures(es.open_study(out), tmp_path / "b", names=["lag_energy"], formats=["png"])
    assert (place / "lag_energy.png").read_bytes() == expected.read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--style", "poster"], "--style is 'poster'; expected page or paper."),
        (["--names", "cats"], "There is no figure 'cats'."),
        (["--style", "paper", "--formats", "gif"], "There is no format 'gif'."),
    ],
)
def test_options_that_cannot_be(options: list[str], message: str, typed: Run, out: Path, tmp_path: Path) -> None:
    done = typed("figures", out, "--out", tmp_path / "f", *options)
    assert done.status == 2
    assert message in done.err


def test_a_fault_in_the_report_does_not_cost_the_results(
    typed: Run, arrays: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("here")

    monkeypatch.setattr("eddyscope.report.page.render", fail)
    done = typed("analyze", arrays, "--out", tmp_path / "out", "--no-figures", "--no-intervals", "-q")
    assert done.status == 0
    assert "The report could not be written (ZeroDivisionError: here); all other results are there." in done.err
    assert not (tmp_path / "out" / "report.html").exists()
    warned = json.loads((tmp_path / "out" / "run.json").read_text())["warnings"]
    assert [w["slug"] for w in warned] == ["no-report"]
    assert np.isfinite(es.open_study(tmp_path / "out").summary()["median_lag"]).all()
