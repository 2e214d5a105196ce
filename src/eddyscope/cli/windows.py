"""``eddyscope windows``: how short each layer's attention may be, by measurement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eddyscope.cli.guard import is_debug
from eddyscope.cli.run import AUTO, Reading, read, reading_options
from eddyscope.cli.shared import ModelName, Output, layer_list, model_options, numbers, output_options, takes
from eddyscope.errors import InputError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from eddyscope.cli.progress import Display
    from eddyscope.documents import Documents
    from eddyscope.interventions.windows.find import Windows

WINDOWS = "Windows"

#: What the stages of the search are called while they run.
_STAGES = {
    "reading": "Reading the documents with the model as it is",
    "curve": "Measuring each layer under shorter windows",
    "octaves": "Measuring each layer without one octave of distances",
    "search": "Shortening windows together",
    "unseen": "Measuring on documents that the search has not seen",
    "modes": "Measuring without bands and modes",
}


@dataclass(frozen=True)
class Wanted:
    """What is looked for."""

    rises: list[float]
    heads: str
    sink: str
    windows: list[int] | None
    octaves: bool
    modes: list[int | str]
    measurements: int | None
    seed: int


def _option(text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=WINDOWS, **more)


def window_options(
    max_loss_rise: Annotated[
        str,
        _option(
            "Largest rise of the loss with all windows together: nats a token, or 1 - cosine of an encoder's "
            "embeddings. Further values, such as 0.02,0.05,0.1, give a plan each.",
            metavar="LIST",
        ),
    ] = "0.02",
    heads: Annotated[str, _option("One window a layer, or one for each head.", metavar="all|each")] = "all",
    sink: Annotated[
        str,
        _option("Keep the first key visible beyond a window (one more key in the cache), or drop it.", metavar="SINK"),
    ] = "keep",
    windows: Annotated[
        str | None,
        _option(
            "Windows at which each layer is measured, in tokens; none measures no curve, and the search goes by the "
            "energy alone. Shorter ones than these are not tried.",
            metavar="LIST|none",
            show_default="powers of two",
        ),
    ] = None,
    octaves: Annotated[
        bool,
        _option("Measure also what each layer owes to each octave of distance, against its energy.", "--octaves"),
    ] = False,
    modes: Annotated[
        str | None,
        _option(
            "Layers, by position or name, whose bands and modes are taken out too, against as much energy at random.",
            metavar="LIST",
            show_default="none",
        ),
    ] = None,
    measurements: Annotated[
        int | None,
        _option(
            "Most measurements of windows together.",
            metavar="NUMBER",
            min=1,
            show_default="60, or 4 for each layer or head if more",
        ),
    ] = None,
    seed: Annotated[int, _option("Seed of everything random.", metavar="NUMBER", min=0)] = 0,
) -> Wanted:
    """What is looked for, checked."""
    if heads not in ("all", "each"):
        raise UsageError(f"--heads is '{heads}'; expected all or each.")
    if sink not in ("keep", "drop"):
        raise UsageError(f"--sink is '{sink}'; expected keep or drop.")
    rises = numbers("--max-loss-rise", max_loss_rise)
    if not all(0 < rise < float("inf") for rise in rises):
        raise UsageError(f"--max-loss-rise is '{max_loss_rise}'; expected numbers above 0.")
    return Wanted(rises, heads, sink, _window_list(windows), octaves, layer_list(modes) or [], measurements, seed)


def _window_list(text: str | None) -> list[int] | None:
    if text is None:
        return None
    if text == "none":
        return []
    values = numbers("--windows", text)
    if any(v != int(v) or v < 1 for v in values):
        raise UsageError(f"--windows is '{text}'; expected whole numbers of tokens, such as 4,16,64.")
    return [int(v) for v in values]


@takes(loading=model_options, reading=reading_options, wanted=window_options, output=output_options)
def windows_command(
    invocation: typer.Context,
    model: ModelName,
    *,
    loading: dict[str, Any],
    reading: Reading,
    wanted: Wanted,
    output: Output,
) -> None:
    """Take distances away from each layer, measure what that costs, and find the shortest windows that fit.

    Writes windows.json (the plan: es.windows.apply puts it on the model), the loss under shorter windows (curve.csv),
    figures, what bands and modes are worth (modes.csv, with --modes), and model/config.json where the architecture has
    sliding windows of its own. The loss of the plan is measured on documents that the search has not seen.

    Example: eddyscope windows base --text book.txt --max-loss-rise 0.02 --out windows

    Example: eddyscope windows ./model --text book.txt --sink drop --octaves --out windows
    """
    from eddyscope.cli.progress import Display, quiet_libraries
    from eddyscope.cli.results import record_of
    from eddyscope.interventions.windows.find import find
    from eddyscope.interventions.windows.write import write_windows
    from eddyscope.runs import OutputFolder

    if reading.documents == AUTO:
        raise UsageError("--documents auto does not apply to windows.", "Give a number.")
    display = Display(output.quiet)
    with display.collecting(), OutputFolder(output.out, output.force) as folder:
        with quiet_libraries(loud=is_debug(invocation)), display.stage("loading", f"Loading {model}"):
            from eddyscope.cli.model import resolve_model

            loaded = resolve_model(model, **loading)
        with display.stage("text", "Reading the text"):
            documents = read(reading, loaded, wanted.seed)
        with display.stages(_STAGES) as shown:
            found = find(
                loaded.model,
                documents,
                max_loss_rise=wanted.rises,
                heads=wanted.heads,
                sink=wanted.sink,
                windows=wanted.windows,
                octaves=wanted.octaves,
                measurements=wanted.measurements,
                seed=wanted.seed,
                name=model,
                progress=shown,
            )
        modes = _modes(display, loaded.model, documents, wanted)
        config, why_not = _config(loaded.model, found)
        with display.stage("writing", "Writing the results"):
            record = record_of(invocation, display, documents) | {"config": why_not or "model/config.json"}
            write_windows(found, folder, modes=modes, figures=output.figures, config=config, record=record)
    if not output.quiet:
        from eddyscope.cli.windowtable import print_windows

        print_windows(found, output.out, modes)


def _modes(display: Display, model: Any, documents: Documents, wanted: Wanted) -> pd.DataFrame | None:
    """What is owed to bands and modes of the layers that were named."""
    from eddyscope.interventions.windows.modestudy import modes_owed

    if not wanted.modes:
        return None
    with display.stages(_STAGES) as shown:
        return modes_owed(model, documents, wanted.modes, seed=wanted.seed, progress=shown)


def _config(model: Any, found: Windows) -> tuple[Any, str]:
    """The model's config with sliding windows, or why there is none."""
    from eddyscope.interventions.windows.native import config

    try:
        return config(model, found.plan), ""
    except InputError as error:
        return None, error.message
