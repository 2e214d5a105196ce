"""``eddyscope report``: the page of a saved study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report_command(
    studies: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="The folder of a run, or a study saved as Zarr; several are compared."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write.",
            metavar="FILE",
            show_default="report.html in the folder; beside each other, report.html here",
        ),
    ] = None,
    windows: Annotated[
        Path | None,
        typer.Option(
            help="Add what the loss owes to each distance, from the folder that eddyscope windows --octaves wrote for "
            "the same model.",
            metavar="DIR",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file given with --out.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")] = False,
) -> None:
    """Write the report of a saved study again: one HTML file to look at and to send, which needs nothing else.

    In the folder of a run its report is replaced; any other file is only with --force. Of several studies the page
    shows each, and one beside the other.

    Example: eddyscope report study

    Example: eddyscope report study --windows windows
    """
    from eddyscope.cli.progress import Display, layer_progress
    from eddyscope.report.page import write_report
    from eddyscope.runs import REPORT, RUN, note_written
    from eddyscope.store import open_study

    display = Display(quiet)
    opened = [open_study(path) for path in studies]
    own = out is None and len(studies) == 1 and (studies[0] / RUN).is_file()
    place = out or (studies[0] / REPORT if own else Path(REPORT))
    names = None if len(studies) == 1 else _names(studies)
    with display.stage("reporting", "Writing the report") as advance:
        path = write_report(
            opened, place, names=names, windows=windows, force=force or own, progress=layer_progress(advance)
        )
    if own:
        note_written(studies[0], REPORT)
    if not quiet:
        typer.echo(f"The report is {path}.")


def _names(studies: list[Path]) -> list[str]:
    """What each study is called: its folder, and the one that holds it where two have the same name."""
    short = [path.resolve().name.removesuffix(".zarr") for path in studies]
    if len(set(short)) == len(short):
        return short
    return [f"{path.resolve().parent.name}/{name}" for path, name in zip(studies, short, strict=True)]
