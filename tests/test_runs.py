"""The output folder of a run is made whole or not at all, and nothing that a user had is lost."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import eddyscope as es
import planted
from eddyscope.errors import StoreError
from eddyscope.runs import OutputFolder, write_run


@pytest.fixture(scope="module")
def study() -> es.Study:
    attention = planted.noise(9, 16)[:, None].astype("float32")
    return es.analyze(es.AttentionEnsemble.from_arrays(attention), intervals=False)


def write(study: es.Study, place: Path, force: bool = False, figures: tuple[str, ...] = ("a.png",)) -> None:
    with OutputFolder(place, force) as folder:
        for name in figures:
            (folder.stage / "figures").mkdir(exist_ok=True)
            (folder.stage / "figures" / name).write_text(f"picture of {study.provenance.get('note')}")
        write_run(folder, study)
        folder.publish()


def noted(study: es.Study, note: str) -> es.Study:
    return es.Study(study.data, {**study.provenance, "note": note})


def everything(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("there", [False, True])
def test_a_missing_or_empty_folder_is_filled(study: es.Study, tmp_path: Path, there: bool) -> None:
    place = tmp_path / "out"
    if there:
        place.mkdir()
    write(study, place)
    assert sorted(os.listdir(place)) == ["figures", "run.json", "study.zarr", "summary.csv", "summary.json"]
    assert os.listdir(tmp_path) == ["out"]
    assert es.open_study(place).layers == study.layers
    assert place.stat().st_mode & 0o777 == 0o777 & ~current_umask()


def current_umask() -> int:
    was = os.umask(0)
    os.umask(was)
    return was


def test_a_folder_with_something_in_it_is_refused(study: es.Study, tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.mkdir()
    (place / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"out' exists and is not empty \(it holds notes\.txt\)\. .* with --force"):
        write(study, place)
    assert everything(place) == {"notes.txt": b"mine"}


def test_a_file_is_refused(study: es.Study, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    for force in (False, True):
        with pytest.raises(StoreError, match=r"out' is a file\. Give the name of a folder \(--out\)"):
            write(study, tmp_path / "out", force)
    assert (tmp_path / "out").read_text() == "mine"


def test_force_replaces_what_a_run_wrote_and_nothing_else(study: es.Study, tmp_path: Path) -> None:
    place = tmp_path / "out"
    write(noted(study, "first"), place, figures=("a.png", "b.png"))
    (place / "notes.txt").write_text("mine")
    (place / "figures" / "mine.png").write_text("mine")
    with pytest.raises(StoreError, match=r"is not empty"):
        write(noted(study, "second"), place)
    assert es.open_study(place).provenance["note"] == "first"
    write(noted(study, "second"), place, force=True)
    assert es.open_study(place).provenance["note"] == "second"
    assert sorted(os.listdir(place / "figures")) == ["a.png", "mine.png"]
    assert (place / "figures" / "a.png").read_text() == "picture of second"
    assert (place / "notes.txt").read_text() == "mine"
    assert [name for name in os.listdir(place) if name.startswith(".")] == []


def test_force_adds_to_a_folder_of_others(study: es.Study, tmp_path: Path) -> None:
    place = tmp_path / "out"
    (place / "figures").mkdir(parents=True)
    (place / "notes.txt").write_text("mine")
    (place / "figures" / "a.png").write_text("mine too")
    write(study, place, force=True)
    assert (place / "notes.txt").read_text() == "mine"
    assert (place / "figures" / "a.kept-1.png").read_text() == "mine too"
    assert (place / "figures" / "a.png").read_text().startswith("picture")


@pytest.mark.parametrize("name", ["summary.csv", "study.zarr", "run.json"])
def test_not_even_force_replaces_results_that_no_run_wrote(study: es.Study, tmp_path: Path, name: str) -> None:
    place = tmp_path / "out"
    place.mkdir()
    (place / name).write_text("mine")
    with pytest.raises(StoreError, match=rf"out' holds {name} that no run of eddyscope wrote, so not even --force"):
        write(study, place, force=True)
    assert everything(place) == {name: b"mine"}


def test_a_record_cannot_make_a_run_remove_other_files(study: es.Study, tmp_path: Path) -> None:
    place = tmp_path / "out"
    write(study, place)
    (tmp_path / "precious").write_text("mine")
    record = json.loads((place / "run.json").read_text())
    record["files"] += ["../precious", str(tmp_path / "precious")]
    (place / "run.json").write_text(json.dumps(record))
    write(study, place, force=True)
    assert (tmp_path / "precious").read_text() == "mine"


def test_leaving_early_leaves_no_trace(study: es.Study, tmp_path: Path) -> None:
    def interrupted() -> None:
        with OutputFolder(tmp_path / "deep" / "out") as folder:
            write_run(folder, study)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("there", [False, True])
def test_of_two_runs_into_one_folder_the_second_stands_beside_the_first(
    study: es.Study, tmp_path: Path, there: bool
) -> None:
    place = tmp_path / "out"
    if there:
        place.mkdir()
    with OutputFolder(place) as folder:
        write(noted(study, "first"), place)
        first = everything(place)
        write_run(folder, noted(study, "second"))
        with pytest.raises(StoreError, match=r"^Another run wrote to .* the results of this one are in '.*out.kept-1'"):
            folder.publish()
    assert {name: content for name, content in everything(place).items() if not name.startswith(".")} == first
    assert sorted(os.listdir(tmp_path)) == ["out", "out.kept-1"]
    assert es.open_study(tmp_path / "out.kept-1").provenance["note"] == "second"


def test_of_two_runs_that_may_replace_results_the_second_replaces_the_first(study: es.Study, tmp_path: Path) -> None:
    place = tmp_path / "out"
    with OutputFolder(place, force=True) as folder:
        write(noted(study, "first"), place)
        write_run(folder, noted(study, "second"))
        folder.publish()
    assert es.open_study(place).provenance["note"] == "second"
    assert not [name for name in os.listdir(place) if "kept" in name]


def test_a_failed_replacement_leaves_the_old_results(study: es.Study, tmp_path: Path) -> None:
    place = tmp_path / "out"
    write(noted(study, "first"), place)
    before = everything(place)
    (place / "figures" / "blocked.png").mkdir()
    (place / "figures" / "blocked.png" / "x").write_text("mine")
    with OutputFolder(place, force=True) as folder:
        write_run(folder, noted(study, "second"))
        (folder.stage / "late").mkdir()
        (folder.stage / "late" / "x").write_text("")
        (place / "late").write_text("a file in the way of a folder")
        with pytest.raises(StoreError, match=r"out' cannot be written"):
            folder.publish()
    (place / "late").unlink()
    after = everything(place)
    after.pop("figures/blocked.png/x")
    assert after == before
    assert es.open_study(place).provenance["note"] == "first"


def test_a_full_disk_leaves_nothing(study: es.Study, small_disk: Path) -> None:
    with pytest.raises(StoreError, match=r"No space is left on the disk while writing '.*out'.*Free some space"):
        write(study, small_disk / "out")
    assert os.listdir(small_disk) == []


@pytest.mark.usefixtures("short_files")
def test_a_write_that_fails_leaves_nothing(study: es.Study, tmp_path: Path) -> None:
    big = es.Study(study.data, {"note": "x" * 20_000})
    with pytest.raises(StoreError, match=r"out' cannot be written: File too large"):
        write(big, tmp_path / "out", figures=())
    assert os.listdir(tmp_path) == []


def test_a_read_only_place_is_refused_before_any_work(read_only: Path) -> None:
    for place in (read_only, read_only / "out"):
        with pytest.raises(StoreError, match=r"cannot be written: Permission denied\. Choose a place"):
            OutputFolder(place).__enter__()


def test_json_has_no_nan(study: es.Study, tmp_path: Path) -> None:
    write(es.Study(study.data, {"value": float("nan"), "list": [float("inf")]}), tmp_path / "out")
    for name in ("run.json", "summary.json"):
        json.loads((tmp_path / "out" / name).read_text(), parse_constant=pytest.fail)
    assert json.loads((tmp_path / "out" / "run.json").read_text())["value"] is None
