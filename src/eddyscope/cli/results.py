"""The end of a run: figures, the output folder, the table."""

from __future__ import annotations

import typer

from eddyscope.cli.progress import Display
from eddyscope.cli.shared import Output
from eddyscope.cli.table import print_study
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
        from eddyscope.places import writing
        from eddyscope.report.figures import write_figures

        with display.stage("drawing", "Drawing the figures"), writing(folder.path):
            write_figures(study, folder.stage / FIGURES)
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
