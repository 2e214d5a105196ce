"""From the attention of one layer to packed fields, on the layer's device, as soon as it appears."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from eddyscope.capture.source import Rows, Site
from eddyscope.errors import CaptureError, InputError
from eddyscope.lagfield import BoolArray, FloatArray, IntArray, LagField, LagGeometry


@dataclass(frozen=True)
class Heads:
    """Which heads are kept.

    Parameters
    ----------
    choice : {"mean", "each"} or tuple of int
    """

    choice: str | tuple[int, ...]

    def labels(self, heads: int) -> tuple[str, ...]:
        """Labels of what is kept of a layer with this many heads.

        Raises
        ------
        InputError
            Where the layer lacks a head that was asked for.
        """
        if isinstance(self.choice, str):
            return ("mean",) if self.choice == "mean" else tuple(str(i) for i in range(heads))
        missing = [head for head in self.choice if not 0 <= head < heads]
        if missing:
            raise InputError(f"Head {missing[0]} was asked for, but there are {heads} heads, 0 to {heads - 1}.")
        return tuple(str(head) for head in self.choice)

    def reduced(self, rows: Rows, stop: int) -> Tensor:
        """Attention of what is kept, of queries below ``stop``, float32, shape (document, kept head, query, key)."""
        count = stop - rows.first
        maps = rows.weights[:, :, :count] if rows.weights.shape[2] > count else rows.weights
        if not isinstance(self.choice, str):
            maps = maps[:, list(self.choice)]
        if rows.value_norm is not None:
            norm = rows.value_norm if isinstance(self.choice, str) else rows.value_norm[:, list(self.choice)]
            maps = maps.float() * norm.float()[:, :, None, :]
        if self.choice != "mean":
            return maps.float()
        # A sum and a division of the result: torch's mean over a strided axis takes several times as long.
        return maps.sum(1, keepdim=True, dtype=torch.float32).div_(maps.shape[1])


class Keeper(Protocol):
    """Where the attention of one layer goes: packed fields, or statistics of them."""

    #: Documents whose attention is not finite, shape (document,).
    bad: BoolArray

    def take(self, rows: Rows, documents: IntArray) -> None:
        """Take rows of the attention of these documents."""


class LayerStore:
    """The arrays that the attention of one layer goes into, document by document.

    Parameters
    ----------
    name : str
        Qualified name of the layer.
    geometry : LagGeometry
        What is kept of each map.
    documents : int
        Number of documents in all.
    heads : int
        Number of heads of the model.
    kept : Heads
    dtype : str
        ``"float32"`` or ``"float16"``.
    """

    def __init__(self, name: str, geometry: LagGeometry, documents: int, heads: int, kept: Heads, dtype: str) -> None:
        self.name = name
        self.geometry = geometry
        self.heads = heads
        self.kept = kept
        self.labels = kept.labels(heads)
        count = len(self.labels)
        self.values: FloatArray = np.empty((documents, count, geometry.size), dtype=dtype)
        self.first_key: FloatArray = np.empty((documents, count, geometry.queries), dtype=np.float32)
        self.row_sum: FloatArray = np.empty((documents, count, geometry.queries), dtype=np.float32)
        self.bad: BoolArray = np.zeros(documents, dtype=bool)

    def take(self, rows: Rows, documents: IntArray) -> None:
        """Reduce rows into those of these documents.

        The maps may be larger than the geometry (longer documents); the first queries and keys are kept.
        """
        expect_rows(self.name, rows, len(documents), self.heads, self.geometry)
        stop = min(rows.first + rows.weights.shape[2], self.geometry.queries)
        if stop <= rows.first:
            return
        maps = self.kept.reduced(rows, stop)
        sums = maps.sum(-1).cpu().numpy()
        self.row_sum[documents, :, rows.first : stop] = sums
        self.first_key[documents, :, rows.first : stop] = maps[..., 0].cpu().numpy()
        # Anything that is not finite spoils the sum of its row; weights are bounded, so sums do not overflow.
        self.bad[documents] |= ~np.isfinite(sums).all(axis=(1, 2))
        if self.values.dtype == np.float16:
            maps = self._halved(maps, rows.value_norm is not None)  # before the cut: half of the bytes to gather
        if stop - rows.first == self.geometry.queries:
            self._pack(maps, documents)
        else:
            entries = block_entries(self.geometry, rows.first, stop)
            for document, values in zip(documents, packed(maps, self.geometry, rows.first), strict=True):
                self.values[document][:, entries] = values

    def _pack(self, maps: Tensor, documents: IntArray) -> None:
        """Cut the kept entries of whole maps into the rows of these documents."""
        first, count = int(documents[0]), len(documents)
        if maps.device.type == "cpu" and int(documents[-1]) - first == count - 1:
            # Straight to their place; without the mode NumPy would make a copy, in case an index were out of range.
            index = _flat_index(self.geometry, 0, self.geometry.queries, maps.shape[-1], maps.device)
            out = self.values[first : first + count]
            np.take(maps.flatten(2).numpy(), index.numpy(), axis=2, out=out, mode="clip")
        else:
            self.values[documents] = packed(maps, self.geometry)

    def _halved(self, maps: Tensor, unbounded: bool) -> Tensor:
        """Half precision; by torch, as NumPy takes many times as long where numbers are small."""
        halved = maps.half()
        if unbounded and bool((halved.isinf() & maps.isfinite()).any()):
            raise CaptureError(
                f"Values of layer '{self.name}' are too large for half precision.", "Keep them in float32."
            )
        return halved

    def field(self, keep: IntArray | slice = slice(None)) -> LagField:
        """The field of all documents, or of those given; of a slice as views."""
        values, first_key, row_sum = (array[keep] for array in (self.values, self.first_key, self.row_sum))
        return LagField(values, self.geometry, self.labels, first_key, row_sum)


def expect_rows(name: str, rows: Rows, documents: int, heads: int, geometry: LagGeometry) -> None:
    """CaptureError where the rows are not of so many documents and heads, or have too few keys or queries."""
    shape = tuple(rows.weights.shape)
    queries = shape[2] if rows.total is None else rows.total
    if shape[:2] != (documents, heads) or queries < geometry.queries or shape[3] < geometry.keys:
        raise CaptureError(
            f"Layer '{name}' gave weights of shape {shape}, expected ({documents}, {heads}, "
            f">= {geometry.queries}, >= {geometry.keys})."
        )


def packed(maps: Tensor, geometry: LagGeometry, first: int = 0) -> FloatArray:
    """Cut the kept entries out of maps of shape (document, head, query, key), where they are.

    ``first`` is the query of their first row; where they are not all rows, the entries are those of ``block_entries``.
    """
    queries, keys = maps.shape[-2:]
    index = _flat_index(geometry, first, min(first + queries, geometry.queries), keys, maps.device)
    flat = maps.flatten(2)
    if maps.device.type == "cpu":
        # NumPy's take is some 30 times faster than index_select along the last axis on the CPU.
        return np.take(flat.numpy(), index.numpy(), axis=2)
    return np.asarray(flat.index_select(2, index).cpu().numpy())


def block_entries(geometry: LagGeometry, first: int, stop: int) -> IntArray:
    """Packed entries of queries ``first <= query < stop``, in packed order."""
    return _block(geometry, first, stop)[0]


@lru_cache(maxsize=64)
def _block(geometry: LagGeometry, first: int, stop: int) -> tuple[IntArray, IntArray, IntArray]:
    """Packed entries of some queries, with their queries and keys; from the runs of the lags, as the field is large."""
    start = np.maximum(geometry.first_query, first)
    counts = np.maximum(np.minimum(geometry.first_query + geometry.counts, stop) - start, 0)
    within = np.arange(counts.sum(), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    query = within + np.repeat(start, counts)
    entries = query + np.repeat(geometry.offsets[:-1] - geometry.first_query, counts)
    return entries, query, query - np.repeat(geometry.lags, counts)


@lru_cache(maxsize=64)
def _flat_index(geometry: LagGeometry, first: int, stop: int, keys: int, device: torch.device) -> Tensor:
    """Index of the packed entries in flattened rows with this many keys, on the device; layers share it."""
    if stop - first == geometry.queries:
        query, key = geometry.entry_query, geometry.entry_key
    else:
        _, query, key = _block(geometry, first, stop)
    return torch.from_numpy((query - first) * keys + key).to(device)


def rows_of(name: str, site: Site, given: Any) -> Rows:
    """Return the rows that a site gave; CaptureError where it gave something else."""
    if isinstance(given, Rows):
        return given
    got = f"shape {tuple(given.shape)}" if isinstance(given, Tensor) else f"{type(given).__name__}"
    raise CaptureError(
        f"Layer '{name}' ({type(site.module).__name__}) gave {got} instead of attention weights "
        "of shape (documents, heads, queries, keys)."
    )
