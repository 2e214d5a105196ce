"""``eddyscope run``: from a model and a text to a study."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eddyscope.cli.guard import is_debug
from eddyscope.cli.shared import Output, analysis_options, flag, layer_list, output_options, takes
from eddyscope.errors import EddyscopeWarning, InputError, UsageError

if TYPE_CHECKING:
    from eddyscope.cli.model import Loaded
    from eddyscope.documents import Documents

MODEL = "Model"
DOCUMENTS = "Documents"
CAPTURE = "Capture"

#: Tokens of a document and documents, where nothing else is said.
CONTEXT = 256
COUNT = 150


@dataclass(frozen=True)
class Reading:
    """What the model reads; None where it was not said."""

    text: list[str]
    token_ids: Path | None
    context: int | None
    documents: int | None
    field: str | None
    encoding: str | None
    pack: bool
    overlap: bool
    special: str | None


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
        int | None, _option(DOCUMENTS, "Documents wanted.", show_default=str(COUNT), metavar="NUMBER", min=1)
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


def capture_options(
    heads: Annotated[str, _option(CAPTURE, "Keep the mean over heads, or each head.", metavar="mean|each")] = "mean",
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
    drop_bad: Annotated[bool, _option(CAPTURE, "Leave out documents that give NaN or Inf.", "--drop-bad")] = False,
    allow_failed_checks: Annotated[
        bool, _option(CAPTURE, "Go on when a self-check fails, and mark the study.", "--allow-failed-checks")
    ] = False,
) -> dict[str, Any]:
    """Arguments of :func:`eddyscope.capture`."""
    if heads not in ("mean", "each"):
        raise UsageError(f"--heads is '{heads}'; expected mean or each.")
    return {
        "heads": heads,
        "layers": layer_list(layers),
        "batch": batch,
        "drop_bad": drop_bad,
        "allow_failed_checks": allow_failed_checks,
    }


@takes(reading=reading_options, capturing=capture_options, analysis=analysis_options, output=output_options)
def run_command(
    invocation: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A bundled model such as base; a folder, written with a separator (./model); or the id of a model "
            "on the Hugging Face hub.",
        ),
    ],
    gguf_file: Annotated[
        str | None, _option(MODEL, "GGUF file in the folder or repository.", metavar="NAME", show_default=False)
    ] = None,
    device: Annotated[
        str | None, _option(MODEL, "Where the model runs, such as cuda.", metavar="NAME", show_default="cpu")
    ] = None,
    dtype: Annotated[str, _option(MODEL, "Type of the weights.", metavar="float32|bfloat16|float16|auto")] = "float32",
    trust_pickle: Annotated[
        bool, _option(MODEL, "Read weights that are a pickle, which can run code.", "--trust-pickle")
    ] = False,
    *,
    reading: Reading,
    capturing: dict[str, Any],
    analysis: dict[str, Any],
    output: Output,
) -> None:
    """Let a model read a text, and find out at which distances each layer works and which patterns recur.

    Writes a folder with every result (study.zarr), a table (summary.csv, summary.json), figures, and how they came
    about (run.json).

    Example: eddyscope run ./model --text book.txt --out study
    """
    from eddyscope.cli.progress import Display, layer_progress, quiet_libraries
    from eddyscope.cli.results import print_results, write_results
    from eddyscope.runs import OutputFolder

    display = Display(output.quiet)
    _look_for(reading)
    with display.collecting(), OutputFolder(output.out, output.force) as folder:
        with quiet_libraries(loud=is_debug(invocation)), display.stage("loading", f"Loading {model}"):
            from eddyscope.cli.model import resolve_model

            loaded = resolve_model(model, gguf_file=gguf_file, device=device, dtype=dtype, trust_pickle=trust_pickle)
        with display.stage("reading", "Reading the text" if reading.text else f"Reading {reading.token_ids}"):
            documents = read(reading, loaded, analysis["seed"])
        with display.stage("capturing", _of(documents)) as advance:
            from eddyscope.capture import capture

            ensemble = capture(
                loaded.model, documents, **capturing, max_lag=analysis["max_lag"], device=device, progress=advance
            )
        with display.stage("analysing", f"Analysing {len(ensemble.layers)} layers") as advance:
            from eddyscope.study.analyze import analyze

            study = analyze(ensemble, **analysis, progress=layer_progress(advance))
        study = write_results(folder, study, output, display, invocation)
    print_results(study, output)


def _of(documents: Documents) -> str:
    return f"Capturing {len(documents)} documents of {documents.context} tokens"


def _look_for(reading: Reading) -> None:
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
    options: dict[str, Any] = {"context": context, "count": reading.documents or COUNT, "seed": seed}
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
