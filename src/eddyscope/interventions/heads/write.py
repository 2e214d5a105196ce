"""A plan of heads on disk, with tables and figures, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from eddyscope.interventions.heads.applying import save
from eddyscope.interventions.heads.plan import FILE
from eddyscope.interventions.heads.rebuild import rebuild
from eddyscope.interventions.heads.study import HeadStudy
from eddyscope.models.gpt import GPT
from eddyscope.places import writing
from eddyscope.runs import FIGURES, OutputFolder, write_record

TABLE, CURVE, LAYERS, REDUNDANCY = "heads.csv", "curve.csv", "layers.csv", "redundancy.csv"


def write_heads(
    found: HeadStudy,
    folder: OutputFolder,
    *,
    model: Any = None,
    tokenizer: Any = None,
    figures: bool = True,
    formats: Sequence[str] = ("png", "pdf"),
    record: Mapping[str, Any] | None = None,
) -> None:
    """Write a plan and what it was made from to an output folder, and publish it.

    Parameters
    ----------
    found : HeadStudy
    folder : OutputFolder
        Entered.
    model : torch.nn.Module, optional
        Written to ``model/`` with the plan; a GPT of ``eddyscope.models`` is rebuilt.
    tokenizer : object, optional
        Beside it.
    figures : bool
    formats : sequence of {"png", "pdf", "svg"}
    record : mapping, optional
        What ``run.json`` says beside versions and files.
    """
    with writing(folder.path):
        stage = folder.stage
        found.plan.write(stage / FILE)
        found.table().to_csv(stage / TABLE, index=False)
        _similarities(found).to_csv(stage / REDUNDANCY, index=False)
        if found.curve is not None:
            found.curve.to_csv(stage / CURVE, index=False)
        if found.alone is not None:
            found.alone.assign(h_10=found.effective_ranks).to_csv(stage / LAYERS, index=False)
        if model is not None:
            written = rebuild(model, found.plan) if type(model) is GPT else model
            save(written, found.plan, stage / "model", tokenizer)
        if figures:
            _draw(found, stage / FIGURES, formats)
        write_record(stage, record or {})
        folder.publish()


def _similarities(found: HeadStudy) -> pd.DataFrame:
    """Every pair of heads of one layer: cosine similarity of raw maps and of fluctuations."""
    redundancy = found.evidence.redundancy
    rows = []
    for name, part in zip(redundancy.names, redundancy.slices, strict=True):
        raw, moved = redundancy.raw[part, part], redundancy.fluctuation[part, part]
        for first in range(raw.shape[0]):
            for second in range(first + 1, raw.shape[0]):
                rows.append((name, first, second, raw[first, second], moved[first, second]))
    return pd.DataFrame(rows, columns=["layer", "head", "other_head", "raw", "fluctuation"])


def _draw(found: HeadStudy, place: Path, formats: Sequence[str]) -> None:
    from eddyscope.report.figures import save_figure
    from eddyscope.report.heads import draw_head_curve, draw_rank_against_loss, draw_redundancy

    place.mkdir()
    unit = str(found.plan.loss.get("unit", ""))
    drawn = {"redundancy": draw_redundancy(found.evidence.redundancy)}
    if found.curve is not None:
        drawn["head_curve"] = draw_head_curve(found.curve, unit)
    if found.alone is not None and found.effective_ranks is not None:
        drawn["rank_against_loss"] = draw_rank_against_loss(found.alone, found.effective_ranks, unit)
    for name, figure in drawn.items():
        for kind in formats:
            save_figure(figure, place / f"{name}.{kind}")
