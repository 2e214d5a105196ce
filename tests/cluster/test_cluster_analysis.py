"""An analysis whose layers, or blocks of Grams, are shared is the analysis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import tiny

import eddyscope as es
from eddyscope.cluster.analysis import grams_are_shared, layer_of
from eddyscope.cluster.grams import StoredHead
from eddyscope.documents import Documents
from eddyscope.errors import ClusterError, StoreError
from eddyscope.kernels.gramblocks import gram_block


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> es.AttentionEnsemble:
    """Forty documents in five shards, one of them without a document that was left out."""
    documents = Documents.from_ids(np.random.default_rng(0).integers(5, 64, (40, 32)))
    path = tmp_path_factory.mktemp("fields") / "f.zarr"
    return es.capture_fields(tiny("llama"), documents, path, shard=8, heads=[0, 2]).ensemble()


@pytest.fixture
def never_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing counts as small enough to be analysed in memory."""
    monkeypatch.setattr("eddyscope.study.blockplan._whole", lambda *given: 2**60)


def assert_same_study(one: es.Study, other: es.Study) -> None:
    assert one.data.identical(other.data)
    timed = {"seconds_analysis"}
    assert {k: v for k, v in one.provenance.items() if k not in timed} == {
        k: v for k, v in other.provenance.items() if k not in timed
    }


def test_layers_on_disk_are_analysed_by_workers(client: Any, store: es.AttentionEnsemble) -> None:
    seen: list[tuple[str, int, int]] = []
    shared = es.analyze(store, dask=client, progress=lambda *x: seen.append(x))
    assert_same_study(shared, es.analyze(store))
    assert {name for name, _, _ in seen} >= set(store.layers) and seen[-1][1:] == (2, 2)


def test_fields_and_statistics_in_memory_travel(client: Any) -> None:
    rng = np.random.default_rng(0)
    maps = np.tril(rng.random((20, 3, 16, 16), dtype=np.float32) + 0.1)
    ensemble = es.AttentionEnsemble.from_arrays(maps / maps.sum(-1, keepdims=True))
    assert_same_study(es.analyze(ensemble, dask=client), es.analyze(ensemble))
    statistics = es.AttentionStatistics.from_ensemble(ensemble)
    assert_same_study(es.analyze(statistics, dask=client), es.analyze(statistics))


def test_blocks_of_a_gram_are_formed_by_workers(
    client: Any, store: es.AttentionEnsemble, monkeypatch: pytest.MonkeyPatch, never_whole: None
) -> None:
    for module in ("kernels.gramblocks", "study.blockfields", "study.blockplan"):
        monkeypatch.setattr(f"eddyscope.{module}.TILE", 11)  # four blocks, across shards
    formed: list[tuple[int, int]] = []

    def counted(mine: Any, theirs: Any, *given: Any) -> Any:
        formed.append((len(mine), len(theirs)))
        return gram_block(mine, theirs, *given)

    monkeypatch.setattr("eddyscope.cluster.grams.gram_block", counted)
    one = store.select_layers([1])
    shared = es.analyze(one, dask=client, memory_budget="6GB")
    pairs = [(min(11, 40 - i), min(11, 40 - j)) for i in range(0, 40, 11) for j in range(i, 40, 11)]
    assert sorted(formed) == sorted(2 * pairs)  # of two heads
    assert_same_study(shared, es.analyze(one, memory_budget="6GB"))


def test_a_store_that_took_the_place_of_another_is_read_anew(client: Any, tmp_path: Path, never_whole: None) -> None:
    path, studies = tmp_path / "f.zarr", []
    for seed in (0, 1):
        documents = Documents.from_ids(np.random.default_rng(seed).integers(5, 64, (12, 16)))
        one = es.capture_fields(tiny("llama"), documents, path, force=True).ensemble().select_layers([0])
        studies.append(es.analyze(one, dask=client, memory_budget="6GB"))
        assert_same_study(studies[-1], es.analyze(one, memory_budget="6GB"))
    assert not studies[0].data.identical(studies[1].data)


def test_layers_of_a_sketch_are_shared_though_there_are_more_workers(
    client: Any, store: es.AttentionEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eddyscope.cluster.analysis.GramsOn", None)  # of which a sketch forms none
    one = store.select_layers([1])
    assert_same_study(es.analyze(one, dask=client, pod="randomized"), es.analyze(one, pod="randomized"))


def test_blocks_of_grams_are_shared_where_that_ends_sooner() -> None:
    shared = {layers: [slots for slots in range(1, 33) if grams_are_shared(layers, slots)] for layers in (1, 2, 3, 12)}
    assert shared == {1: list(range(2, 33)), 2: list(range(5, 33)), 3: [], 12: []}


def test_work_on_a_layer_that_ends_its_workers_is_given_up_with_a_remedy(
    client: Any, store: es.AttentionEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    import distributed

    def lost(*given: Any) -> Any:
        raise distributed.KilledWorker("task", None, 3)

    monkeypatch.setattr("eddyscope.cluster.engine.Engine._gathered", lost)
    with pytest.raises(ClusterError, match=r"ended 4 workers.*give a budget for each \(--memory-budget\)"):
        es.analyze(store, dask=client)


def test_documents_of_a_layer_on_disk_are_read_across_shards(store: es.AttentionEnsemble) -> None:
    whole = store[1].select_head("2")
    head = StoredHead(str(store.fields.store.path), store.layers[1], "2")  # type: ignore[attr-defined]
    assert (head.documents, head.geometry, head.dtype) == (40, whole.geometry, whole.values.dtype)
    for part in (slice(0, 8), slice(3, 21), slice(39, 40), slice(0, 40)):
        for name in ("values", "first_key", "row_sum"):
            assert np.array_equal(getattr(head.read(part), name), getattr(whole, name)[part])


def test_a_store_that_a_worker_does_not_see_is_an_error_like_any_other(
    store: es.AttentionEnsemble, tmp_path: Path
) -> None:
    import pickle
    import shutil

    from eddyscope.study.options import Options
    from eddyscope.study.sample import sample_of

    shutil.copytree(store.fields.store.path, tmp_path / "g.zarr")  # type: ignore[attr-defined]
    packed = pickle.dumps(es.open_fields(tmp_path / "g.zarr").ensemble())
    assert len(packed) < 40_000
    shutil.rmtree(tmp_path / "g.zarr")
    with pytest.raises(StoreError, match=r"^'.*g.zarr' cannot be read"):
        layer_of(packed, store.layers[0], Options(), sample_of(store)).unwrap()
