"""The whole of ``eddyscope run base`` beside the forward passes that no analysis can do without."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

import torch

import eddyscope as es
from benchmarks.keeping import keep, machine_line, positive, timer_of
from benchmarks.machine import describe
from benchmarks.rounds import Rounds
from eddyscope.cli.model import resolve_model
from eddyscope.demo import demo_text
from eddyscope.heap import keep_freed_memory
from eddyscope.report import write_report

FORWARD = "plain eager forward passes"
CAPTURE = "capture"
PLAIN = "capture and analysis, intervals=False, saved"
WHOLE = "capture and analysis, saved"
REPORT = "capture and analysis, saved, with report"
#: Times the forward passes that a row is meant to take at most.
LIMITS = {WHOLE: 1.3, REPORT: 2.0}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Size of the work."""
    parser.add_argument("--documents", type=positive, default=150, help="documents of 256 tokens (150)")


def run(options: argparse.Namespace) -> None:
    """Time the whole of a run of the bundled model `base` beside its own forward passes."""
    machine = describe(("eddyscope", "torch", "numpy", "xarray", "zarr"))
    count = 40 if options.quick else options.documents
    with tempfile.TemporaryDirectory() as temporary:
        work = Work(count, Path(temporary))
        rounds = Rounds(timer_of(options))
        rows = {
            FORWARD: work.forward,
            CAPTURE: work.capture,
            PLAIN: lambda: work.study(intervals=False),
            WHOLE: work.study,
            REPORT: work.report,
        }
        rounds.alternate(rows, 1 if options.quick else options.repeats)
    record = {
        "machine": machine,
        "clock": rounds.clock_words,
        "setting": {"documents": count, "context": 256, "batch": work.batch},
        "seconds": rounds.rounded(),
        "ratios": {name: round(rounds.ratio(name, FORWARD), 2) for name in rows},
    }
    table = [
        f"Bundled model `base` (6 layers, 8 heads, width 128), {count} documents of 256 tokens, {work.batch} at a "
        "time. Start-up, reading the text and figures are left out.",
        "",
        f"| work | {rounds.clock_words} (median) | repeats | over the forward passes |",
        "|---|---:|---:|---:|",
        *(
            f"| {name} | {median(t):.2f} | {len(t)} | {rounds.ratio(name, FORWARD):.2f}"
            + (f" (meant: at most {LIMITS[name]:g})" if name in LIMITS else "")
            + " |"
            for name, t in rounds.seconds.items()
        ),
        "",
        machine_line(machine),
        "",
    ]
    keep(options.out, "whole", record, "\n".join(table))


class Work:
    """What ``eddyscope run`` does between reading the text and drawing, and the passes that it cannot save."""

    def __init__(self, count: int, folder: Path) -> None:
        keep_freed_memory()  # as the command does
        self.folder, self.saved = folder, 0
        loaded = resolve_model("base")
        self.model = loaded.model
        text = demo_text(folder)
        self.documents = es.read_documents([str(p) for p in text.paths], loaded.tokenizer, context=256, count=count)
        passes: list[int] = []
        es.capture(self.model, self.documents, progress=lambda done, _: passes.append(done))
        self.batch = passes[0]
        for attention in self.model.attentions():
            attention.fused = False  # eager: the softmax is formed

    @torch.inference_mode()
    def forward(self) -> None:
        """Every document, as many at a time as capture takes."""
        ids = torch.from_numpy(self.documents.ids)
        for start in range(0, len(ids), self.batch):
            self.model(ids[start : start + self.batch])

    def capture(self) -> es.AttentionEnsemble:
        """Read and keep the head mean, with all checks."""
        return es.capture(self.model, self.documents)

    def study(self, intervals: bool = True) -> es.Study:
        """Capture, analyse and save."""
        study = es.analyze(self.capture(), intervals=intervals)
        self.saved += 1
        study.save(self.folder / f"study-{self.saved}.zarr")  # a new place, as removing what was there takes long
        return study

    def report(self) -> None:
        """All of it, and the page."""
        write_report([self.study()], self.folder / "report.html", force=True)
