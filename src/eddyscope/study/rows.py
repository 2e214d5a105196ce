"""Full rows in lag coordinates: the samples of every lag statistic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyscope.kernels.octaves import octave_count
from eddyscope.lagfield import FloatArray, IntArray, LagField

#: A query whose mass beside the sink falls below this in any document is left out for all.
MIN_REMAINING = 0.05


@dataclass(frozen=True)
class LagRows:
    """Rows that have a whole range of lags.

    Parameters
    ----------
    values : array, shape (lag, document, row), float64
    lags : int array, shape (lag,)
        ``query - key``, ascending.
    queries : int array, shape (row,)
    left_out : int
        Queries left out because the sink holds nearly all their mass.
    field : str
        ``"masked"`` or ``"raw"``.
    """

    values: FloatArray
    lags: IntArray
    queries: IntArray
    left_out: int
    field: str

    @property
    def distance(self) -> IntArray:
        """``|lag|``, shape (lag,)."""
        return np.abs(self.lags)

    @property
    def distances(self) -> int:
        """Number of distances, 0 included."""
        return int(self.distance.max()) + 1

    @property
    def reach(self) -> int:
        """h: distances 0..h-1 of a causal field, 0..h to either side of a two-sided one."""
        return self.distances if self.lags[0] == 0 else self.distances - 1

    @property
    def octaves(self) -> int:
        """Number of octaves, ``ceil(log2 h)``; the distances beyond the last bin join it."""
        return octave_count(self.reach)


def full_range(field: LagField, max_lag: int | None = None) -> tuple[IntArray, int, int]:
    """Lags and queries of the full rows.

    Causal: lags ``0 <= d < h``, queries ``i >= h``, h = L/2. Two-sided: ``-h <= lag <= h``, ``h <= i < L - h``,
    h = L/4. ``max_lag`` where that is smaller.

    Returns
    -------
    lags : int array, shape (lag,)
    first, stop : int
        Queries ``first <= i < stop``.
    """
    g = field.geometry
    length = min(g.queries, g.keys)
    limits = [m for m in (max_lag, g.max_lag) if m is not None]
    h = min([length // 2 if g.causal else length // 4, *limits])
    if g.causal:
        return np.arange(h, dtype=np.int64), h, g.queries
    return np.arange(-h, h + 1, dtype=np.int64), h, length - h


def lag_rows(field: LagField, sink: str, max_lag: int | None = None) -> LagRows:
    """The full rows of a field of one head.

    Parameters
    ----------
    field : LagField
        One head.
    sink : {"mask", "keep"}
        ``mask``: key 0 masked and each row of each document brought back to the mass it had; rows that would need
        key 0 itself are no full rows then.
    max_lag : int, optional

    Returns
    -------
    LagRows
    """
    lags, first, stop = full_range(field, max_lag)
    left_out = 0
    if sink == "mask" and lags.size and first - int(lags.max()) <= 0:
        first = int(lags.max()) + 1
    queries = np.arange(first, max(first, stop), dtype=np.int64)
    values = field.rows(lags, first, max(first, stop))[0].astype(np.float64)
    if sink == "mask" and queries.size:
        factor, used = _without_first_key(field, queries)
        left_out = int((~used).sum())
        values, queries = values[..., used] if left_out else values, queries[used]
        values *= factor[:, used]
    return LagRows(values, lags, queries, left_out, "masked" if sink == "mask" else "raw")


def _without_first_key(field: LagField, queries: IntArray) -> tuple[FloatArray, np.ndarray]:
    """Factor that restores each row's mass once key 0 is masked, (document, row), and the rows that can be used."""
    assert field.first_key is not None and field.row_sum is not None
    mass = field.row_sum[:, 0, queries].astype(np.float64)
    remaining = mass - field.first_key[:, 0, queries]
    used = np.asarray((remaining >= MIN_REMAINING).all(axis=0))
    return np.divide(mass, remaining, out=np.ones_like(mass), where=used[None, :]), used


def mask_first_key(field: LagField) -> tuple[FloatArray, np.ndarray]:
    """Packed snapshots without key 0, rows brought back to their mass, for POD with ``sink_pod="mask"``.

    Returns
    -------
    values : array, shape (document, entry)
    used : bool array, shape (entry,)
        False for key 0 and for queries whose remaining mass is too small.
    """
    g = field.geometry
    factor, usable = _without_first_key(field, np.arange(g.queries))
    values = field.values[:, 0] * factor[:, g.entry_query].astype(field.values.dtype)
    used = usable[g.entry_query] & (g.entry_key != 0)
    values[:, ~used] = 0
    return values, used
