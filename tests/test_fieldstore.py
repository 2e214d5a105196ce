"""Fields on disk are the fields: exact, shard by shard, and never read when damaged."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import eddyscope as es
from eddyscope.documents import Documents
from eddyscope.errors import InputError, StoreError
from eddyscope.fieldplace import create_fields, is_fields, open_fields
from eddyscope.fieldstore import FieldStore, StoredLayer
from eddyscope.lagfield import LagField

LENGTH, COUNT, SHARD = 12, 10, 4
NAMES = ("model.layers.0.self_attn", "élan [red] #2")


def attention(count: int = COUNT, heads: int = 3) -> np.ndarray:
    """Random causal attention, shape (documents, heads, L, L)."""
    scores = np.exp(np.random.default_rng(0).normal(size=(count, heads, LENGTH, LENGTH))) * np.tri(LENGTH)
    return (scores / scores.sum(axis=-1, keepdims=True)).astype(np.float32)


def ids(count: int = COUNT) -> Documents:
    return Documents.from_ids(np.random.default_rng(1).integers(0, 50, size=(count, LENGTH)), vocabulary_size=50)


@pytest.fixture
def fields() -> dict[str, LagField]:
    """A layer of head means, and one of three heads in half precision with a band of lags."""
    maps = attention()
    some = LagField.from_dense(maps, causal=True, max_lag=5)
    half = LagField(some.values.astype(np.float16), some.geometry, some.heads, some.first_key, some.row_sum)
    return {NAMES[0]: LagField.from_dense(maps.mean(axis=1), causal=True), NAMES[1]: half}


def layers(fields: dict[str, LagField]) -> dict[str, StoredLayer]:
    info = {
        name: es.LayerInfo(name, i, query_heads=4, key_value_heads=2, key_value_map=(0, 0, 1, 1), window=3 * i or None)
        for i, name in enumerate(fields)
    }
    return {name: StoredLayer(info[name], field.geometry, field.heads) for name, field in fields.items()}


def begun(path: Path, fields: dict[str, LagField], force: bool = False) -> FieldStore:
    return create_fields(path, layers(fields), ids(), COUNT, SHARD, {"source": "test", "checks": []}, force=force)


def write(store: FieldStore, fields: dict[str, LagField], shard: int, drop: tuple[int, ...] = ()) -> None:
    kept = np.setdiff1d(store.documents_of(shard), drop)
    check = {"check": "rows", "layer": NAMES[0], "passed": True, "value": 0.1 * shard, "tolerance": 1.0, "note": ""}
    record = {"checks": [check], "seconds": 1.5}
    store.write_shard(shard, {n: f.select_documents(kept) for n, f in fields.items()}, kept, record)


@pytest.fixture
def store(tmp_path: Path, fields: dict[str, LagField]) -> FieldStore:
    made = begun(tmp_path / "fields.zarr", fields)
    for shard in range(made.shards):
        write(made, fields, shard)
    return open_fields(tmp_path / "fields.zarr")


def assert_same_field(one: LagField, other: LagField) -> None:
    assert one.geometry == other.geometry
    assert one.heads == other.heads
    for name in ("values", "first_key", "row_sum"):
        first, second = getattr(one, name), getattr(other, name)
        assert first.dtype == second.dtype
        assert np.array_equal(first, second)


def test_fields_come_back_exactly(store: FieldStore, fields: dict[str, LagField]) -> None:
    ensemble = store.ensemble()
    assert ensemble.layers == NAMES
    assert ensemble.count == COUNT
    assert ensemble.heads == "each"
    assert ensemble.info == {name: layer.info for name, layer in layers(fields).items()}
    for name, field in fields.items():
        assert_same_field(ensemble[name], field)
    assert ensemble.documents is not None
    assert ensemble.documents.to_dataset().identical(ids().to_dataset())


def test_the_study_of_stored_fields_is_the_study_of_the_fields(store: FieldStore, fields: dict[str, LagField]) -> None:
    kept = store.ensemble([NAMES[0]])
    plain = es.AttentionEnsemble({NAMES[0]: fields[NAMES[0]]}, {NAMES[0]: kept.info[NAMES[0]]}, ids())
    xr.testing.assert_identical(es.analyze(kept).data, es.analyze(plain).data)


def test_one_layer_is_in_memory_at_a_time(store: FieldStore) -> None:
    ensemble = store.ensemble()
    first = ensemble[0]
    assert ensemble[0] is first
    assert ensemble[1] is not first
    assert ensemble[0] is not first
    assert ensemble.select_layers([1]).layers == (NAMES[1],)


def test_shards_are_read_one_by_one(store: FieldStore, fields: dict[str, LagField]) -> None:
    assert store.shards == 3
    seen = []
    for part, kept in store.iterate():
        seen += kept.tolist()
        for name, field in part.items():
            assert_same_field(field, fields[name].select_documents(kept))
    assert seen == list(range(COUNT))
    part, _ = store.read_shard(2, [NAMES[1]])
    assert list(part) == [NAMES[1]]


def test_an_incomplete_store_says_what_is_missing(tmp_path: Path, fields: dict[str, LagField]) -> None:
    made = begun(tmp_path / "x.zarr", fields)
    write(made, fields, 1)
    assert (made.whole, made.missing) == ([1], [0, 2])
    with pytest.raises(StoreError, match=r"x.zarr' is not complete: it has 1 of 3 shards\. Go on with its capture: .*"):
        made.ensemble()
    assert_same_field(made.read_shard(1)[0][NAMES[0]], fields[NAMES[0]].select_documents(np.arange(4, 8)))
    with pytest.raises(StoreError, match=r"has no shard 0"):
        made.read_shard(0)


def test_a_shard_written_twice_is_the_same(store: FieldStore, fields: dict[str, LagField]) -> None:
    def contents() -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in sorted(store.path.rglob("*")) if p.is_file()}

    before = contents()
    write(store, fields, 1)
    assert contents() == before


def test_documents_that_were_left_out_are_known(tmp_path: Path, fields: dict[str, LagField]) -> None:
    made = begun(tmp_path / "x.zarr", fields)
    for shard in range(3):
        write(made, fields, shard, drop=(1, 8, 9))  # the last shard has none left
    ensemble = made.ensemble()
    kept = [0, 2, 3, 4, 5, 6, 7]
    assert ensemble.provenance["documents_dropped"] == [1, 8, 9]
    assert_same_field(ensemble[0], fields[NAMES[0]].select_documents(np.array(kept)))
    assert ensemble.documents is not None
    assert ensemble.documents.identity["selection"] == kept


def test_checks_of_shards_become_one_of_all_documents(store: FieldStore) -> None:
    provenance = store.ensemble().provenance
    assert [(c["check"], c["value"], c["passed"]) for c in provenance["checks"]] == [("rows", 0.2, True)]
    assert provenance["seconds"] == 4.5
    assert provenance["failed_checks"] == []


def test_the_format_is_zarr_3_with_a_version_and_opens_with_any_reader(store: FieldStore) -> None:
    for place in (store.path, store.path / "shards" / "00001"):
        root = json.loads((place / "zarr.json").read_text())
        assert root["zarr_format"] == 3
        assert root["attributes"]["format_version"] == 1
    manifest = json.loads((store.path / "manifest/files/zarr.json").read_text())
    assert manifest["data_type"] == "string"
    array = zarr.open(str(store.path), mode="r")[f"shards/00001/layers/{NAMES[0]}/values"]
    assert isinstance(array, zarr.Array)
    assert array.shape == (SHARD, 1, LENGTH * (LENGTH + 1) // 2)


def damaged(store: FieldStore, what: str) -> tuple[Path, str]:
    """Damage the values of a layer in the second shard; returns the file, and what is said of it."""
    shard = store.path / "shards" / "00001"
    chunk = next((shard / "layers" / NAMES[0] / "values").glob("c*"))
    name, data = chunk.relative_to(shard).as_posix(), chunk.read_bytes()
    if what == "truncated":
        chunk.write_bytes(data[:-9])
        return chunk, f"{name} has {len(data) - 9} bytes instead of {len(data)}"
    if what == "altered":
        chunk.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
        return chunk, f"{name} has changed since it was written"
    chunk.unlink()
    return chunk, f"{name} is missing"


@pytest.mark.parametrize("what", ["truncated", "altered", "missing"])
def test_a_damaged_chunk_is_named_and_not_analysed(store: FieldStore, what: str) -> None:
    _, said = damaged(store, what)
    with pytest.raises(StoreError, match=rf"shards/00001' is damaged: {said}\. Capture it again with resume=True"):
        es.analyze(store.ensemble(), intervals=False)
    assert {shard: said in str(error) for shard, error in store.verify().items()} == {1: True}
    assert set(store.verify(contents=False)) == (set() if what == "altered" else {1})


@pytest.mark.parametrize("file", ["zarr.json", "shards/00002/zarr.json", "documents/ids/c.0.0", "manifest/files/c.0"])
def test_any_other_altered_file_is_noticed(store: FieldStore, file: str) -> None:
    place = store.path / file
    data = place.read_bytes()
    place.write_bytes(data.replace(b'"shard": ', b'"shard":  1') if file.endswith("json") else data[:-1] + b"\xff")
    with pytest.raises(StoreError, match=r"is damaged: .* (has changed|has .* bytes instead of)"):
        open_fields(store.path).ensemble()


def test_a_newer_format_is_refused(store: FieldStore) -> None:
    root = store.path / "zarr.json"
    root.write_text(root.read_text().replace('"format_version": 1', '"format_version": 2'))
    with pytest.raises(StoreError, match=r"has format_version 2; this version of eddyscope reads up to 1\. Upgrade"):
        open_fields(store.path)


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"There is no store of fields at '.*nowhere': nothing is there"):
        open_fields(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"is damaged, or not a store of fields"):
        open_fields(tmp_path)
    assert not is_fields(tmp_path)


def test_nothing_is_replaced_without_force(store: FieldStore, fields: dict[str, LagField], tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"There is a store of fields at '.*' already, with 3 of 3 shards\. Go on"):
        begun(store.path, fields)
    assert begun(store.path, fields, force=True).whole == []
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match=r"exists and is not a store of fields, so it is never overwritten"):
        begun(tmp_path / "mine", fields, force=True)
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_a_full_disk_leaves_whole_shards_alone(fields: dict[str, LagField], small_disk: Path) -> None:
    long = LagField.from_dense(np.random.default_rng(0).random((COUNT, 80, 80), dtype=np.float32), causal=True)
    made = begun(small_disk / "x.zarr", {NAMES[0]: long})

    def write_all() -> None:
        for shard in range(made.shards):
            write(made, {NAMES[0]: long}, shard)

    with pytest.raises(StoreError, match=r"No space is left on the disk while writing '.*x.zarr'"):
        write_all()
    assert sorted(os.listdir(made.path / "shards")) == [f"{s:05d}" for s in made.whole]
    assert made.verify() == {}


def test_a_read_only_place_is_refused(fields: dict[str, LagField], read_only: Path) -> None:
    with pytest.raises(StoreError, match=r"'.*x.zarr' cannot be written: .*\. Choose a place that you may write to"):
        begun(read_only / "x.zarr", fields)


def test_fields_that_do_not_fit_are_refused(tmp_path: Path, fields: dict[str, LagField]) -> None:
    made = begun(tmp_path / "x.zarr", fields)
    four = {name: field.select_documents(np.arange(4)) for name, field in fields.items()}
    with pytest.raises(InputError, match=r"Documents 0 to 3 do not belong to shard 1"):
        made.write_shard(1, four, np.arange(4))
    with pytest.raises(InputError, match=r"Shard 0 has layers .*, expected"):
        made.write_shard(0, {NAMES[0]: four[NAMES[0]]}, np.arange(4))
    with pytest.raises(InputError, match=r"The field of layer '.*' does not fit the store: <LagField: 4 documents"):
        made.write_shard(0, four | {NAMES[0]: four[NAMES[1]]}, np.arange(4))
    assert made.whole == []


def test_what_was_left_half_written_is_cleared(store: FieldStore) -> None:
    (store.path / "shards" / ".00001.abc.partial").mkdir()
    assert store.whole == [0, 1, 2]
    store.clear_partial()
    assert sorted(os.listdir(store.path / "shards")) == ["00000", "00001", "00002"]
