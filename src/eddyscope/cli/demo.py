"""``eddyscope demo``: the bundled models read Shakespeare."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eddyscope.cli.guard import is_debug
from eddyscope.cli.shared import Output
from eddyscope.errors import StoreError

if TYPE_CHECKING:
    from eddyscope.cli.model import Loaded
    from eddyscope.documents import Documents

#: The standard model, and the one whose attention is gated by energy.
MODELS = ("base", "ega-1")
OUT = Path("eddyscope-demo")


def demo_command(
    invocation: typer.Context,
    out: Annotated[
        Path, typer.Option(help="Folder to write to; each model gets one of its own in it.", metavar="DIR")
    ] = OUT,
    documents: Annotated[int, typer.Option(help="Documents that the models read.", metavar="NUMBER", min=1)] = 150,
    seed: Annotated[int, typer.Option(help="Seed of the choice of documents.", metavar="NUMBER")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace the results of an earlier demo.")] = False,
    report: Annotated[
        bool, typer.Option(" /--no-report", help="Leave out the reports, report.html.", show_default=False)
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors and warnings only.")] = False,
) -> None:
    """Let two small bundled models read Shakespeare: a standard one, and one whose attention is gated by energy.

    Needs no network. Writes DIR/base and DIR/ega-1, each as run does: start with report.html. The text is the package
    'shakespeare' if it is installed, else the validation split of TinyShakespeare if it is there, else the help topics
    of Python.

    Example: eddyscope demo --out demo
    """
    _refuse_what_is_there(out, force)
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            _study_of(name, Path(folder), documents, seed, Output(out / name, force, True, quiet, report), invocation)
    if not quiet:
        typer.echo(f"\nThe studies are in {' and '.join(str(out / name) for name in MODELS)}.")


def _refuse_what_is_there(out: Path, force: bool) -> None:
    """Refuse before any work what the second model's folder would be refused for after half of it."""
    for name in MODELS:
        folder = out / name
        if not force and folder.is_dir() and any(folder.iterdir()):
            raise StoreError(
                f"The folder '{folder}' exists and is not empty.",
                "Choose another one (--out), or replace the results in it with --force.",
            )


def _study_of(name: str, folder: Path, count: int, seed: int, output: Output, invocation: typer.Context) -> None:
    from eddyscope.capture import capture
    from eddyscope.cli.progress import Display, layer_progress, quiet_libraries
    from eddyscope.cli.results import print_results, write_results
    from eddyscope.runs import OutputFolder
    from eddyscope.study.analyze import analyze

    display = Display(output.quiet)
    with display.collecting(), OutputFolder(output.out, output.force) as results:
        with quiet_libraries(loud=is_debug(invocation)), display.stage("loading", f"Loading {name}"):
            from eddyscope.cli.model import resolve_model

            loaded = resolve_model(name)
        documents, description = _read(loaded, folder, count, seed)
        if not output.quiet:
            typer.echo(f"{name} reads {len(documents)} windows of {documents.context} characters: {description}.")
        with display.stage("capturing", f"Capturing {len(documents)} documents") as advance:
            ensemble = capture(loaded.model, documents, progress=advance)
        with display.stage("analysing", f"Analysing {len(ensemble.layers)} layers") as advance:
            study = analyze(ensemble, seed=seed, progress=layer_progress(advance))
        study = write_results(results, study, output, display, invocation)
    print_results(study, output)


def _read(loaded: Loaded, folder: Path, count: int, seed: int) -> tuple[Documents, str]:
    """The documents, and what they are in words."""
    from eddyscope.demo import demo_text
    from eddyscope.documents import read_documents

    text = demo_text(folder)
    documents = read_documents(
        list(text.paths), loaded.tokenizer, context=loaded.context or 256, count=count, seed=seed
    )
    replaced, read = documents.identity["replaced"], sum(s["tokens"] for s in documents.identity["sources"])
    counted = (
        f"; {replaced:,} of their {read:,} characters are not in the vocabulary and read as spaces" if replaced else ""
    )
    return documents, text.description + counted
