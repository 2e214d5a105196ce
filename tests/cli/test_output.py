"""Where results go, as seen from the command line: nothing is lost, nothing is half-written, damage is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import eddyscope as es

Run = Any


@pytest.fixture
def out(typed: Run, arrays: Path, tmp_path: Path) -> Path:
    """The folder of a run."""
    place = tmp_path / "out"
    assert typed("analyze", arrays, "--out", place, "--no-figures", "--no-report", "-q", "--no-intervals").status == 0
    return place


def test_a_second_run_needs_force(typed: Run, arrays: Path, out: Path) -> None:
    line = ["analyze", arrays, "--out", out, "--no-figures", "--no-report", "-q", "--no-intervals", "--modes", "2"]
    done = typed(*line)
    assert done.status == 1
    assert done.err == (
        f"Error: The folder '{out}' exists and is not empty (it holds run.json, study.zarr, summary.csv, ...). "
        "Choose another one (--out), or replace the results in it with --force.\n"
    )
    assert es.open_study(out).provenance["analysis"]["modes"] == 8
    assert typed(*line, "--force").status == 0
    assert es.open_study(out).provenance["analysis"]["modes"] == 2


def test_a_folder_of_others_is_safe(typed: Run, arrays: Path, tmp_path: Path) -> None:
    (tmp_path / "summary.csv").write_text("years of work")
    line = ["analyze", arrays, "--out", tmp_path, "--no-figures", "--no-report", "-q"]
    assert "exists and is not empty (it holds summary.csv)" in typed(*line).err
    assert "that no run of eddyscope wrote, so not even --force replaces it" in typed(*line, "--force").err
    assert os.listdir(tmp_path) == ["summary.csv"]
    assert (tmp_path / "summary.csv").read_text() == "years of work"


def test_the_folder_is_checked_before_anything_is_read(typed: Run, out: Path) -> None:
    done = typed("analyze", "nowhere.npy", "--out", out)
    assert "exists and is not empty" in done.err


def test_a_full_disk_leaves_nothing(typed: Run, arrays: Path, small_disk: Path) -> None:
    done = typed("analyze", arrays, "--out", small_disk / "out", "--no-figures", "--no-report", "-q")
    assert done.status == 1
    assert done.err.startswith(f"Error: No space is left on the disk while writing '{small_disk / 'out'}'")
    assert done.err.count("\n") == 1
    assert os.listdir(small_disk) == []


def test_a_read_only_folder_is_refused(typed: Run, arrays: Path, read_only: Path) -> None:
    done = typed("analyze", arrays, "--out", read_only / "out", "--no-figures", "--no-report", "-q")
    assert done.status == 1
    assert done.err == (
        f"Error: '{read_only / 'out'}' cannot be written: Permission denied. Choose a place that you may write to.\n"
    )


def test_bad_input_leaves_no_folder(typed: Run, tmp_path: Path) -> None:
    done = typed("analyze", tmp_path / "nowhere.npy", "--out", tmp_path / "a" / "b")
    assert done.status == 1
    assert "There is no file or folder" in done.err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("damage", ["truncate", "alter", "remove"])
def test_a_damaged_chunk_is_named_and_not_shown(typed: Run, out: Path, damage: str) -> None:
    chunk = out / "study.zarr" / "layers" / "model.layers.1.self_attn" / "eigenvalues" / "c.0.0"
    data = chunk.read_bytes()
    if damage == "truncate":
        chunk.write_bytes(data[:7])
    elif damage == "alter":
        chunk.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    else:
        chunk.unlink()
    done = typed("show", out)
    assert (done.status, done.out) == (1, "")
    assert f"study.zarr' is damaged: {chunk.relative_to(out / 'study.zarr')} " in done.err
    assert done.err.endswith("Restore it from a copy, or run the analysis again.\n")
