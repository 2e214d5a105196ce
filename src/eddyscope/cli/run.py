"""``eddyscope run``: from a model and a text to a study."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eddyscope.cli.cluster import Sharing, shared, sharing_options
from eddyscope.cli.guard import is_debug
from eddyscope.cli.shared import (
    ModelName,
    Output,
    analysis_options,
    flag,
    layer_list,
    model_options,
    output_options,
    takes,
)
from eddyscope.errors import EddyscopeWarning, InputError, UsageError

if TYPE_CHECKING:
    from eddyscope.cli.model import Loaded
    from eddyscope.cli.progress import Advance, Display
    from eddyscope.documents import Documents
    from eddyscope.ensemble import AttentionEnsemble
    from eddyscope.statistics import AttentionStatistics
    from eddyscope.study.study import Study

DOCUMENTS = "Documents"
CAPTURE = "Capture"
TRUST = "Trust"

#: Tokens of a document and documents, where nothing else is said.
CONTEXT = 256
COUNT = 150
#: In the place of a number of documents: as many as a measure needs.
AUTO = "auto"


@dataclass(frozen=True)
class Reading:
    """What the model reads; None where it was not said."""

    text: list[str]
    token_ids: Path | None
    context: int | None
    documents: str | None
    field: str | None
    encoding: str | None
    pack: bool
    overlap: bool
    special: str | None

    @property
    def count(self) -> int | None:
        """Documents wanted; None where it was not said, or was left open."""
        return None if self.documents in (None, AUTO) else int(str(self.documents))


@dataclass(frozen=True)
class Trust:
    """What is done beside the analysis to know how far to trust it."""

    nulls: tuple[str, ...]
    precision: float | None
    measure: str | None


def _option(panel: str, text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


def reading_options(
    text: Annotated[
        list[str] | None,
        _option(
            DOCUMENTS,
            "A text file, a folder of them, JSON Lines (with --field), or - for standard input; may be given again.",
            metavar="PATH",
            show_default=False,
        ),
    ] = None,
    token_ids: Annotated[
        Path | None,
        _option(
            DOCUMENTS,
            "In place of a text: a .npy file of token ids, shape (documents, tokens).",
            metavar="FILE.npy",
            show_default=False,
        ),
    ] = None,
    context: Annotated[
        int | None,
        _option(
            DOCUMENTS,
            "Tokens of a document.",
            show_default=f"{CONTEXT}, or the model's maximum if less",
            metavar="NUMBER",
            min=2,
        ),
    ] = None,
    documents: Annotated[
        str | None,
        _option(
            DOCUMENTS,
            "Documents wanted; auto reads on, at doublings from 100 to 1600, until --precision is reached.",
            show_default=str(COUNT),
            metavar="NUMBER|auto",
        ),
    ] = None,
    field: Annotated[
        str | None,
        _option(DOCUMENTS, "Field of JSON Lines that holds the text.", metavar="NAME", show_default=False),
    ] = None,
    encoding: Annotated[
        str | None, _option(DOCUMENTS, "Encoding of the text.", metavar="NAME", show_default="utf-8")
    ] = None,
    pack: Annotated[bool, _option(DOCUMENTS, "Let documents cross from one source to the next.", "--pack")] = False,
    overlap: Annotated[bool, _option(DOCUMENTS, "Let documents overlap.", "--overlap")] = False,
    special: Annotated[
        str | None,
        _option(DOCUMENTS, "Special tokens around each document.", metavar="auto|none", show_default="auto"),
    ] = None,
) -> Reading:
    """What the model reads."""
    if documents not in (None, AUTO) and not (documents.isdecimal() and int(documents) > 0):
        raise UsageError(f"--documents is '{documents}'; expected a whole number of at least 1, or auto.")
    reading = Reading(list(text or ()), token_ids, context, documents, field, encoding, pack, overlap, special)
    if bool(reading.text) == (token_ids is not None):
        raise UsageError(
            "Both --text and --token-ids were given." if text else "Nothing to read was given.",
            "Give --text PATH (- for standard input), or --token-ids FILE.npy.",
        )
    if token_ids is not None:
        of_texts = ("context", "documents", "field", "encoding", "pack", "overlap", "special")
        given = [name for name in of_texts if getattr(reading, name) not in (None, False)]
        if given:
            raise UsageError(
                f"{flag(given[0])} does not apply to --token-ids, whose documents are read as they are.",
                "Leave it out, or cut the array.",
            )
    return reading


def trust_options(
    null: Annotated[
        str | None,
        _option(
            TRUST,
            "Null models to put beside the model: twin (fresh weights, three seeds), shuffled (tokens "
            "permuted within each document), phases, uniform.",
            metavar="LIST",
            show_default="none",
        ),
    ] = None,
    precision: Annotated[
        float | None,
        _option(
            TRUST,
            "With --documents auto: half of the measure's interval, over its value, that is narrow enough.",
            metavar="SHARE",
            show_default="0.05",
        ),
    ] = None,
    measure: Annotated[
        str | None,
        _option(
            TRUST,
            "With --documents auto: the column of the summary that is meant.",
            metavar="NAME",
            show_default="participation_ratio",
        ),
    ] = None,
) -> Trust:
    """What is done beside the analysis to know how far to trust it."""
    from eddyscope.study.nulls import null_names

    return Trust(() if null is None else null_names(null), precision, measure)


def capture_options(
    heads: Annotated[
        str,
        _option(
            CAPTURE,
            "Keep the mean over heads, each head, or the heads with these numbers, such as 0,3.",
            metavar="mean|each|LIST",
        ),
    ] = "mean",
    weight: Annotated[
        str,
        _option(
            CAPTURE,
            "Keep the weights, or the weights times the norm of what each token's value adds to the residual stream.",
            metavar="attention|value-norm",
        ),
    ] = "attention",
    way: Annotated[
        str,
        _option(
            CAPTURE,
            "How attention is seen: hooks under eager, an attention function around eager, or recomputed in blocks of "
            "query rows, for long contexts.",
            metavar="auto|hooks|function|blocks",
        ),
    ] = "auto",
    layers: Annotated[
        str | None,
        _option(CAPTURE, "Layers to keep, by position or name, such as 0,3,5.", metavar="LIST", show_default="all"),
    ] = None,
    batch: Annotated[
        int | None,
        _option(
            CAPTURE,
            "Documents read at a time.",
            show_default="by the size of a layer's attention",
            metavar="NUMBER",
            min=1,
        ),
    ] = None,
    memory_budget: Annotated[
        str | None,
        _option(
            CAPTURE,
            "Memory that the process may take, such as 4GB: chooses batch and way, and refuses what cannot fit.",
            metavar="AMOUNT",
            show_default="none",
        ),
    ] = None,
    drop_bad: Annotated[bool, _option(CAPTURE, "Leave out documents that give NaN or Inf.", "--drop-bad")] = False,
    allow_failed_checks: Annotated[
        bool, _option(CAPTURE, "Go on when a self-check fails, and mark the study.", "--allow-failed-checks")
    ] = False,
) -> dict[str, Any]:
    """Arguments of :func:`eddyscope.capture`."""
    from eddyscope.budget import budget_bytes

    for option, given, known in (
        ("--weight", weight, ("attention", "value-norm")),
        ("--way", way, ("auto", "hooks", "function", "blocks")),
    ):
        if given not in known:
            raise UsageError(f"{option} is '{given}'; expected one of {', '.join(known)}.")
    return {
        "heads": _heads(heads),
        "weight": weight,
        "way": way,
        "layers": layer_list(layers),
        "batch": batch,
        "memory_budget": budget_bytes(memory_budget),
        "drop_bad": drop_bad,
        "allow_failed_checks": allow_failed_checks,
    }


def _heads(given: str) -> str | list[int]:
    if given in ("mean", "each"):
        return given
    numbers = given.split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise UsageError(f"--heads is '{given}'; expected mean or each, or numbers of heads such as 0,3.")
    return [int(number) for number in numbers]


@takes(
    loading=model_options,
    reading=reading_options,
    capturing=capture_options,
    analysis=analysis_options,
    trust=trust_options,
    sharing=sharing_options,
    output=output_options,
)
def run_command(
    invocation: typer.Context,
    model: ModelName,
    keep: Annotated[
        str,
        _option(
            CAPTURE,
            "Keep the attention of all documents, or statistics of it in memory that does not grow with their number: "
            "everything along the lag, but not the POD of the field.",
            metavar="fields|statistics",
        ),
    ] = "fields",
    *,
    loading: dict[str, Any],
    reading: Reading,
    capturing: dict[str, Any],
    analysis: dict[str, Any],
    trust: Trust,
    sharing: Sharing,
    output: Output,
) -> None:
    """Let a model read a text, and find out at which distances each layer works and which patterns recur.

    Writes a folder with every result (study.zarr), a table (summary.csv, summary.json), figures, and how they came
    about (run.json).

    Example: eddyscope run ./model --text book.txt --out study

    Example: eddyscope run ./model --text books/ --documents 2000 --keep statistics --out study --workers 4
    """
    from eddyscope.cli.progress import Display, layer_progress, quiet_libraries
    from eddyscope.cli.results import print_results, write_results
    from eddyscope.runs import OutputFolder

    display = Display(output.quiet)
    look_for(reading)
    kept = _kept(keep, analysis, trust)
    with display.collecting(), OutputFolder(output.out, output.force) as folder:
        with quiet_libraries(loud=is_debug(invocation)), display.stage("loading", f"Loading {model}"):
            from eddyscope.cli.model import resolve_model

            loaded = resolve_model(model, **loading)
        given = capturing | kept | {"max_lag": analysis["max_lag"], "device": loading["device"]}
        with shared(sharing, display, invocation) as cluster:
            captured = partial(_captured, loaded.model, given, cluster, folder.stage.parent)
            if reading.documents == AUTO:
                ensemble, study = _read_on(display, reading, loaded, captured, analysis, trust, kept, cluster)
            else:
                ensemble, study = _read_once(display, reading, loaded, given, captured, analysis, sharing, cluster)
        if trust.nulls:
            from eddyscope.study.nulls import run_nulls

            with display.stage("nulls", f"Null models: {', '.join(trust.nulls)}") as advance:
                study = run_nulls(
                    study, ensemble, trust.nulls, model=loaded.model, capturing=given, progress=layer_progress(advance)
                )
        study = write_results(folder, study, output, display, invocation)
    print_results(study, output)


def _kept(keep: str, analysis: dict[str, Any], trust: Trust) -> dict[str, Any]:
    """Arguments of :func:`eddyscope.capture` that say what is kept; refuses what it could not answer afterwards."""
    if keep not in ("fields", "statistics"):
        raise UsageError(f"--keep is '{keep}'; expected fields or statistics.")
    if keep == "fields":
        return {"keep": keep}
    from eddyscope.statistics import expect_no_fields
    from eddyscope.study.options import make_options

    expect_no_fields(make_options(**analysis))
    if "phases" in trust.nulls:
        raise UsageError("The null model phases needs fields.", "Leave it out, or give --keep fields.")
    other = "mask" if analysis["sink"] == "keep" else "keep"
    return {"keep": keep, "sinks": (analysis["sink"], other)}


#: Captures documents, with progress.
Captured = Callable[..., "AttentionEnsemble | AttentionStatistics"]


def _captured(
    model: Any,
    capturing: dict[str, Any],
    cluster: dict[str, Any],
    place: Path,
    documents: Documents,
    progress: Advance | None = None,
) -> AttentionEnsemble | AttentionStatistics:
    """What :func:`eddyscope.capture` gives; fields that a cluster captures are on disk meanwhile."""
    from eddyscope.capture import capture, capture_fields

    if not cluster or capturing["keep"] == "statistics":
        found: AttentionEnsemble | AttentionStatistics = capture(
            model, documents, **capturing, **cluster, progress=progress
        )
        return found
    given = {name: value for name, value in capturing.items() if name != "keep"}
    store = place / f"fields-{len(documents)}.zarr"
    return capture_fields(model, documents, store, force=True, **given, **cluster, progress=progress).ensemble()


def _read_once(
    display: Display,
    reading: Reading,
    loaded: Loaded,
    capturing: dict[str, Any],
    captured: Captured,
    analysis: dict[str, Any],
    sharing: Sharing,
    cluster: dict[str, Any],
) -> tuple[AttentionEnsemble | AttentionStatistics, Study]:
    """Read, capture and analyse as many documents as were asked for."""
    from eddyscope.cli.progress import layer_progress
    from eddyscope.study.analyze import analyze

    with display.stage("reading", "Reading the text" if reading.text else f"Reading {reading.token_ids}"):
        documents = read(reading, loaded, analysis["seed"])
    goal = "statistics" if capturing["keep"] == "statistics" else "store" if sharing else "run"
    say_plan(display, loaded, documents, capturing, goal, workers=sharing.workers)
    with display.stage("capturing", _of(documents)) as advance:
        ensemble = captured(documents, progress=advance)
    with display.stage("analysing", f"Analysing {len(ensemble.layers)} layers") as advance:
        return ensemble, analyze(ensemble, **analysis, **cluster, progress=layer_progress(advance))


def say_plan(
    display: Display,
    loaded: Loaded,
    documents: Documents,
    capturing: dict[str, Any],
    goal: str,
    shard: int | None = None,
    workers: int | None = None,
) -> None:
    """Say in a line what the work will take; UsageError where that is more than the budget."""
    from eddyscope.capture.options import Options
    from eddyscope.capture.planning import prepared

    given = {name: value for name, value in capturing.items() if name not in ("keep", "sinks")}
    budget = given.pop("memory_budget")
    plan, _ = prepared(loaded.model, documents, Options.of(given), goal, shard=shard, budget=budget)
    display.say(f"Plan: {replace(plan, workers=workers).line(goal)}")


def _read_on(
    display: Display,
    reading: Reading,
    loaded: Loaded,
    captured: Captured,
    analysis: dict[str, Any],
    trust: Trust,
    kept: dict[str, Any],
    cluster: dict[str, Any],
) -> tuple[AttentionEnsemble | AttentionStatistics, Study]:
    """Read on until a measure is known well enough."""
    from eddyscope.study.auto import LAG_MEASURE, MEASURE, PRECISION, read_on

    if reading.token_ids is not None or "-" in reading.text:
        raise UsageError("--documents auto reads the text again and again, so it needs --text with a file or folder.")
    with display.stage("capturing", "Reading until the measure is known"):
        return read_on(
            lambda count: read(replace(reading, documents=str(count)), loaded, analysis["seed"]),
            captured,
            analysis=analysis | cluster,
            precision=PRECISION if trust.precision is None else trust.precision,
            measure=trust.measure or (MEASURE if kept["keep"] == "fields" else LAG_MEASURE),
        )


def _of(documents: Documents) -> str:
    return f"Capturing {len(documents)} documents of {documents.context} tokens"


def look_for(reading: Reading) -> None:
    """Refuse what is not there before a model is loaded."""
    from eddyscope.texts import read_texts

    for path in reading.text:
        if path != "-" and not Path(path).exists():
            read_texts(path)
    if reading.token_ids is not None and not reading.token_ids.exists():
        raise InputError(f"There is no file '{reading.token_ids}'.")


def read(reading: Reading, loaded: Loaded, seed: int) -> Documents:
    """The documents that a loaded model reads.

    Raises
    ------
    InputError
        Where they cannot be read, or there is no tokenizer to read them with.
    """
    from eddyscope.documents import Documents, read_documents

    if reading.token_ids is not None:
        return Documents.from_ids(reading.token_ids)
    if loaded.tokenizer is None:
        raise InputError(
            "There is no tokenizer beside the model, so it cannot read text.",
            "Add its tokenizer.json to the folder, or give token ids with --token-ids FILE.npy.",
        )
    context = reading.context or min(CONTEXT, loaded.context or CONTEXT)
    options: dict[str, Any] = {"context": context, "count": reading.count or COUNT, "seed": seed}
    given = {"field": reading.field, "encoding": reading.encoding, "special": reading.special}
    options |= {name: value for name, value in given.items() if value is not None}
    text = reading.text[0] if len(reading.text) == 1 else reading.text
    documents = read_documents(text, loaded.tokenizer, pack=reading.pack, overlap=reading.overlap, **options)
    _note_replaced(documents)
    return documents


def _note_replaced(documents: Documents) -> None:
    """Warn where tokens stand for something that the model does not know."""
    replaced = documents.identity.get("replaced", 0)
    if replaced:
        tokens = sum(source["tokens"] for source in documents.identity["sources"])
        warnings.warn(
            EddyscopeWarning(
                f"{replaced:,} of {tokens:,} tokens of the text stand for something that the vocabulary does not have.",
                "replaced-tokens",
            ),
            stacklevel=2,
        )
