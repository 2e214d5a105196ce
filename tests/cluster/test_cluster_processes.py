"""Real processes: a worker, a scheduler or the caller may die, and what was done by then is not lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

import eddyscope as es
from eddyscope.cluster.engine import connected
from eddyscope.documents import Documents

pytestmark = pytest.mark.slow

#: Documents, tokens of each, documents of a shard.
COUNT, TOKENS, SHARD = 60, 96, 2
QUIET = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}


@pytest.fixture(scope="module")
def ids(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ids") / "ids.npy"
    np.save(path, np.random.default_rng(0).integers(0, 60, (COUNT, TOKENS)))
    return path


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """As each worker has, so that the last bits agree."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def alone(ids: Path, tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """The store that one process writes."""
    place = tmp_path_factory.mktemp("alone") / "f.zarr"
    es.capture_fields(es.models.load("base"), Documents.from_ids(ids), place, shard=SHARD)
    return place


@pytest.fixture(scope="module")
def workers(one_thread: None) -> Iterator[Any]:
    """A client of two workers that were started here."""
    with connected(2, None) as engine:
        yield engine.client


def capture(ids: Path, place: Path, *more: str) -> list[str]:
    line = f"capture base --token-ids {ids} --store {place} --shard {SHARD}".split()
    return [str(Path(sys.executable).with_name("eddyscope")), *line, *more]


def assert_same_fields(one: Path, other: Path) -> None:
    """Every chunk of every shard is the same, byte for byte."""
    files = [f for f in sorted(other.glob("shards/*/layers/**/*")) if f.is_file()]
    assert len(files) > COUNT // SHARD
    for file in files:
        assert (one / file.relative_to(other)).read_bytes() == file.read_bytes()


def until(true: Callable[[], Any], seconds: float = 240) -> Any:
    """Wait for something."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
    return found


def shards(place: Path) -> int:
    return len([p for p in place.glob("shards/*") if not p.name.startswith(".")])


def killer(client: Any, after: int) -> tuple[Callable[[int, int], None], list[int]]:
    """Progress that kills a worker once, after so many documents."""
    killed: list[int] = []

    def kill(done: int, _: int) -> None:
        if not killed and done >= after:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    return kill, killed


def test_a_worker_that_is_killed_changes_nothing_in_the_store(
    ids: Path, alone: Path, tmp_path: Path, workers: Any
) -> None:
    place = tmp_path / "f.zarr"
    kill, killed = killer(workers, COUNT // 3)
    es.capture_fields("base", Documents.from_ids(ids), place, shard=SHARD, dask=workers, progress=kill)
    assert len(killed) == 1
    assert_same_fields(place, alone)
    assert not list(place.glob("shards/.*"))


def test_a_worker_that_is_killed_changes_nothing_in_the_statistics(workers: Any) -> None:
    many = np.random.default_rng(1).integers(0, 60, (300, 64))  # five shards, in two blocks
    kill, killed = killer(workers, 64)
    shared = es.capture("base", many, keep="statistics", dask=workers, progress=kill)
    assert len(killed) == 1
    exact = es.capture(es.models.load("base"), many, keep="statistics")
    for name, heads in exact.layers_of.items():
        one, other = heads["mean"], shared.layers_of[name]["mean"]
        pairs = [(one.field.means, other.field.means), (one.field.energy, other.field.energy)]
        for sink, part in one.parts.items():
            own, theirs = part.moments, other.parts[sink].moments
            assert own is not None and theirs is not None
            pairs += [(own.means, theirs.means), (own.products, theirs.products)]
        for array, expected in pairs:
            assert np.abs(array - expected).max() <= 1e-10 * np.abs(expected).max()


def test_a_worker_that_is_killed_in_an_analysis_leaves_nothing_behind(alone: Path, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    line = [str(Path(sys.executable).with_name("eddyscope")), "analyze", str(alone), "--out", str(tmp_path / "out")]
    line += ["--workers", "1", "--pod", "randomized", "--scratch", str(tmp_path / "scratch"), "--layers", "0"]
    with subprocess.Popen(
        [*line, "--quiet", "--no-figures", "--no-report"],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
    ) as running:
        until(lambda: list((tmp_path / "scratch").iterdir()) or running.poll() is not None)
        assert running.poll() is None
        worker = next(p for p in psutil.Process(running.pid).children() if "spawn_main" in " ".join(p.cmdline()))
        worker.kill()
        assert running.stderr is not None
        assert running.stderr.read() == b""
        assert running.wait(60) == 0
    assert list((tmp_path / "scratch").iterdir()) == []
    found = es.open_study(tmp_path / "out" / "study.zarr").packed(0)
    expected = es.analyze(es.open_fields(alone), pod="randomized").packed(0)
    # A worker uses one thread and this process as many as it may: sums differ by rounding.
    np.testing.assert_allclose(found["field_eigenvalues"], expected["field_eigenvalues"], rtol=1e-10)


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[tuple[str, psutil.Process]]:
    """A scheduler and a worker, each a process of its own as on a cluster."""
    file = tmp_path / "scheduler.json"
    program = [sys.executable, "-m", "distributed.cli"]
    quiet: dict[str, Any] = {"env": QUIET, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    first = [f"{program[2]}.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    second = [f"{program[2]}.dask_worker", "--nthreads", "1", "--no-dashboard", "--death-timeout", "5"]
    started = [
        subprocess.Popen([*program[:2], *line, "--scheduler-file", str(file)], **quiet) for line in (first, second)
    ]
    try:
        until(lambda: file.exists() and file.read_text().strip().endswith("}"))
        yield json.loads(file.read_text())["address"], psutil.Process(started[0].pid)
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_scheduler_that_is_killed_ends_in_a_line_and_the_store_resumes(
    ids: Path, alone: Path, tmp_path: Path, scheduler: tuple[str, psutil.Process]
) -> None:
    address, process = scheduler
    place = tmp_path / "f.zarr"
    line = capture(ids, place, "--dask", address, "--quiet")
    with subprocess.Popen(line, env=QUIET, stderr=subprocess.PIPE, text=True) as running:
        until(lambda: shards(place) > 1 or running.poll() is not None)
        assert running.poll() is None
        process.kill()
        killed = time.monotonic()
        assert running.stderr is not None
        said = running.stderr.read()
        assert running.wait(60) == 1
    assert time.monotonic() - killed < 30  # seconds, not minutes
    assert said.splitlines() == [
        "Error: The scheduler of the cluster is gone. Start it again; a capture to disk goes on from its whole shards "
        "with resume=True (--resume)."
    ]
    assert 1 < shards(place) < COUNT // SHARD
    es.capture_fields(es.models.load("base"), Documents.from_ids(ids), place, resume=True)
    assert_same_fields(place, alone)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)], ids=["ctrl-c", "kill"])
def test_a_caller_that_ends_takes_its_workers_with_it(ids: Path, tmp_path: Path, number: int, status: int) -> None:
    place = tmp_path / "f.zarr"
    line = capture(ids, place, "--workers", "2", "--quiet")

    def undisturbed() -> None:  # tests may run in the background of a script, where children would ignore Ctrl-C
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(
        line, env=QUIET, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=undisturbed
    ) as running:
        until(lambda: shards(place) > 1 or running.poll() is not None)
        assert running.poll() is None
        workers = psutil.Process(running.pid).children(recursive=True)
        assert len(workers) >= 2
        if number == signal.SIGINT:
            os.killpg(running.pid, number)  # as a terminal does, to all of them
        else:
            running.send_signal(number)
        assert running.stderr is not None
        said = running.stderr.read()
        assert running.wait(60) == status
        _, left = psutil.wait_procs(workers, timeout=20)
    assert left == []
    if number == signal.SIGINT:
        assert said == "Interrupted; shards that were whole by then are kept: go on with --resume.\n"
