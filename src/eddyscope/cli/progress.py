"""What a long command says while it works: stages, their progress and time, and warnings, all on standard error."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from eddyscope.errors import EddyscopeWarning

#: Called with (done, in all).
Advance = Callable[[int, int], None]


class Display:
    """Stages of a command: a bar for each in a terminal, a line elsewhere, nothing when quiet.

    Attributes
    ----------
    seconds : dict
        Time that each stage took so far, by the name it is recorded under.
    warnings : list of dict
        ``slug`` (of warnings of other packages: their class) and ``message`` of every warning, each once.
    """

    def __init__(self, quiet: bool) -> None:
        self.console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        self.quiet = quiet
        self.seconds: dict[str, float] = {}
        self.warnings: list[dict[str, str]] = []

    @contextmanager
    def stage(self, name: str, text: str) -> Iterator[Advance]:
        """A stage: recorded under ``name``, shown as ``text``; gives a function to report progress with."""
        started = time.perf_counter()
        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=self.quiet or not self.console.is_terminal,
        )
        if not self.quiet and not self.console.is_terminal:
            self.console.print(text)
        task = bar.add_task(text, total=None)
        with bar:
            yield lambda done, total: bar.update(task, completed=done, total=total)
        taken = time.perf_counter() - started
        self.seconds[name] = self.seconds.get(name, 0.0) + taken
        if not self.quiet and self.console.is_terminal:
            self.console.print(f"{text} ({taken:.1f} s)")

    @contextmanager
    def stages(self, texts: Mapping[str, str]) -> Iterator[Callable[[str, int, int], None]]:
        """Stages of work that names them as it reaches them; gives a function for (stage, done, in all).

        ``texts`` has what each stage is shown as.
        """
        stack, current = ExitStack(), ""
        advance: Advance | None = None

        def shown(stage: str, done: int, total: int) -> None:
            nonlocal current, advance
            if stage != current:
                stack.close()
                advance = stack.enter_context(self.stage(stage, texts[stage]))
                current = stage
            assert advance is not None
            advance(done, total)

        with stack:
            yield shown

    def say(self, text: str) -> None:
        """Print a line, unless quiet."""
        if not self.quiet:
            self.console.print(text)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Show warnings in one line each, and keep them."""
        with warnings.catch_warnings():
            warnings.filterwarnings("always", category=EddyscopeWarning)
            warnings.showwarning = self._warn
            yield

    def _warn(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        text = " ".join(str(message).split())
        found = {"slug": getattr(message, "slug", category.__name__), "message": text}
        if found not in self.warnings:
            self.warnings.append(found)
            self.console.print(f"Warning: {text}")


def layer_progress(advance: Advance) -> Callable[[str, int, int], None]:
    """Progress of :func:`eddyscope.analyze`, which also names the layer."""
    return lambda name, done, total: advance(done, total)


@contextmanager
def quiet_libraries(loud: bool = False) -> Iterator[None]:
    """Keep what loads models from drawing bars and talking on its own, unless it is to be ``loud``."""
    if loud:
        yield
        return
    loggers = [logging.getLogger(name) for name in ("transformers", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    show_bars = _without_bars()
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        show_bars()


def _without_bars() -> Callable[[], None]:
    """Switch the bars of transformers off; returns what switches them on again."""
    try:
        from transformers.utils import logging as bars
    except ImportError:
        return lambda: None
    if not bars.is_progress_bar_enabled():
        return lambda: None
    bars.disable_progress_bar()  # type: ignore[no-untyped-call]
    return bars.enable_progress_bar
