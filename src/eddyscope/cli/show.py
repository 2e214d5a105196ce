"""``eddyscope show``: the table of a study, and small bar charts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def show_command(
    study: Annotated[Path, typer.Argument(help="The folder of a run, or a study saved as Zarr.", metavar="DIR")],
) -> None:
    """Print what a study found, layer by layer, what each column means, and small bar charts.

    Every file of the study is checked first; a damaged one is named.

    Example: eddyscope show study
    """
    from eddyscope.cli.table import print_study
    from eddyscope.store import open_study

    print_study(open_study(study), bars=True)
