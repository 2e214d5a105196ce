"""Grams in blocks of documents, for ensembles of which neither the fields nor the Gram fit in memory.

The inner products of two blocks of documents need these documents and the mean field alone, so every block can be
formed on its own, in any order and by any process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.rank import participation_from_sums
from eddyscope.lagfield import LagGeometry

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

#: Documents of a block whose lag Grams stay in the cache while they are folded into the windows.
TILE = 512
#: Lag Grams of a pair of blocks held at a time, in bytes.
_LAGS_BYTES = 8 << 20


def gram_block(
    values_i: FloatArray,
    values_j: FloatArray,
    geometry: LagGeometry,
    weights: FloatArray,
    min_query: int,
    mean: FloatArray,
) -> FloatArray:
    """Inner products of the windowed fluctuations of two blocks of documents.

    ``<v_s, v_s'>`` for s in the first and s' in the second block, ``v_s = w_m (A_s - Abar)``; divided by N it is the
    block of the Gram ``K_m`` of :func:`eddyscope.kernels.gram.field_pass`.

    Parameters
    ----------
    values_i, values_j : array, shape (document, entry)
        Packed snapshots, not centred. The same array twice gives a block of the diagonal, at half the cost.
    geometry : LagGeometry
    weights : array, shape (window, lag)
        ``w_m(tau)`` on the lags of the geometry.
    min_query : int
        Queries before it are left out.
    mean : array, shape (entry,), float64
        Mean field of all documents.

    Returns
    -------
    array, shape (window, document of i, document of j), float64

    Notes
    -----
    A pure function of its arguments: nothing is kept between calls. ``2 n_i n_j`` operations an entry, one lag at a
    time in float64, whatever the number of windows.
    """
    squared = np.asarray(weights, dtype=np.float64) ** 2
    rows, columns = values_i.shape[0], values_j.shape[0]
    found = np.zeros((squared.shape[0], rows * columns))
    used = np.flatnonzero(squared.any(axis=0))
    together = max(1, min(used.size, _LAGS_BYTES // max(1, 8 * rows * columns)))
    lag_grams = np.empty((together, rows, columns))
    for start in range(0, used.size, together):
        lags = used[start : start + together]
        for place, index in enumerate(lags):
            run = geometry.run(int(geometry.lags[index]), min_query)
            left = values_i[:, run] - mean[run]
            right = left if values_j is values_i else values_j[:, run] - mean[run]
            np.matmul(left, right.T, out=lag_grams[place])
        found += squared[:, lags] @ lag_grams[: lags.size].reshape(lags.size, -1)
    return found.reshape(-1, rows, columns)


@dataclass(frozen=True)
class PartSums:
    """What traces of the Gram of any of some parts of the documents follow from, without the Gram.

    Parameters
    ----------
    parts : bool array, shape (document, part)
        Documents of each part.
    diagonal : array, shape (document,)
        ``K[s, s]``.
    rows : array, shape (document, part)
        ``sum_{s' in part} K[s, s']``.
    squares : array, shape (part,)
        ``sum_{s, s' in part} K[s, s']^2``.

    Notes
    -----
    With the factor 1/N of all documents, centred by any common field; each part is centred by its own mean below.
    """

    parts: BoolArray
    diagonal: FloatArray
    rows: FloatArray
    squares: FloatArray

    @classmethod
    def empty(cls, parts: BoolArray) -> PartSums:
        """Sums of no block yet."""
        documents, count = parts.shape
        return cls(parts, np.zeros(documents), np.zeros((documents, count)), np.zeros(count))

    def add(self, block: FloatArray, i: slice, j: slice) -> None:
        """Count one block of the Gram, and its transpose where it is not on the diagonal."""
        mine, theirs = self.parts[i].astype(np.float64), self.parts[j].astype(np.float64)
        self.rows[i] += block @ theirs
        both = ((block * block) @ theirs * mine).sum(axis=0)
        if i == j:
            self.diagonal[i] = block.diagonal()
        else:
            self.rows[j] += block.T @ mine
            both *= 2
        self.squares[:] += both

    def size(self, part: int) -> int:
        """Documents of a part."""
        return int(self.parts[:, part].sum())

    def trace(self, part: int) -> float:
        """``<|v|^2>`` over a part, v centred by the part's own mean."""
        own, count = self.parts[:, part], self.size(part)
        total = float(self.diagonal[own].sum()) - float(self.rows[own, part].sum()) / count
        return max(total, 0.0) * self.diagonal.size / count

    def participation_ratio(self, part: int) -> float:
        """Unbiased participation ratio of a part, see :func:`eddyscope.kernels.rank.participation_ratio`."""
        own, count = self.parts[:, part], self.size(part)
        documents = self.diagonal.size
        means = self.rows[own, part] / count
        grand = float(means.mean())
        inner = (self.diagonal[own] - 2 * means + grand) * documents  # of the centred snapshots with themselves
        square = float(self.squares[part]) - 2 * count * float((means**2).sum()) + (count * grand) ** 2
        return participation_from_sums(
            count, float(inner.sum()), max(square, 0.0) * documents**2, float((inner**2).sum())
        )

    def energy_about(self, test: BoolArray, train: int) -> float:
        """``sum_{s in test} |v_s - mean of the part train|^2``, without the factor 1/N."""
        own, count = self.parts[:, train], self.size(train)
        rows = self.rows[:, train]
        about = (
            float(self.diagonal[test].sum())
            - 2 * float(rows[test].sum()) / count
            + int(test.sum()) * float(rows[own].sum()) / count**2
        )
        return about * self.diagonal.size
