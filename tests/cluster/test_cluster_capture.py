"""A capture whose shards are shared is the capture: the same fields, and statistics to rounding."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_models import tiny

import eddyscope as es
from eddyscope.capture.shards import Sharding
from eddyscope.documents import Documents
from eddyscope.errors import CaptureError, CheckError, EddyscopeWarning, StoreError, UsageError
from eddyscope.study.headstats import head_statistics

COUNT = 22


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny("llama")


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics are taken of three documents at a time: eight shards, the last smaller, in two blocks."""
    monkeypatch.setattr(sys.modules[Sharding.__module__], "SHARD_DOCUMENTS", 3)


def entries(statistics: es.AttentionStatistics) -> dict[Any, Any]:
    """Every array of statistics."""
    found = {}
    for name, heads in statistics.layers_of.items():
        for label, head in heads.items():
            parts = {"field": head.field.means, "energy": head.field.energy, "mass": head.masses.means}
            parts |= {"sums": head.sums.mass, "hits": head.sums.hits}
            for sink, part in head.parts.items():
                assert part.moments is not None
                parts |= {f"rows {sink}": part.moments.means, f"products {sink}": part.moments.products}
                parts |= {f"queries {sink}": part.axis.queries}
            found |= {(name, label, part): array for part, array in parts.items()}
    return found


def assert_equal_to(one: es.AttentionStatistics, other: es.AttentionStatistics, tolerance: float) -> None:
    """Each array differs by at most the tolerance times its largest entry."""
    first, second = entries(one), entries(other)
    assert list(first) == list(second)
    for name, array in first.items():
        assert array.shape == second[name].shape, name
        assert np.abs(array - second[name]).max(initial=0) <= tolerance * np.abs(second[name]).max(initial=0), name
    np.testing.assert_array_equal(one.groups, other.groups)


def comparable(provenance: dict[str, Any], *skipped: str) -> dict[str, Any]:
    return {k: v for k, v in provenance.items() if k not in ("seconds", *skipped)}


def assert_same_fields(one: es.AttentionEnsemble, other: es.AttentionEnsemble) -> None:
    for name in one.layers:
        for part in ("values", "first_key", "row_sum"):
            assert np.array_equal(getattr(one[name], part), getattr(other[name], part)), (name, part)


OPTIONS: list[dict[str, Any]] = [{}, {"heads": "each", "layers": [1], "dtype": "float16", "max_lag": 6, "batch": 2}]


@pytest.mark.parametrize("options", OPTIONS, ids=["mean", "half"])
def test_workers_write_the_store_that_one_process_writes(
    client: Any, model: Any, documents: Documents, tmp_path: Path, options: dict[str, Any]
) -> None:
    seen: list[tuple[int, int]] = []
    shared = es.capture_fields(
        model, documents, tmp_path / "a.zarr", shard=4, dask=client, progress=lambda *x: seen.append(x), **options
    )
    alone = es.capture_fields(model, documents, tmp_path / "b.zarr", shard=4, **options)
    assert_same_fields(shared.ensemble(), alone.ensemble())
    assert comparable(shared.ensemble().provenance) == comparable(alone.ensemble().provenance)
    assert len(seen) == 6 and sorted(seen) == seen and seen[-1] == (COUNT, COUNT)
    for file in sorted((tmp_path / "b.zarr/shards").rglob("c.*")):  # every chunk, byte for byte
        if "manifest" not in file.parts:
            assert (tmp_path / "a.zarr" / file.relative_to(tmp_path / "b.zarr")).read_bytes() == file.read_bytes()


@pytest.mark.parametrize("options", OPTIONS, ids=["mean", "half"])
def test_statistics_of_shards_equal_those_of_one_process(
    client: Any, model: Any, documents: Documents, small_shards: None, options: dict[str, Any]
) -> None:
    seen: list[tuple[int, int]] = []
    shared = es.capture(model, documents, keep="statistics", dask=client, progress=lambda *x: seen.append(x), **options)
    alone = es.capture(model, documents, keep="statistics", **options)
    assert_equal_to(shared, alone, 1e-10)
    assert comparable(shared.provenance) == comparable(alone.provenance)
    assert len(seen) >= 8 and seen[-1] == (COUNT, COUNT)
    again = es.capture(model, documents, keep="statistics", dask=client, **options)
    assert_equal_to(again, shared, 0)  # whoever was quicker


def test_many_shards_are_read_by_group_to_the_same_statistics(
    client: Any, model: Any, documents: Documents, small_shards: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eddyscope.cluster.statistics.BY_GROUP", 5)
    groups: list[int] = []

    def counted(statistics: Any, *given: Any) -> Any:
        groups.append(np.unique(given[0]).size)
        return head_statistics(statistics, *given)

    monkeypatch.setattr("eddyscope.cluster.work.head_statistics", counted)
    shared = es.capture(model, documents, keep="statistics", dask=client, batch=1)
    alone = es.capture(model, documents, keep="statistics", batch=1)
    assert_equal_to(shared, alone, 1e-10)
    assert comparable(shared.provenance) == comparable(alone.provenance)
    assert max(groups) <= 3 and sum(groups) < 2 * 2 * 15  # of two layers; by the order of the text nearly all are new


def test_documents_are_read_again_where_a_late_one_leaves_out_a_query(
    client: Any, documents: Documents, small_shards: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    field = es.capture(tiny("gpt2"), documents)[1]
    assert field.first_key is not None
    beside = np.sort((1 - field.first_key[:, 0, documents.context // 2 :]).min(axis=1))
    monkeypatch.setattr("eddyscope.study.rows.MIN_REMAINING", float(beside[2]))  # so three documents leave some out
    shared = es.capture(tiny("gpt2"), documents, keep="statistics", dask=client)
    alone = es.capture(tiny("gpt2"), documents, keep="statistics")
    assert_equal_to(shared, alone, 1e-10)
    axes = [s.layers_of[s.layers[1]]["mean"].parts["mask"].axis for s in (shared, alone)]
    assert axes[0].left_out == axes[1].left_out > 0


def test_bad_documents_are_refused_by_their_number_or_left_out(
    client: Any, documents: Documents, small_shards: None
) -> None:
    model = tiny("llama")
    with torch.no_grad():
        model.get_input_embeddings().weight[63] = float("nan")
    bad = np.flatnonzero((documents.ids == 63).any(axis=1))
    assert bad.size == 9
    good = np.setdiff1d(np.arange(COUNT), bad)
    with pytest.raises(CaptureError, match=r"has NaN or Inf in document (1[3-9]|2\d)\."):
        es.capture(model, documents.select(np.r_[good, bad]), keep="statistics", dask=client, batch=1)
    documents = documents.select(np.r_[bad, good])  # so the first is no measure of the workers
    with pytest.warns(EddyscopeWarning, match=f"Left out {bad.size} of {COUNT} documents"):
        shared = es.capture(model, documents, keep="statistics", dask=client, drop_bad=True)
    with pytest.warns(EddyscopeWarning, match=f"Left out {bad.size} of {COUNT} documents"):
        alone = es.capture(model, documents, keep="statistics", drop_bad=True)
    assert_equal_to(shared, alone, 1e-10)
    assert shared.provenance["documents_dropped"] == list(range(bad.size))


def test_inputs_of_a_model_travel_too(client: Any, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).normal(size=(5, 3, 16, 16)).astype(np.float32)
    given = {"pixel_values": pixels}
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    torch.manual_seed(0)
    vit = transformers.ViTModel(transformers.ViTConfig(image_size=16, patch_size=4, **sizes)).eval()
    shared = es.capture_fields(vit, given, tmp_path / "a.zarr", shard=2, dask=client)
    alone = es.capture_fields(vit, given, tmp_path / "b.zarr", shard=2)
    assert_same_fields(shared.ensemble(), alone.ensemble())


def test_documents_of_unequal_length_are_read_as_they_are(client: Any, model: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    mask = np.arange(20)[None, :] < rng.integers(12, 21, (9, 1))
    given = Documents.from_ids(rng.integers(5, 64, (9, 20)), mask=mask)
    stores = []
    for name, more in (("a", {"dask": client}), ("b", {})):
        with pytest.warns(EddyscopeWarning, match="unequal-lengths"):
            stores.append(es.capture_fields(model, given, tmp_path / f"{name}.zarr", shard=4, **more))
    assert_same_fields(*(store.ensemble() for store in stores))


def test_only_missing_shards_are_captured(client: Any, model: Any, documents: Documents, tmp_path: Path) -> None:
    path = tmp_path / "f.zarr"
    whole = es.capture_fields(model, documents, path, shard=4)
    expected = {n: whole.read_shard(n)[0] for n in range(6)}
    whole.remove_shard(2)
    whole.remove_shard(5)
    times = {n: (path / f"shards/{n:05d}/zarr.json").stat().st_mtime_ns for n in whole.whole}
    with pytest.raises(StoreError, match="with 4 of 6 shards"):
        es.capture_fields(model, documents, path, shard=4, dask=client)
    seen: list[tuple[int, int]] = []
    found = es.capture_fields(model, documents, path, resume=True, dask=client, progress=lambda *x: seen.append(x))
    assert seen in ([(18, 22), (22, 22)], [(20, 22), (22, 22)])
    assert {n: (path / f"shards/{n:05d}/zarr.json").stat().st_mtime_ns for n in times} == times
    for number, fields in expected.items():
        for name, field in found.read_shard(number)[0].items():
            assert np.array_equal(field.values, fields[name].values)


def test_a_failed_check_fails_on_a_worker_too(client: Any, documents: Documents, tmp_path: Path) -> None:
    model = tiny("llama")
    model.set_attn_implementation("eager")
    with pytest.raises(CheckError, match="rows sum to 1"):
        es.capture(model, documents, keep="statistics", dask=client, batch=4, extract=spoiled)
    with pytest.warns(EddyscopeWarning, match="failed-checks"):
        found = es.capture_fields(
            tiny("llama"), documents, tmp_path / "f.zarr", shard=4, dask=client, extract=spoiled,
            allow_failed_checks=True,
        )  # fmt: skip
    assert any("rows sum to 1" in label for label in found.ensemble().provenance["failed_checks"])


def spoiled(model: Any, inputs: Any) -> dict[str, Any]:
    """Attention whose rows sum to 1 in documents that begin with an odd token, such as the first."""
    model.set_attn_implementation("eager")
    maps = model(**inputs, output_attentions=True).attentions[0]
    return {"layer": maps * (1 + (inputs["input_ids"][:, 0] % 2 == 0)[:, None, None, None])}


def test_fields_in_memory_are_not_shared(model: Any, documents: Documents) -> None:
    with pytest.raises(UsageError, match=r"^Fields that workers capture go to disk. Use capture_fields"):
        es.capture(model, documents, workers=2)
