"""What a benchmark leaves behind: a file with all figures and the machine, and a table for the docs."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
#: Of runs of one round, which are no figures for the docs.
QUICK = RESULTS / "quick"


def keep(folder: Path, name: str, record: dict[str, Any], table: str) -> None:
    """Print the table, and write it and the figures, each whole or not at all."""
    print(table)
    folder.mkdir(parents=True, exist_ok=True)
    dated = {"date": datetime.now(UTC).strftime("%Y-%m-%d"), **record}
    for path, text in (
        (folder / f"{name}.json", json.dumps(dated, indent=2) + "\n"),
        (folder / f"{name}.md", table),
    ):
        beside = path.with_name(path.name + ".part")
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    print(f"Kept in {folder}.")


def add_common(parser: argparse.ArgumentParser, repeats: int = 5) -> None:
    """Options that every benchmark has."""
    parser.add_argument(
        "--repeats", type=positive, default=repeats, help=f"rounds of all rows in alternation ({repeats})"
    )
    parser.add_argument("--quick", action="store_true", help="one round, without the slowest rows or peak memory")
    parser.add_argument(
        "--cpu-time", action="store_true", help="CPU seconds, all threads added up; for a busy machine, with one thread"
    )
    parser.add_argument("--out", type=Path, help="folder for the result (benchmarks/results, with --quick its quick/)")


def placed(options: argparse.Namespace) -> argparse.Namespace:
    """Options with the folder for the result; a quick run never replaces what the docs show."""
    if options.out is None:
        options.out = QUICK if options.quick else RESULTS
    return options


def positive(text: str) -> int:
    """A whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def timer_of(options: argparse.Namespace) -> Callable[[], float]:
    """The clock that was asked for."""
    return time.process_time if options.cpu_time else time.perf_counter


def machine_line(machine: dict[str, Any]) -> str:
    """What a table was measured on, in a sentence."""
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    return (
        f"Machine: {machine['processor']}, {machine['cores']} cores, threads {machine['threads']}, load at the start "
        f"{machine['load_at_start']}; Python {machine['python']}, {versions}."
    )
