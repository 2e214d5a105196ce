"""``eddyscope compare``: the command line equals the Python call, and what it writes is the comparison."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import eddyscope as es
import planted
from eddyscope.comparison.compare import compare
from eddyscope.documents import Documents


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Studies of one run at four steps; the second layer comes near at step 100."""
    place = tmp_path_factory.mktemp("series")
    ids = Documents.from_ids(np.random.default_rng(0).integers(0, 40, size=(30, 40)))
    for step, distance in ((0, 13), (10, 13), (100, 4), (1000, 4)):
        layers = [planted.bump(30, 40, d, 1.5, seed=step + k) for k, d in enumerate((5, distance))]
        ensemble = es.AttentionEnsemble.from_arrays(np.stack(layers, axis=1), documents=ids)
        es.analyze(ensemble, modes=2, dominant=1).save(place / f"step-{step}" / "study.zarr")
    return place


def test_two_studies(typed, folders, tmp_path):
    paths = [folders / "step-0", folders / "step-1000"]
    got = typed("compare", *paths, "--out", tmp_path / "out", "--no-figures")
    assert got.status == 0, got.err
    assert "step-1000 against step-0" in got.out and "*" in got.out
    expected = compare(*map(es.open_study, paths), labels=["step-0", "step-1000"])
    for name, table in expected.tables().items():
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out" / f"{name}.csv"), table, check_dtype=False)
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["command"][:2] == ["eddyscope", "compare"] and record["labels"] == ["step-0", "step-1000"]
    assert sorted(record["files"]) == sorted(p.name for p in (tmp_path / "out").iterdir())
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "step-0" in page and "step-1000" in page


def test_a_series_in_any_order_with_figures(typed, folders, tmp_path):
    order = [folders / f"step-{s}" for s in (1000, 0, 100, 10)]
    got = typed("compare", "--over", "step", *order, "--out", tmp_path / "out", "--no-report")
    assert got.status == 0, got.err
    assert not (tmp_path / "out" / "report.html").exists()
    series = pd.read_csv(tmp_path / "out" / "series.csv")
    assert series["moves_at"].tolist()[1] == 100 and np.isnan(series["moves_at"].tolist()[0])
    for name in ("comparison", "octaves"):
        for kind in ("png", "pdf"):
            assert (tmp_path / "out" / "figures" / f"{name}.{kind}").stat().st_size > 5000


def test_groups_after_one_option(typed, folders):
    a, b, c, d = (folders / f"step-{s}" for s in (0, 10, 100, 1000))
    got = typed("compare", "--group", f"far={a},{b}", f"near={c},{d}")
    assert got.status == 0, got.err
    assert "near against far" in got.out
    assert "The smallest group has 2 seeds" in got.out
    again = typed("compare", "--group", f"far={a},{b}", "--group", f"near={c},{d}")
    assert again.out == got.out


def test_labels_tell_paths_apart(typed, tmp_path, folders):
    first, second = folders / "step-0" / "study.zarr", folders / "step-10" / "study.zarr"
    got = typed("compare", first, second)
    assert "Reference: step-0" in got.out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((), 2, "A comparison needs at least two studies, got 0."),
        (("nowhere", "nowhere"), 1, "There is no study at 'nowhere': nothing is there."),
        (("--group", "a"), 2, "'a' is not a group. Write NAME=STUDY,STUDY,..."),
        (("--group", "a="), 2, "'a=' is not a group."),
    ],
)
def test_errors_are_one_line(typed, arguments, status, message):
    got = typed("compare", *arguments)
    assert got.status == status
    (line,) = [text for text in got.err.splitlines() if text.startswith("Error")]
    assert message in line


def test_what_is_there_is_not_overwritten(typed, folders, tmp_path):
    place = tmp_path / "out"
    place.mkdir()
    (place / "mine.txt").write_text("mine")
    got = typed("compare", folders / "step-0", folders / "step-10", "--out", place)
    assert got.status == 1 and "exists and is not empty" in got.err
    assert [p.name for p in place.iterdir()] == ["mine.txt"]


def test_a_group_given_twice_is_refused_and_not_replaced(typed, folders):
    a, b, c = (folders / f"step-{s}" for s in (0, 10, 100))
    got = typed("compare", "--group", f"far={a}", f"far={b}", f"near={c}")
    assert got.status == 2
    assert "Error: The group 'far' is given twice. Write all of its studies after one 'far='." in got.err
