"""``eddyscope capture``: from a model and a text to fields on disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eddyscope.cli.cluster import Sharing, shared, sharing_options
from eddyscope.cli.guard import is_debug
from eddyscope.cli.run import AUTO, CAPTURE, Reading, capture_options, look_for, read, reading_options, say_plan
from eddyscope.cli.shared import OUTPUT, ModelName, model_options, takes
from eddyscope.errors import UsageError

if TYPE_CHECKING:
    from eddyscope.cli.progress import Advance, Display


def fields_options(
    max_lag: Annotated[
        int | None,
        typer.Option(
            help="Keep lags below this many tokens only.",
            metavar="NUMBER",
            show_default="all",
            min=1,
            rich_help_panel=CAPTURE,
        ),
    ] = None,
    half: Annotated[
        bool, typer.Option("--half", help="Keep the fields in half precision.", rich_help_panel=CAPTURE)
    ] = False,
    seed: Annotated[
        int, typer.Option(help="Seed of the choice of documents.", metavar="NUMBER", min=0, rich_help_panel=CAPTURE)
    ] = 0,
) -> dict[str, Any]:
    """What is kept of each map, and the seed of the documents."""
    return {"max_lag": max_lag, "dtype": "float16" if half else "float32", "seed": seed}


@dataclass(frozen=True)
class Place:
    """Where the fields go."""

    store: Path
    shard: int | None
    resume: bool
    force: bool
    quiet: bool


def place_options(
    store: Annotated[
        Path,
        typer.Option(help="The store, such as fields.zarr; must not exist.", metavar="PATH", rich_help_panel=OUTPUT),
    ],
    shard: Annotated[
        int | None,
        typer.Option(
            help="Documents of a shard, which is in memory at a time and is written whole.",
            metavar="NUMBER",
            show_default="at most 64, or 256 MiB",
            min=1,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the store that is there; begin where there is none.", rich_help_panel=OUTPUT
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the store that is there.", rich_help_panel=OUTPUT)
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.", rich_help_panel=OUTPUT),
    ] = False,
) -> Place:
    """Where the fields go, and what may be there."""
    if resume and force:
        raise UsageError("--resume and --force were both given: a store is either gone on with or replaced.")
    return Place(store, shard, resume, force, quiet)


@takes(
    loading=model_options,
    reading=reading_options,
    capturing=capture_options,
    kept=fields_options,
    place=place_options,
    sharing=sharing_options,
)
def capture_command(
    invocation: typer.Context,
    model: ModelName,
    *,
    loading: dict[str, Any],
    reading: Reading,
    capturing: dict[str, Any],
    kept: dict[str, Any],
    place: Place,
    sharing: Sharing,
) -> None:
    """Let a model read a text, and keep its attention on disk, for eddyscope analyze.

    One shard of documents is in memory at a time. Each is written whole, with checksums. A capture that was
    interrupted, even by SIGKILL, goes on with --resume from its last whole shard, to the same result.

    Example: eddyscope capture ./model --text books/ --documents 2000 --store fields.zarr

    Example: eddyscope capture ./model --text books/ --documents 2000 --store fields.zarr --workers 4
    """
    from eddyscope.cli.progress import Display, quiet_libraries
    from eddyscope.fieldplace import check_free

    if reading.documents == AUTO:
        raise UsageError("--documents auto is of eddyscope run, which measures while it reads.", "Give a number.")
    display = Display(place.quiet)
    look_for(reading)
    check_free(place.store.absolute(), place.force, place.resume)
    with display.collecting():
        with quiet_libraries(loud=is_debug(invocation)), display.stage("loading", f"Loading {model}"):
            from eddyscope.cli.model import resolve_model

            loaded = resolve_model(model, **loading)
        from eddyscope.capture import capture_fields

        with display.stage("reading", "Reading the text" if reading.text else f"Reading {reading.token_ids}"):
            documents = read(reading, loaded, kept.pop("seed"))
        given = capturing | kept | {"device": loading["device"]}
        if not (place.resume and place.store.exists()):  # what is gone on with keeps its own batch
            say_plan(display, loaded, documents, given, "store", place.shard, sharing.workers)
        text = f"Capturing {len(documents)} documents of {documents.context} tokens"
        with shared(sharing, display, invocation) as cluster, display.stage("capturing", text) as advance:
            store = capture_fields(
                loaded.model,
                documents,
                place.store,
                shard=place.shard,
                resume=place.resume,
                force=place.force,
                progress=_told(display, advance, place.store),
                **cluster,
                **given,
            )
    if not place.quiet:
        typer.echo(f"The fields are in {place.store}: {len(store.layers)} layers, {store.count} documents.")
        typer.echo(f"Analyse them with: eddyscope analyze {place.store} --out DIR")


def _told(display: Display, advance: Advance, path: Path) -> Callable[[int, int], None]:
    """Progress, which also says in a line how long the rest will take, once a shard has been read."""
    from eddyscope.fieldplace import open_fields
    from eddyscope.planwords import duration

    began: list[tuple[float, int, int]] = []  # time, documents and size of a shard at the first call
    told: list[bool] = []

    def report(done: int, total: int) -> None:
        advance(done, total)
        if not began:
            began.append((time.perf_counter(), done, open_fields(path).size))
        started, before, shard = began[0]
        if not told and before < done < total and done % shard == 0:
            told.append(True)
            rate = (done - before) / (time.perf_counter() - started)
            left = duration((total - done) / rate)
            display.say(f"{done} of {total} documents are read, {rate:.3g} a second: about {left} left")

    return report
