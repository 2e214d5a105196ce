"""What travels to workers, what they keep, and how their results and errors come back."""

from __future__ import annotations

import math
import pickle
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny

import eddyscope as es
from eddyscope.capture.batches import as_reading
from eddyscope.capture.options import Options
from eddyscope.capture.origins import Origin, origin_of
from eddyscope.capture.session import opened
from eddyscope.capture.shards import fingerprint
from eddyscope.cluster.address import checked
from eddyscope.cluster.desk import Desk
from eddyscope.cluster.engine import Engine
from eddyscope.cluster.job import arrived, job_of, sent
from eddyscope.cluster.models import Passage, passage_of
from eddyscope.cluster.outcome import Outcome, attempt
from eddyscope.cluster.statistics import Pairing
from eddyscope.documents import Documents
from eddyscope.errors import (
    CaptureError,
    ClusterError,
    EddyscopeWarning,
    InputError,
    MissingDependencyError,
    StoreError,
    UsageError,
)
from eddyscope.plans import merged_shards

# --- which cluster ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workers", "dask", "message"),
    [
        (0, None, r"^workers is 0, expected a whole number of processes, at least 1"),
        (True, None, r"^workers is True, expected a whole number"),
        (2.0, None, r"^workers is 2.0, expected a whole number"),
        (2, "tcp://127.0.0.1:8786", r"^workers and dask \(--workers, --dask\) were both given"),
        (None, "127.0.0.1:8786", r"^dask is '127.0.0.1:8786', expected the address of a scheduler such as tcp://"),
        (None, "tcp://127.0.0.1", "expected the address of a scheduler"),
        (None, "tcp://127.0.0.1:99999", "expected the address of a scheduler"),
        (None, "http://127.0.0.1:80", "expected the address of a scheduler"),
        (None, "tcp://a b:80", "expected the address of a scheduler"),
        (None, "tcp://127.0.0.1:80/../x", "expected the address of a scheduler"),
        (None, 5, r"^dask is int, expected the address of a scheduler, or a Client of it"),
    ],
)
def test_what_is_no_cluster_is_refused(workers: Any, dask: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        checked(workers, dask)


@pytest.mark.parametrize("address", ["tcp://10.0.0.5:8786", "tls://head-node.example.org:443", "tcp://[::1]:8786"])
def test_addresses_of_schedulers_are_taken(address: str) -> None:
    checked(None, address)


def test_a_missing_dask_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(MissingDependencyError, match=r"Install it with: pip install 'eddyscope\[cluster\]'$"):
        checked(2, None)


# --- documents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("largest", "size"), [(63, 1), (50_000, 2), (128_000, 4)])
def test_documents_travel_as_token_ids_in_few_bytes(largest: int, size: int) -> None:
    ids = np.full((6, 500), largest)
    ids[:, ::2] = 7
    reading = as_reading(Documents.from_ids(ids))
    part = sent(reading, np.array([1, 4]))
    assert part.documents is None and part.count == 2
    assert len(pickle.dumps(part)) < 2 * 500 * size + 2000
    back = arrived(pickle.loads(pickle.dumps(part)))
    assert back.tokens[0].dtype == np.int64
    np.testing.assert_array_equal(np.stack(back.tokens), ids[[1, 4]])


def test_a_job_is_small(documents: Documents) -> None:
    model = tiny("llama")
    passage = Passage(fingerprint(model), "'tiny'", Origin("tiny"))
    with opened(model, documents, Options.of({"heads": "each"})) as session:
        job = job_of(session, passage, "key")
        assert session.glance.seen == set()
    again = pickle.loads(pickle.dumps(job))
    assert again.layers == job.layers and again.options == job.options
    assert len(pickle.dumps(job)) < 10_000


# --- models ----------------------------------------------------------------------------------------------------------


def test_a_model_remembers_its_name_until_its_weights_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert origin_of(tiny("llama")) is None
    tiny("llama").save_pretrained(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    model, _ = es.load_model("./model")
    origin = origin_of(model)
    assert origin is not None and origin.name == str(tmp_path / "model")  # workers may work elsewhere
    assert fingerprint(origin.load()) == fingerprint(model)
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight.add_(1e-3)
    assert origin_of(model) is None
    base = origin_of(es.models.load("base"))
    assert base is not None and (base.name, base.own) == ("base", True)


def engine_of(client: Any, folder: Path, local: bool = True) -> Engine:
    return Engine(client, local, folder)


def test_other_weights_under_the_same_name_are_refused(tmp_path: Path, client: Any) -> None:
    tiny("llama").save_pretrained(tmp_path / "model")
    model, _ = es.load_model(str(tmp_path / "model"))
    passage, content = passage_of(model, engine_of(client, tmp_path))
    assert content is None and passage.origin is not None
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight.add_(1e-3)
    model.save_pretrained(tmp_path / "model")
    with pytest.raises(CaptureError, match=r"^The weights that a worker loaded as '.*model' are not those"):
        passage.load(None)
    (tmp_path / "model/config.json").unlink()
    with pytest.raises(CaptureError, match=r"^A worker cannot load '.*model': There is no config.json"):
        passage.load(None)


@pytest.mark.parametrize("local", [True, False])
def test_a_model_without_a_name_travels_as_it_is(client: Any, tmp_path: Path, local: bool) -> None:
    model = tiny("llama")
    passage, future = passage_of(model, engine_of(client, tmp_path, local))
    assert (passage.file is not None) == local == (future is None)
    found = passage.load(None if future is None else future.result())
    assert found is not model and fingerprint(found) == fingerprint(model)
    if local:
        assert Path(str(passage.file)).stat().st_mode & 0o077 == 0  # nobody else reads or writes it


def test_a_model_that_cannot_travel_says_so_in_a_line(client: Any, tmp_path: Path) -> None:
    model = tiny("llama")
    model.lock = threading.Lock()
    with pytest.raises(
        CaptureError,
        match=r"^The LlamaForCausalLM cannot travel to workers: cannot pickle '_thread.lock' object. Save it",
    ):
        passage_of(model, engine_of(client, tmp_path))


def test_a_worker_whose_model_reads_otherwise_is_refused(tmp_path: Path, documents: Documents, client: Any) -> None:
    """Weights and name are the same, but a hook on the caller's model changes what it reads."""
    tiny("llama").save_pretrained(tmp_path / "model")
    model, _ = es.load_model(str(tmp_path / "model"))
    model.model.layers[0].register_forward_hook(lambda _, __, output: output * 3 + 1)
    with pytest.raises(CaptureError, match=r"^A worker reads other attention in layer 'model.layers.1.self_attn' of "):
        es.capture(model, documents, keep="statistics", dask=client)


def test_a_worker_loads_a_model_once(tmp_path: Path, documents: Documents, client: Any) -> None:
    loads: list[int] = []

    class Counted(Origin):
        def load(self) -> Any:
            loads.append(1)
            return tiny("llama")

    model, desk = tiny("llama"), Desk()
    passage = Passage(fingerprint(model), "'tiny'", Counted("tiny"))
    with opened(model, documents, Options()) as session:
        jobs = [job_of(session, passage, key) for key in ("one", "two")]
        for job in (jobs[0], jobs[0], jobs[1]):
            for start in (0, 4):
                part = sent(session.reading, np.arange(start, start + 4))
                index = np.arange(start, start + 4)
                own = desk.session(job, None, part, index)
                fields, kept = own.fields(index, None, desk.stores(own, 4))
                assert kept.tolist() == list(range(start, start + 4)) and set(fields) == set(session.layers)
    assert len(loads) == 1


# --- outcomes --------------------------------------------------------------------------------------------------------


@attempt
def work(kind: str) -> str:
    if kind == "warn":
        warnings.warn(EddyscopeWarning("Something deserves attention.", "few-documents"), stacklevel=1)
        warnings.warn("of another package", stacklevel=1)
    if kind == "store":
        raise StoreError("The disk is full.", "Make room.")
    if kind == "missing":
        raise MissingDependencyError("gguf", "This", "hf")
    if kind == "fault":
        raise ZeroDivisionError("division\nby zero")
    return kind


def test_errors_come_back_as_a_single_process_would_raise_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eddyscope.cluster.outcome.CALLERS", set())  # as in the process of a worker
    assert work("fine").unwrap() == "fine"
    with pytest.raises(StoreError, match=r"^The disk is full. Make room.$"):
        pickle.loads(pickle.dumps(work("store"))).unwrap()
    with pytest.raises(ClusterError, match=r"^This needs the package 'gguf', which is not installed"):
        work("missing").unwrap()
    with pytest.raises(
        ClusterError,
        match=r"^A worker failed at work \(test_cluster_parts.py, line \d+\): ZeroDivisionError: division by",
    ) as caught:
        work("fault").unwrap()
    assert "Traceback" in str(caught.value.__cause__)
    with pytest.warns(EddyscopeWarning, match=r"^Something deserves attention. \[few-documents\]$") as seen:
        work("warn").unwrap()
    assert len(seen) == 1


def test_what_was_made_of_a_failure_is_that_failure() -> None:
    failed = Outcome(error=("InputError", "Document 3 is empty.", None))

    @attempt
    def joined(one: Outcome, other: Outcome) -> Any:
        return one.value + other.value

    assert joined(Outcome(1), Outcome(2)).unwrap() == 3
    with pytest.raises(InputError, match=r"^Document 3 is empty.$"):
        joined(Outcome(1), failed).unwrap()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 64])
def test_parts_are_joined_as_a_tree_and_few_are_held(count: int) -> None:
    depth: dict[str, int] = {chr(48 + i): 0 for i in range(count)}
    held = 0

    def join(one: str, other: str) -> str:
        depth[one + other] = 1 + max(depth[one], depth[other])
        return one + other

    leaves, pairing = list(depth), Pairing(join)
    for leaf in leaves:
        pairing.add(leaf)
        held = max(held, len(pairing._held))
    whole = pairing.whole()
    assert whole == "".join(leaves)
    assert depth[whole] == math.ceil(math.log2(count))
    assert held <= math.log2(count) + 1


def test_blocks_are_few_where_there_are_many_shards() -> None:
    sizes = {shards: merged_shards(shards) for shards in (1, 7, 1024, 1025, 15_625)}
    assert sizes == {1: 4, 7: 4, 1024: 4, 1025: 8, 15_625: 64}
