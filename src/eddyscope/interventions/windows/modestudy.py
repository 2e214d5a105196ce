"""Bands and modes of layers, tested from a model and documents: one part gives the study, the other the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from eddyscope.capture import capture
from eddyscope.documents import Documents
from eddyscope.interventions.windows.find import SEARCHED, StageProgress, divide
from eddyscope.interventions.windows.modes import owed_to_modes
from eddyscope.study.analyze import analyze


def modes_owed(
    model: Any,
    documents: Documents,
    layers: Sequence[int | str],
    *,
    count: int = 3,
    controls: int = 5,
    seed: int = 0,
    batch: int | None = None,
    progress: StageProgress | None = None,
) -> pd.DataFrame:
    """Study the head means of some layers on two fifths of the documents; take modes and bands out on the others.

    Parameters
    ----------
    model : torch.nn.Module
    documents : Documents
    layers : sequence of int or str
        Positions or names.
    count, controls, seed, batch
        As for :func:`owed_to_modes`.
    progress : callable, optional
        Called with (stage, done, in all).

    Returns
    -------
    pandas.DataFrame
        See :func:`owed_to_modes`.
    """
    shown = progress or (lambda stage, done, total: None)
    studied, unseen = divide(documents, SEARCHED, seed)
    shown("modes", 0, 1)
    ensemble = capture(model, studied, layers=list(layers), checks=False, batch=batch)
    study = analyze(ensemble, intervals=False, seed=seed)
    tables = [
        owed_to_modes(
            model,
            study,
            ensemble,
            unseen,
            name,
            count=count,
            controls=controls,
            seed=seed,
            batch=batch,
            progress=lambda done, total, first=i: shown("modes", first * total + done, len(study.layers) * total),  # type: ignore[misc]
        )
        for i, name in enumerate(study.layers)
    ]
    return pd.concat(tables, ignore_index=True)
