"""What can be said of one eigenvalue spectrum: intervals, the resolved decay, brackets, convergence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eddyscope.kernels.decay import CURVATURE, FIT_RANKS
from eddyscope.kernels.laggroups import LagGroups
from eddyscope.kernels.rank import effective_rank, participation_ratio
from eddyscope.lagfield import FloatArray, IntArray
from eddyscope.study.sample import Sample
from eddyscope.trust.brackets import RankBracket, rank_bracket
from eddyscope.trust.convergence import FRACTIONS, Curve, Verdict, convergence_curve, judge, judge_rank
from eddyscope.trust.jackknife import Interval, jackknife, reciprocal
from eddyscope.trust.lag import lag_rank_bracket
from eddyscope.trust.modes import north_separated
from eddyscope.trust.resolved import (
    LAG_COORDINATES,
    Halves,
    Resolved,
    noise_reduced,
    resolved_decay,
    resolved_decay_of,
    resolved_lag_decay,
)
from eddyscope.trust.scores import coordinates, subgram
from eddyscope.trust.spectrum import (
    SCALES,
    lag_spectrum,
    lag_spectrum_measures,
    named_intervals,
    sample_eigenvalues,
    spectrum_measures,
    spectrum_replicates,
)

#: Measures that have replicates and values at N/4 and N/2, in the order of the coordinate ``measure``.
MEASURES = (*SCALES, "beta_resolved")
#: Measures that have an interval: those and their inverses.
WITH_INTERVAL = (*SCALES, "t_spec_published", "beta_resolved", "t_spec_resolved")
#: Half splits of the lag POD's resolved exponent at N/4 and N/2.
_SPLITS_FOLLOWED = 2
#: Why the resolved exponent of a band has no verdict.
NOT_FOLLOWED = "only followed without a window"


@dataclass(frozen=True)
class Trusted:
    """Everything beside the values of one spectrum.

    Parameters
    ----------
    intervals : dict of str to Interval
        The measures of :data:`WITH_INTERVAL`.
    replicates : array, shape (group, measure)
        Order of :data:`MEASURES`.
    resolved : Resolved
    resolved_status : str
        Its own, or ``not a power law``.
    bracket : RankBracket
    curve : array, shape (fraction, measure)
        Means at N/4, N/2 and N.
    verdicts : list of Verdict, one a measure
    rank_curve : array, shape (fraction, tolerance)
    rank_verdicts : list of Verdict, one a tolerance
    separated : bool array, shape (mode,)
        North's rule.
    noise_reduced : array, shape (rank,), or None
    """

    intervals: dict[str, Interval]
    replicates: FloatArray
    resolved: Resolved
    resolved_status: str
    bracket: RankBracket
    curve: FloatArray
    verdicts: list[Verdict]
    rank_curve: FloatArray
    rank_verdicts: list[Verdict]
    separated: np.ndarray
    noise_reduced: FloatArray | None

    @property
    def rank_status(self) -> list[str]:
        """``unresolved`` where held-out capture never reaches the energy or H* is proportional to N."""
        constant = [v.reason.startswith("H*/N is constant") for v in self.rank_verdicts]
        return ["unresolved" if c else s for c, s in zip(constant, self.bracket.status, strict=True)]


def trust_gram(
    gram: FloatArray,
    sample: Sample,
    *,
    entries: int,
    tolerances: tuple[float, ...],
    seed: int,
    floor: float | None = None,
    follow_resolved: bool = True,
) -> Trusted:
    """Everything beside the values of a POD spectrum, from its snapshot Gram.

    Parameters
    ----------
    gram : array, shape (document, document)
        Centred, with the factor 1/N.
    sample : Sample
        With groups. Equal documents count as one.
    entries : int
        Entries that vary, D.
    tolerances : tuple of float
    seed : int
        Of halves, folds and nested subsets.
    floor : float, optional
        Absolute eigenvalue floor of the published fit.
    follow_resolved : bool
        Whether the resolved exponent is also computed at N/4 and N/2.
    """
    assert sample.groups is not None
    gram = sample.gram(gram)
    blocks, groups = sample.of_distinct(sample.blocks), sample.of_distinct(sample.groups)

    def measures(index: IntArray) -> FloatArray:
        part = subgram(gram, index)
        values = sample_eigenvalues(part)
        return np.concatenate([spectrum_measures(values, participation_ratio(part), floor), _ranks(values, tolerances)])

    def exponent(index: IntArray) -> FloatArray:
        found = resolved_decay(subgram(gram, index), blocks[index], entries, seed=seed)
        return np.array([found.beta])

    values = sample_eigenvalues(gram)
    curve = convergence_curve(measures, blocks, seed=seed)
    points = coordinates(gram)
    resolved = resolved_decay_of(points, blocks, entries, groups=groups, seed=seed)
    return assembled(
        replicates=spectrum_replicates(gram, groups, floor),
        curve=curve,
        exponents=followed(exponent, resolved, blocks, seed) if follow_resolved else None,
        resolved=resolved,
        bracket=rank_bracket(gram, values, blocks, tolerances, seed=seed, points=points),
        separated=north_separated(values, gram.shape[0]),
        reduced=noise_reduced(values, gram.shape[0]),
    )


def trust_lag(sums: LagGroups, *, samples: float, tolerances: tuple[float, ...], seed: int) -> Trusted:
    """The same of the lag POD, from the products of its document groups.

    Parameters
    ----------
    sums : LagGroups
    samples : float
        Effective samples, for North's rule.
    tolerances : tuple of float
    seed : int
    """
    groups = sums.counts.size
    everyone = np.arange(groups)

    def measures(index: IntArray) -> FloatArray:
        values = lag_spectrum(sums.covariance(np.isin(everyone, index)))
        return np.concatenate([lag_spectrum_measures(values), _ranks(values, tolerances)])

    projected = sums.in_leading_modes(LAG_COORDINATES)

    def exponent(index: IntArray) -> FloatArray:
        part = LagGroups(projected.products[index], projected.sums[index], projected.counts[index])
        return np.array([resolved_lag_decay(part, jackknife=False, splits=_SPLITS_FOLLOWED, seed=seed).beta])

    replicates = np.stack([lag_spectrum_measures(lag_spectrum(sums.without(group))) for group in range(groups)])
    curve = convergence_curve(measures, everyone, sizes=sums.counts, seed=seed)
    resolved = resolved_lag_decay(sums, seed=seed)
    return assembled(
        replicates=replicates,
        curve=curve,
        exponents=followed(exponent, resolved, everyone, seed),
        resolved=resolved,
        bracket=lag_rank_bracket(sums, tolerances, seed=seed),
        separated=north_separated(lag_spectrum(sums.covariance(np.ones(groups, dtype=bool))), samples),
        reduced=None,
    )


def followed(
    exponent: Callable[[IntArray], FloatArray], resolved: Resolved, blocks: IntArray, seed: int
) -> FloatArray | None:
    """Resolved exponent at N/4, N/2 and N; None where there is none at N."""
    return convergence_curve(exponent, blocks, seed=seed).values[:, 0] if resolved.status == "ok" else None


def _ranks(values: FloatArray, tolerances: tuple[float, ...]) -> FloatArray:
    return np.array([effective_rank(values, t) for t in tolerances])


def assembled(
    *,
    replicates: FloatArray,
    curve: Curve,
    exponents: FloatArray | None,
    resolved: Resolved,
    bracket: RankBracket,
    separated: np.ndarray,
    reduced: FloatArray | None,
) -> Trusted:
    """All of it from its parts."""
    plain = len(SCALES)
    intervals = named_intervals(curve.values[2, :plain], replicates)
    parts = resolved.replicates
    exponent = np.full(replicates.shape[0], np.nan) if parts is None else parts[:, 0]
    intervals["beta_resolved"] = jackknife(resolved.beta, exponent)
    intervals["t_spec_resolved"] = reciprocal(intervals["beta_resolved"])
    status = resolved_status(resolved)
    at = np.array([np.nan, np.nan, resolved.beta]) if exponents is None else exponents
    values = np.column_stack([curve.values[:, :plain], at])
    verdicts = [
        Verdict("not resolved", NOT_FOLLOWED, np.nan)
        if name == "beta_resolved" and exponents is None and status == "ok"
        else judge(
            values[:, index],
            curve.documents,
            float(intervals[name].low),
            float(intervals[name].high),
            status if name == "beta_resolved" else str(intervals[name].status),
        )
        for index, name in enumerate(MEASURES)
    ]
    ranks = curve.values[:, plain:]
    return Trusted(
        intervals=intervals,
        replicates=np.column_stack([replicates, exponent]),
        resolved=resolved,
        resolved_status=status,
        bracket=bracket,
        curve=values,
        verdicts=verdicts,
        rank_curve=ranks,
        rank_verdicts=[
            judge_rank(ranks[:, index], curve.documents, bracket.status[index]) for index in range(ranks.shape[1])
        ],
        separated=separated,
        noise_reduced=reduced,
    )


def resolved_status(resolved: Resolved) -> str:
    """Status of the exponent; ``not a power law`` where the jackknife interval of the curvature excludes 0.

    The interval and not the fit's own error, which is too small: it would reject true power laws.
    """
    parts = resolved.replicates
    if resolved.status != "ok" or parts is None or abs(resolved.curvature) <= CURVATURE:
        return resolved.status
    interval = jackknife(resolved.curvature, parts[:, 1])
    excludes = bool(interval.low > 0 or interval.high < 0)
    return "not a power law" if excludes else resolved.status


def no_trust(groups: int, tolerances: tuple[float, ...], ranks: int, status: str) -> Trusted:
    """Where there is nothing to measure: everything NaN, with the status that says why."""
    nothing = np.full((len(FRACTIONS), len(MEASURES)), np.nan)
    interval = Interval(*(np.asarray(np.nan),) * 4, groups, np.asarray(status, dtype=object))
    empty = np.zeros((0, 0))
    verdict = Verdict("not resolved", status, float("nan"))
    undefined = np.full(len(tolerances), np.nan)
    halves = Halves(np.zeros((1, 2, FIT_RANKS)), np.zeros((1, 2, FIT_RANKS)), np.zeros((1, FIT_RANKS, FIT_RANKS)))
    resolved = Resolved(np.nan, np.nan, np.nan, 0, status, halves, np.full(FIT_RANKS, np.nan))
    return Trusted(
        dict.fromkeys(WITH_INTERVAL, interval),
        np.full((groups, len(MEASURES)), np.nan),
        resolved,
        status,
        RankBracket(undefined, undefined, empty.ravel(), [status] * len(tolerances)),
        nothing,
        [verdict] * len(MEASURES),
        np.full((len(FRACTIONS), len(tolerances)), np.nan),
        [verdict] * len(tolerances),
        np.zeros(ranks, dtype=bool),
        None,
    )
