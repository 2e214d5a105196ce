"""``--workers`` and ``--dask`` are the same commands with the same results; what is no cluster is said in a line."""

from __future__ import annotations

import json
import logging
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eddyscope as es

pytest.importorskip("torch")
pytest.importorskip("transformers")
distributed = pytest.importorskip("distributed")

Run = Any


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A scheduler that is reached by its address, with two workers in threads of this process."""
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        protocol="tcp",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address="127.0.0.1:0",
        memory_limit=None,
        silence_logs=logging.CRITICAL,
    ) as cluster:
        yield cluster.scheduler_address


def summary(folder: Path) -> Any:
    return es.open_study(folder / "study.zarr").summary()


def test_a_capture_and_an_analysis_are_shared(
    typed: Run, model: Path, text: Path, tmp_path: Path, address: str
) -> None:
    options = "--documents 20 --context 32 --shard 4 --heads each --store"
    line = ["capture", model, "--text", text, *options.split()]
    alone = typed(*line, tmp_path / "a.zarr")
    shared = typed(*line, tmp_path / "b.zarr", "--dask", address)
    assert (alone.status, shared.status) == (0, 0)
    assert shared.out == alone.out.replace("a.zarr", "b.zarr")
    assert f"Joining {address}" in shared.err and "Warning" not in shared.err
    one, other = (es.open_fields(tmp_path / f"{name}.zarr").ensemble() for name in "ab")
    for name in one.layers:
        assert np.array_equal(one[name].values, other[name].values)
    for name, more in (("c", []), ("d", ["--dask", address])):
        done = typed("analyze", tmp_path / "b.zarr", "--out", tmp_path / name, "--no-figures", "--no-report", *more)
        assert done.status == 0
    assert summary(tmp_path / "c").equals(summary(tmp_path / "d"))


@pytest.mark.parametrize("keep", ["fields", "statistics"])
def test_a_run_is_shared(typed: Run, model: Path, text: Path, tmp_path: Path, address: str, keep: str) -> None:
    options = "--documents 20 --context 32 --no-figures --no-report --batch 4"
    line = ["run", model, "--text", text, *options.split()]
    for name, more in (("a", []), ("b", ["--dask", address])):
        done = typed(*line, "--keep", keep, "--out", tmp_path / name, *more)
        assert done.status == 0, done.err
    one, other = summary(tmp_path / "a"), summary(tmp_path / "b")
    assert list(one.columns) == list(other.columns)
    numbers = one.select_dtypes("number").columns
    np.testing.assert_allclose(one[numbers], other[numbers], rtol=1e-7)
    assert sorted(p.name for p in (tmp_path / "b").iterdir()) == sorted(p.name for p in (tmp_path / "a").iterdir())
    assert {p.name for p in tmp_path.iterdir()} == {"a", "b"}  # fields that lay on disk meanwhile are gone
    record = json.loads((tmp_path / "b" / "run.json").read_text())
    assert {"starting", "capturing", "analysing"} <= set(record["seconds"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--workers", "0"], "--workers"),
        (["--dask", "localhost"], "Error: --dask is 'localhost', expected the address of a scheduler such as tcp://"),
        (["--dask", "tcp://a:1", "--workers", "2"], "Error: workers and dask (--workers, --dask) were both given"),
    ],
)
def test_what_is_no_cluster_is_refused_before_any_work(
    typed: Run, model: Path, text: Path, tmp_path: Path, more: list[str], message: str
) -> None:
    for line in (
        ["capture", model, "--text", text, "--store", tmp_path / "f.zarr"],
        ["run", model, "--text", text, "--out", tmp_path / "out"],
        ["analyze", tmp_path / "f.zarr", "--out", tmp_path / "out"],
    ):
        done = typed(*line, *more)
        assert done.status == 2
        assert message in done.err and "Loading" not in done.err


def test_a_scheduler_that_does_not_answer_is_said_in_seconds(
    typed: Run, model: Path, text: Path, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and never listens
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        started = time.monotonic()
        done = typed(
            "capture", model, "--text", text, "--store", tmp_path / "f.zarr", "--context", 32, "--dask", address, "-q"
        )
    assert time.monotonic() - started < 30
    assert done.status == 1
    (line,) = done.err.splitlines()
    reason = re.fullmatch(
        rf"Error: No scheduler answers at '{address}' \((.*)\)\. Is it running, and reachable from here\?", line
    )
    # On a busy machine it may be the time that runs out first.
    assert reason and ("Connection refused" in reason[1] or "Timed out" in reason[1])
    assert not (tmp_path / "f.zarr").exists()


def test_the_plan_says_what_workers_take_and_what_travels(typed: Run, model: Path, text: Path) -> None:
    options = "--documents 40 --context 32 --shard 4"
    line = ["plan", model, "--text", text, *options.split()]
    plain, done = typed(*line), typed(*line, "--workers", 3)
    added = [text for text in done.out.splitlines() if text.split(" ")[0] in ("workers", "travels")]
    assert len(added) == 2 and not any(text in plain.out for text in added)
    assert added[0].startswith("workers    3, each with a model of its own and up to 4 shards: up to ")
    assert added[1].startswith("travels    to workers up to 5.1 kB of token ids; back up to ")  # 40 x 32 x 4 bytes
    loaded, tokenizer = es.load_model(str(model))
    documents = es.read_documents(text, tokenizer, count=40, context=32, seed=0)
    found = es.plan(loaded, documents, shard=4, workers=3)
    statistics = es.capture(loaded, documents, keep="statistics")
    assert found.travels["statistics"] >= statistics.nbytes
    assert "travels    " in str(found)
