"""A comparison on disk: tables, figures, and how it came about; whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from eddyscope.comparison.compare import Comparison
from eddyscope.places import writing
from eddyscope.runs import FIGURES, REPORT, OutputFolder, write_record
from eddyscope.study.study import Study

#: Names of the figures, in reading order.
DRAWN = ("comparison", "octaves")


def write_comparison(
    comparison: Comparison,
    out: str | Path,
    *,
    force: bool = False,
    figures: bool = True,
    formats: Sequence[str] = ("png", "pdf"),
    command: Sequence[str] = (),
    studies: Mapping[str, Study] | None = None,
) -> Path:
    """Write the tables as CSV, the figures, the report of the studies beside each other, and ``run.json``.

    Parameters
    ----------
    comparison : Comparison
    out : str or Path
        Folder, missing or empty; with ``force`` it may hold the results of an earlier run.
    force, figures : bool
    formats : sequence of {"png", "pdf", "svg"}
    command : sequence of str
        The command line, for the record.
    studies : mapping of str to Study, optional
        What was compared, by name; without it there is no report.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    StoreError
        Where something stands in the way or the place cannot be written.
    """
    with OutputFolder(out, force) as folder, writing(folder.path):
        for name, table in comparison.tables().items():
            table.to_csv(folder.stage / f"{name}.csv", index=False)
        if figures:
            _draw(comparison, folder.stage / FIGURES, formats)
        if studies:
            from eddyscope.report.page import write_report

            write_report(list(studies.values()), folder.stage / REPORT, names=list(studies))
        record = {
            "command": list(command),
            "labels": list(comparison.labels),
            "steps": None if comparison.steps is None else list(comparison.steps),
            "notes": list(comparison.notes),
        }
        write_record(folder.stage, record)
        folder.publish()
    return Path(out)


def _draw(comparison: Comparison, place: Path, formats: Sequence[str]) -> None:
    from eddyscope.report.comparisons import draw_comparison, draw_octave_differences
    from eddyscope.report.figures import save_figure

    place.mkdir()
    for name, draw in zip(DRAWN, (draw_comparison, draw_octave_differences), strict=True):
        figure = draw(comparison)
        for kind in formats:
            save_figure(figure, place / f"{name}.{kind}")
