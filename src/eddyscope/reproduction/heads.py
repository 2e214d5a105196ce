"""How many patterns the heads of a layer carry between them: POD over heads."""

from __future__ import annotations

import numpy as np

from eddyscope.lagfield import FloatArray, IntArray, LagField

#: Causal queries before this share of the context have few keys, and a variance that says so.
_EARLY = 8


def head_patterns(field: LagField, groups: IntArray) -> tuple[float, FloatArray]:
    """Effective number of patterns over heads, ``tr^2(R) / tr(R^2)`` of the head Gram.

    ``R[h, h'] = <u_h . u_h'>`` over documents, u_h the fluctuation of head h, key 0 left out, from query L/8 on where
    the field is causal.

    Parameters
    ----------
    field : LagField
        Each head kept.
    groups : int array, shape (document,)
        Groups of the jackknife.

    Returns
    -------
    value : float
        1 where all heads fluctuate alike or one alone does, the number of heads where they do so independently and
        equally.
    replicates : array, shape (group,)
        With one group of documents left out, mean fields taken anew.
    """
    values = _fluctuation(field)
    labels = np.unique(groups)
    inner = np.stack([_products(values[groups == label]) for label in labels])
    sums = np.stack([values[groups == label].sum(axis=0, dtype=np.float64) for label in labels])
    counts = np.array([int((groups == label).sum()) for label in labels])
    everyone = np.ones(labels.size, dtype=bool)
    replicates = [_effective(inner, sums, counts, labels != label) for label in labels]
    return _effective(inner, sums, counts, everyone), np.array(replicates)


def _fluctuation(field: LagField) -> FloatArray:
    """Snapshots about their mean, shape (document, head, entry)."""
    geometry = field.geometry
    used = geometry.query_mask(geometry.queries // _EARLY if field.causal else 0) & (geometry.entry_key > 0)
    values = field.values[:, :, used]
    values -= values.mean(axis=0, dtype=np.float64).astype(values.dtype)
    return values


def _products(values: FloatArray) -> FloatArray:
    """Inner products of heads, summed over documents, shape (head, head)."""
    return np.asarray((values @ values.transpose(0, 2, 1)).sum(axis=0, dtype=np.float64))


def _effective(inner: FloatArray, sums: FloatArray, counts: IntArray, members: np.ndarray) -> float:
    documents = int(counts[members].sum())
    if not documents:
        return float("nan")
    mean = sums[members].sum(axis=0) / documents
    gram = inner[members].sum(axis=0) / documents - mean @ mean.T
    squares = float((gram**2).sum())
    return float(np.trace(gram)) ** 2 / squares if squares > 0 else float("nan")
