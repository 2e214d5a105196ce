"""The end of a run: figures, the output folder, the table."""

from __future__ import annotations

import warnings

import typer

from eddyscope.cli.guard import is_debug
from eddyscope.cli.progress import Advance, Display, layer_progress
from eddyscope.cli.shared import Output
from eddyscope.cli.table import print_study
from eddyscope.errors import EddyscopeError, EddyscopeWarning, StoreError
from eddyscope.places import writing
from eddyscope.runs import FIGURES, OutputFolder, write_run
from eddyscope.study.study import Study


def write_results(
    folder: OutputFolder, study: Study, output: Output, display: Display, invocation: typer.Context
) -> Study:
    """Draw the figures, write everything, and publish the folder.

    Returns
    -------
    Study
        With the warnings of the run in its provenance.
    """
    if output.figures:
        with display.stage("drawing", "Drawing the figures") as advance:
            _draw(folder, study, advance, debug=is_debug(invocation))
    with display.stage("writing", "Writing the results"):
        study = Study(study.data, {**study.provenance, "warnings": display.warnings}, study.documents)
        command = ["eddyscope", *invocation.find_root().meta.get("eddyscope.arguments", [])]
        write_run(folder, study, command=command, seconds=display.seconds)
        folder.publish()
    return study


def print_results(study: Study, output: Output) -> None:
    """Print the table and where the results are, unless it is to be quiet."""
    if not output.quiet:
        print_study(
            study,
            where=f"The results are in {output.out}: start with summary.csv"
            + (" and figures/." if output.figures else "."),
        )


def _draw(folder: OutputFolder, study: Study, advance: Advance, debug: bool) -> None:
    """Draw the figures; a fault in one must not cost the results of a long run, so it becomes a warning."""
    from eddyscope.report.figures import write_figures

    try:
        with writing(folder.path):
            try:
                write_figures(study, folder.stage / FIGURES, progress=layer_progress(advance))
            except StoreError as error:  # name the folder that was asked for, not the hidden one
                raise error.__cause__ if isinstance(error.__cause__, OSError) else error from None
    except (EddyscopeError, KeyboardInterrupt):
        raise
    except Exception as error:
        if debug:
            raise
        message = f"The figures could not be drawn ({type(error).__name__}: {error}); all other results are there."
        warnings.warn(EddyscopeWarning(message, "no-figures"), stacklevel=2)
