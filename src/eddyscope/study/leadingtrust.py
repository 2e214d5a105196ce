"""What can be said of a spectrum of which the leading eigenpairs are known, and no Gram is held."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyscope.kernels.gramblocks import PartSums
from eddyscope.kernels.rank import effective_rank
from eddyscope.lagfield import BoolArray, FloatArray, IntArray
from eddyscope.study.sample import Sample
from eddyscope.study.trusted import Trusted, assembled, followed
from eddyscope.trust.brackets import RankBracket, capture_of_points, first_reaching
from eddyscope.trust.convergence import DRAWS, convergence_curve
from eddyscope.trust.modes import north_separated
from eddyscope.trust.partitions import folds, nested_subsets
from eddyscope.trust.resolved import noise_reduced, resolved_decay_of
from eddyscope.trust.spectrum import SCALES, spectrum_measures

_ENTROPY = list(SCALES).index("entropy_rank")
_FITTED = [list(SCALES).index(name) for name in ("beta_published", "r2")]


@dataclass(frozen=True)
class Parts:
    """Parts of the documents whose traces are wanted: all, all but each group, nested subsets, training folds.

    Parameters
    ----------
    members : bool array, shape (document, part)
        In this order. Of equal documents one counts.
    groups : int array, shape (group,)
        Labels of the groups, in the order of their parts.
    subsets : list of int array
        Quarter and half of each draw, as places among the documents that count.
    fold : int array, shape (document that counts,)
    """

    members: BoolArray
    groups: IntArray
    subsets: list[IntArray]
    fold: IntArray

    @classmethod
    def of(cls, sample: Sample, seed: int) -> Parts:
        """The parts that :func:`trust_leading` asks for; without groups all documents alone."""
        documents, kept = sample.blocks.size, sample.distinct
        if sample.groups is None:
            everyone = np.zeros((documents, 1), dtype=bool)
            everyone[kept] = True
            return cls(everyone, np.empty(0, dtype=np.int64), [], np.zeros(kept.size, dtype=np.int64))
        groups, blocks = sample.of_distinct(sample.groups), sample.of_distinct(sample.blocks)
        labels, fold = np.unique(groups), folds(blocks, seed=seed)
        subsets = [part for draw in range(DRAWS) for part in nested_subsets(blocks, seed + draw)[::-1]]
        chosen = [np.ones(kept.size, dtype=bool), *(groups != label for label in labels)]
        for subset in subsets:
            chosen.append(np.isin(np.arange(kept.size), subset))
        chosen += [fold != label for label in np.unique(fold)]
        members = np.zeros((documents, len(chosen)), dtype=bool)
        members[kept] = np.stack(chosen, axis=1)
        return cls(members, labels.astype(np.int64), subsets, fold)


def trust_leading(
    vectors: FloatArray,
    eigenvalues: FloatArray,
    sums: PartSums,
    parts: Parts,
    sample: Sample,
    *,
    entries: int,
    tolerances: tuple[float, ...],
    seed: int,
    floor: float | None = None,
    follow_resolved: bool = True,
) -> Trusted:
    """The same as :func:`eddyscope.study.trusted.trust_gram`, within the leading scores.

    Eigenvalues of a part of the documents come by Rayleigh-Ritz from the leading scores of all; its total energy and
    its participation ratio are exact, from sums that were taken as the blocks of the Gram were formed.

    Parameters
    ----------
    vectors : array, shape (document, rank)
        Leading eigenvectors of the Gram.
    eigenvalues : array, shape (rank,)
        Descending.
    sums : PartSums
        Of the members of ``parts``.
    parts : Parts
    sample : Sample
        With groups.
    entries, tolerances, seed, floor, follow_resolved
        As for :func:`eddyscope.study.trusted.trust_gram`.

    Notes
    -----
    NaN, since all eigenvalues would have to be known: the entropy rank and its interval; of a quarter and a half of the
    documents also the effective ranks, and the published fit, whose floor of noise lies beyond the leading scores.
    """
    assert sample.groups is not None
    kept = sample.distinct
    documents = vectors.shape[0]
    points = (vectors * np.sqrt(documents * eigenvalues))[kept]
    blocks, groups = sample.of_distinct(sample.blocks), sample.of_distinct(sample.groups)
    if sample.repeated:
        eigenvalues = _ritz(points)
    known = iter(range(1, 1 + parts.groups.size + len(parts.subsets)))

    def within(index: IntArray, part: int) -> FloatArray:
        leading = _ritz(points[index])
        rest = max(sums.trace(part) - float(leading.sum()), 0.0)
        found = spectrum_measures(np.append(leading, rest), sums.participation_ratio(part), floor)
        found[_ENTROPY] = np.nan
        return found

    replicates = np.stack([within(np.flatnonzero(groups != group), next(known)) for group in parts.groups])
    of_subset = {part.tobytes(): next(known) for part in parts.subsets}

    def measures(index: IntArray) -> FloatArray:
        if index.size == kept.size:
            return np.concatenate([within(index, 0), _known_ranks(eigenvalues, sums.trace(0), tolerances)])
        found = within(index, of_subset[index.tobytes()])
        found[_FITTED] = np.nan
        return np.concatenate([found, np.full(len(tolerances), np.nan)])

    def exponent(index: IntArray) -> FloatArray:
        return np.array([resolved_decay_of(points[index], blocks[index], entries, seed=seed).beta])

    curve = convergence_curve(measures, blocks, seed=seed)
    resolved = resolved_decay_of(points, blocks, entries, groups=groups, seed=seed)
    return assembled(
        replicates=replicates,
        curve=curve,
        exponents=followed(exponent, resolved, blocks, seed) if follow_resolved else None,
        resolved=resolved,
        bracket=_bracket(points, eigenvalues, sums, parts, sample, tolerances),
        separated=north_separated(eigenvalues, kept.size),
        reduced=noise_reduced(eigenvalues, kept.size, sums.trace(0)),
    )


def _ritz(points: FloatArray) -> FloatArray:
    """Eigenvalues of some documents by Rayleigh-Ritz, from their leading scores, shape (document, rank)."""
    side = points - points.mean(axis=0)
    found: FloatArray = np.maximum(np.linalg.eigvalsh(side.T @ side / side.shape[0])[::-1], 0.0)
    return found


def _known_ranks(eigenvalues: FloatArray, energy: float, tolerances: tuple[float, ...]) -> FloatArray:
    """Effective ranks that the known eigenvalues reach, NaN for others."""
    whole = np.append(eigenvalues, max(energy - float(eigenvalues.sum()), 0.0))
    ranks = np.array([effective_rank(whole, t) for t in tolerances])
    return np.where(ranks <= eigenvalues.size, ranks, np.nan)


def _bracket(
    points: FloatArray,
    eigenvalues: FloatArray,
    sums: PartSums,
    parts: Parts,
    sample: Sample,
    tolerances: tuple[float, ...],
) -> RankBracket:
    """Bounds of the effective ranks: infinite above where held-out capture does not reach the energy in the scores."""
    kept = sample.distinct
    first = parts.members.shape[1] - np.unique(parts.fold).size
    places = {label: first + place for place, label in enumerate(np.unique(parts.fold))}

    def about(test: IntArray, _: IntArray) -> float:
        held_out = np.zeros(sample.blocks.size, dtype=bool)
        held_out[kept[test]] = True
        return sums.energy_about(held_out, places[parts.fold[test[0]]])

    low = _known_ranks(eigenvalues, sums.trace(0), tolerances)
    if not eigenvalues.sum() > 0:
        return RankBracket(low, np.full_like(low, np.nan), np.zeros(0), ["no fluctuation"] * len(tolerances))
    several = np.unique(parts.fold).size > 1
    capture = capture_of_points(points, parts.fold, about) if several else np.zeros(0)
    high = np.array([first_reaching(capture, 1 - t) for t in tolerances])
    return RankBracket(low, high, capture, ["ok" if np.isfinite(h) else "unresolved" for h in high])
