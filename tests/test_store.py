"""A study on disk is the study: exact, whole or not there, and never read when damaged."""

import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import eddyscope as es
from eddyscope.documents import Documents
from eddyscope.errors import StoreError
from eddyscope.store import save_study


def attention(seed: int, documents: int, layers: int, *more: int) -> np.ndarray:
    """Random causal attention, shape (documents, layers, [heads,] L, L)."""
    scores = np.random.default_rng(seed).normal(size=(documents, layers, *more, more[-1])).astype(np.float32)
    weights = np.exp(scores) * np.tril(np.ones(scores.shape[-2:]))
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


def documents(count: int, tokens: int) -> Documents:
    ids = np.random.default_rng(0).integers(0, 50, size=(count, tokens))
    made = Documents.from_ids(ids, special=ids == 3, vocabulary_size=50)
    texts = tuple(f"text {i} <script> \0 e\u0301 \U0001f600 \u05d0" for i in range(count))
    return Documents(
        ids=made.ids,
        special=made.special,
        starts=made.starts,
        blocks=made.blocks,
        spans=np.zeros((count, tokens, 2), dtype=np.int32),
        texts=texts,
        sources=("a",) * count,
        mask=None,
        identity=made.identity,
    )


@pytest.fixture(scope="module")
def study() -> es.Study:
    """Two layers of head means, with documents, odd names and odd provenance."""
    arrays = attention(1, 10, 2, 24)
    names = {"model.layers.0.self_attn": arrays[:, 0], "élan [red] #2": arrays[:, 1]}
    ensemble = es.AttentionEnsemble.from_arrays(
        names, documents=documents(10, 24), provenance={"note": "α & <b>", "nan": None, "nested": {"list": [1, 2.5]}}
    )
    return es.analyze(ensemble)


@pytest.fixture(scope="module")
def study_of_heads() -> es.Study:
    return es.analyze(es.AttentionEnsemble.from_arrays(attention(2, 9, 1, 3, 20)), intervals=False)


@pytest.fixture(scope="module")
def saved(study: es.Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return study.save(tmp_path_factory.mktemp("saved") / "study.zarr")


@pytest.fixture
def stored(saved: Path, tmp_path: Path) -> Path:
    """A store of the study that a test may damage."""
    return Path(shutil.copytree(saved, tmp_path / "study.zarr"))


def assert_same(one: es.Study, other: es.Study) -> None:
    assert one.layers == other.layers
    assert one.provenance == other.provenance
    xr.testing.assert_identical(one.data, other.data)
    for name in one.layers:
        first, second = one.packed(name), other.packed(name)
        xr.testing.assert_identical(first, second)
        assert list(first.variables) == list(second.variables)
        for variable in first.variables:
            assert first[variable].dtype == second[variable].dtype, variable
            assert first[variable].attrs == second[variable].attrs
            if first[variable].dtype == object:
                assert all(type(value) is str for value in second[variable].values.flat)
    if one.documents is None:
        assert other.documents is None
    else:
        assert other.documents is not None
        assert one.documents.to_dataset().identical(other.documents.to_dataset())
        assert one.documents.texts == other.documents.texts
        assert one.documents.identity == other.documents.identity


def test_a_study_comes_back_exactly(study: es.Study, saved: Path) -> None:
    assert_same(study, es.open_study(saved))
    assert os.listdir(saved.parent) == ["study.zarr"]


def test_a_study_of_heads_without_documents_comes_back_exactly(study_of_heads: es.Study, tmp_path: Path) -> None:
    assert_same(study_of_heads, es.open_study(study_of_heads.save(tmp_path / "heads")))


def test_a_reopened_study_works(study: es.Study, saved: Path) -> None:
    again = es.open_study(saved)
    assert again.summary().equals(study.summary())
    xr.testing.assert_identical(again.layer(1), study.layer(1))


def test_nothing_warns(study_of_heads: es.Study, tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        es.open_study(study_of_heads.save(tmp_path / "x.zarr"))
    assert [str(w.message) for w in caught] == []


def test_xarray_reads_a_layer_by_itself(study: es.Study, saved: Path) -> None:
    plain = xr.open_zarr(saved / "layers" / "model.layers.0.self_attn", consolidated=False)
    xr.testing.assert_equal(plain["eigenvalues"].load(), study.packed(0)["eigenvalues"])
    assert "band_label" in plain.coords


def test_the_format_is_zarr_3_with_a_version(stored: Path) -> None:
    root = json.loads((stored / "zarr.json").read_text())
    assert root["zarr_format"] == 3
    assert root["attributes"]["format_version"] == 1
    assert "consolidated_metadata" not in root
    status = json.loads((stored / "layers/model.layers.0.self_attn/status/zarr.json").read_text())
    assert status["data_type"] == "string"


def test_the_folder_of_a_run_opens_too(study: es.Study, tmp_path: Path) -> None:
    study.save(tmp_path / "out" / "study.zarr")
    assert es.open_study(tmp_path / "out").layers == study.layers


def test_a_newer_format_is_refused(stored: Path) -> None:
    root = stored / "zarr.json"
    root.write_text(root.read_text().replace('"format_version": 1', '"format_version": 2'))
    with pytest.raises(StoreError, match=r"has format_version 2; this version of eddyscope reads up to 1\. Upgrade"):
        es.open_study(stored)


def largest(folder: Path) -> Path:
    return max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)


def test_a_truncated_chunk_is_named(stored: Path) -> None:
    chunk = largest(stored / "layers")
    data = chunk.read_bytes()
    chunk.write_bytes(data[: len(data) // 2])
    name = chunk.relative_to(stored).as_posix()
    with pytest.raises(StoreError, match=rf"is damaged: {name} has {len(data) // 2} bytes instead of {len(data)}\."):
        es.open_study(stored)


def test_an_altered_byte_is_named(stored: Path) -> None:
    chunk = largest(stored / "layers")
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(bytes(data))
    name = chunk.relative_to(stored).as_posix()
    with pytest.raises(StoreError, match=rf"is damaged: {name} has changed since it was written\. Restore it"):
        es.open_study(stored)


def test_a_missing_chunk_is_named(stored: Path) -> None:
    chunk = largest(stored / "documents")
    chunk.unlink()
    with pytest.raises(StoreError, match=rf"is damaged: {chunk.relative_to(stored).as_posix()} is missing"):
        es.open_study(stored)


@pytest.mark.parametrize("change", ['"documents": true', '"eddyscope": "'])
def test_altered_root_attributes_are_noticed(stored: Path, change: str) -> None:
    root = stored / "zarr.json"
    assert change in root.read_text()
    root.write_text(root.read_text().replace(change, {'"d': '"documents": false', '"e': '"eddyscope": "9'}[change[:2]]))
    with pytest.raises(StoreError, match=r"is damaged: zarr.json has changed since it was written"):
        es.open_study(stored)


def test_a_damaged_manifest_is_noticed(stored: Path) -> None:
    manifest = stored / "manifest/files/c.0"
    manifest.write_bytes(manifest.read_bytes()[:-10])
    with pytest.raises(StoreError, match=r"is damaged: manifest/files/c.0 has changed"):
        es.open_study(stored)


def test_what_is_no_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"There is no study at '.*nowhere': nothing is there"):
        es.open_study(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"There is no study at '.*'\. Give a folder that holds study.zarr"):
        es.open_study(tmp_path)
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / "zarr.json").write_text("{")
    with pytest.raises(StoreError, match=r"'.*x.zarr' is damaged, or not a study: zarr.json cannot be read"):
        es.open_study(tmp_path / "x.zarr")


def test_nothing_is_replaced_without_force(study: es.Study, study_of_heads: es.Study, stored: Path) -> None:
    with pytest.raises(StoreError, match=r"There is a study at '.*study.zarr' already"):
        study_of_heads.save(stored)
    assert_same(study, es.open_study(stored))
    study_of_heads.save(stored, force=True)
    assert_same(study_of_heads, es.open_study(stored))
    assert os.listdir(stored.parent) == ["study.zarr"]


def test_what_is_no_study_is_never_replaced(study: es.Study, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    (tmp_path / "file").write_text("a file")
    for name in ("mine", "file"):
        with pytest.raises(StoreError, match=r"exists and is not a study, so it is never overwritten"):
            study.save(tmp_path / name, force=True)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"


def test_a_study_that_cannot_be_stored_leaves_nothing(study: es.Study, tmp_path: Path) -> None:
    broken = es.Study(study.data, {"model": object()})
    with pytest.raises(StoreError, match=r"provenance cannot be written as JSON: Object of type object"):
        broken.save(tmp_path / "deep" / "x.zarr")
    assert os.listdir(tmp_path) == []


def test_a_failed_replacement_leaves_the_old_study(study: es.Study, stored: Path) -> None:
    broken = es.Study(study.data, {"model": object()})
    with pytest.raises(StoreError):
        broken.save(stored, force=True)
    assert_same(study, es.open_study(stored))


def test_a_full_disk_leaves_nothing(study: es.Study, small_disk: Path) -> None:
    with pytest.raises(StoreError, match=r"No space is left on the disk while writing '.*x.zarr'") as raised:
        study.save(small_disk / "x.zarr")
    assert "\n" not in str(raised.value)
    assert os.listdir(small_disk) == []


@pytest.mark.usefixtures("short_files")
def test_a_write_that_fails_leaves_nothing(study: es.Study, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"'.*x.zarr' cannot be written: File too large"):
        study.save(tmp_path / "x.zarr")
    assert os.listdir(tmp_path) == []


def test_a_read_only_place_is_refused(study: es.Study, read_only: Path) -> None:
    with pytest.raises(StoreError, match=r"'.*x.zarr' cannot be written: .*\. Choose a place that you may write to"):
        study.save(read_only / "x.zarr")


def test_objects_other_than_strings_are_refused(study: es.Study, tmp_path: Path) -> None:
    data = study.data.copy()
    data[study.layers[0]]["odd"] = ("thing", np.array([None, "a"], dtype=object))
    with pytest.raises(StoreError, match=r"Variable 'odd' holds objects that are not strings"):
        save_study(es.Study(data, {}), tmp_path / "x.zarr")


def test_a_study_may_be_moved(study: es.Study, stored: Path, tmp_path: Path) -> None:
    assert_same(study, es.open_study(stored.rename(tmp_path / "elsewhere")))


def test_arrays_in_one_chunk_are_stored_as_zarr_itself_stores_them() -> None:
    import asyncio

    from zarr.storage import MemoryStore

    from eddyscope import zarrgroup

    data = xr.Dataset(
        {
            "number": ((), 1.5, {"units": "tokens"}),
            "empty": (("none",), np.zeros(0, dtype=np.float32)),
            "row": (("lag",), np.array([np.nan, np.inf, -0.0])),
            "big_endian": (("lag",), np.arange(3, dtype=">i4")),
            "flags": (("mode", "lag"), np.eye(2, 3, dtype=bool), {"long_name": "é", "share": np.float64(0.5)}),
            "counts": (("mode", "lag"), np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3))),
            "label": ((), "one"),
            "labels": (("mode", "lag"), np.array([["", "é", "a\nb"], ["x", "y", "z" * 5000]], dtype=object)),
            "no_labels": (("none",), np.zeros(0, dtype=object)),
            "large": (("query", "key"), np.random.default_rng(0).normal(size=(50, 40)).astype(np.float32).T.copy().T),
            "large_big_endian": (("entry",), np.arange(2000, dtype=">f8")),
        }
    )
    files = zarrgroup.pack_group(data)

    async def by_zarr() -> dict[str, bytes]:
        held: dict[str, Any] = {}
        for name, variable in data.variables.items():
            await zarrgroup._write(MemoryStore(held), str(name), variable)
        return {path: buffer.to_bytes() for path, buffer in held.items()}

    def read(path: str, content: bytes) -> Any:
        return json.loads(content) if path.endswith(".json") else content

    both = [{path: read(path, content) for path, content in part.items()} for part in (files, asyncio.run(by_zarr()))]
    for part in both:
        del part["zarr.json"]  # of the group
    assert both[0] == both[1]
