"""Options that several commands share, each declared once.

An option group is a function: its parameters are the options, its return value is what the command gets. A command
takes groups as arguments, and :func:`takes` puts their options in the place of these arguments::

    @takes(output=output_options)
    def show_command(folder: Path, output: Output) -> None: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from eddyscope.errors import UsageError
from eddyscope.study.options import (
    EDGES,
    LAGS,
    PRESETS,
    SELECTS,
    SINKS,
    WINDOWS,
    Options,
    make_options,
    refuse_overridden,
)

MODEL = "Model"
ANALYSIS = "Analysis"
OUTPUT = "Output"
_SINKS = "|".join((*SINKS, "first=K"))
TOLERANCES = ",".join(map(str, Options.tolerances))


def takes(**groups: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of these groups, by the name of the argument that gets the group's value."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        options = {name: inspect.signature(group, eval_str=True).parameters for name, group in groups.items()}

        def run(**values: Any) -> None:
            for name, group in groups.items():
                values[name] = group(**{option: values.pop(option) for option in options[name]})
            command(**values)

        own = [p for p in signature.parameters.values() if p.name not in groups]
        shared = [p for group in options.values() for p in group.values()]
        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *shared)]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        return run

    return decorate


def _option(text: str, *names: str, panel: str = ANALYSIS, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


#: The argument that names a model.
ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A bundled model such as base; a folder, written with a separator (./model); a checkpoint of nanoGPT "
        "(./out/ckpt.pt); or the id of a model on the Hugging Face hub.",
    ),
]


def model_options(
    gguf_file: Annotated[
        str | None,
        _option("GGUF file in the folder or repository.", panel=MODEL, metavar="NAME", show_default=False),
    ] = None,
    device: Annotated[
        str | None,
        _option("Where the model runs, such as cuda.", panel=MODEL, metavar="NAME", show_default="cpu"),
    ] = None,
    dtype: Annotated[
        str, _option("Type of the weights.", panel=MODEL, metavar="float32|bfloat16|float16|auto")
    ] = "float32",
    trust_pickle: Annotated[
        bool, _option("Read weights that are a pickle, which can run code.", "--trust-pickle", panel=MODEL)
    ] = False,
) -> dict[str, Any]:
    """Arguments of :func:`eddyscope.cli.model.resolve_model`."""
    return {"gguf_file": gguf_file, "device": device, "dtype": dtype, "trust_pickle": trust_pickle}


def analysis_options(
    preset: Annotated[
        str | None,
        _option(
            "The conventions of the published script; fixes the options that they need.", metavar="|".join(PRESETS)
        ),
    ] = Options.preset,
    scales: Annotated[
        str | None,
        _option(
            "Scales of the scalogram in tokens, ascending, such as 2,4,8.",
            metavar="LIST",
            show_default="eight an octave",
        ),
    ] = None,
    omega0: Annotated[float, _option("Centre frequency of the wavelet in radians.", metavar="NUMBER")] = Options.omega0,
    dominant: Annotated[int, _option("Most bands that are analysed.", metavar="NUMBER")] = Options.dominant,
    select: Annotated[
        str,
        _option(
            "Which bands: dominant scales, the largest values of the spectrum, all octaves, three bands of equal "
            "energy, or scales in tokens such as 8,16.",
            metavar="|".join((*SELECTS, "SCALES")),
        ),
    ] = str(Options.select),
    window: Annotated[str, _option("Lag window of a band.", metavar="|".join(WINDOWS))] = Options.window,
    modes: Annotated[int, _option("Modes that are kept of each band.", metavar="NUMBER")] = Options.modes,
    edges: Annotated[
        str | None,
        _option(
            "What stands beyond the lag axis.",
            metavar="|".join(EDGES),
            show_default="reflect for causal, zero for two-sided attention",
        ),
    ] = Options.edges,
    sink: Annotated[
        str, _option("The first key (or K of them) in statistics along the lag.", metavar=_SINKS)
    ] = Options.sink,
    sink_pod: Annotated[str, _option("The same in the field POD.", metavar=_SINKS)] = Options.sink_pod,
    min_query: Annotated[
        int | None,
        _option(
            "First query of the field POD.", metavar="NUMBER", show_default="an eighth of the context if causal, else 0"
        ),
    ] = Options.min_query,
    max_lag: Annotated[
        int | None,
        _option(
            "Keep and analyse lags below this many tokens only; there are no coherence maps then.",
            metavar="NUMBER",
            show_default="all",
        ),
    ] = Options.max_lag,
    lags: Annotated[
        str,
        _option("Which lags; ahead reads the masked half, for the published preset alone.", metavar="|".join(LAGS)),
    ] = Options.lags,
    tolerances: Annotated[
        str, _option("Shares of the energy that the effective rank may miss.", metavar="LIST")
    ] = ",".join(map(str, Options.tolerances)),
    intervals: Annotated[
        bool, _option("Leave out everything that resamples.", " /--no-intervals", show_default=False)
    ] = Options.intervals,
    seed: Annotated[int, _option("Seed of everything random.", metavar="NUMBER", min=0)] = Options.seed,
) -> dict[str, Any]:
    """Arguments of :func:`eddyscope.analyze`, checked."""
    given: dict[str, Any] = {
        "preset": preset,
        "scales": None if scales is None else numbers("--scales", scales),
        "omega0": omega0,
        "dominant": dominant,
        "select": select if select in SELECTS else numbers("--select", select),
        "window": window,
        "modes": modes,
        "edges": edges,
        "sink": sink,
        "sink_pod": sink_pod,
        "min_query": min_query,
        "max_lag": max_lag,
        "lags": lags,
        "tolerances": numbers("--tolerances", tolerances),
        "intervals": intervals,
        "seed": seed,
    }
    refuse_overridden(given)
    make_options(**given)  # here, so that a long capture does not end in an option that cannot be
    return given


@dataclass(frozen=True)
class Output:
    """Where results go and what is shown meanwhile."""

    out: Path
    force: bool
    figures: bool
    quiet: bool
    report: bool = True


def output_options(
    out: Annotated[Path, _option("Folder for the results; missing or empty.", panel=OUTPUT, metavar="DIR")],
    force: Annotated[
        bool, _option("Replace the results of an earlier run in the folder.", "--force", panel=OUTPUT)
    ] = False,
    figures: Annotated[
        bool, _option("Leave out the figures.", " /--no-figures", panel=OUTPUT, show_default=False)
    ] = True,
    report: Annotated[
        bool, _option("Leave out the report, report.html.", " /--no-report", panel=OUTPUT, show_default=False)
    ] = True,
    quiet: Annotated[bool, _option("Print nothing but warnings and errors.", "--quiet", "-q", panel=OUTPUT)] = False,
) -> Output:
    """Where results go and what is shown meanwhile."""
    return Output(out, force, figures, quiet, report)


def numbers(name: str, text: str) -> list[float]:
    """Numbers joined by commas.

    Raises
    ------
    UsageError
        Where an entry is not a number.
    """
    try:
        return [float(entry) for entry in text.split(",")]
    except ValueError:
        raise UsageError(
            f"{name} is '{text}'; expected numbers joined by commas, such as 2,4,8"
            + (f", or one of {', '.join(SELECTS)}." if name == "--select" else ".")
        ) from None


def layer_list(text: str | None) -> list[int | str] | None:
    """Layers joined by commas: positions in reading order, or names."""
    if text is None:
        return None
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    return [int(entry) if entry.lstrip("-").isdecimal() else entry for entry in entries]


def flag(name: str) -> str:
    """The option of an argument: ``--min-query`` for ``min_query``."""
    return "--" + name.replace("_", "-")
