"""Where attention has its energy: at each distance of all rows, and the lag energy budget with its replicates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyscope.kernels.octaves import energy_budget, octave_first, octave_last
from eddyscope.lagfield import FloatArray, IntArray, LagField
from eddyscope.study.rows import LagRows, lag_rows


def energy_beyond(field: LagField, head: int, keep_first: bool) -> FloatArray:
    """Share of the energy at distances of at least w, w = 0 to L: what a window of w tokens takes away.

    Parameters
    ----------
    field : LagField
    head : int
        Position among the field's heads.
    keep_first : bool
        Leave key 0 out, which a window does not take away.

    Returns
    -------
    array, shape (context + 1,)
        Mean of ``A^2`` over documents, summed over all rows; 1 at w = 0 and 0 at w = L. The full rows of the lag
        energy budget end at half of the context, these do not.
    """
    geometry = field.geometry
    energy = np.einsum("de,de->e", field.values[:, head], field.values[:, head], dtype=np.float64)
    if keep_first:
        energy = np.where(geometry.entry_key == 0, 0.0, energy)
    by_distance = np.bincount(np.abs(geometry.entry_lag), weights=energy, minlength=geometry.queries)
    beyond = np.append(by_distance[::-1].cumsum()[::-1], 0.0)
    return np.asarray(beyond / beyond[0]) if beyond[0] > 0 else np.linspace(1, 0, beyond.size)


@dataclass(frozen=True)
class Budget:
    """Lag energy budget of one field, with replicates that leave one group of documents out.

    Parameters
    ----------
    first, last : int array, shape (octave,)
        Distances.
    share, density : array, shape (octave,)
        NaN where nothing fluctuates. Both sides of a two-sided field together.
    share_without, density_without : array, shape (group, octave)
    """

    first: IntArray
    last: IntArray
    share: FloatArray
    density: FloatArray
    share_without: FloatArray
    density_without: FloatArray


def budget(field: LagField, groups: IntArray, sink: str = "mask") -> Budget:
    """Lag energy budget of a field of one head, as the study has it.

    Parameters
    ----------
    field : LagField
        One head.
    groups : int array, shape (document,)
        Group of each document.
    sink : str
        As in :func:`eddyscope.analyze`.
    """
    rows = lag_rows(field, sink)
    count = rows.octaves
    first, last = octave_first(count), octave_last(count, rows.distances)
    share, density = _budget(rows, np.ones(field.documents, dtype=bool))
    parts = [_budget(rows, groups != group) for group in range(int(groups.max()) + 1)]
    return Budget(first, last, share, density, np.stack([p[0] for p in parts]), np.stack([p[1] for p in parts]))


def _budget(rows: LagRows, chosen: np.ndarray) -> tuple[FloatArray, FloatArray]:
    values = rows.values[:, chosen]
    fluctuation = values - values.mean(axis=1, keepdims=True)
    energy = (fluctuation**2).mean(axis=(1, 2)) if rows.queries.size else np.zeros(rows.lags.size)
    return energy_budget(energy, rows.distance, rows.octaves)
