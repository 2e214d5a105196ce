"""The resolved decay exponent: a power law through the variances that two halves of the documents agree on.

Sample eigenvalues sit on a floor, ``E lambda_hat_k ~ lambda_k + (1/N) sum_{j>k} lambda_j``, so their decay says what
the sample size says. The variance of held-out documents along the modes of others is too small where modes are poorly
known, the training variance too large; their geometric mean is close to the truth as far as the modes of two halves
span the same subspace.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.decay import FIT_RANKS, MIN_POINTS, fit_decay
from eddyscope.kernels.laggroups import LagGroups
from eddyscope.trust.partitions import SPLITS, half_splits
from eddyscope.trust.scores import FULL_SCORES, coordinates, leading_modes

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Eigenpairs = tuple[FloatArray, FloatArray]

#: Overlap of the halves' subspaces, chance taken off, that a resolved rank must have.
MIN_OVERLAP = 0.30
#: Leading lag modes of all documents in which halves of the lag POD work (Rayleigh-Ritz): four times what is fitted.
#: On 128 lags of the bundled `base` this moves an exponent by less than a thousandth of its interval, on 240 lags of
#: slow decay (an exponent of 1) by a twentieth.
_LAG_SCORES = 4 * FIT_RANKS
#: Those in which its replicates, and its values at fewer documents, work: twice what is fitted.
LAG_COORDINATES = 2 * FIT_RANKS


@dataclass(frozen=True)
class Halves:
    """What half splits give, from any kind of data.

    Parameters
    ----------
    train, heldout : array, shape (split, direction, mode)
        Variance of the training half, and of the other half about the training mean, along the training modes.
    cross : array, shape (split, mode, mode)
        Inner products of the modes of both halves.
    """

    train: FloatArray
    heldout: FloatArray
    cross: FloatArray

    @property
    def variances(self) -> FloatArray:
        """``sqrt(l_train l_heldout)``, mean over splits and directions, shape (mode,)."""
        return np.asarray(np.sqrt(self.train * self.heldout).mean(axis=(0, 1)))

    def overlap(self, entries: int) -> FloatArray:
        """Subspace overlap ``o(m) = |U_a' U_b|_F^2 / m`` with chance taken off, ``(o - m/D) / (1 - m/D)``.

        Parameters
        ----------
        entries : int
            D, the entries that vary.

        Returns
        -------
        array, shape (mode,)
            m = 1, 2, ...; NaN where m reaches D, where any two subspaces agree.
        """
        squared = (self.cross**2).mean(axis=0)
        size = np.arange(1, squared.shape[0] + 1)
        share = np.cumsum(np.cumsum(squared, axis=0), axis=1).diagonal() / size
        chance = size / entries
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(chance < 1, (share - chance) / (1 - chance), np.nan))

    @property
    def mode_overlap(self) -> FloatArray:
        """``<u_a, u_b>^2`` of the k-th modes of both halves, mean over splits, shape (mode,)."""
        return np.asarray((self.cross**2).mean(axis=0).diagonal().copy())


@dataclass(frozen=True)
class Resolved:
    """The resolved decay of one spectrum.

    Parameters
    ----------
    beta, t_spec : float
        Exponent of ``lambda_k ~ k^-beta`` on the resolved window and its inverse; NaN where there is none.
    curvature : float
        Coefficient of ``(log k)^2`` on the window when it is fitted too.
    window : int
        K: the halves agree on the subspace of every m <= K.
    status : str
        ``ok``, ``unresolved`` (K < 8), ``no decay`` or ``no fluctuation``.
    halves : Halves
    overlap : array, shape (mode,)
    curves : array, shape (group, K), or None
        The variances ``sqrt(l_train l_heldout)`` of the window with one group of documents left out, in the same
        halves.
    """

    beta: float
    t_spec: float
    curvature: float
    window: int
    status: str
    halves: Halves
    overlap: FloatArray
    curves: FloatArray | None = None

    @property
    def replicates(self) -> FloatArray | None:
        """Exponent and curvature with one group of documents left out, shape (group, 2)."""
        return None if self.curves is None else np.array([_fit(curve, self.window) for curve in self.curves])

    def narrowed(self, window: int) -> Resolved:
        """The same decay on a smaller window: that of another ensemble it is compared with.

        Parameters
        ----------
        window : int
            Largest K allowed.
        """
        if self.status != "ok" or window >= self.window:
            return self
        found = _judge(self.halves, self.overlap, window)
        return replace(found, curves=None if self.curves is None else self.curves[:, : found.window])


def resolved_decay(
    gram: FloatArray,
    blocks: IntArray,
    entries: int,
    *,
    groups: IntArray | None = None,
    splits: int = SPLITS,
    seed: int = 0,
) -> Resolved:
    """Resolved decay exponent of a snapshot ensemble, all from its Gram.

    Parameters
    ----------
    gram : array, shape (document, document)
        Centred, with the factor 1/N.
    blocks : int array, shape (document,)
        Halves are made of whole blocks.
    entries : int
        D, the number of entries that vary.
    groups : int array, shape (document,), optional
        Jackknife groups; with them the replicates are computed, where the exponent is resolved.
    splits, seed : int
        Random half splits.

    Returns
    -------
    Resolved

    Notes
    -----
    Held-out documents are centred by the training mean. K is taken from the full sample and kept in the replicates,
    which use the same halves without the group, so that the randomness of the splits does not enter the error.
    """
    return resolved_decay_of(coordinates(gram), blocks, entries, groups=groups, splits=splits, seed=seed)


def resolved_decay_of(
    points: FloatArray,
    blocks: IntArray,
    entries: int,
    *,
    groups: IntArray | None = None,
    splits: int = SPLITS,
    seed: int = 0,
) -> Resolved:
    """The same from the scores of the documents, shape (document, score); see :func:`resolved_decay`.

    Above 1,000 documents the leading scores are what there is to agree on, so no more entries vary than there are
    scores.
    """
    documents = points.shape[0]
    halves_of = half_splits(blocks, splits, seed)
    everyone = np.ones(documents, dtype=bool)
    limit = _limit(documents)
    halves = _halves_of_points(points, halves_of, everyone, max(limit, 1))
    seen = min(entries, points.shape[1]) if documents > FULL_SCORES else entries
    found = _judge(halves, halves.overlap(max(seen, 1)), limit)
    if groups is None or found.status != "ok":
        return found
    parts = [
        _halves_of_points(points, halves_of, groups != group, found.window).variances for group in np.unique(groups)
    ]
    return replace(found, curves=np.stack(parts))


def resolved_lag_decay(sums: LagGroups, *, jackknife: bool = True, splits: int = SPLITS, seed: int = 0) -> Resolved:
    """Resolved decay exponent of the lag POD, from the products of its document groups.

    Parameters
    ----------
    sums : LagGroups
        Halves are made of whole groups.
    jackknife : bool
        Whether to compute the replicates.
    splits, seed : int
        As for :func:`resolved_decay`.

    Returns
    -------
    Resolved
        D is the number of lags that vary.

    Notes
    -----
    Above 120 lags halves work in the leading 120 lag modes of all documents, replicates always in the leading 60.
    """
    groups = sums.counts.size
    halves_of = half_splits(np.arange(groups), splits, seed)
    everyone = np.ones(groups, dtype=bool)
    entries = int((sums.energy() > 0).sum())
    limit = min(FIT_RANKS, entries, _limit(int(sums.counts.sum())))
    if sums.products.shape[1] > _LAG_SCORES:
        sums = sums.in_leading_modes(_LAG_SCORES)
    halves = _halves_of_groups(sums, halves_of, everyone, max(limit, 1))
    found = _judge(halves, halves.overlap(max(entries, 1)), limit)
    if not jackknife or found.status != "ok":
        return found
    sums = sums.in_leading_modes(LAG_COORDINATES)
    known = np.linalg.eigh(np.stack(sums.sides(halves_of, ~halves_of)[:2], axis=1))
    parts = [
        _halves_of_groups(sums, halves_of, np.arange(groups) != group, found.window, known).variances
        for group in range(groups)
    ]
    return replace(found, curves=np.stack(parts))


def noise_reduced(eigenvalues: FloatArray, documents: int, energy: float | None = None) -> FloatArray:
    """Eigenvalues with the floor taken off: ``l_k - (tr - sum_{i<=k} l_i) / (N - 1 - k)``, of ``S = G / (N - 1)``.

    Parameters
    ----------
    eigenvalues : array, shape (rank,)
        Of the snapshot Gram with the factor 1/N: all N - 1 of them, descending, or the leading ones.
    documents : int
    energy : float, optional
        Sum of all eigenvalues, where not all are given.

    Returns
    -------
    array, shape (rank,)
        In the convention of the argument times N / (N - 1), which is the unbiased one; NaN at the last rank, where
        nothing is left to estimate the floor from.

    References
    ----------
    Yata and Aoshima (2012), J. Multivariate Anal. 105, 193-215.
    """
    scale = documents / max(documents - 1, 1)
    unbiased = np.asarray(eigenvalues, dtype=np.float64) * scale
    left = documents - 1 - np.arange(1, unbiased.size + 1)
    rest = (unbiased.sum() if energy is None else energy * scale) - np.cumsum(unbiased)
    return np.asarray(np.where(left > 0, unbiased - rest / np.maximum(left, 1), np.nan))


def _limit(documents: int) -> int:
    return min(FIT_RANKS, documents // 2 - 2)


def _judge(halves: Halves, overlap: FloatArray, limit: int) -> Resolved:
    variances = halves.variances
    if not variances[0] > 0:
        return Resolved(np.nan, np.nan, np.nan, 0, "no fluctuation", halves, overlap)
    below = np.flatnonzero(~((overlap >= MIN_OVERLAP) & (variances > 0)))
    agreed = max(0, min(int(below[0]) if below.size else overlap.size, limit))
    if agreed < MIN_POINTS:
        return Resolved(np.nan, np.nan, np.nan, agreed, "unresolved", halves, overlap)
    beta, curvature = _fit(variances, agreed)
    decays = beta > 1e-12
    inverse = 1 / beta if decays else np.nan
    return Resolved(beta, inverse, curvature, agreed, "ok" if decays else "no decay", halves, overlap)


def _fit(variances: FloatArray, window: int) -> tuple[float, float]:
    fit = fit_decay(variances[:window], ranks=window, relative_floor=0.0)
    return fit.beta, fit.curvature


def _halves_of_points(points: FloatArray, halves: BoolArray, used: BoolArray, count: int) -> Halves:
    train, heldout, cross = [], [], []
    for half in halves:
        sides = [points[half & used], points[~half & used]]
        if min(len(side) for side in sides) < 2:
            nothing = np.zeros((2, count))
            train.append(nothing)
            heldout.append(nothing)
            cross.append(np.zeros((count, count)))
            continue
        means = [side.mean(axis=0) for side in sides]
        found = [leading_modes(side - mean, count) for side, mean in zip(sides, means, strict=True)]
        train.append(np.stack([variances for variances, _ in found]))
        # The other half about the training mean, along the training modes.
        heldout.append(np.stack([(((sides[1 - i] - means[i]) @ found[i][1]) ** 2).mean(axis=0) for i in range(2)]))
        cross.append(found[0][1].T @ found[1][1])
    return Halves(np.stack(train), np.stack(heldout), np.stack(cross))


def _halves_of_groups(
    sums: LagGroups, halves: BoolArray, used: BoolArray, count: int, known: Eigenpairs | None = None
) -> Halves:
    """Halves of the groups used; ``known`` are the eigenpairs, by split and side, of the halves of all groups."""
    first, second, apart = sums.sides(halves & used, ~halves & used)
    sides = np.stack([first, second], axis=1)
    if known is None:
        values, vectors = np.linalg.eigh(sides)
    else:
        values, vectors = known[0].copy(), known[1].copy()
        changed = np.stack([halves, ~halves], axis=1)[..., ~used].any(axis=-1)
        values[changed], vectors[changed] = np.linalg.eigh(sides[changed])
    train, modes = values[..., ::-1][..., :count], vectors[..., ::-1][..., :count]
    about = np.stack([second + apart, first + apart], axis=1)
    heldout = ((about @ modes) * modes).sum(axis=-2)
    cross = np.swapaxes(modes[:, 0], -1, -2) @ modes[:, 1]
    return Halves(np.maximum(train, 0.0), np.maximum(heldout, 0.0), cross)  # rounding may leave less than nothing
