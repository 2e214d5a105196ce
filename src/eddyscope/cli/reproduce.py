"""``eddyscope reproduce``: the published study, repeated and judged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eddyscope.cli.guard import command_line


def reproduce_command(
    invocation: typer.Context,
    out: Annotated[
        Path, typer.Option(help="Folder for the page, tables and figures; missing or empty.", metavar="DIR")
    ],
    models: Annotated[
        Path | None,
        typer.Option(
            help="Folder whose folders 'eddyscope train' has written: more seeds and sizes beside the bundled models.",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(
            help="What the models read.",
            metavar="PATH",
            show_default="the validation split of TinyShakespeare where it is found, else the text of the demo",
        ),
    ] = None,
    documents: Annotated[int, typer.Option(help="Documents that are read.", metavar="NUMBER", min=1)] = 150,
    seed: Annotated[int, typer.Option(help="Seed of everything random.", metavar="NUMBER", min=0)] = 0,
    figures: Annotated[bool, typer.Option(" /--no-figures", help="Leave out the figures.", show_default=False)] = True,
    report: Annotated[
        bool, typer.Option(" /--no-report", help="Leave out the report, report.html.", show_default=False)
    ] = True,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the results of an earlier run in the folder.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")] = False,
) -> None:
    """Repeat the published study on the bundled models and say, claim by claim, what holds.

    Writes a page (page.md, index.html) with verdicts on claims C1 to C7, what untrained twins give, what to distrust,
    the tables and figures of the study in the published conventions and in ours; tables as CSV; verdicts.json; and a
    report of the models beside each other (report.html).

    With three training seeds of an architecture in --models verdicts are about the architecture, else about the models.

    Example: eddyscope reproduce --out study

    Example: eddyscope reproduce --models trained --out study
    """
    from eddyscope.cli.progress import Display, quiet_libraries
    from eddyscope.reproduction.run import HTML, MARKDOWN, reproduce

    display = Display(quiet)
    command = command_line(invocation)
    with display.collecting(), quiet_libraries(), display.stage("repeating", "Repeating the study") as advance:

        def progress(what: str, done: int, total: int) -> None:
            if what and not quiet and not display.console.is_terminal:
                display.console.print(f"{done + 1} of {total}: {what}")
            advance(done, total)

        found = reproduce(
            out, models, text=text, documents=documents, seed=seed, figures=figures, report=report, force=force,
            progress=progress, command=command,
        )  # fmt: skip
    if not quiet:
        for judged in found.judged:
            typer.echo(f"{judged.claim.name}  {judged.verdict}: {judged.claim.published}")
            typer.echo(f"    {judged.why}")
        typer.echo(f"\nThe page is {out / HTML} (and {out / MARKDOWN}).")
