"""The engine says who is missing, and whose versions differ, and never waits in silence."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from tiny_models import tiny

import eddyscope as es
from eddyscope.capture.options import Options
from eddyscope.capture.session import opened, versions
from eddyscope.cluster.engine import Engine, _reason, connected
from eddyscope.cluster.handing import take
from eddyscope.cluster.job import Receipt
from eddyscope.cluster.outcome import attempt
from eddyscope.documents import Documents
from eddyscope.errors import CaptureError, ClusterError, EddyscopeWarning, UsageError

distributed = pytest.importorskip("distributed")


@pytest.fixture
def engine(client: Any, tmp_path: Path) -> Engine:
    return Engine(client, True, tmp_path)


def test_a_cluster_without_workers_is_said_and_waited_for(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eddyscope.cluster.engine.LOOK", 0.2)
    address = "127.0.0.1:0"
    with (
        distributed.LocalCluster(
            n_workers=0,
            threads_per_worker=1,
            processes=False,
            dashboard_address=address,
            memory_limit=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        looks = Engine._look

        def look(self: Engine) -> None:
            looks(self)
            cluster.scale(1)

        monkeypatch.setattr(Engine, "_look", look)
        with pytest.warns(EddyscopeWarning, match=r"^The cluster has no workers yet; .* \[no-workers\]$") as seen:
            found = es.capture(tiny("llama"), documents, keep="statistics", dask=client)
        assert len(seen) == 1 and found.count == len(documents)


def test_more_workers_than_a_machine_bears_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 32)
    with (
        pytest.raises(UsageError, match=r"^workers is 129, on a machine of 32 cores .* take at most 128\.$"),
        connected(129, None),
    ):
        pass


def test_work_that_ends_its_workers_is_given_up_with_a_remedy(engine: Engine) -> None:
    with (
        pytest.raises(
            ClusterError, match=r"^The same piece of work ended 4 workers, one after the other. They may have"
        ),
        engine.watched(),
    ):
        raise distributed.KilledWorker("task", None, 3)


def test_a_worker_that_cannot_take_its_work_is_an_error_in_a_line(engine: Engine) -> None:
    future = engine.submit(_Unknown())
    with pytest.raises(ClusterError, match=r"^A worker could not take its work \(ModuleNotFoundError: No module named"):
        list(engine.done([future]))


class _Unknown:
    """Something that does not unpickle on a worker, such as a function of a package that is not there."""

    def __call__(self) -> None:
        raise ModuleNotFoundError("No module named 'eddyscope.cluster'")


def test_errors_of_documents_are_met_once(engine: Engine) -> None:
    ((_, outcome),) = engine.done([engine.submit(bad_document)])
    with pytest.raises(CaptureError, match=r"^Document 3 has NaN. Leave it out.$"):
        outcome.unwrap()
    assert MET == [1]  # it would be the same on every worker, so it is not tried again


MET: list[int] = []


@attempt
def bad_document() -> None:
    MET.append(1)
    raise CaptureError("Document 3 has NaN.", "Leave it out.")


def test_other_versions_are_refused_or_warned_about(documents: Documents) -> None:
    with opened(tiny("llama"), documents, Options()) as session:
        said: set[str] = set()

        def receipt(**other: str) -> Receipt:
            place = {"device": "cuda:0", "threads": 6, "versions": {**versions(), **other}}
            return Receipt(documents.blocks, (), place)

        take(session, receipt(), said)
        assert (session.device, session.threads) == ("cuda:0", 6)
        assert session.provenance([])["threads"] == 6
        with pytest.raises(ClusterError, match=r"^A worker has eddyscope 0.0.1, this is .*Install the same version"):
            take(session, receipt(eddyscope="0.0.1"), said)
        with pytest.warns(EddyscopeWarning, match=r"torch 1.0 instead of .* \[other-versions\]$"):
            take(session, receipt(torch="1.0"), said)
        take(session, receipt(torch="1.0"), said)  # once is enough


def test_a_client_that_was_given_stays_open(client: Any) -> None:
    with connected(None, client) as engine:
        assert not engine.local and engine.slots == 2
    assert client.submit(max, 1, 2, pure=False).result() == 2


def test_loggers_are_silent_meanwhile_and_as_they_were_afterwards(client: Any) -> None:
    logger = logging.getLogger("distributed.client")
    before = logger.level
    with connected(None, client):
        assert logger.level > logging.CRITICAL
    assert logger.level == before
    with connected(None, client, loud=True):
        assert logger.level == before


def test_the_reason_of_a_failure_is_the_deepest_that_says_something() -> None:
    error = OSError("Timed out after 5 s.\nand more")
    error.__cause__ = asyncio.CancelledError()
    outer = RuntimeError("outer")
    outer.__cause__ = error
    assert _reason(outer) == "Timed out after 5 s"
    assert _reason(KeyError()) == "KeyError"
