"""LagField: the attention snapshots of one layer, stored by lag.

The lag is ``query - key``: positive looks back. For each lag the run of its valid entries (one per query that has
this lag) is contiguous, and the runs follow each other in ascending lag. So a range of lags is a slice, the Gram
of one lag is one matrix product on a view, and nothing that the mask forbids is stored. This module alone knows
the packing; everything else asks it for runs, rows and matrices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.errors import InputError
from eddyscope.kernels.namespace import like, namespace

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
ComplexArray = NDArray[np.complexfloating[Any, Any]]
BoolArray = NDArray[np.bool_]

#: Bytes of dense snapshots that are packed at a time, so that they stay in the cache while lags are cut out.
_PACK_BYTES = 1 << 20


@dataclass(frozen=True)
class LagGeometry:
    """Which (query, key) entries a field has, and where each lies in the packed form.

    Parameters
    ----------
    queries, keys : int
        Number of queries and of keys, in tokens; they may differ (cross attention), except for causal fields.
    causal : bool
        True: only keys at or before the query exist, lags 0..L-1. False: all keys, lags -(keys-1)..queries-1.
    max_lag : int, optional
        Keep a band of lags only: ``0 <= lag < max_lag`` (causal) or ``|lag| <= max_lag`` (two-sided).

    Raises
    ------
    InputError
        Where a count is not positive, or a causal field has different numbers of queries and keys.
    """

    queries: int
    keys: int
    causal: bool
    max_lag: int | None = None

    def __post_init__(self) -> None:
        if self.queries < 1 or self.keys < 1:
            raise InputError(
                f"A field needs at least one query and one key, got {self.queries} queries and {self.keys} keys."
            )
        if self.causal and self.queries != self.keys:
            raise InputError(
                f"A causal field has as many keys as queries, got {self.queries} queries and {self.keys} keys.",
                "Pass causal=False for cross attention.",
            )
        if self.max_lag is not None:
            whole = isinstance(self.max_lag, (int, np.integer)) and not isinstance(self.max_lag, bool)
            if not whole or self.max_lag < 1:
                raise InputError(f"max_lag must be at least 1 token, a whole number, got {self.max_lag!r}.")

    def __reduce__(self) -> tuple[type[LagGeometry], tuple[int, int, bool, int | None]]:
        """Travels to another process as its four numbers, without the arrays that follow from them."""
        return LagGeometry, (self.queries, self.keys, self.causal, self.max_lag)

    @cached_property
    def lags(self) -> IntArray:
        """Lags in ascending order, shape (lag,), in tokens."""
        low = 0 if self.causal else -(self.keys - 1)
        high = self.queries - 1
        if self.max_lag is not None:
            low = max(low, -self.max_lag)
            high = min(high, self.max_lag - 1 if self.causal else self.max_lag)
        return np.arange(low, high + 1, dtype=np.int64)

    @cached_property
    def first_query(self) -> IntArray:
        """First query that has each lag, shape (lag,)."""
        return np.maximum(self.lags, 0)

    @cached_property
    def counts(self) -> IntArray:
        """Number of queries that have each lag, shape (lag,)."""
        return np.minimum(self.queries - 1, self.keys - 1 + self.lags) - self.first_query + 1

    @cached_property
    def offsets(self) -> IntArray:
        """Start of the run of each lag in the packed form, shape (lag + 1,); the last is the total size."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts)])

    @property
    def whole(self) -> bool:
        """Whether there are as many keys as queries and all lags are kept, so that rows are complete along the key."""
        return self.queries == self.keys and self.max_lag is None

    @property
    def size(self) -> int:
        """Number of entries of one packed snapshot."""
        return int(self.offsets[-1])

    @cached_property
    def entry_lag(self) -> IntArray:
        """Lag of every packed entry, shape (entry,)."""
        return np.repeat(self.lags, self.counts)

    @cached_property
    def entry_query(self) -> IntArray:
        """Query of every packed entry, shape (entry,)."""
        within = np.arange(self.size, dtype=np.int64) - np.repeat(self.offsets[:-1], self.counts)
        return within + np.repeat(self.first_query, self.counts)

    @cached_property
    def entry_key(self) -> IntArray:
        """Key of every packed entry, shape (entry,)."""
        return self.entry_query - self.entry_lag

    @cached_property
    def flat_index(self) -> IntArray:
        """Index of every packed entry in the flattened (query, key) matrix, shape (entry,)."""
        return self.entry_query * self.keys + self.entry_key

    def position(self, lag: int) -> int:
        """Index of a lag on the lag axis; raises InputError where the field does not have it."""
        index = int(lag) - int(self.lags[0])
        if not 0 <= index < self.lags.size:
            raise InputError(f"Lag {lag} is not in this field, which has lags {self.lags[0]} to {self.lags[-1]}.")
        return index

    def run(self, lag: int, first: int | None = None, stop: int | None = None) -> slice:
        """Slice of the packed entries of one lag, of queries ``first`` to ``stop`` (exclusive).

        Queries that do not have the lag are left out, so the run may be shorter than ``stop - first``.
        """
        index = self.position(lag)
        start = int(self.first_query[index])
        count = int(self.counts[index])
        low = min(max(0, (first if first is not None else 0) - start), count)
        high = min(count, max(low, (stop if stop is not None else self.queries) - start))
        offset = int(self.offsets[index])
        return slice(offset + low, offset + high)

    def query_mask(self, first: int) -> BoolArray:
        """Entries whose query is ``first`` or later, shape (entry,)."""
        return self.entry_query >= first

    def pack(self, dense: FloatArray) -> FloatArray:
        """Cut the lags out of dense matrices.

        Parameters
        ----------
        dense : array, shape (..., query, key)

        Returns
        -------
        array, shape (..., entry), of the same dtype
        """
        if dense.shape[-2:] != (self.queries, self.keys):
            raise InputError(f"Dense attention has shape {dense.shape}, expected (..., {self.queries}, {self.keys}).")
        flat = dense.reshape(-1, self.queries * self.keys)
        packed = np.empty((flat.shape[0], self.size), dtype=dense.dtype)
        for documents, diagonal, run in self._diagonals(flat):
            packed[documents, run] = flat[documents, diagonal]
        return packed.reshape(*dense.shape[:-2], self.size)

    def _diagonals(self, flat: FloatArray) -> Iterator[tuple[slice, slice, slice]]:
        """Slices of documents, of the diagonal of each lag in the flattened matrix, and of its packed run.

        A few documents at a time, so that they stay in the cache while all their diagonals are cut.
        """
        step = max(1, _PACK_BYTES // max(1, flat.shape[1] * flat.itemsize))
        starts = self.first_query * self.keys + self.first_query - self.lags
        stops = starts + (self.counts - 1) * (self.keys + 1) + 1
        diagonals = [slice(int(a), int(b), self.keys + 1) for a, b in zip(starts, stops, strict=True)]
        runs = [slice(int(a), int(b)) for a, b in itertools.pairwise(self.offsets)]
        for block in range(0, flat.shape[0], step):
            documents = slice(block, block + step)
            for diagonal, run in zip(diagonals, runs, strict=True):
                yield documents, diagonal, run

    def unpack(self, packed: FloatArray, fill: float = 0.0) -> FloatArray:
        """Expand packed entries to dense matrices; entries that the field lacks become ``fill``.

        Parameters
        ----------
        packed : array, shape (..., entry)
        fill : float

        Returns
        -------
        array, shape (..., query, key), of the same dtype
        """
        packed = np.asarray(packed)
        if packed.shape[-1:] != (self.size,):
            raise InputError(f"Packed attention has shape {packed.shape}, expected (..., {self.size}).")
        flat = packed.reshape(-1, self.size)
        dense = np.full((flat.shape[0], self.queries * self.keys), fill, dtype=packed.dtype)
        for documents, diagonal, run in self._diagonals(dense):
            dense[documents, diagonal] = flat[documents, run]
        return dense.reshape(*packed.shape[:-1], self.queries, self.keys)

    def row_entries(self, first: int, stop: int) -> tuple[IntArray, BoolArray]:
        """Where the entries of whole rows lie in the packed form.

        Parameters
        ----------
        first, stop : int
            Range of queries, ``first <= i < stop``.

        Returns
        -------
        index : int array, shape (query, key)
            Keys ``0..stop - 1`` of a causal field, whose rows end there, else all; 0 where there is no entry.
        exists : bool array, shape (query, key)
        """
        query = np.arange(first, stop)[:, None]
        place = query - np.arange(stop if self.causal else self.keys) - int(self.lags[0])
        exists = (place >= 0) & (place < self.lags.size)
        place = np.where(exists, place, 0)
        return np.where(exists, (self.offsets[:-1] - self.first_query)[place] + query, 0), exists

    def dense_rows(
        self, packed: FloatArray, first: int = 0, stop: int | None = None, out: FloatArray | None = None
    ) -> FloatArray:
        """Expand some rows, zero where the field has no entry.

        Parameters
        ----------
        packed : array, shape (..., entry)
            NumPy, or of any namespace.
        first, stop : int
            Range of queries; all by default.
        out : array, shape (at least as many numbers,), optional
            Memory for the result, of the same dtype; used by NumPy alone.

        Returns
        -------
        array, shape (..., query, key), of the same dtype
            Keys as in :meth:`row_entries`.
        """
        index, exists = self.row_entries(first, self.queries if stop is None else stop)
        shape = (*packed.shape[:-1], *index.shape)
        xp = namespace(packed)
        rows: FloatArray
        if xp is np:
            place = None if out is None else out[: math.prod(shape)].reshape(*packed.shape[:-1], index.size)
            # clip: without a mode NumPy would make a copy, in case an index were out of range
            rows = np.take(packed, index.reshape(-1), axis=-1, mode="clip", out=place).reshape(shape)
        else:
            rows = xp.reshape(xp.take(packed, like(index.reshape(-1), packed), axis=-1), shape)
        if not exists.all():
            rows *= xp.astype(like(exists, packed), rows.dtype)
        return rows


@dataclass(frozen=True, repr=False)
class LagField:
    """The attention of one layer over all documents, packed lag-major.

    Parameters
    ----------
    values : array, shape (document, head, entry)
        Attention weights; float16, float32 or float64. One head with the label ``"mean"`` for a head mean.
    geometry : LagGeometry
    heads : tuple of str
        Label of each head.
    first_key : array, shape (document, head, query), optional
        Attention mass on key 0 of every query; computed from the values where all lags are kept, otherwise to be
        given by whoever packed them.
    row_sum : array, shape (document, head, query), optional
        Sum of each query's weights over all its keys; computed or given like ``first_key``.

    Notes
    -----
    ``lag = query - key``. Nothing is copied on access: ``head`` and ``at_lag`` return views.
    """

    values: FloatArray
    geometry: LagGeometry
    heads: tuple[str, ...] = ("mean",)
    first_key: FloatArray | None = None
    row_sum: FloatArray | None = None

    def __post_init__(self) -> None:
        expected = (len(self.heads), self.geometry.size)
        if self.values.ndim != 3 or self.values.shape[1:] != expected:
            raise InputError(
                f"Packed attention has shape {self.values.shape}, expected (documents, {expected[0]}, {expected[1]})."
            )
        if self.geometry.max_lag is None:
            if self.first_key is None:
                object.__setattr__(self, "first_key", self._mass_on_first_key())
            if self.row_sum is None:
                object.__setattr__(self, "row_sum", self._row_sums())
        for name in ("first_key", "row_sum"):
            array = getattr(self, name)
            shape = (*self.values.shape[:2], self.geometry.queries)
            if array is None or array.shape != shape:
                raise InputError(
                    f"A field with a band of lags needs {name} of shape {shape}, "
                    f"got {None if array is None else array.shape}."
                )

    def __repr__(self) -> str:
        g = self.geometry
        kind = "causal" if g.causal else "two-sided"
        band = "" if g.max_lag is None else f", lags {g.lags[0]} to {g.lags[-1]}"
        heads = "the head mean" if self.heads == ("mean",) else f"{len(self.heads)} heads"
        return f"<LagField: {self.documents} documents, {heads}, {g.queries} x {g.keys}, {kind}{band}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from eddyscope.report.notebook import field_html

        return field_html(self)

    @classmethod
    def from_dense(
        cls,
        dense: FloatArray,
        causal: bool,
        heads: tuple[str, ...] | None = None,
        max_lag: int | None = None,
    ) -> LagField:
        """Pack dense attention.

        Parameters
        ----------
        dense : array, shape (document, query, key) or (document, head, query, key)
        causal : bool
            True: entries with key > query are dropped.
        heads : tuple of str, optional
            Labels; ``("mean",)`` for three dimensions, ``"0", "1", ...`` for four.
        max_lag : int, optional
            Keep a band of lags, see :class:`LagGeometry`.
        """
        if dense.ndim == 3:
            dense = dense[:, None]
            labels: tuple[str, ...] = ("mean",)
        elif dense.ndim == 4:
            labels = tuple(str(i) for i in range(dense.shape[1]))
        else:
            raise InputError(f"Dense attention has shape {dense.shape}, expected (documents, [heads,] queries, keys).")
        geometry = LagGeometry(dense.shape[-2], dense.shape[-1], causal, max_lag)
        first_key = row_sum = None
        if max_lag is not None:
            first_key = dense[..., 0].astype(np.result_type(dense.dtype, np.float32))
            row_sum = (np.tril(dense) if causal else dense).sum(axis=-1, dtype=np.float64)
        return cls(geometry.pack(dense), geometry, heads or labels, first_key, row_sum)

    @property
    def documents(self) -> int:
        """Number of snapshots."""
        return int(self.values.shape[0])

    @property
    def causal(self) -> bool:
        """True where keys after the query do not exist."""
        return self.geometry.causal

    @property
    def lags(self) -> IntArray:
        """Lags in ascending order, shape (lag,), in tokens; positive looks back."""
        return self.geometry.lags

    def dense(self, fill: float = 0.0) -> FloatArray:
        """Expand to shape (document, head, query, key)."""
        return self.geometry.unpack(self.values, fill)

    def select_head(self, head: int | str) -> LagField:
        """The field of one head (index or label), as views; InputError where it is not there."""
        index = self.heads.index(head) if isinstance(head, str) and head in self.heads else head
        if not isinstance(index, int) or not 0 <= index < len(self.heads):
            raise InputError(f"Head {head!r} is not in this field.", f"It has: {', '.join(self.heads)}.")
        cut = slice(index, index + 1)
        assert self.first_key is not None and self.row_sum is not None
        return LagField(
            self.values[:, cut],
            self.geometry,
            (self.heads[index],),
            self.first_key[:, cut],
            self.row_sum[:, cut],
        )

    def select_documents(self, index: IntArray | BoolArray | slice) -> LagField:
        """The field of some documents."""
        assert self.first_key is not None and self.row_sum is not None
        return LagField(self.values[index], self.geometry, self.heads, self.first_key[index], self.row_sum[index])

    def at_lag(self, lag: int) -> FloatArray:
        """View of one lag: weights of all queries that have it, shape (document, head, query that has it)."""
        return self.values[..., self.geometry.run(lag)]

    def rows(self, lags: IntArray, first: int, stop: int, head: int = 0) -> tuple[FloatArray, BoolArray]:
        """Rows in lag coordinates, ``a[lag, s, i] = A[s, i, i - lag]``, with their validity.

        Parameters
        ----------
        lags : int array, shape (lag,)
        first, stop : int
            Range of queries, ``first <= i < stop``.
        head : int

        Returns
        -------
        rows : array, shape (lag, document, query)
            Zero where the entry does not exist.
        valid : bool array, shape (lag, query)
            Which entries exist: not masked, inside the field, and kept.
        """
        g = self.geometry
        lags = np.asarray(lags)
        key = np.arange(first, stop)[None, :] - lags[:, None]
        stored = (lags >= g.lags[0]) & (lags <= g.lags[-1])
        valid = (key >= 0) & (key < g.keys) & stored[:, None]
        rows = np.zeros((lags.size, self.documents, stop - first), dtype=self.values.dtype)
        for index in np.flatnonzero(valid.any(axis=1)):
            rows[index][:, valid[index]] = self.values[:, head, g.run(int(lags[index]), first, stop)]
        return rows, valid

    def _mass_on_first_key(self) -> FloatArray:
        g = self.geometry
        mass = np.zeros((*self.values.shape[:2], g.queries), dtype=np.result_type(self.values.dtype, np.float32))
        at_first_key = np.flatnonzero(g.entry_key == 0)
        mass[..., g.entry_query[at_first_key]] = self.values[..., at_first_key]
        return mass

    def _row_sums(self) -> FloatArray:
        g = self.geometry
        total = np.zeros((*self.values.shape[:2], g.queries), dtype=np.float64)
        for lag in g.lags:
            run = g.run(int(lag))
            start = int(g.first_query[g.position(int(lag))])
            total[..., start : start + run.stop - run.start] += self.values[..., run]
        return total
