"""The loss against what is taken away: windows and octaves, of one layer or head at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from eddyscope.interventions.windows.reader import Reader
from eddyscope.interventions.windows.removal import Removal, Removals
from eddyscope.lagfield import FloatArray
from eddyscope.trust.jackknife import Interval

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Unit:
    """What gets a window of its own: a layer, or one of its heads.

    Parameters
    ----------
    layer : int
    head : int, optional
    heads : int
        Query heads of the layer.
    """

    layer: int
    head: int | None
    heads: int

    def removals(self, removal: Removal | None) -> Removals:
        """Take something away from this unit alone."""
        if self.head is None:
            return (removal,)
        return tuple(removal if head == self.head else None for head in range(self.heads))


def units_of(reader: Reader, heads: str) -> list[Unit]:
    """Layers (``all``), or every head of every layer (``each``)."""
    if heads == "all":
        return [Unit(layer.index, None, layer.heads) for layer in reader.layers]
    return [Unit(layer.index, head, layer.heads) for layer in reader.layers for head in range(layer.heads)]


def owed(
    reader: Reader, units: Sequence[Unit], removals: Sequence[Removal], progress: Progress | None = None
) -> FloatArray:
    """Rise of the loss when one unit loses one range of distances, nothing else changed.

    Parameters
    ----------
    reader : Reader
    units : sequence of Unit
    removals : sequence of Removal
    progress : callable, optional
        Called with (measured, in all).

    Returns
    -------
    array, shape (unit, removal, document)
    """
    reader.settle({})
    found: FloatArray = np.zeros((len(units), len(removals), len(reader.documents)))
    for i, unit in enumerate(units):
        for j, removal in enumerate(removals):
            found[i, j] = reader.measured({unit.layer: unit.removals(removal)})
            if progress is not None:
                progress(i * len(removals) + j + 1, len(units) * len(removals))
    return found


def owed_table(
    reader: Reader, units: Sequence[Unit], ranges: Sequence[dict[str, int]], rises: FloatArray
) -> pd.DataFrame:
    """Rises as a table, one row for each unit and range.

    Returns
    -------
    pandas.DataFrame
        ``layer, name, head`` (``all`` or a number), what ``ranges`` say (``window``, or ``first`` and ``last``),
        ``rise`` with ``low`` and ``high`` of its interval (NaN with fewer than 8 groups of documents).
    """
    rows = []
    for unit, of_unit in zip(units, rises, strict=True):
        for said, values in zip(ranges, of_unit, strict=True):
            rows.append(
                {
                    "layer": unit.layer,
                    "name": reader.layers[unit.layer].name,
                    "head": "all" if unit.head is None else str(unit.head),
                    **said,
                    **interval_row(reader.rise(values)),
                }
            )
    return pd.DataFrame(rows)


def interval_row(interval: Interval) -> dict[str, float]:
    """``rise, low, high`` of an interval."""
    return {"rise": float(interval.estimate), "low": float(interval.low), "high": float(interval.high)}
