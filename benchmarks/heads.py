"""Attention blocks of a bundled model with all patterns and with half of them: ``python -m benchmarks.heads``.

Three sides take turns: explicit softmax with all heads, the model rebuilt by a plan (``plans/base-half.json``, what
``eddyscope heads base --budget 0.5`` wrote), and torch's fused kernel with all heads beside them. The outputs of
the rebuilt model and of the whole one with the plan applied are compared first.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

import eddyscope as es
from benchmarks.machine import describe

HERE = Path(__file__).parent
EXPLICIT, REBUILT, FUSED = "explicit softmax, all patterns", "rebuilt, half of the patterns", "SDPA, all patterns"


def main() -> None:
    """Time the attention blocks and write ``results/heads.json`` and ``results/heads.md``."""
    options = _options()
    model = es.models.load("base")
    plan = es.heads.read_plan(options.plan)
    rebuilt = es.heads.rebuild(model, plan)
    difference, scale = agreement(model, rebuilt, plan)
    if difference > 1e-5 * scale:
        raise SystemExit(
            f"The rebuilt model differs by {difference:.1g} (logits up to {scale:.3g}): nothing was timed."
        )
    timer = time.process_time if options.cpu_time else time.perf_counter
    seconds = measure(model, rebuilt, options.batch, options.context, options.repeats, timer)
    machine = describe()
    table = markdown(seconds, plan, options, machine, difference / scale)
    print(table)
    options.out.mkdir(parents=True, exist_ok=True)
    record = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine,
        "clock": "CPU seconds" if options.cpu_time else "seconds",
        "batch": options.batch,
        "context": options.context,
        "kept": [len(layer.kept) for layer in plan.layers],
        "seconds": seconds,
        "ratio": median(seconds[EXPLICIT]) / median(seconds[REBUILT]),
        "difference": difference / scale,
    }
    (options.out / "heads.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (options.out / "heads.md").write_text(table, encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.heads", description=main.__doc__)
    parser.add_argument("--plan", type=Path, default=HERE / "plans" / "base-half.json", help="heads.json of base")
    parser.add_argument("--batch", type=int, default=8, help="documents read at a time (8)")
    parser.add_argument("--context", type=int, default=256, help="tokens of a document (256)")
    parser.add_argument("--repeats", type=int, default=21, help="rounds of all sides in alternation (21)")
    parser.add_argument("--cpu-time", action="store_true", help="CPU seconds of all threads, for a busy machine")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for the result")
    return parser.parse_args()


@torch.inference_mode()
def agreement(model: nn.Module, rebuilt: nn.Module, plan: es.heads.Plan) -> tuple[float, float]:
    """Largest difference of logits between the rebuilt model and the whole one with its plan, and the largest logit."""
    ids = torch.randint(0, model.config.vocab_size, (4, 256), generator=torch.Generator().manual_seed(0))
    with es.heads.apply(model, plan):
        expected = model(ids)
    return float((rebuilt(ids) - expected).abs().max()), float(expected.abs().max())


@torch.inference_mode()
def measure(
    model: nn.Module, rebuilt: nn.Module, batch: int, context: int, repeats: int, timer: Callable[[], float]
) -> dict[str, list[float]]:
    """Seconds that all attention blocks of each side take together, in each round, on the inputs that they get."""
    inputs: list[Tensor] = []
    handles = [
        attention.register_forward_pre_hook(lambda module, arguments: inputs.append(arguments[0]))
        for attention in model.attentions()
    ]
    model(torch.randint(0, model.config.vocab_size, (batch, context), generator=torch.Generator().manual_seed(1)))
    for handle in handles:
        handle.remove()
    sides = {EXPLICIT: (model, False), REBUILT: (rebuilt, True), FUSED: (model, True)}
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(repeats + 1):
        for side, (chosen, fused) in sides.items():
            blocks = chosen.attentions()
            for attention in blocks:
                attention.fused = fused
            started = timer()
            for attention, x in zip(blocks, inputs, strict=True):
                attention(x)
            if turn:  # the first warms up
                seconds[side].append(round(timer() - started, 6))
    for attention in model.attentions():
        attention.fused = False
    return seconds


def markdown(
    seconds: dict[str, list[float]],
    plan: es.heads.Plan,
    options: argparse.Namespace,
    machine: dict[str, object],
    difference: float,
) -> str:
    """The table of a run, with the machine it was measured on."""
    clock = "CPU milliseconds" if options.cpu_time else "milliseconds"
    first = median(seconds[EXPLICIT])
    kept = ", ".join(str(len(layer.kept)) for layer in plan.layers)
    lines = [
        f"Attention blocks of `base` (6 layers, 8 heads, width 128), {options.batch} documents of {options.context} "
        f"tokens; {plan.patterns} of {plan.heads} patterns are kept ({kept}).",
        "",
        f"| attention blocks | {clock} (median) | repeats | times faster |",
        "|---|---:|---:|---:|",
        *(f"| {side} | {1000 * median(t):.1f} | {len(t)} | {first / median(t):.2f} |" for side, t in seconds.items()),
        "",
        f"Logits of the rebuilt model and of the whole one with the plan applied differ by {difference:.1g} of the "
        "largest.",
        "",
        f"Machine: {machine['processor']}, {machine['cores']} cores, threads {machine['threads']}, load at the start "
        f"{machine['load_at_start']}; Python {machine['python']}, torch {torch.__version__}.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
