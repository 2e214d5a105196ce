"""From the weights of one layer to packed fields, on the layer's device, as soon as they appear."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eddyscope.capture.source import Site
from eddyscope.errors import CaptureError
from eddyscope.lagfield import BoolArray, FloatArray, IntArray, LagField, LagGeometry


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
    each : bool
        Keep each head, else their mean.
    dtype : str
        ``"float32"`` or ``"float16"``.
    """

    def __init__(self, name: str, geometry: LagGeometry, documents: int, heads: int, each: bool, dtype: str) -> None:
        self.name = name
        self.geometry = geometry
        self.heads = heads
        self.each = each
        kept = heads if each else 1
        self.values: FloatArray = np.empty((documents, kept, geometry.size), dtype=dtype)
        self.first_key: FloatArray = np.empty((documents, kept, geometry.queries), dtype=np.float32)
        self.row_sum: FloatArray = np.empty((documents, kept, geometry.queries), dtype=np.float32)
        self.bad: BoolArray = np.zeros(documents, dtype=bool)

    def take(self, weights: Tensor, documents: IntArray) -> None:
        """Reduce weights of shape (document, head, query, key) into the rows of these documents.

        The maps may be larger than the geometry (longer documents); the first queries and keys are kept.
        """
        self._expect(weights, documents)
        queries = self.geometry.queries
        maps = weights[:, :, :queries] if weights.shape[2] > queries else weights
        # A sum and a division of the result: torch's mean over a strided axis takes several times as long.
        kept = maps.float() if self.each else maps.sum(1, keepdim=True, dtype=torch.float32).div_(self.heads)
        rows = kept.sum(-1).cpu().numpy()
        self.values[documents] = self._packed(kept)
        self.row_sum[documents] = rows
        self.first_key[documents] = kept[..., 0].cpu().numpy()
        # Anything that is not finite spoils the sum of its row; weights are bounded, so sums do not overflow.
        self.bad[documents] = ~np.isfinite(rows).all(axis=(1, 2))

    def field(self, keep: IntArray | None = None) -> LagField:
        """The field of all documents, or of those given."""
        labels = tuple(str(i) for i in range(self.heads)) if self.each else ("mean",)
        arrays = (self.values, self.first_key, self.row_sum)
        values, first_key, row_sum = arrays if keep is None else tuple(array[keep] for array in arrays)
        return LagField(values, self.geometry, labels, first_key, row_sum)

    def _expect(self, weights: Any, documents: IntArray) -> None:
        shape = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        g = self.geometry
        fits = isinstance(weights, Tensor) and weights.ndim == 4 and weights.shape[:2] == (len(documents), self.heads)
        if not fits or weights.shape[2] < g.queries or weights.shape[3] < g.keys:
            raise CaptureError(
                f"Layer '{self.name}' gave weights of shape {shape}, expected ({len(documents)}, {self.heads}, "
                f">= {g.queries}, >= {g.keys})."
            )

    def _packed(self, maps: Tensor) -> FloatArray:
        """Cut the kept entries out of maps of shape (document, head, query, key), where they are."""
        keys = maps.shape[-1]
        flat = maps.flatten(2)
        index = _flat_index(self.geometry, keys, maps.device)
        if maps.device.type == "cpu":
            # NumPy's take is some 30 times faster than index_select along the last axis on the CPU.
            return np.take(flat.numpy(), index.numpy(), axis=2)
        return np.asarray(flat.index_select(2, index).cpu().numpy())


@lru_cache(maxsize=4)
def _flat_index(geometry: LagGeometry, keys: int, device: torch.device) -> Tensor:
    """Index of the packed entries in a flattened map with this many keys, on the device; layers share it."""
    return torch.from_numpy(geometry.entry_query * keys + geometry.entry_key).to(device)


def weights_of(name: str, site: Site, weights: Any) -> Tensor:
    """Return the weights that a site gave, as a tensor; CaptureError where there are none."""
    if isinstance(weights, Tensor) and weights.ndim == 4:
        return weights
    got = f"shape {tuple(weights.shape)}" if isinstance(weights, Tensor) else f"{type(weights).__name__}"
    raise CaptureError(
        f"Layer '{name}' ({type(site.module).__name__}) gave {got} instead of attention weights "
        "of shape (documents, heads, queries, keys)."
    )
