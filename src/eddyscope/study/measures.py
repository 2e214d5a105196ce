"""Measures of an eigenvalue spectrum, each with its status."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyscope.kernels.decay import fit_decay
from eddyscope.kernels.rank import (
    MIN_DOCUMENTS,
    effective_rank,
    entropy_rank,
    first_mode_energy,
    participation_ratio,
    stable_rank,
)
from eddyscope.lagfield import FloatArray

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
    plain = "ok" if energy else "no fluctuation"
    ratio, ratio_status = _participation(eigenvalues, gram, energy)
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
        statuses[name] = fit.status
    statuses["participation_ratio"] = ratio_status
    ranks = np.array([effective_rank(eigenvalues, t) for t in tolerances])
    return Measures(values, statuses, ranks, [_rank_status(r, eigenvalues.size, energy) for r in ranks])


def _participation(eigenvalues: FloatArray, gram: FloatArray | None, energy: bool) -> tuple[float, str]:
    if not energy:
        return float("nan"), "no fluctuation"
    if gram is None:
        return float(eigenvalues.sum() ** 2 / (eigenvalues**2).sum()), "ok"
    ratio = participation_ratio(gram)
    if gram.shape[0] < MIN_DOCUMENTS:
        return ratio, "too few documents"
    return ratio, "ok" if np.isfinite(ratio) else "unresolved"


def _rank_status(rank: float, largest: int, energy: bool) -> str:
    if not energy:
        return "no fluctuation"
    return "ok" if rank <= largest / 2 else "unresolved"
