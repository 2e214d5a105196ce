"""Lag statistics of any part of the documents: brackets of the lag POD, replicates of energies and of means."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.laggroups import LagGroups
from eddyscope.kernels.rank import effective_rank
from eddyscope.trust.brackets import RankBracket, first_reaching
from eddyscope.trust.partitions import FOLDS, folds

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]


def lag_rank_bracket(
    sums: LagGroups, tolerances: tuple[float, ...] = (0.10, 0.05, 0.01), *, number: int = FOLDS, seed: int = 0
) -> RankBracket:
    """Bracket of ``H*(eps)`` of the lag POD: in-sample, and from held-out capture in folds of whole groups.

    Parameters
    ----------
    sums : LagGroups
    tolerances : tuple of float
    number, seed : int
        Folds.

    Returns
    -------
    RankBracket
    """
    groups = sums.counts.size
    values = np.maximum(np.linalg.eigvalsh(sums.covariance(np.ones(groups, dtype=bool)))[::-1], 0.0)
    fold = folds(np.arange(groups), number, seed)
    along, total = np.zeros(values.size), 0.0
    for label in np.unique(fold):
        train, test = fold != label, fold == label
        if not train.any():
            continue
        modes = np.linalg.eigh(sums.covariance(train))[1][:, ::-1]
        held = sums.about(test, train) * int(sums.counts[test].sum())
        along += ((held @ modes) * modes).sum(axis=0)
        total += float(np.trace(held))
    capture = np.cumsum(along) / total if total > 0 else np.zeros(0)
    low = np.array([effective_rank(values, t) for t in tolerances])
    if not values.sum() > 0:
        return RankBracket(low, np.full_like(low, np.nan), capture, ["no fluctuation"] * len(tolerances))
    high = np.array([first_reaching(capture, 1 - t) for t in tolerances])
    return RankBracket(low, high, capture, ["ok" if np.isfinite(h) else "unresolved" for h in high])


def energy_replicates(sums: LagGroups) -> FloatArray:
    """Mean squared fluctuation at each lag with one group left out, shape (group, lag)."""
    return np.asarray(np.einsum("gdd->gd", sums.without_each))


def mean_replicates(values: FloatArray, groups: IntArray) -> FloatArray:
    """Mean over documents with one group left out.

    Parameters
    ----------
    values : array, shape (document, ...)
    groups : int array, shape (document,)

    Returns
    -------
    array, shape (group, ...)
    """
    return np.stack([values[groups != group].mean(axis=0) for group in np.unique(groups)])


def level_replicates(gram: FloatArray, projection: FloatArray, mean_energy: float, groups: IntArray) -> FloatArray:
    """Fluctuation level ``<|u|^2> / <|A|^2>`` with one group of documents left out, shape (group,).

    Parameters
    ----------
    gram : array, shape (document, document)
        Centred, with the factor 1/N.
    projection : array, shape (document,)
        ``<u_s, Abar>``, the inner product of each fluctuation with the mean field.
    mean_energy : float
        ``|Abar|^2``.
    groups : int array, shape (document,)

    Notes
    -----
    Leaving documents out moves the mean field by the mean m of the others' fluctuations, so its energy becomes
    ``|Abar|^2 + 2 <m, Abar> + |m|^2``.
    """
    documents = gram.shape[0]
    found = []
    for group in np.unique(groups):
        kept = np.flatnonzero(groups != group)
        inner = gram[np.ix_(kept, kept)] * documents
        moved = float(inner.mean())  # |m|^2
        fluctuation = float(np.trace(inner)) / kept.size - moved
        total = fluctuation + mean_energy + 2 * float(projection[kept].mean()) + moved
        found.append(fluctuation / total if total > 0 else np.nan)
    return np.array(found)
