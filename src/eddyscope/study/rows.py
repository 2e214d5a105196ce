"""Full rows in lag coordinates: the samples of every lag statistic."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from eddyscope.errors import InputError
from eddyscope.kernels.lagrows import packed_rows
from eddyscope.kernels.octaves import octave_count
from eddyscope.lagfield import FloatArray, IntArray, LagField, LagGeometry
from eddyscope.study.options import masked_keys

#: Why a field has no rows along the lag: the sink holds so much of every full row that none is left.
NO_FULL_ROWS = "no full rows"
#: Or queries and keys belong to different sequences, between whose positions there is no distance.
CROSS = "cross attention"
#: A query whose mass beside the sink falls below this in any document is left out for all.
MIN_REMAINING = 0.05


@dataclass(frozen=True)
class LagAxis:
    """Which lags and queries lag statistics speak about.

    Parameters
    ----------
    lags : int array, shape (lag,)
        ``query - key``, ascending.
    queries : int array, shape (row,)
    left_out : int
        Queries left out because the sink holds nearly all their mass.
    field : str
        ``"masked"`` or ``"raw"``.
    none_left : str
        Why there are no rows, where there are none.
    """

    lags: IntArray
    queries: IntArray
    left_out: int
    field: str
    none_left: str = NO_FULL_ROWS

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


@dataclass(frozen=True)
class LagRows(LagAxis):
    """Rows that have a whole range of lags.

    Parameters
    ----------
    values : array, shape (lag, document, row), float64
    """

    values: FloatArray = dataclasses.field(kw_only=True)

    @property
    def axis(self) -> LagAxis:
        """The same without the values."""
        return LagAxis(self.lags, self.queries, self.left_out, self.field, self.none_left)


def full_range(geometry: LagGeometry, max_lag: int | None = None) -> tuple[IntArray, int, int]:
    """Lags and queries of the full rows.

    Causal: lags ``0 <= d < h``, queries ``i >= h``, h = L/2. Two-sided: ``-h <= lag <= h``, ``h <= i < L - h``,
    h = L/4. ``max_lag`` where that is smaller.

    Returns
    -------
    lags : int array, shape (lag,)
    first, stop : int
        Queries ``first <= i < stop``.
    """
    g = geometry
    length = min(g.queries, g.keys)
    limits = [m for m in (max_lag, g.max_lag) if m is not None]
    h = min([length // 2 if g.causal else length // 4, *limits])
    if g.causal:
        return np.arange(h, dtype=np.int64), h, g.queries
    return np.arange(-h, h + 1, dtype=np.int64), h, length - h


def mass_range(geometry: LagGeometry, axis: LagAxis, max_lag: int | None = None) -> slice:
    """Queries over which the mass on the first key is averaged: the full rows; of cross attention all."""
    _, first, stop = full_range(geometry, max_lag)
    return slice(None) if axis.none_left == CROSS else slice(first, stop)


def lag_rows(field: LagField, sink: str, max_lag: int | None = None, *, among: IntArray | None = None) -> LagRows:
    """The full rows of a field of one head.

    Parameters
    ----------
    field : LagField
        One head.
    sink : {"mask", "keep"} or "first=K"
        ``mask``: key 0 masked and each row of each document brought back to the mass it had; rows that would need
        key 0 itself are no full rows then. ``first=K``: the same with the first K keys.
    max_lag : int, optional
    among : int array, optional
        The only queries that count, where documents that are not here leave out others.

    Returns
    -------
    LagRows

    Raises
    ------
    InputError
        Where more than the first key is to be masked and the field keeps only a band of lags.
    """
    masked = masked_keys(sink)
    lags, first, stop = full_range(field.geometry, max_lag)
    if masked and lags.size and first - int(lags.max()) < masked:
        first = int(lags.max()) + masked
    queries = np.arange(first, max(first, stop), dtype=np.int64)
    factor: FloatArray | None = None
    used = np.ones(queries.size, dtype=bool) if among is None else np.isin(queries, among)
    if masked and queries.size:
        factor, enough = _without_first_keys(field, queries, masked)
        used &= enough
    values = packed_rows(field.values[:, 0], field.geometry, lags, first, max(first, stop), factor)
    left_out = int((~used).sum())
    if left_out:
        values, queries = values[..., used], queries[used]
    return LagRows(lags, queries, left_out, "masked" if masked else "raw", values=values)


def no_rows(field: LagField, max_lag: int | None = None) -> LagRows:
    """What a field of cross attention has in the place of full rows: the lag axis, and nothing on it."""
    lags = full_range(field.geometry, max_lag)[0]
    queries: IntArray = np.empty(0, dtype=np.int64)
    return LagRows(lags, queries, 0, "raw", CROSS, values=np.empty((lags.size, field.documents, 0)))


def _without_first_keys(field: LagField, queries: IntArray, masked: int) -> tuple[FloatArray, np.ndarray]:
    """Factor that restores each row's mass once the first keys are masked, (document, row), and the rows of use."""
    assert field.row_sum is not None
    mass = field.row_sum[:, 0, queries].astype(np.float64)
    remaining = mass - _mass_on_first(field, masked)[:, queries]
    used = np.asarray((remaining >= MIN_REMAINING).all(axis=0))
    return np.divide(mass, remaining, out=np.ones_like(mass), where=used[None, :]), used


def _mass_on_first(field: LagField, masked: int) -> FloatArray:
    """Attention of every query to the first keys, shape (document, query)."""
    assert field.first_key is not None
    if masked == 1:
        return field.first_key[:, 0]
    g = field.geometry
    if g.max_lag is not None:
        raise InputError(
            f"sink='first={masked}' needs the attention to these keys from everywhere, but only lags up to "
            f"{g.lags[-1]} were kept.",
            "Capture without max_lag, or mask the first key alone (sink='mask').",
        )
    if masked >= g.keys:
        raise InputError(f"sink='first={masked}' masks all of the {g.keys} keys.", "Mask fewer.")
    total = np.zeros((field.documents, g.queries))
    for key in range(masked):
        entries = np.flatnonzero(g.entry_key == key)
        total[:, g.entry_query[entries]] += field.values[:, 0, entries]
    return total


def usable_queries(field: LagField, sink: str) -> np.ndarray:
    """Queries whose mass beside the first keys is enough in every document, shape (query,)."""
    return _without_first_keys(field, np.arange(field.geometry.queries), masked_keys(sink))[1]


def mask_first_keys(
    field: LagField, sink: str = "mask", among: np.ndarray | None = None
) -> tuple[FloatArray, np.ndarray]:
    """Packed snapshots without the first keys, rows brought back to their mass, for POD with ``sink_pod="mask"``.

    Parameters
    ----------
    field : LagField
        One head.
    sink : str
        As in :func:`lag_rows`; ``keep`` gives the snapshots as they are.
    among : bool array, shape (query,), optional
        The only queries that count, where documents that are not here leave out others.

    Returns
    -------
    values : array, shape (document, entry)
    used : bool array, shape (entry,)
        False for masked keys and for queries whose remaining mass is too small.
    """
    g, masked = field.geometry, masked_keys(sink)
    if not masked:
        return field.values[:, 0], np.ones(g.size, dtype=bool)
    factor, usable = _without_first_keys(field, np.arange(g.queries), masked)
    usable = usable if among is None else usable & among
    values = field.values[:, 0] * factor[:, g.entry_query].astype(field.values.dtype)
    used = usable[g.entry_query] & (g.entry_key >= masked)
    values[:, ~used] = 0
    return values, used
