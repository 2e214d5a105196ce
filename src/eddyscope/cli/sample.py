"""``eddyscope sample``: text written by a model of the study."""

from __future__ import annotations

from typing import Annotated

import typer

from eddyscope import models


def sample_command(
    model: Annotated[str, typer.Argument(help="A bundled model, such as base, or the folder of a training run.")],
    length: Annotated[int, typer.Option(help="Characters to write.", min=0)] = 500,
    temperature: Annotated[float, typer.Option(help="Divides the logits; 0 takes the likeliest.", min=0.0)] = 0.8,
    seed: Annotated[int, typer.Option(help="Seed of the draws.", min=0)] = 0,
    prompt: Annotated[str, typer.Option(help="Text to go on from.", show_default="a line break")] = "\n",
) -> None:
    """Write text with a model of the study, one character at a time.

    Example: eddyscope sample base --length 300 --prompt "ROMEO:"
    """
    reader = models.load(model)
    replaced = reader.replaced(prompt)
    if replaced:
        found = ", ".join(repr(character) for character in replaced)
        typer.echo(f"{sum(replaced.values())} characters of the prompt are not in the vocabulary: {found}.", err=True)
    written = models.sample(reader, length, prompt=prompt, temperature=temperature, seed=seed)
    typer.echo(prompt.lstrip("\n") + written)
