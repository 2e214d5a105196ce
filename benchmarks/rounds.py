"""Rows that take turns: seconds of each round, and ratios that are taken within a round."""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

Result = TypeVar("Result")


@dataclass
class Rounds:
    """Seconds of every repeat of every row."""

    timer: Callable[[], float] = time.perf_counter
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def clock(self, name: str, work: Callable[[], Result]) -> Result:
        """Run and time; garbage of the row before is collected first."""
        gc.collect()
        start = self.timer()
        result = work()
        self.seconds[name].append(self.timer() - start)
        return result

    def alternate(self, rows: dict[str, Callable[[], object]], repeats: int) -> None:
        """All rows in turns, ``repeats`` times, after one round that is not counted."""
        for work in rows.values():
            work()
        for _ in range(repeats):
            for name, work in rows.items():
                self.clock(name, work)

    def ratio(self, row: str | Sequence[float], over: str) -> float:
        """Median over rounds of a row's seconds over those of another; of medians where the rounds differ."""
        theirs = self.seconds[row] if isinstance(row, str) else row
        ours = self.seconds[over]
        if len(theirs) != len(ours):
            return median(theirs) / median(ours)
        return median(a / b for a, b in zip(theirs, ours, strict=True))

    @property
    def clock_words(self) -> str:
        """Which seconds these are."""
        return "CPU seconds" if self.timer is time.process_time else "seconds"

    def rounded(self) -> dict[str, list[float]]:
        """For the file."""
        return {name: [round(t, 4) for t in times] for name, times in self.seconds.items()}
