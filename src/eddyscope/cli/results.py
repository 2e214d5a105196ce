"""The end of a run: figures, the report, the output folder, the table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from eddyscope.cli.guard import command_line, is_debug
from eddyscope.cli.progress import Advance, Display, layer_progress
from eddyscope.cli.shared import Output
from eddyscope.cli.table import print_study
from eddyscope.errors import EddyscopeError, EddyscopeWarning, StoreError
from eddyscope.places import writing
from eddyscope.runs import FIGURES, REPORT, OutputFolder, write_run
from eddyscope.study.study import Study

if TYPE_CHECKING:
    from eddyscope.documents import Documents


def write_results(
    folder: OutputFolder, study: Study, output: Output, display: Display, invocation: typer.Context
) -> Study:
    """Draw the figures, write the report and everything else, and publish the folder.

    Returns
    -------
    Study
        With the warnings of the run in its provenance.
    """
    if output.figures:
        with display.stage("drawing", "Drawing the figures") as advance:
            _draw(folder, study, advance, debug=is_debug(invocation))
    if output.report:
        with display.stage("reporting", "Writing the report") as advance:
            _report(folder, _with_warnings(study, display), advance, debug=is_debug(invocation))
    with display.stage("writing", "Writing the results"):
        study = _with_warnings(study, display)
        command = command_line(invocation)
        write_run(folder, study, command=command, seconds=display.seconds)
        folder.publish()
    return study


def _with_warnings(study: Study, display: Display) -> Study:
    return Study(study.data, {**study.provenance, "warnings": list(display.warnings)}, study.documents)


def record_of(invocation: typer.Context, display: Display, documents: Documents) -> dict[str, Any]:
    """How the results of a command that makes no study came about, for its ``run.json``."""
    return {
        "command": command_line(invocation),
        "seconds": {stage: round(taken, 3) for stage, taken in display.seconds.items()},
        "warnings": display.warnings,
        "documents": documents.identity,
    }


def print_results(study: Study, output: Output) -> None:
    """Print the table and where the results are, unless it is to be quiet."""
    if not output.quiet:
        print_study(
            study,
            where=f"The results are in {output.out}: start with {_first_to_see(output)}.",
        )


def _first_to_see(output: Output) -> str:
    if output.report:
        return REPORT
    return "summary.csv and figures/" if output.figures else "summary.csv"


def _draw(folder: OutputFolder, study: Study, advance: Advance, debug: bool) -> None:
    from eddyscope.report.figures import write_figures

    with _sparing("figures", "drawn", debug):
        _in_stage(folder, lambda: write_figures(study, folder.stage / FIGURES, progress=layer_progress(advance)))


def _report(folder: OutputFolder, study: Study, advance: Advance, debug: bool) -> None:
    from eddyscope.report.page import write_report

    with _sparing("report", "written", debug):
        _in_stage(folder, lambda: write_report(study, folder.stage / REPORT, progress=layer_progress(advance)))


def _in_stage(folder: OutputFolder, write: Callable[[], object]) -> None:
    """Write into the hidden folder; errors name the folder that was asked for."""
    with writing(folder.path):
        try:
            write()
        except StoreError as error:
            raise error.__cause__ if isinstance(error.__cause__, OSError) else error from None


@contextmanager
def _sparing(what: str, done: str, debug: bool) -> Iterator[None]:
    """A fault in what is made of the results must not cost the results of a long run, so it becomes a warning."""
    try:
        yield
    except (EddyscopeError, KeyboardInterrupt):
        raise
    except Exception as error:
        if debug:
            raise
        message = f"The {what} could not be {done} ({type(error).__name__}: {error}); all other results are there."
        warnings.warn(
            EddyscopeWarning(message, "no-report" if what == "report" else "no-figures"),
            stacklevel=4,
        )
