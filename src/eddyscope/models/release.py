"""How the bundled weights and the table of the documentation are made.

``python -m eddyscope.models.release pack RUN NAME --commit HASH`` turns a training run into package data;
``python -m eddyscope.models.release table`` prints the measured table of ``docs/models.md``.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eddyscope.models.bundle import load
from eddyscope.models.config import BUNDLED, names
from eddyscope.models.corpus import Corpus, find_corpus
from eddyscope.models.folder import read_config, read_model, save_model, write_whole
from eddyscope.models.gpt import GPT
from eddyscope.models.training import evaluate, evaluation_windows, window_losses

CHECKED_WINDOWS = 16  # windows of the look-ahead measurement
GROUPS = 15  # of neighbouring windows, for the interval of a difference
T_QUANTILE = 2.145  # 97.5 % of t with 14 degrees of freedom
ROUNDING = 1e-3  # changes of logits below this are float32 rounding

CARD = """# {name}

A GPT of the published study, variant `{variant}`, trained on the characters of TinyShakespeare by `eddyscope train`.

| | |
|---|---|
| architecture | {layers} layers, {heads} heads, width {width}, context {context}, {parameters:,} parameters |
| validation loss | {loss:.4f} nats per character, weights as stored (float16) |
| measured on | all {windows} non-overlapping windows of the validation split |
| budget | {steps} steps of {batch} x {context} characters, seed {seed}; the same batches for every bundled model |
| optimiser | {optimiser} |
| schedule | {warmup} steps of warm-up, then {decay} decay to zero; dropout {dropout} |
| corpus | tinyshakespeare.txt, sha256 `{sha256}`; the first 90 % for training |
| code | commit {commit}, torch {torch}, {threads} thread(s) on {device} |

To repeat: `{command}`.

## Limits

- One seed, a small width and a small budget: the loss is above the published one of the same variant, and differences
  between variants are those of single runs.
- {causality}
- Characters only: 65 of them, English of Shakespeare's plays. Others are replaced by a space, and counted.
- Text overlaps: many of Shakespeare's works in other collections share passages with the training split.
"""
LOOKS_AHEAD = (
    "The gate normalises over the whole sequence, as published, so attention and logits depend on later tokens. "
    "The loss profits from that; it is not comparable with the loss of a causal model."
)
LOOKS_BACK = "Attention and logits do not depend on later tokens."


def pack(run: Path, name: str, commit: str, corpus: Corpus, target: Path = BUNDLED) -> float:
    """Write the model of a training run as package data: float16 weights, config, card.

    Parameters
    ----------
    run : Path
        Folder of a finished run.
    name : str
        Name of the bundled model.
    commit : str
        Commit of the code that trained it.
    corpus : Corpus
        What it was trained on; the loss of the card is measured again, on the weights as stored.
    target : Path
        Folder that gets the folder ``name``.

    Returns
    -------
    float
        The validation loss of the stored weights, nats per character.
    """
    training = read_config(run)["training"]
    folder = target / name
    save_model(read_model(run), folder, dtype=torch.float16, training=training)
    stored = read_model(folder)
    windows = evaluation_windows(torch.tensor(stored.encode(corpus.validation)), stored.config.context)
    loss = evaluate(stored, windows)
    training = {**training, "validation_loss": loss, "validation_windows": len(windows), "commit": commit}
    save_model(stored, folder, dtype=torch.float16, training=training)
    write_whole(folder / "card.md", card(name, stored, training))
    return loss


def card(name: str, model: GPT, training: dict[str, Any]) -> str:
    """Return the model card of a bundled model."""
    recipe = training["recipe"]
    optimiser = f"AdamW (rate {recipe['rate']})"
    if recipe["optimiser"] == "muon":
        optimiser = f"Muon for the matrices of the blocks (rate {recipe['matrix_rate']}), {optimiser} for the rest"
    options = {key: recipe[key] for key in ("steps", "batch", "seed")}
    options = {"width": model.config.width, **options, "threads": training["threads"]}
    command = " ".join([f"eddyscope train {model.config.variant}", *(f"--{key} {options[key]}" for key in options)])
    fields = {
        **recipe,
        **model.config.to_dict(),
        **training,
        "name": name,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "loss": training["validation_loss"],
        "windows": training["validation_windows"],
        "optimiser": f"{optimiser}, betas {tuple(recipe['betas'])}, weight decay {recipe['weight_decay']}",
        "sha256": training["corpus_sha256"],
        "device": training.get("device", "cpu"),
        "command": command,
        "causality": LOOKS_AHEAD if model.config.sees_later_tokens else LOOKS_BACK,
    }
    return CARD.format(**fields)


@torch.no_grad()
def look_ahead(model: GPT, windows: Tensor, position: int) -> float:
    """Return the largest change of a logit before ``position`` when the tokens from it on are replaced.

    The replacement is the continuation of the next window. Rounding alone gives below 1e-4.

    Parameters
    ----------
    model : GPT
        In eval mode.
    windows : Tensor
        Token ids (window, token), at least two windows.
    position : int
        First token that is replaced.
    """
    other = torch.cat([windows[:, :position], windows.roll(1, 0)[:, position:]], dim=1)
    return float((model(windows)[:, :position] - model(other)[:, :position]).abs().max())


def causal_statistics_loss(model: GPT, windows: Tensor) -> float:
    """Return the loss of a model when its gates normalise over positions up to the key (evaluation only)."""
    with causal_statistics(model):
        return evaluate(model, windows)


@contextmanager
def causal_statistics(model: GPT) -> Iterator[None]:
    """Let the gates of a model normalise over positions up to the key, for the time of a block."""
    gates = [attention.gate for attention in model.attentions() if attention.gate is not None]
    before = [gate.causal for gate in gates]
    try:
        for gate in gates:
            gate.causal = True
        yield
    finally:
        for gate, value in zip(gates, before, strict=True):
            gate.causal = value


def paired_difference(losses: Tensor, reference: Tensor) -> str:
    """Return the mean difference of window losses with its 95 % half width, over groups of neighbouring windows."""
    groups = torch.stack([group.mean() for group in torch.tensor_split(losses - reference, GROUPS)])
    half_width = T_QUANTILE * float(groups.std()) / math.sqrt(GROUPS)
    return f"{float((losses - reference).mean()):+.4f} +- {half_width:.4f}"


def table(models: list[str], corpus: Corpus) -> str:
    """Return the table of the documentation for bundled models or folders of runs; differences are to the first."""
    lines = [
        "| variant | parameters | loss | against the first | with causal statistics | earlier logits move by | check |",
        "|---|---|---|---|---|---|---|",
    ]
    reference: Tensor | None = None
    for name in models:
        model = load(name)
        windows = evaluation_windows(torch.tensor(model.encode(corpus.validation)), model.config.context)
        moved = look_ahead(model, windows[:CHECKED_WINDOWS, :-1], model.config.context // 2)
        losses = window_losses(model, windows)
        cells = [
            f"`{model.config.variant}`",
            f"{sum(parameter.numel() for parameter in model.parameters()):,}",
            f"{float(losses.mean()):.4f}",
            "" if reference is None else paired_difference(losses, reference),
            f"{causal_statistics_loss(model, windows):.4f}" if model.config.sees_later_tokens else "",
            f"{moved:.1e}",
            "passed" if moved < ROUNDING else "failed",
        ]
        reference = losses if reference is None else reference
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(prog="python -m eddyscope.models.release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="turn a training run into package data")
    packing.add_argument("run", type=Path)
    packing.add_argument("name")
    packing.add_argument("--commit", required=True)
    listing = commands.add_parser("table", help="print the table of the documentation")
    listing.add_argument("models", nargs="*", help="bundled names or folders; all bundled models by default")
    options = parser.parse_args()
    if options.command == "pack":
        print(f"{options.name}: {pack(options.run, options.name, options.commit, find_corpus()):.4f}")
    else:
        print(table(options.models or names(), find_corpus()))


if __name__ == "__main__":
    main()
