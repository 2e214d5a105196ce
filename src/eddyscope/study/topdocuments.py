"""Which tokens of which documents take part in a mode: kept for the few documents that show each mode most."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from eddyscope.kernels.gram import FieldPass
from eddyscope.lagfield import FloatArray, IntArray, LagGeometry
from eddyscope.study.lagpart import Variables
from eddyscope.study.modes import Pod

#: Modes of each band, and documents of each mode, whose tokens are kept: about 240 kB a layer of 256 tokens.
TOP_MODES = 3
TOP_DOCUMENTS = 5


class Snapshots(Protocol):
    """Packed snapshots of which single ones are looked at: an array, or what holds a few of them."""

    def __getitem__(self, document: Any, /) -> Any:
        """One snapshot, shape (entry,)."""


def top_document_variables(
    values: Snapshots, geometry: LagGeometry, weights: FloatArray, pods: list[Pod], passed: FieldPass, min_query: int
) -> Variables:
    """For the documents of largest coefficient, the share of it that each query and each key gives.

    The coefficient is a sum over entries, ``a_k[s] = sum_ij v_s(i, j) phi_k(i, j)``; the share of query i is
    ``sum_j v_s(i, j) phi_k(i, j) / a_k[s]``, that of a key the same over queries. Shares add up to 1, and may be
    negative where the document goes against the mode.

    Parameters
    ----------
    values : Snapshots
        An array of shape (document, entry) that the decompositions saw, or what holds its :func:`top_documents`.
    geometry : LagGeometry
    weights : array, shape (window, lag)
    pods : list of Pod
        Without a window first, then one a band, in the order of ``weights``.
    passed : FieldPass
    min_query : int

    Returns
    -------
    Variables
        ``top_document``, ``top_query_share``, ``top_key_share``, ``top_key`` (of each query the key of the largest
        contribution) and ``top_pair_share`` (that contribution), with the dimensions (band, top_mode, place), and the
        same without a window under the prefix ``field_``; NaN where there is no mode.
    """
    shares = _Shares(values, geometry, passed.mean)
    made: Variables = {}
    for prefix, dims, which in (("field_", (), slice(0, 1)), ("", ("band",), slice(1, None))):
        found = [
            _of_pod(shares, window, pod, min_query) for window, pod in zip(weights[which], pods[which], strict=True)
        ]
        for name, last in _DIMS.items():
            arrays = [one[name] for one in found]
            made[f"{prefix}{name}"] = (
                (*dims, "top_mode", "place", *last),
                np.stack(arrays) if dims else arrays[0],
            )
    return made | {"top_mode": (("top_mode",), np.arange(1, TOP_MODES + 1))}


_DIMS: dict[str, tuple[str, ...]] = {
    "top_document": (),
    "top_query_share": ("query",),
    "top_key_share": ("key",),
    "top_key": ("query",),
    "top_pair_share": ("query",),
}


class _Shares:
    """Shares of a pattern in a document, by query and by key.

    Parameters
    ----------
    values : array, shape (document, entry)
    geometry : LagGeometry
    mean : array, shape (entry,)
    """

    def __init__(self, values: Snapshots, geometry: LagGeometry, mean: FloatArray) -> None:
        self.geometry = geometry
        self._values, self._mean = values, mean
        index, exists = geometry.row_entries(0, geometry.queries)
        self._index = np.where(exists, index, geometry.size)
        self._part = np.zeros(geometry.size + 1)  # the last stays zero, for what does not exist

    def of(self, document: int, pattern: FloatArray, coefficient: float) -> dict[str, FloatArray]:
        """The variables of :data:`_DIMS` of one document, the first aside; ``pattern`` with the window's weights."""
        np.subtract(self._values[document], self._mean, out=self._part[:-1])
        self._part[:-1] *= pattern / coefficient
        dense = np.take(self._part, self._index, mode="clip")  # (query, key)
        key = dense.argmax(axis=1)
        pair = dense[np.arange(key.size), key]
        return {
            "top_query_share": dense @ np.ones(dense.shape[1]),
            "top_key_share": np.ones(dense.shape[0]) @ dense,
            "top_key": np.where(pair > 0, key, np.nan),
            "top_pair_share": np.where(pair > 0, pair, np.nan),
        }


def _of_pod(shares: _Shares, window: FloatArray, pod: Pod, min_query: int) -> dict[str, FloatArray]:
    geometry = shares.geometry
    sizes = {"query": geometry.queries, "key": geometry.keys}
    made = {
        name: np.full((TOP_MODES, TOP_DOCUMENTS, *(sizes[d] for d in last)), np.nan, dtype=np.float32)
        for name, last in _DIMS.items()
    }
    per_entry = np.where(geometry.query_mask(min_query), np.repeat(window, geometry.counts), 0.0)
    for mode in range(min(TOP_MODES, pod.coefficients.shape[1], pod.modes.shape[0])):
        pattern, coefficients = pod.modes[mode].astype(np.float64) * per_entry, pod.coefficients[:, mode]
        if not (np.isfinite(pattern).all() and np.abs(coefficients).max() > 0):
            continue
        for place, document in enumerate(top_documents(coefficients)):
            made["top_document"][mode, place] = document
            for name, share in shares.of(int(document), pattern, float(coefficients[document])).items():
                made[name][mode, place] = share
    return made


def top_documents(coefficients: FloatArray) -> IntArray:
    """Documents of the largest moduli, at most five, those with none left out; ties to the first."""
    order = np.argsort(-np.abs(coefficients), kind="stable")[:TOP_DOCUMENTS]
    return np.asarray(order[np.abs(coefficients[order]) > 0], dtype=np.int64)


__all__ = ["TOP_DOCUMENTS", "TOP_MODES", "top_document_variables", "top_documents"]
