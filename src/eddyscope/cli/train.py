"""``eddyscope train``: train a model of the study on a text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from eddyscope import models
from eddyscope.errors import UsageError
from eddyscope.models.config import VARIANTS, GPTConfig

if TYPE_CHECKING:
    from eddyscope.models.training import Progress, Recipe

Steps = Annotated[int | None, typer.Option(help="Updates.", show_default="1500", min=1)]
Batch = Annotated[int | None, typer.Option(help="Sequences of each update.", show_default="8", min=1)]
Width = Annotated[int | None, typer.Option(help="Width of the residual stream.", show_default="256", min=1)]
Layers = Annotated[int | None, typer.Option(help="Blocks.", show_default="6", min=1)]
Heads = Annotated[int | None, typer.Option(help="Heads of each block.", show_default="8", min=1)]
Context = Annotated[int | None, typer.Option(help="Longest sequence in characters.", show_default="256", min=1)]
Dropout = Annotated[float | None, typer.Option(help="Dropout in training.", show_default="0")]


def train_command(
    variant: Annotated[str, typer.Argument(help=f"One of {', '.join(VARIANTS)}.")],
    corpus: Annotated[str, typer.Option(help="tinyshakespeare, or the path of a text file.")] = "tinyshakespeare",
    out: Annotated[
        Path | None, typer.Option(help="Folder of the model, its log and checkpoint.", show_default="trained-VARIANT")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="'paper': the published recipe, for a GPU; other options still win.")
    ] = None,
    width: Width = None,
    layers: Layers = None,
    heads: Heads = None,
    context: Context = None,
    dropout: Dropout = None,
    steps: Steps = None,
    batch: Batch = None,
    seed: Annotated[int, typer.Option(help="Seed of the weights and the batches.", min=0)] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in the folder.")] = False,
    threads: Annotated[int | None, typer.Option(help="Threads of torch.", show_default="torch's own", min=1)] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    evaluate_every: Annotated[int, typer.Option(help="Steps between rows of the log.", min=1)] = 100,
    checkpoint_every: Annotated[int, typer.Option(help="Steps between checkpoints.", min=1)] = 100,
    keep_steps: Annotated[
        str, typer.Option(help="Steps whose model is kept, such as 0,10,100 (0 = untrained), in steps/ of the folder.")
    ] = "",
) -> None:
    """Train a GPT of the study, with or without an energy gate, on the characters of a text.

    Writes model.safetensors, config.json and training.csv to a folder that 'eddyscope run' and 'eddyscope sample' read.

    Example: eddyscope train ega-1-causal --width 128 --steps 1500 --batch 8 --out my-model
    """
    config, recipe = settings(
        variant,
        preset,
        sizes={"width": width, "layers": layers, "heads": heads, "context": context, "dropout": dropout},
        budget={"steps": steps, "batch": batch, "seed": seed},
    )
    text = models.find_corpus(corpus)
    folder = out or Path(f"trained-{variant}")
    console = Console(stderr=True)
    console.print(
        f"{variant}: {recipe.steps} steps of {recipe.batch} x {config.context} characters of {text.name}",
        highlight=False,
    )
    with _Display(console, recipe.steps) as display:
        model = models.train(
            config,
            text,
            recipe,
            folder,
            resume=resume,
            evaluate_every=evaluate_every,
            checkpoint_every=checkpoint_every,
            keep_steps=parse_steps(keep_steps),
            threads=threads,
            device=choose_device(device),
            report=display.update,
        )
    found = models.read_config(folder)["training"]
    loss, windows = found["validation_loss"], found["validation_windows"]
    typer.echo(f"Validation loss {loss:.4f} nats per character over {windows} windows. The model is in {folder}.")
    if model.config.sees_later_tokens:
        typer.echo(f"The gate of {variant} normalises over the whole sequence, so this model sees later tokens.")


def settings(
    variant: str, preset: str | None, *, sizes: dict[str, Any], budget: dict[str, Any]
) -> tuple[GPTConfig, Recipe]:
    """Return architecture and recipe from a preset and the options that were given (those that are not None).

    Raises
    ------
    UsageError
        For an unknown preset, variant or value.
    """
    if preset not in (None, "paper"):
        raise UsageError(f"Unknown preset '{preset}'; expected 'paper'.", "Leave --preset out for the small recipe.")
    given_sizes = {name: value for name, value in sizes.items() if value is not None}
    given_budget = {name: value for name, value in budget.items() if value is not None}
    base_sizes = models.PAPER_SIZES if preset == "paper" else {}
    recipe = models.PAPER if preset == "paper" else models.Recipe()
    config = GPTConfig(**{"variant": variant, **base_sizes, **given_sizes})
    return config, replace(recipe, **given_budget)


def parse_steps(text: str) -> list[int]:
    """Return the steps of a list such as ``0,10,100``.

    Raises
    ------
    UsageError
        Where an entry is not a whole number of at least 0.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    wrong = [entry for entry in entries if not entry.isdecimal()]
    if wrong:
        raise UsageError(f"--keep-steps has '{wrong[0]}'; expected whole numbers joined by commas, such as 0,10,100.")
    return [int(entry) for entry in entries]


def choose_device(name: str) -> str:
    """Return ``cpu`` or ``cuda`` for the option's value.

    Raises
    ------
    UsageError
        For another name, or ``cuda`` where there is none.
    """
    import torch

    available = torch.cuda.is_available()
    if name == "auto":
        return "cuda" if available else "cpu"
    if name not in ("cpu", "cuda"):
        raise UsageError(f"Unknown device '{name}'; expected auto, cpu or cuda.")
    if name == "cuda" and not available:
        raise UsageError("No CUDA device was found.", "Use --device cpu, with a small --width and few --steps.")
    return name


class _Display:
    """Progress with loss and time left: a bar in a terminal, a line per evaluation elsewhere."""

    def __init__(self, console: Console, steps: int) -> None:
        self.console = console
        self.last: float | None = None
        self.bar = Bar(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[losses]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task("training", total=steps, losses="")

    def __enter__(self) -> _Display:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def update(self, progress: Progress) -> None:
        """Show a step."""
        validation = progress.validation_loss
        losses = f"loss {progress.training_loss:.3f}"
        if validation is not None:
            losses += f", validation {validation:.3f}"
        self.bar.update(self.task, completed=progress.step, losses=losses)
        if not self.console.is_terminal and validation != self.last:
            left = self.bar.tasks[0].time_remaining
            rest = "" if left is None else f", {left / 60:.1f} min left"
            self.console.print(f"step {progress.step} of {progress.steps}: {losses}{rest}", highlight=False)
        self.last = validation
