"""Where energy tells the truth: the energy of each layer and octave against the loss that it owes to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from eddyscope.capture import capture
from eddyscope.documents import Documents
from eddyscope.ensemble import AttentionEnsemble
from eddyscope.interventions.windows.curve import Progress, Unit, interval_row, owed, units_of
from eddyscope.interventions.windows.energy import Budget, budget
from eddyscope.interventions.windows.reader import Reader
from eddyscope.interventions.windows.removal import Removal
from eddyscope.lagfield import FloatArray, IntArray
from eddyscope.trust.jackknife import jackknife

#: Which numbers of a cell are compared with the loss owed.
ENERGIES = ("share", "density")
#: Fewest cells that a rank correlation is given for.
_FEWEST = 4


@dataclass(frozen=True)
class Agreement:
    """Energy against loss owed.

    Parameters
    ----------
    cells : pandas.DataFrame
        One row for each layer (or head) and octave: ``layer, name, head, first, last`` (distances), ``share`` and
        ``density`` of the lag energy budget, ``rise`` (loss owed) with ``low`` and ``high``.
    correlations : pandas.DataFrame
        Spearman's rank correlation of share and of density with the loss owed: ``layer`` (``all`` for every cell, else
        the octaves of one layer), ``head``, ``energy``, ``correlation``, ``low``, ``high``, ``cells``. The intervals
        leave out groups of documents and say nothing of other models.
    unit : str
        Of the loss.
    """

    cells: pd.DataFrame
    correlations: pd.DataFrame
    unit: str


def owed_to_octaves(
    model: Any,
    documents: Documents,
    *,
    heads: str = "all",
    sink: str = "keep",
    batch: int | None = None,
    progress: Progress | None = None,
) -> Agreement:
    """Loss that each layer (or head) owes to each octave of distance, against its energy, on the same documents.

    The octaves are those of the lag energy budget: distances below half of the context (a quarter, to either side, of
    two-sided layers). One octave of one layer is removed at a time, and rows are renormalised.

    Parameters
    ----------
    model : torch.nn.Module
        A Hugging Face model, causal or encoder, or one of the GPTs in ``eddyscope.models``. Left as it was.
    documents : Documents
        Without padding.
    heads : {"all", "each"}
        Remove the octave from all heads of a layer at once, or from one head at a time.
    sink : {"keep", "drop"}
        Whether key 0 stays visible.
    batch : int, optional
        Documents read at a time.
    progress : callable, optional
        Called with (measured, in all).
    """
    reader = Reader(model, documents, sink=sink, batch=batch)
    fields = capture(model, documents, heads="each" if heads == "each" else "mean", checks=False, batch=batch)
    return agreement_of(reader, units_of(reader, heads), fields, progress)


def agreement_of(
    reader: Reader, units: Sequence[Unit], fields: AttentionEnsemble, progress: Progress | None = None
) -> Agreement:
    """The same with what was read already."""
    groups = reader.documents.groups()
    budgets = [budget(fields[reader.layers[unit.layer].name].select_head(unit.head or 0), groups) for unit in units]
    octaves = [Removal(int(a), int(b) + 1) for a, b in zip(budgets[0].first, budgets[0].last, strict=True)]
    return agreement(reader, units, budgets, owed(reader, units, octaves, progress), groups)


def agreement(
    reader: Reader, units: Sequence[Unit], budgets: Sequence[Budget], rises: FloatArray, groups: IntArray
) -> Agreement:
    """Compare them, both on the same documents.

    Parameters
    ----------
    reader : Reader
    units : sequence of Unit
    budgets : sequence of Budget
        One a unit, with replicates over ``groups``.
    rises : array, shape (unit, octave, document)
        Loss owed to each octave.
    groups : int array, shape (document,)
    """
    rows, made = [], []
    for unit, energies, of_unit in zip(units, budgets, rises, strict=True):
        head = "all" if unit.head is None else str(unit.head)
        for j, values in enumerate(of_unit):
            rows.append(
                {
                    "layer": unit.layer,
                    "name": reader.layers[unit.layer].name,
                    "head": head,
                    "first": int(energies.first[j]),
                    "last": int(energies.last[j]),
                    "share": float(energies.share[j]),
                    "density": float(energies.density[j]),
                    **interval_row(reader.rise(values)),
                }
            )
    owed, owed_without = rises.mean(axis=2), _without(rises, groups)
    for name in ENERGIES:
        energy = np.stack([getattr(b, name) for b in budgets])
        without = np.stack([getattr(b, f"{name}_without") for b in budgets], axis=1)
        whole = _correlation(energy, owed, without, owed_without)
        made.append({"layer": "all", "head": "all", "energy": name, **whole})
        for i, unit in enumerate(units):
            one = _correlation(energy[i], owed[i], without[:, i], owed_without[:, i])
            head = "all" if unit.head is None else str(unit.head)
            made.append({"layer": str(unit.layer), "head": head, "energy": name, **one})
    return Agreement(pd.DataFrame(rows), pd.DataFrame(made), reader.unit)


def _without(rises: FloatArray, groups: IntArray) -> FloatArray:
    """Mean rises without each group, shape (group, unit, octave)."""
    return np.stack([rises[..., groups != g].mean(axis=-1) for g in range(int(groups.max()) + 1)])


def _correlation(
    energy: FloatArray, owed: FloatArray, energy_without: FloatArray, owed_without: FloatArray
) -> dict[str, float | int]:
    parts = [spearman(e, o) for e, o in zip(energy_without, owed_without, strict=True)]
    found = jackknife(spearman(energy, owed), parts)
    low, high = np.clip([float(found.low), float(found.high)], -1.0, 1.0)
    cells = int((np.isfinite(energy) & np.isfinite(owed)).sum())
    return {"correlation": float(found.estimate), "low": float(low), "high": float(high), "cells": cells}


def spearman(first: FloatArray, second: FloatArray) -> float:
    """Rank correlation of the cells in which both are known; NaN for fewer than 4, or where one does not vary."""
    both = np.isfinite(first) & np.isfinite(second)
    a, b = first[both], second[both]
    if a.size < _FEWEST or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(stats.spearmanr(a, b).statistic)
