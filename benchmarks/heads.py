"""Attention blocks of a bundled model with all patterns and with half of them.

Three sides take turns: explicit softmax with all heads, the model rebuilt by a plan (``plans/base-half.json``, what
``eddyscope heads base --budget 0.5`` wrote), and torch's fused kernel with all heads beside them. The outputs of
the rebuilt model and of the whole one with the plan applied are compared first.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

import eddyscope as es
from benchmarks.keeping import keep, machine_line, positive, timer_of
from benchmarks.machine import describe
from benchmarks.rounds import Rounds

REPEATS = 21
HERE = Path(__file__).parent
EXPLICIT, REBUILT, FUSED = "explicit softmax, all patterns", "rebuilt, half of the patterns", "SDPA, all patterns"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which plan, and the size of the work."""
    parser.add_argument("--plan", type=Path, default=HERE / "plans" / "base-half.json", help="heads.json of base")
    parser.add_argument("--batch", type=positive, default=8, help="documents read at a time (8)")
    parser.add_argument("--context", type=positive, default=256, help="tokens of a document (256)")


def run(options: argparse.Namespace) -> None:
    """Time the attention blocks of the whole model and of the rebuilt one."""
    model = es.models.load("base")
    plan = es.heads.read_plan(options.plan)
    rebuilt = es.heads.rebuild(model, plan)
    difference, scale = agreement(model, rebuilt, plan)
    if difference > 1e-5 * scale:
        raise SystemExit(
            f"The rebuilt model differs by {difference:.1g} (logits up to {scale:.3g}): nothing was timed."
        )
    machine = describe(("eddyscope", "torch"))
    rounds = Rounds(timer_of(options))
    measure(rounds, model, rebuilt, options.batch, options.context, 1 if options.quick else options.repeats)
    record = {
        "machine": machine,
        "clock": rounds.clock_words,
        "batch": options.batch,
        "context": options.context,
        "kept": [len(layer.kept) for layer in plan.layers],
        "seconds": rounds.seconds,
        "ratio": rounds.ratio(EXPLICIT, REBUILT),
        "difference": difference / scale,
    }
    keep(options.out, "heads", record, markdown(rounds, plan, options, machine, difference / scale))


@torch.inference_mode()
def agreement(model: nn.Module, rebuilt: nn.Module, plan: es.heads.Plan) -> tuple[float, float]:
    """Largest difference of logits between the rebuilt model and the whole one with its plan, and the largest logit."""
    ids = torch.randint(0, model.config.vocab_size, (4, 256), generator=torch.Generator().manual_seed(0))
    with es.heads.apply(model, plan):
        expected = model(ids)
    return float((rebuilt(ids) - expected).abs().max()), float(expected.abs().max())


@torch.inference_mode()
def measure(rounds: Rounds, model: nn.Module, rebuilt: nn.Module, batch: int, context: int, repeats: int) -> None:
    """Seconds that all attention blocks of each side take together, in each round, on the inputs that they get."""
    inputs: list[Tensor] = []
    handles = [
        attention.register_forward_pre_hook(lambda module, arguments: inputs.append(arguments[0]))
        for attention in model.attentions()
    ]
    model(torch.randint(0, model.config.vocab_size, (batch, context), generator=torch.Generator().manual_seed(1)))
    for handle in handles:
        handle.remove()

    def blocks(side: nn.Module, fused: bool) -> None:
        for attention, x in zip(side.attentions(), inputs, strict=True):
            attention.fused = fused
            attention(x)

    rows = {EXPLICIT: (model, False), REBUILT: (rebuilt, True), FUSED: (model, True)}
    rounds.alternate({name: partial(blocks, *row) for name, row in rows.items()}, repeats)
    for attention in model.attentions():
        attention.fused = False


def markdown(
    rounds: Rounds,
    plan: es.heads.Plan,
    options: argparse.Namespace,
    machine: dict[str, object],
    difference: float,
) -> str:
    """The table of a run, with the machine it was measured on."""
    clock = rounds.clock_words.replace("seconds", "milliseconds")
    kept = ", ".join(str(len(layer.kept)) for layer in plan.layers)
    lines = [
        f"Attention blocks of `base` (6 layers, 8 heads, width 128), {options.batch} documents of {options.context} "
        f"tokens; {plan.patterns} of {plan.heads} patterns are kept ({kept}).",
        "",
        f"| attention blocks | {clock} (median) | repeats | times faster |",
        "|---|---:|---:|---:|",
        *(
            f"| {side} | {1000 * median(t):.1f} | {len(t)} | {rounds.ratio(EXPLICIT, side):.2f} |"
            for side, t in rounds.seconds.items()
        ),
        "",
        f"Logits of the rebuilt model and of the whole one with the plan applied differ by {difference:.1g} of the "
        "largest.",
        "",
        machine_line(machine),
        "",
    ]
    return "\n".join(lines)
