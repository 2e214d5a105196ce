"""From errors to one line and an exit status.

=====  =============================================================
0      done
1      input, model or place that cannot be used; anything unexpected
2      an option or argument that cannot be
130    interrupted
141    nobody reads the output any more
=====  =============================================================
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

import typer

from eddyscope.errors import EddyscopeError, UsageError

INTERRUPTED = 130
BROKEN_PIPE = 141


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose errors become one line on standard error; with ``--debug`` they keep their traceback."""

    def run(invocation: typer.Context, **values: Any) -> None:
        try:
            if "invocation" in inspect.signature(command).parameters:
                values["invocation"] = invocation
            command(**values)
            sys.stdout.flush()
        except typer.Exit:
            raise
        except BaseException as error:
            raise typer.Exit(_report(error, debug=is_debug(invocation))) from error

    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.name != "invocation"]
    first = inspect.Parameter("invocation", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    run.__signature__ = signature.replace(parameters=[first, *keywords])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in [first, *own]}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def is_debug(invocation: typer.Context) -> bool:
    """Whether ``--debug`` was given before the command."""
    return bool(invocation.find_root().params.get("debug"))


def _report(error: BaseException, debug: bool) -> int:
    """Say what happened in one line; returns the exit status, or raises the error again."""
    if isinstance(error, KeyboardInterrupt):
        return _say("Interrupted; nothing was written.", INTERRUPTED)
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
