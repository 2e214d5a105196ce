"""``eddyscope heads``: which heads keep a pattern of their own, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from eddyscope.cli.guard import is_debug
from eddyscope.cli.run import AUTO, Reading, read, reading_options
from eddyscope.cli.shared import ModelName, Output, model_options, output_options, takes
from eddyscope.errors import UsageError

HEADS = "Heads"
_CRITERIA = ("residual", "importance", "residual-x-importance")

#: What the stages are called while they run.
_STAGES = {
    "evidence": "Measuring how alike patterns are and how much depends on each",
    "search": "Looking for the fewest patterns",
    "joint": "Solving the mixing weights of all layers together",
    "healing": "Fitting the mixing weights on the loss",
    "unseen": "Measuring on documents that the plan has not seen",
    "curve": "Measuring every method over budgets",
    "layers": "Measuring what each layer alone can lose",
}


@dataclass(frozen=True)
class Wanted:
    """What plan is wanted."""

    budget: float | None
    max_loss_rise: float | None
    criterion: str
    heal: int
    joint: bool
    curve: bool
    layers: bool
    draws: int
    save_model: bool
    seed: int


def _option(text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=HEADS, **more)


def head_options(
    budget: Annotated[
        float | None,
        _option(
            "Share of the heads that keep a pattern of their own.", metavar="SHARE", show_default="0.5", min=0, max=1
        ),
    ] = None,
    max_loss_rise: Annotated[
        float | None,
        _option(
            "In place of a budget: the fewest patterns whose loss rises by no more; nats a token, or 1 - cosine of an "
            "encoder's embeddings.",
            metavar="NUMBER",
            show_default=False,
        ),
    ] = None,
    criterion: Annotated[
        str, _option("What decides which patterns stay.", metavar="|".join(_CRITERIA))
    ] = "residual-x-importance",
    heal: Annotated[bool, _option("Fit the mixing weights on the loss, with the model frozen.", "--heal")] = False,
    heal_steps: Annotated[
        int | None, _option("With --heal: updates.", metavar="NUMBER", min=1, show_default="400")
    ] = None,
    joint: Annotated[
        bool,
        _option(
            "Solve the mixing weights of all layers once more, together, at the plan (residual-x-importance alone).",
            "--joint/--no-joint",
        ),
    ] = True,
    curve: Annotated[bool, _option("Measure also the loss over budgets with all baselines.", "--curve")] = False,
    layers: Annotated[
        bool, _option("Measure also what each layer alone can lose, beside its effective rank.", "--layers")
    ] = False,
    draws: Annotated[
        int, _option("Targets drawn for each document when the gradient is measured.", metavar="NUMBER", min=1)
    ] = 6,
    save_model: Annotated[
        bool,
        _option(
            "Write the model too (model/): a bundled or trained GPT without the queries and keys that are not needed.",
            "--save-model",
        ),
    ] = False,
    seed: Annotated[int, _option("Seed of everything random.", metavar="NUMBER", min=0)] = 0,
) -> Wanted:
    """What plan is wanted, checked."""
    if criterion not in _CRITERIA:
        raise UsageError(f"--criterion is '{criterion}'; expected one of {', '.join(_CRITERIA)}.")
    if budget is not None and max_loss_rise is not None:
        raise UsageError("Both --budget and --max-loss-rise were given.", "Give one of them.")
    if budget == 0:
        raise UsageError("--budget is 0; expected a share of the heads, above 0 and at most 1.")
    if max_loss_rise is not None and not 0 < max_loss_rise < float("inf"):
        raise UsageError(f"--max-loss-rise is {max_loss_rise:g}; expected a number above 0.")
    if heal_steps is not None and not heal:
        raise UsageError("--heal-steps was given without --heal.", "Add --heal, or leave it out.")
    steps = (heal_steps or 400) if heal else 0
    return Wanted(budget, max_loss_rise, criterion, steps, joint, curve, layers, draws, save_model, seed)


@takes(loading=model_options, reading=reading_options, wanted=head_options, output=output_options)
def heads_command(
    invocation: typer.Context,
    model: ModelName,
    *,
    loading: dict[str, Any],
    reading: Reading,
    wanted: Wanted,
    output: Output,
) -> None:
    """Find which heads need a pattern of their own, let the others share, and measure what that costs.

    Every head keeps its values and its output; heads that share use a mix of the kept patterns of their layer, so their
    queries and keys can go. Writes heads.json (the plan: es.heads.apply puts it on the model), heads.csv,
    redundancy.csv and figures. The loss is measured on documents that the plan has not seen.

    Example: eddyscope heads base --text book.txt --budget 0.5 --out heads

    Example: eddyscope heads ./model --text book.txt --max-loss-rise 0.05 --heal --out heads
    """
    from eddyscope.cli.progress import Display, quiet_libraries
    from eddyscope.cli.results import record_of
    from eddyscope.runs import OutputFolder

    if reading.documents == AUTO:
        raise UsageError("--documents auto does not apply to heads.", "Give a number.")
    display = Display(output.quiet)
    with display.collecting(), OutputFolder(output.out, output.force) as folder:
        with quiet_libraries(loud=is_debug(invocation)), display.stage("loading", f"Loading {model}"):
            from eddyscope.cli.model import resolve_model

            loaded = resolve_model(model, **loading)
        from eddyscope.interventions.heads.study import plan
        from eddyscope.interventions.heads.write import write_heads

        with display.stage("text", "Reading the text"):
            documents = read(reading, loaded, wanted.seed)
        with display.stages(_STAGES) as shown:
            found = plan(
                loaded.model,
                documents,
                budget=wanted.budget,
                max_loss_rise=wanted.max_loss_rise,
                criterion=wanted.criterion,
                healing=wanted.heal,
                joint=wanted.joint,
                curve=wanted.curve,
                layers=wanted.layers,
                draws=wanted.draws,
                seed=wanted.seed,
                progress=shown,
            )
        with display.stage("writing", "Writing the results"):
            record = record_of(invocation, display, documents)
            written = {"model": loaded.model, "tokenizer": loaded.tokenizer} if wanted.save_model else {}
            write_heads(found, folder, figures=output.figures, record=record, **written)
    if not output.quiet:
        from eddyscope.cli.headtable import print_heads

        print_heads(found, output.out)
