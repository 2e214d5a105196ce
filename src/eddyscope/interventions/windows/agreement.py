"""Where energy tells the truth: the energy of each layer and octave against the loss that it owes to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from eddyscope.interventions.windows.curve import Unit, interval_row
from eddyscope.interventions.windows.energy import Budget
from eddyscope.interventions.windows.reader import Reader
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
    for unit, budget, of_unit in zip(units, budgets, rises, strict=True):
        head = "all" if unit.head is None else str(unit.head)
        for j, values in enumerate(of_unit):
            rows.append(
                {
                    "layer": unit.layer,
                    "name": reader.layers[unit.layer].name,
                    "head": head,
                    "first": int(budget.first[j]),
                    "last": int(budget.last[j]),
                    "share": float(budget.share[j]),
                    "density": float(budget.density[j]),
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
