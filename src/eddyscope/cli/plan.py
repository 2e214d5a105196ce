"""``eddyscope plan``: what a capture and its analysis will take."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from eddyscope.cli.capture import fields_options
from eddyscope.cli.cluster import CLUSTER
from eddyscope.cli.guard import is_debug
from eddyscope.cli.run import AUTO, Reading, capture_options, look_for, read, reading_options
from eddyscope.cli.shared import OUTPUT, ModelName, model_options, takes
from eddyscope.errors import UsageError


@takes(loading=model_options, reading=reading_options, capturing=capture_options, kept=fields_options)
def plan_command(
    invocation: typer.Context,
    model: ModelName,
    shard: Annotated[
        int | None,
        typer.Option(
            help="Documents of a shard, where fields go to disk.",
            metavar="NUMBER",
            show_default="at most 64, or 256 MiB",
            min=1,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="Read a first shard, to say how long it takes to read all.", rich_help_panel=OUTPUT
        ),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes that would share the work: says what each takes, and what travels.",
            metavar="NUMBER",
            show_default="none",
            min=1,
            rich_help_panel=CLUSTER,
        ),
    ] = None,
    *,
    loading: dict[str, Any],
    reading: Reading,
    capturing: dict[str, Any],
    kept: dict[str, Any],
) -> None:
    """Say what a capture and its analysis will take: passes, memory and disk, before any work.

    Reads the config of the model and the text, and no weights unless --measure is given. Shows side by side what a run
    with its fields in memory takes, statistics without fields, fields on disk and their analysis.

    Example: eddyscope plan ./model --text books/ --documents 2000 --memory-budget 4GB

    Example: eddyscope plan ./model --text books/ --documents 2000 --measure --workers 4
    """
    from eddyscope.cli.progress import Display, quiet_libraries

    if reading.documents == AUTO:
        raise UsageError("--documents auto is of eddyscope run, which measures while it reads.", "Give a number.")
    display = Display(quiet=True)
    look_for(reading)
    with display.collecting():
        with quiet_libraries(loud=is_debug(invocation)):
            from eddyscope.cli.model import resolve_model, resolve_sizes

            loaded = (resolve_model if measure else resolve_sizes)(model, **loading)
        from eddyscope.capture import plan

        documents = read(reading, loaded, kept.pop("seed"))
        given = capturing | kept | {"device": loading["device"]}
        found = plan(loaded.model, documents, shard=shard, measure=measure, workers=workers, **given)
    typer.echo(str(found))
