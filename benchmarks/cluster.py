"""Time capture with statistics on one worker and on two, in alternation; and work out what a million documents take.

``python -m benchmarks cluster`` times; ``python -m benchmarks cluster --estimate`` computes the worked estimate of the
docs from sizes alone.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np

import eddyscope as es
from benchmarks.keeping import keep, machine_line, positive
from benchmarks.machine import describe
from benchmarks.rounds import Rounds
from eddyscope.heap import keep_freed_memory
from eddyscope.plans import ModelSize, Plan, Work, size

MODEL = "base"
ALONE, ONE, TWO = "one process, no cluster", "one worker", "two workers"
#: Speed of two workers over one that is asked for on two idle cores.
TARGET = 1.6
PACKAGES = ("eddyscope", "torch", "numpy", "dask", "distributed")


@dataclass(frozen=True)
class Setting:
    """Size of the work."""

    documents: int = 1536
    context: int = 256
    seed: int = 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """What to do beside the common options."""
    parser.add_argument(
        "--documents", type=positive, default=Setting.documents, help="documents, a multiple of 128 (1536)"
    )
    parser.add_argument("--estimate", action="store_true", help="no timing: the estimate for a million documents")


def run(options: argparse.Namespace) -> None:
    """Time capture with statistics on one worker and on two; or write the estimate."""
    if options.estimate:
        keep(options.out, "cluster_estimate", *estimate())
        return
    setting = Setting(options.documents)
    keep_freed_memory()  # as commands and their workers do
    machine = describe(PACKAGES)
    if options.cpu_time:
        print("Workers are processes of their own, so seconds of the clock are taken.")
    rounds = measure(setting, 1 if options.quick else options.repeats, time.perf_counter)
    keep(options.out, "cluster", *as_kept(setting, rounds, machine))


def measure(setting: Setting, repeats: int, timer: Any) -> Rounds:
    """Alternate all rows; clusters are started before, and every worker has loaded its model in the round before."""
    import torch

    from eddyscope.cluster.engine import connected

    torch.set_num_threads(1)  # as each worker has
    vocabulary = len(es.models.load(MODEL).vocabulary or ())
    ids = np.random.default_rng(setting.seed).integers(0, vocabulary, (setting.documents, setting.context))
    model, rounds = es.models.load(MODEL), Rounds(timer)
    with ExitStack() as stack:
        one, two = (stack.enter_context(connected(count, None)).client for count in (1, 2))
        work = partial(es.capture, model, ids, keep="statistics")
        rounds.alternate({ONE: partial(work, dask=one), TWO: partial(work, dask=two), ALONE: work}, repeats)
    return rounds


def as_kept(setting: Setting, rounds: Rounds, machine: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """All figures of a run, and its table."""
    speeds = {name: rounds.ratio(ONE, name) for name in (ONE, TWO, ALONE)}
    record = {
        "machine": machine,
        "clock": rounds.clock_words,
        "setting": {"model": MODEL, "documents": setting.documents, "context": setting.context},
        "seconds": rounds.rounded(),
        "speed_over_one_worker": {name: round(speed, 2) for name, speed in speeds.items()},
    }
    asked = {TWO: f" (at least {TARGET:g})"}
    lines = [
        f"The bundled model {MODEL} in float32, {setting.documents} documents of {setting.context} tokens into "
        f"statistics, shards of 64 documents, one thread a process; medians of {len(rounds.seconds[ONE])} rounds in "
        "which all rows take turns. Starting the workers and loading the model are not counted.",
        "",
        f"| work | {rounds.clock_words} | speed over one worker |",
        "|---|---:|---:|",
        *(
            f"| {name} | {median(rounds.seconds[name]):.2f} | {speed:.2f}{asked.get(name, '')} |"
            for name, speed in speeds.items()
        ),
        "",
        machine_line(machine),
        "",
    ]
    return record, "\n".join(lines)


# --- a million documents ---------------------------------------------------------------------------------------------

#: Sizes of a model of 7 billion parameters, as LLaMA 7B has them.
LAYERS, HEADS, WIDTH, INNER, PARAMETERS = 32, 32, 4096, 11008, 6.61e9
#: What is assumed of the machines, in operations a second: a GPU in bfloat16, as eager attention reaches it, and a core
#: in float64; bytes a second from GPU to host.
GPU_FLOPS, CORE_FLOPS, TO_HOST = 100e12, 20e9, 10e9
DOCUMENTS, TOKENS, BATCH, SHARD, GPUS = 1_000_000, 1024, 4, 64, 16


def estimate() -> tuple[dict[str, Any], str]:
    """What statistics, or fields, of a million documents take of a model of 7 billion parameters; record and table."""
    model = ModelSize("7B", (True,) * LAYERS, HEADS, int(2 * PARAMETERS), WIDTH, INNER, item=2)
    work = Work(DOCUMENTS, TOKENS, kept=1, batch=BATCH, shard=SHARD, item=2)
    plan = Plan(model, work, process=500 << 20, workers=GPUS)
    entries, reach = work.entries(True), TOKENS // 2
    forward = 2 * PARAMETERS * TOKENS + 4 * LAYERS * TOKENS**2 * WIDTH
    lag = LAYERS * 2 * 2 * reach**2 * (TOKENS - reach)
    record = {
        "forward_flop_a_document": forward,
        "gpu_hours": DOCUMENTS * forward / GPU_FLOPS / 3600,
        "lag_flop_a_document": lag,
        "core_hours": DOCUMENTS * lag / CORE_FLOPS / 3600,
        "to_host_hours": DOCUMENTS * LAYERS * 4 * entries / TO_HOST / 3600,
        "cores_a_gpu": (lag / CORE_FLOPS) / (forward / GPU_FLOPS),
        "shards": plan.shards,
        "token_bytes": 2 * DOCUMENTS * TOKENS,
        "statistics_bytes": _statistics_bytes(plan),
        "statistics_travel_bytes": plan.travels["statistics"],
        "store_bytes": plan.costs["store"].disk,
        "wall_hours": DOCUMENTS * forward / GPU_FLOPS / 3600 / GPUS,
    }
    rounded = {name: float(f"{value:.4g}") for name, value in record.items()}
    return {"setting": _setting(), **rounded}, _table(record)


def _setting() -> dict[str, Any]:
    return {
        "documents": DOCUMENTS, "tokens": TOKENS, "layers": LAYERS, "heads": HEADS, "width": WIDTH,
        "parameters": PARAMETERS, "gpu_flops": GPU_FLOPS, "core_flops": CORE_FLOPS, "to_host": TO_HOST, "gpus": GPUS,
    }  # fmt: skip


def _statistics_bytes(plan: Plan) -> int:
    """One set of statistics of all layers, which is what the caller ends with."""
    return plan.costs["statistics"].memory["statistics"]


def _table(found: dict[str, Any]) -> str:
    passes = f"{found['forward_flop_a_document']:.2g} a document, {found['gpu_hours']:,.0f} GPU-hours"
    lags = f"{found['lag_flop_a_document']:.2g} a document, {found['core_hours']:,.0f} core-hours"
    rows = [
        ("forward passes", "2 P L + 4 n L² w operations a document, at 10¹⁴ a second", passes),
        ("lag covariances", "2 n · 2 h² (L - h) operations a document, at 2 · 10¹⁰ a second and core", lags),
        ("maps to the host", "2 n L (L + 1) bytes a document, at 10 GB/s", f"{found['to_host_hours']:,.0f} hours"),
        ("cores for a GPU", "so that neither waits for the other", f"{found['cores_a_gpu']:.0f}"),
        ("time", f"{GPUS} workers, each with a GPU and its cores", f"{found['wall_hours']:.1f} hours"),
        ("shards", f"of {SHARD} documents", f"{found['shards']:,}"),
        ("token ids to workers", "2 bytes a token", size(found["token_bytes"])),
        ("statistics", "of 15 groups, whatever the number of documents", size(found["statistics_bytes"])),
        ("statistics that travel", "245 blocks of 64 shards, 2 groups each", size(found["statistics_travel_bytes"])),
        ("or fields on disk", "head mean in half precision, n L (L + 1) bytes a document", size(found["store_bytes"])),
    ]
    lines = [
        f"{DOCUMENTS:,} documents of L = {TOKENS} tokens; P = {PARAMETERS / 1e9:.2f}·10⁹ parameters without the "
        f"language-model head, n = {LAYERS} layers of {HEADS} heads, w = {WIDTH}, head mean, two treatments of sinks, "
        "h = L/2.",
        "",
        "| what | formula or assumption | takes |",
        "|---|---|---:|",
        *(f"| {name} | {how} | {takes} |" for name, how, takes in rows),
        "",
    ]
    return "\n".join(lines)
