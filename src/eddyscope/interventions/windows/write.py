"""Windows on disk: plans, tables and figures, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from eddyscope.errors import StoreError
from eddyscope.interventions.windows.agreement import Agreement
from eddyscope.interventions.windows.find import Windows
from eddyscope.interventions.windows.plan import WINDOWS, save
from eddyscope.places import writing
from eddyscope.runs import FIGURES, OutputFolder, write_record

CURVE, OCTAVES, CORRELATIONS, MODES = "curve.csv", "octaves.csv", "agreement.csv", "modes.csv"


def write_windows(
    found: Windows,
    folder: OutputFolder,
    *,
    modes: pd.DataFrame | None = None,
    figures: bool = True,
    formats: Sequence[str] = ("png", "pdf"),
    config: Any = None,
    record: Mapping[str, Any] | None = None,
) -> None:
    """Write what was found to an output folder, and publish it.

    Parameters
    ----------
    found : Windows
    folder : OutputFolder
        Entered.
    modes : pandas.DataFrame, optional
        What is owed to bands and modes.
    figures : bool
    formats : sequence of {"png", "pdf", "svg"}
    config : transformers config, optional
        With sliding windows; written to ``model/config.json``.
    record : mapping, optional
        What ``run.json`` says beside versions and files.
    """
    with writing(folder.path):
        stage = folder.stage
        save(found.plan, stage / WINDOWS)
        for plan in found.plans[1:]:
            save(plan, stage / f"windows-{plan.measured['max_loss_rise']:g}.json")
        if len(found.curve):
            found.curve.to_csv(stage / CURVE, index=False)
        if found.agreement is not None:
            found.agreement.cells.to_csv(stage / OCTAVES, index=False)
            found.agreement.correlations.to_csv(stage / CORRELATIONS, index=False)
        if modes is not None:
            modes.to_csv(stage / MODES, index=False)
        if config is not None:
            config.save_pretrained(stage / "model")
        if figures:
            _draw(found, stage / FIGURES, formats)
        write_record(stage, {**(record or {}), "notes": list(found.notes)})
        folder.publish()


def open_agreement(folder: str | Path) -> Agreement:
    """Energy against loss owed, from a folder that ``eddyscope windows --octaves`` wrote.

    Raises
    ------
    StoreError
        Where there is none.
    """
    place = Path(folder)
    try:
        cells = pd.read_csv(place / OCTAVES, dtype={"head": str})
        correlations = pd.read_csv(place / CORRELATIONS, dtype={"head": str, "layer": str})
        unit = json.loads((place / WINDOWS).read_text(encoding="utf-8"))["unit"]
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(
            f"'{folder}' does not hold what layers owe to octaves.",
            "Measure it with: eddyscope windows MODEL --text FILE --octaves --out DIR.",
        ) from error
    return Agreement(cells, correlations, str(unit))


def _draw(found: Windows, place: Path, formats: Sequence[str]) -> None:
    from eddyscope.report.figures import save_figure
    from eddyscope.report.windows import draw_agreement, draw_window_curve

    place.mkdir()
    plan = found.plan
    drawn = {}
    if len(found.curve):
        drawn["window_curve"] = draw_window_curve(found.curve, plan, plan.measured["unit"])
    if found.agreement is not None:
        drawn["agreement"] = draw_agreement(found.agreement, plan.model["id"])
    for name, figure in drawn.items():
        for kind in formats:
            save_figure(figure, place / f"{name}.{kind}")
