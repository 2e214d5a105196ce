"""Where the time of a whole run goes: samples of what the main thread does, by the function of Eddyscope it is in."""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from threadpoolctl import threadpool_limits

import eddyscope
from benchmarks.keeping import keep, machine_line, positive
from benchmarks.machine import describe
from benchmarks.whole import Work

PACKAGE = str(Path(eddyscope.__file__).parent)
#: Seconds between two samples.
PERIOD = 0.002
SHOWN = 12


def add_options(parser: argparse.ArgumentParser) -> None:
    """Size of the work."""
    parser.add_argument("--documents", type=positive, default=150, help="documents of 256 tokens (150)")


def run(options: argparse.Namespace) -> None:
    """Profile a whole run of the bundled model `base`, report included, and name its largest costs."""
    machine = describe(("eddyscope", "torch", "numpy", "xarray", "zarr", "plotly"))
    count = 40 if options.quick else options.documents
    with tempfile.TemporaryDirectory() as temporary:
        work = Work(count, Path(temporary))
        with threadpool_limits(1, user_api="blas"):  # so that layers are analysed one by one, where they can be seen
            work.report()  # what is imported on first use is start-up
            with Sampler() as sampler:
                for _ in range(1 if options.quick else options.repeats):
                    work.report()
    total = sum(sampler.found.values())
    shares = [(name, found / total) for name, found in sampler.found.most_common()]
    record = {"machine": machine, "documents": count, "samples": total, "shares": dict(shares)}
    three = ", ".join(f"`{name}` ({share:.0%})" for name, share in shares[:3])
    table = [
        f"A whole run of `base` on {count} documents, report included, layers one after another: the function of "
        f"Eddyscope that the main thread was in, or that had called what it was in, of {total:,} samples. The three "
        f"largest costs: {three}.",
        "",
        "| function | share of the time |",
        "|---|---:|",
        *(f"| `{name}` | {share:.1%} |" for name, share in shares[:SHOWN]),
        f"| {len(shares) - SHOWN} others | {sum(share for _, share in shares[SHOWN:]):.1%} |",
        "",
        machine_line(machine),
        "",
    ]
    keep(options.out, "costs", record, "\n".join(table))


class Sampler:
    """Looks at the main thread again and again, from a thread of its own."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        self._over = threading.Event()
        self._watched = threading.main_thread().ident
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.is_set():
            self.found[_innermost(sys._current_frames().get(self._watched or 0))] += 1
            time.sleep(PERIOD)


def _innermost(frame: FrameType | None) -> str:
    """The innermost function of the package on the stack."""
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(PACKAGE):
            module = path.removeprefix(PACKAGE).removesuffix(".py").strip("/").replace("/", ".")
            return f"{module}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return "outside the package"
