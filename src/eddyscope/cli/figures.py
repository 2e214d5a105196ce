"""``eddyscope figures``: the figures of a saved study as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eddyscope.cli.shared import layer_list
from eddyscope.errors import StoreError, UsageError

#: Formats of each style, where nothing else is said.
_FORMATS = {"page": "png,pdf", "paper": "pdf,png"}


def figures_command(
    study: Annotated[Path, typer.Argument(help="The folder of a run, or a study saved as Zarr.", metavar="DIR")],
    style: Annotated[
        str,
        typer.Option(
            help="page: as in the folder of a run, with captions. paper: one and two columns wide, without captions, "
            "readable in grey.",
            metavar="page|paper",
        ),
    ] = "page",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the files.", metavar="FOLDER", show_default="figures or paper in DIR"),
    ] = None,
    names: Annotated[
        str | None,
        typer.Option("--names", help="Figures to draw, such as scalograms,modes.", metavar="LIST", show_default="all"),
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help="Layers to show, such as 0,5,11.", metavar="LIST", show_default="all")
    ] = None,
    heads: Annotated[
        str | None,
        typer.Option(help="Heads to show, where each was kept.", metavar="LIST", show_default="as many as fit"),
    ] = None,
    formats: Annotated[str | None, typer.Option(help="png, pdf, svg.", metavar="LIST", show_default="png,pdf")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace figures that are there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")] = False,
) -> None:
    """Draw the figures of a saved study into files: for reading (page) or for a paper.

    Example: eddyscope figures study --style paper --layers 0,3,5
    """
    from eddyscope.cli.progress import Display, layer_progress
    from eddyscope.report.figures import write_figures
    from eddyscope.report.paper import write_paper_figures
    from eddyscope.store import open_study

    if style not in _FORMATS:
        raise UsageError(f"--style is '{style}'; expected page or paper.")
    place = out or _folder_of(study) / ("figures" if style == "page" else "paper")
    if place.is_dir() and any(place.iterdir()) and not force:
        raise StoreError(
            f"The folder '{place}' exists and is not empty.", "Choose another one (--out), or replace with --force."
        )
    write = write_figures if style == "page" else write_paper_figures
    display = Display(quiet)
    opened = open_study(study)
    with display.stage("drawing", "Drawing the figures") as advance:
        written = write(
            opened,
            place,
            formats=(formats or _FORMATS[style]).split(","),
            names=None if names is None else names.split(","),
            layers=layer_list(layers),
            heads=None if heads is None else heads.split(","),
            progress=layer_progress(advance),
        )
    if not quiet:
        typer.echo(f"{len(written)} files are in {place}.")


def _folder_of(study: Path) -> Path:
    return study.parent if study.suffix == ".zarr" else study
