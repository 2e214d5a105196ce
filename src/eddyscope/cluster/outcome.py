"""What a task gives back: its result, or what went wrong, as data.

Errors of Eddyscope that a worker meets (a document with NaN, a full disk) would be the same on any other worker. They
come back as data rather than as exceptions, so that Dask neither repeats the task nor writes a traceback, and the
caller sees the error that a single process would have raised.
"""

from __future__ import annotations

import functools
import os
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from eddyscope import errors
from eddyscope.errors import ClusterError, EddyscopeError, EddyscopeWarning


@dataclass(frozen=True)
class Outcome:
    """Result of a task.

    Parameters
    ----------
    value : object
    error : tuple of (str, str, str or None), optional
        Class, message and remedy of an error of Eddyscope; of any other error what it said, in one line.
    trace : str
        Traceback of an error that is none of Eddyscope's.
    warnings : tuple of (str, str)
        Slug and message of each warning.
    """

    value: Any = None
    error: tuple[str, str, str | None] | None = None
    trace: str = ""
    warnings: tuple[tuple[str, str], ...] = field(default=())

    def of(self, value: Any) -> Outcome:
        """The same with another value, without warnings."""
        return replace(self, value=value, warnings=())

    def unwrap(self) -> Any:
        """The value; raises the error, and gives the warnings, where the task met any."""
        for slug, message in self.warnings:
            warnings.warn(EddyscopeWarning(message, slug), stacklevel=3)
        if self.error is None:
            return self.value
        kind, message, remedy = self.error
        made = getattr(errors, kind, ClusterError)
        plain = made if made is not errors.MissingDependencyError else ClusterError
        raise plain(message, remedy) from (WorkerTraceback(self.trace) if self.trace else None)


class WorkerTraceback(Exception):
    """Where on the worker something unexpected happened; shown by ``--debug``."""

    def __str__(self) -> str:
        return f"on the worker:\n{self.args[0]}"


def attempt(work: Callable[..., Any]) -> Callable[..., Outcome]:
    """A function for workers that gives an :class:`Outcome`, whatever happens in it."""

    @functools.wraps(work)
    def run(*given: Any, **named: Any) -> Outcome:
        failed = next((x for x in given if isinstance(x, Outcome) and x.error is not None), None)
        if failed is not None:
            return failed.of(None)
        with _caught() as caught:
            try:
                outcome = Outcome(work(*given, **named))
            except EddyscopeError as error:
                outcome = Outcome(error=(type(error).__name__, error.message, error.remedy))
            except Exception as error:
                outcome = _unexpected(error)
        said = [w.message for w in caught if isinstance(w.message, EddyscopeWarning)]
        found = ((w.slug, str(w).removesuffix(f" [{w.slug}]")) for w in said)
        return replace(outcome, warnings=tuple(dict.fromkeys(found)))

    return run


#: Held while a thread catches warnings, which all threads of a process share.
_CATCHING = threading.Lock()
#: Processes that hand out work; where they also do some, in threads, warnings need no way back.
CALLERS: set[int] = set()


@contextmanager
def _caught() -> Iterator[list[warnings.WarningMessage]]:
    """Warnings of Eddyscope, kept; those of a second thread go where they would go anyway."""
    if os.getpid() in CALLERS or not _CATCHING.acquire(blocking=False):
        yield []
        return
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", EddyscopeWarning)
            yield caught
    finally:
        _CATCHING.release()


def _unexpected(error: Exception) -> Outcome:
    said = " ".join(str(error).split())
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    message = f"A worker failed at {_place(error)}: {what}."
    remedy = "Use fewer documents a shard, or --heads mean." if isinstance(error, MemoryError) else None
    return Outcome(error=("ClusterError", message, remedy), trace=traceback.format_exc())


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].name} ({frames[-1].filename.rsplit('/', 1)[-1]}, line {frames[-1].lineno})" if frames else "?"
