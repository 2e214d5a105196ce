"""Measures of an eigenvalue spectrum, each with its status."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyscope.kernels.decay import FIT_RANKS, fit_decay
from eddyscope.kernels.rank import (
    MIN_DOCUMENTS,
    effective_rank,
    entropy_rank,
    first_mode_energy,
    participation_ratio,
    stable_rank,
)
from eddyscope.lagfield import FloatArray

NO_FLUCTUATION = "no fluctuation"
#: Status of what only fields can tell, where statistics alone were kept.
NOT_KEPT = "fields not kept"

#: Leading eigenvalues that are known where there are too many documents for a full eigenproblem.
LEADING = 200


def beyond(count: int) -> str:
    """Status of what lies beyond the eigenvalues that are known, such as ``> 200``."""
    return f"> {count}"


#: Status of what would need every eigenvalue, where only the leading ones are known.
LEADING_ALONE = "leading eigenvalues alone"
#: Status of results that come from a sketch of the field.
APPROXIMATE = "approximate"

#: Measures with one value a spectrum, in the order in which tables show them.
SCALAR_MEASURES = (
    "beta_published",
    "t_spec_published",
    "r2",
    "fit_intercept",
    "fit_curvature",
    "participation_ratio",
    "entropy_rank",
    "stable_rank",
    "first_mode_energy",
)


@dataclass(frozen=True)
class Measures:
    """Values and statuses of one spectrum.

    Parameters
    ----------
    values, statuses : dict
        One entry for each of :data:`SCALAR_MEASURES`.
    effective_rank : array, shape (tolerance,)
    effective_rank_status : list of str, one a tolerance
    """

    values: dict[str, float]
    statuses: dict[str, str]
    effective_rank: FloatArray
    effective_rank_status: list[str]


def measure(
    eigenvalues: FloatArray,
    tolerances: tuple[float, ...],
    *,
    gram: FloatArray | None = None,
    absolute_floor: float | None = None,
    samples: int | None = None,
    documents: int | None = None,
    without_energy: str = NO_FLUCTUATION,
) -> Measures:
    """All measures of a spectrum.

    Parameters
    ----------
    eigenvalues : array, shape (rank,)
        Descending, zero past the rank.
    tolerances : tuple of float
    gram : array, shape (document, document), optional
        Centred snapshot Gram, for the unbiased participation ratio. Without it the plug-in
        ``(sum lambda)^2 / sum lambda^2`` is taken, right where samples are many against dimensions (lag POD).
    absolute_floor : float, optional
        Eigenvalue floor of the fit in place of the relative one (the published script: 1e-12).
    samples : int, optional
        Largest rank that the sample allows; the number of eigenvalues (N - 1) by default. In lag POD there are N - 1
        times the number of rows.
    documents : int, optional
        N, where there is no Gram to tell it; below 8 the participation ratio carries a status.
    without_energy : str
        Status where the eigenvalues are all zero or undefined.

    Notes
    -----
    An effective rank above half of the largest that the sample allows has the status ``unresolved``: there it says
    how many documents there are (white noise gives 0.9 N at 0.10, in any number of dimensions).
    """
    fit = (
        fit_decay(eigenvalues)
        if absolute_floor is None
        else fit_decay(eigenvalues, relative_floor=0.0, absolute_floor=absolute_floor)
    )
    energy = bool(eigenvalues.size and eigenvalues.sum() > 0)
    plain = "ok" if energy else without_energy
    count = documents if gram is None else gram.shape[0]
    ratio = _participation(eigenvalues, gram)
    ratio_status = plain
    if energy and count is not None and count < MIN_DOCUMENTS:
        ratio_status = "too few documents"
    elif energy and not np.isfinite(ratio):
        ratio_status = "unresolved"
    values = {
        "beta_published": fit.beta,
        "t_spec_published": fit.t_spec,
        "r2": fit.r2,
        "fit_intercept": fit.intercept,
        "fit_curvature": fit.curvature,
        "participation_ratio": ratio,
        "entropy_rank": entropy_rank(eigenvalues),
        "stable_rank": stable_rank(eigenvalues),
        "first_mode_energy": first_mode_energy(eigenvalues),
    }
    statuses = dict.fromkeys(SCALAR_MEASURES, plain)
    for name in ("beta_published", "t_spec_published", "r2", "fit_intercept", "fit_curvature"):
        statuses[name] = fit.status if energy else without_energy
    statuses["participation_ratio"] = ratio_status
    ranks = np.array([effective_rank(eigenvalues, t) for t in tolerances])
    largest = eigenvalues.size if samples is None else samples
    rank_statuses = ["unresolved" if r > largest / 2 else plain for r in ranks]
    return Measures(values, statuses, ranks, rank_statuses)


def measure_leading(
    eigenvalues: FloatArray,
    energy: float,
    tolerances: tuple[float, ...],
    *,
    ratio: float,
    documents: int,
    absolute_floor: float | None = None,
    status: str = "ok",
) -> Measures:
    """All measures of a spectrum of which the leading eigenvalues and the sum of all are known.

    Parameters
    ----------
    eigenvalues : array, shape (rank,)
        Descending; at least the 30 that the decay is fitted to, and fewer than N - 1.
    energy : float
        Sum of all eigenvalues, exact.
    tolerances : tuple of float
    ratio : float
        Unbiased participation ratio; NaN where it is not known.
    documents : int
        N.
    absolute_floor : float, optional
        As in :func:`measure`.
    status : str
        In the place of ``ok``: ``approximate`` where the eigenvalues are.

    Notes
    -----
    An effective rank that the known eigenvalues do not reach is NaN with the status ``> 200`` (how many there are); the
    entropy rank, which all eigenvalues enter, is NaN with the status ``leading eigenvalues alone``.
    """
    rest = energy - float(eigenvalues.sum())
    short = max(0, FIT_RANKS - eigenvalues.size)  # what lies beyond must not enter the fit
    if rest <= _ROUNDING * energy:  # there are no others
        found = measure(eigenvalues, tolerances, absolute_floor=absolute_floor, samples=documents - 1)
        ranks, words = found.effective_rank, list(found.effective_rank_status)
        values, statuses = dict(found.values), dict(found.statuses)
    else:
        whole = np.concatenate([eigenvalues, np.zeros(short), [rest]])
        found = measure(whole, tolerances, absolute_floor=absolute_floor, samples=documents - 1)
        reached = found.effective_rank <= eigenvalues.size
        ranks = np.where(reached, found.effective_rank, np.nan)
        words = [
            w if r else beyond(eigenvalues.size) for w, r in zip(found.effective_rank_status, reached, strict=True)
        ]
        values, statuses = dict(found.values), dict(found.statuses)
        values["entropy_rank"], statuses["entropy_rank"] = float("nan"), LEADING_ALONE
    values["participation_ratio"] = ratio
    if energy > 0:
        unknown = "unresolved" if status == "ok" else LEADING_ALONE  # a sketch has no sum of squares
        statuses["participation_ratio"] = "ok" if np.isfinite(ratio) else unknown
        if documents < MIN_DOCUMENTS:
            statuses["participation_ratio"] = "too few documents"
    if status != "ok":
        statuses = {name: status if known == "ok" else known for name, known in statuses.items()}
        words = [status if known == "ok" else known for known in words]
    return Measures(values, statuses, ranks, words)


#: Energy beyond the known eigenvalues below this share is rounding.
_ROUNDING = 1e-12


def _participation(eigenvalues: FloatArray, gram: FloatArray | None) -> float:
    if not eigenvalues.sum() > 0:
        return float("nan")
    if gram is None:
        return float(eigenvalues.sum() ** 2 / (eigenvalues**2).sum())
    return participation_ratio(gram)
