"""The effective rank between two bounds: in-sample, and from the capture of held-out documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.rank import effective_rank
from eddyscope.trust.partitions import FOLDS, folds
from eddyscope.trust.scores import coordinates, leading_modes

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class RankBracket:
    """Effective ranks of a spectrum, one a tolerance.

    Parameters
    ----------
    low : array, shape (tolerance,)
        In-sample H*: too small on average at finite N.
    high : array, shape (tolerance,)
        From held-out capture: too large; infinite where held-out capture never reaches ``1 - eps``.
    capture : array, shape (mode,)
        Share of the held-out energy that the first n training modes hold, n = 1, 2, ...
    status : list of str
        ``ok``, or ``unresolved`` where no number of training modes reaches the energy.
    """

    low: FloatArray
    high: FloatArray
    capture: FloatArray
    status: list[str]

    @property
    def greatest_capture(self) -> float:
        """Largest share of the held-out energy that training modes hold."""
        return float(self.capture[-1]) if self.capture.size else float("nan")


def held_out_capture(
    gram: FloatArray,
    blocks: IntArray,
    *,
    number: int = FOLDS,
    seed: int = 0,
    limit: int | None = None,
    points: FloatArray | None = None,
) -> FloatArray:
    """Share of the energy of held-out documents that training modes hold, pooled over folds.

    Parameters
    ----------
    gram : array, shape (document, document)
        Centred, with the factor 1/N.
    blocks : int array, shape (document,)
        Folds are made of whole blocks.
    number, seed : int
        Folds.
    limit : int, optional
        Most modes looked at.
    points : array, shape (document, score), optional
        :func:`eddyscope.trust.scores.coordinates` of the Gram, where they are known.

    Returns
    -------
    array, shape (mode,)
        Cumulative: energy along the first n modes over all energy, both summed over the folds. Held-out documents are
        centred by the training mean and projected on training modes; training never sees them.

    Notes
    -----
    Above 1,000 documents the modes are those within the leading 200 scores, and the energy of the held-out documents
    stays exact.
    """
    fold = folds(blocks, number, seed)
    if np.unique(fold).size < 2:
        return np.zeros(0)
    inner = gram * gram.shape[0]
    points = coordinates(gram) if points is None else points
    return capture_of_points(points, fold, lambda test, train: _energy_about(inner, test, train), limit)


def capture_of_points(
    points: FloatArray, fold: IntArray, energy_about: Callable[[IntArray, IntArray], float], limit: int | None = None
) -> FloatArray:
    """The same from the scores of the documents.

    Parameters
    ----------
    points : array, shape (document, score)
    fold : int array, shape (document,)
    energy_about : callable
        Energy of some documents about the mean of others, from the indices of both.
    limit : int, optional
    """
    documents, labels = points.shape[0], np.unique(fold)
    count = min(limit or documents, points.shape[1], documents - int(np.bincount(fold).min()) - 1)
    along, total = np.zeros(max(count, 0)), 0.0
    for label in labels:
        train, test = np.flatnonzero(fold != label), np.flatnonzero(fold == label)
        mean = points[train].mean(axis=0)
        _, modes = leading_modes(points[train] - mean, along.size)
        along += (((points[test] - mean) @ modes) ** 2).sum(axis=0)
        total += energy_about(test, train)
    return np.asarray(np.cumsum(along) / total) if total > 0 else np.zeros(0)


def rank_bracket(
    gram: FloatArray,
    eigenvalues: FloatArray,
    blocks: IntArray,
    tolerances: tuple[float, ...] = (0.10, 0.05, 0.01),
    *,
    number: int = FOLDS,
    seed: int = 0,
    points: FloatArray | None = None,
) -> RankBracket:
    """Bracket of ``H*(eps)`` for each tolerance.

    Parameters
    ----------
    gram : array, shape (document, document)
        Centred, with the factor 1/N.
    eigenvalues : array, shape (rank,)
        Of the Gram, descending.
    blocks : int array, shape (document,)
    tolerances : tuple of float
        eps, the share of the energy that may be missed.
    number, seed : int
        Folds.
    points : array, shape (document, score), optional
        The scores of the documents, where they are known.

    Returns
    -------
    RankBracket
    """
    capture = held_out_capture(gram, blocks, number=number, seed=seed, points=points)
    low = np.array([effective_rank(eigenvalues, t) for t in tolerances])
    high = np.array([first_reaching(capture, 1 - t) for t in tolerances])
    if not eigenvalues.sum() > 0:
        return RankBracket(low, np.full_like(low, np.nan), capture, ["no fluctuation"] * len(tolerances))
    return RankBracket(low, high, capture, ["ok" if np.isfinite(h) else "unresolved" for h in high])


def first_reaching(capture: FloatArray, share: float) -> float:
    """Fewest modes whose cumulative capture reaches a share of the energy; infinite where none do."""
    reached = np.flatnonzero(capture >= share - 1e-14)
    return float(reached[0] + 1) if reached.size else float("inf")


def _energy_about(inner: FloatArray, test: IntArray, train: IntArray) -> float:
    """``sum_t |v_t - mean_train|^2`` from inner products."""
    return float(
        np.diag(inner)[test].sum()
        - 2 * inner[np.ix_(test, train)].mean(axis=1).sum()
        + test.size * inner[np.ix_(train, train)].mean()
    )
