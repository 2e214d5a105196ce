"""The engine: a client of a Dask scheduler, and how tasks are handed to it a few at a time."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from eddyscope.cluster.address import checked
from eddyscope.cluster.outcome import CALLERS, Outcome, attempt
from eddyscope.errors import ClusterError, EddyscopeWarning, UsageError

#: Seconds after which a scheduler that does not answer counts as unreachable.
CONNECT = 5
#: Seconds between looks at whether the cluster is still there and has workers.
LOOK = 5.0
#: Workers that are started on a machine of few cores, at most: more is a slip of the finger, and would bring it down.
_MOST = 64
#: Any free port that other machines cannot reach.
_HERE_ALONE = "127.0.0.1:0"
#: Where Dask and what is under it write what they think.
_LOGGERS = ("distributed", "tornado", "asyncio")


@dataclass
class Engine:
    """A cluster to which tasks are handed.

    Made by :func:`connected`, and of use only inside it.

    Parameters
    ----------
    client : distributed.Client
    local : bool
        Whether the workers are processes of this machine that were started here.
    folder : Path
        A folder of this machine for the time being.
    remedy : str
        What to do where a piece of work keeps ending its workers.
    """

    client: Any
    local: bool
    folder: Path
    remedy: str = "They may have run out of memory: use smaller shards (--shard), a smaller --batch, or --heads mean."
    _waiting: bool = field(default=False)

    @property
    def slots(self) -> int:
        """Tasks that run at the same time, at least 1."""
        with self.watched():
            return max(1, sum(int(threads) for threads in self.client.nthreads().values()))

    def submit(self, task: Callable[..., Any], *given: Any, priority: int = 0) -> Any:
        """Hand a task to the cluster; returns its future, which may be given to other tasks."""
        with warnings.catch_warnings():
            # Fields in memory are large, and there is no other way for them to travel.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return self.client.submit(task, *given, pure=False, priority=priority)

    def send(self, content: bytes) -> Any:
        """Hand something to all workers, once there are any; returns its future, to be given to tasks."""
        for _ in self.done([self.submit(nothing)]):  # a task also makes a cluster grow that does so by itself
            pass
        with self.watched():
            return self.client.scatter(content, broadcast=True)

    def done(self, futures: Iterable[Any]) -> Iterator[tuple[Any, Outcome]]:
        """Futures that are finished, at least one, each with its outcome.

        Raises
        ------
        ClusterError
            Where the scheduler is gone, or a task kept ending the workers that it ran on.
        """
        wait, waiting = _distributed().wait, list(futures)
        while True:
            with self.watched():
                try:
                    with self.client.as_current():
                        finished = wait(waiting, timeout=LOOK, return_when="FIRST_COMPLETED").done
                except TimeoutError:
                    self._look()
                    continue
                results = self._gathered(list(finished))
            yield from zip(finished, results, strict=True)
            return

    def _gathered(self, finished: list[Any]) -> list[Outcome]:
        """Outcomes of tasks; an exception is of a worker that could not even begin."""
        try:
            return list(self.client.gather(finished))
        except (OSError, CancelledError, _distributed().KilledWorker):
            raise
        except Exception as error:
            raise ClusterError(
                f"A worker could not take its work ({type(error).__name__}: {_reason(error)}).",
                "Is the same version of eddyscope installed on all machines?",
            ) from error

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Turn what Dask raises where workers or the scheduler are lost into an error of one line."""
        try:
            yield
        except _distributed().KilledWorker as error:
            raise ClusterError(
                f"The same piece of work ended {error.allowed_failures + 1} workers, one after the other.",
                self.remedy,
            ) from error
        except (OSError, CancelledError) as error:
            raise self._gone() from error

    def _look(self) -> None:
        """See whether anybody is there, as nothing has finished for a while."""
        if self.client.status not in ("running", "connecting"):
            raise self._gone()
        if not self._waiting and not self.client.nthreads():
            self._waiting = True
            message = "The cluster has no workers yet; the work begins when some have joined."
            warnings.warn(EddyscopeWarning(message, "no-workers"), stacklevel=4)

    def _gone(self) -> ClusterError:
        return ClusterError(
            "The scheduler of the cluster is gone.",
            "Start it again; a capture to disk goes on from its whole shards with resume=True (--resume).",
        )


@attempt
def nothing() -> None:
    """Find out whether somebody works."""


@contextmanager
def connected(workers: int | None, dask: Any, *, loud: bool = False) -> Iterator[Engine]:
    """A cluster for the time being: started here, or joined.

    Parameters
    ----------
    workers : int, optional
        Processes to start on this machine, one thread each. They end with the context, whatever happens.
    dask : str or distributed.Client, optional
        Address of a scheduler, or a client of it, which stays open.
    loud : bool
        Let Dask write to its loggers; by default they are silent.

    Raises
    ------
    UsageError, MissingDependencyError
        As :func:`eddyscope.cluster.address.checked` says.
    ClusterError
        Where the scheduler does not answer, or workers cannot be started.
    """
    checked(workers, dask)
    CALLERS.add(os.getpid())
    with ExitStack() as stack:
        if not loud:
            stack.enter_context(_silent())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eddyscope-")))
        if workers is not None:
            client = stack.enter_context(_started(workers, folder, loud))
        elif isinstance(dask, str):
            client = stack.enter_context(_joined(dask))
        else:
            client = dask
        yield Engine(client, workers is not None, folder)


@contextmanager
def _started(workers: int, folder: Path, loud: bool) -> Iterator[Any]:
    """Workers of this machine, one thread each, without a dashboard; memory is for the plan to limit."""
    cores = os.cpu_count() or 1
    if workers > max(_MOST, 4 * cores):
        raise UsageError(
            f"workers is {workers}, on a machine of {cores} cores (--workers).",
            f"Each is a process of some hundred megabytes; take at most {max(_MOST, 4 * cores)}.",
        )
    if not loud:
        _calm_tracker()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default" if loud else "ignore")  # of ports that are taken, where others will do
            cluster = _distributed().LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=None,
                dashboard_address=_HERE_ALONE,
                worker_dashboard_address=_HERE_ALONE,
                local_directory=str(folder),
                preload=["eddyscope.cluster.preload"],
                silence_logs=logging.WARNING if loud else logging.CRITICAL + 1,
            )
    except (RuntimeError, OSError, TimeoutError) as error:
        raise ClusterError(
            f"The workers ({workers}) could not be started: {_reason(error)}.",
            "In a script of your own, start the work under: if __name__ == '__main__'.",
        ) from error
    with cluster, _distributed().Client(cluster, set_as_default=False) as client:
        yield client


def _calm_tracker() -> None:
    """Keep the process that cleans up after workers from writing of each that was killed; it reads its filters once."""
    from multiprocessing import resource_tracker

    name, before = "PYTHONWARNINGS", os.environ.get("PYTHONWARNINGS")
    os.environ[name] = ",".join(filter(None, (before, "ignore:resource_tracker:UserWarning")))
    try:
        with contextlib.suppress(OSError):
            resource_tracker.ensure_running()
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _joined(address: str) -> Iterator[Any]:
    import dask

    # Dask would try for half a minute, and to join again for as long where a scheduler is lost.
    with dask.config.set({"distributed.comm.timeouts.connect": CONNECT, "distributed.comm.retry.count": 0}):
        try:
            client = _distributed().Client(address, timeout=CONNECT, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(
                f"No scheduler answers at '{address}' ({_reason(error)}).", "Is it running, and reachable from here?"
            ) from error
        try:
            yield client
        finally:
            with contextlib.suppress(Exception):
                client.close(timeout=CONNECT)


def _distributed(module: str = "") -> Any:
    """The package, imported when it is needed; most of it has no types."""
    return import_module(f"distributed.{module}".rstrip("."))


def _reason(error: BaseException) -> str:
    """The first line of the deepest cause that says something."""
    reason = type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        reason = (str(cause).strip().splitlines() or [reason])[0]
        cause = cause.__cause__
    return reason.rstrip(".")


@contextmanager
def _silent() -> Iterator[None]:
    """Keep loggers from writing about workers that come and go; what matters is raised."""
    known = (name for name in logging.root.manager.loggerDict if name.split(".")[0] in _LOGGERS)
    loggers = [logging.getLogger(name) for name in known]  # each, as Dask gives some a level of their own
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
