"""From errors to one line and an exit status.

=====  ===================================================================================
0      done
1      input, model or place that cannot be used; a self-check that failed; anything unexpected
2      an option or argument that cannot be
130    interrupted
141    nobody reads the output any more
143    ended by SIGTERM (129 by SIGHUP: the terminal is gone)
=====  ===================================================================================
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from eddyscope.errors import EddyscopeError, UsageError

INTERRUPTED = 130
BROKEN_PIPE = 141
#: Signals that ask a process to end; by default they would end it at once and leave hidden folders behind.
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

#: What is left of a command that was ended, where it is something.
_KEPT = {
    "train_command": "go on from the last checkpoint with --resume",
    "capture_command": "shards that were whole by then are kept: go on with --resume",
    "demo_command": "studies that were whole by then are kept",
}


class _Ended(BaseException):
    """A signal asked the process to end."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Turn signals that end the process into an exception, so that what is half done is cleared away."""

    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one must not stop the clearing away
        raise _Ended(number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        # One that is ignored (nohup) stays ignored.
        before = {n: signal.signal(n, end) for n in _ENDING if signal.getsignal(n) is signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose errors become one line on standard error; with ``--debug`` they keep their traceback."""

    def run(invocation: typer.Context, **values: Any) -> None:
        try:
            if "invocation" in inspect.signature(command).parameters:
                values["invocation"] = invocation
            with _ended_in_order():
                command(**values)
                sys.stdout.flush()
        except typer.Exit:
            raise
        except BaseException as error:
            kept = _KEPT.get(command.__name__, "nothing was written")
            raise typer.Exit(_report(error, is_debug(invocation), kept)) from error

    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.name != "invocation"]
    first = inspect.Parameter("invocation", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    run.__signature__ = signature.replace(parameters=[first, *keywords])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in [first, *own]}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def command_line(invocation: typer.Context) -> list[str]:
    """What was typed, for the record."""
    return ["eddyscope", *invocation.find_root().meta.get("eddyscope.arguments", [])]


def is_debug(invocation: typer.Context) -> bool:
    """Whether ``--debug`` was given before the command."""
    return bool(invocation.find_root().params.get("debug"))


def _report(error: BaseException, debug: bool, kept: str) -> int:
    """Say what happened in one line; returns the exit status, or raises the error again."""
    if isinstance(error, KeyboardInterrupt):
        return _say(f"Interrupted; {kept}.", INTERRUPTED)
    if isinstance(error, _Ended):
        return _say(f"Ended by {error}; {kept}.", 128 + error.number)
    if isinstance(error, BrokenPipeError):
        # What is left in the buffers would raise again when Python closes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    if debug or not isinstance(error, Exception):
        raise error
    if isinstance(error, EddyscopeError):
        return _say(f"Error: {error}", 2 if isinstance(error, UsageError) else 1)
    if isinstance(error, MemoryError):
        return _say("Error: out of memory. Use fewer documents, a shorter context, or --heads mean.", 1)
    return _say(
        f"Error: something unexpected happened ({type(error).__name__}: {error}). This is a fault of eddyscope: "
        "please report it, with what 'eddyscope info' prints and the traceback that 'eddyscope --debug ...' gives.",
        1,
    )


def _say(message: str, status: int) -> int:
    typer.echo(" ".join(message.split()), err=True)
    return status
