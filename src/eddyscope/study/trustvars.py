"""Intervals, brackets, resolved decay and convergence of spectra as variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from eddyscope.kernels.decay import FIT_RANKS
from eddyscope.lagfield import FloatArray
from eddyscope.study.lagpart import Variables
from eddyscope.study.trusted import MEASURES, WITH_INTERVAL, Trusted
from eddyscope.trust.convergence import FRACTIONS


def trust_coordinates(groups: int) -> Variables:
    """Coordinates of the variables here."""
    return {
        "measure": (("measure",), np.array(MEASURES, dtype=object)),
        "fraction": (("fraction",), np.array(FRACTIONS)),
        "resolved_rank": (("resolved_rank",), np.arange(1, FIT_RANKS + 1)),
        "jackknife_group": (("jackknife_group",), np.arange(groups)),
    }


def trust_variables(
    prefix: str, found: list[Trusted], dims: tuple[str, ...], statuses: dict[str, Any], modes: int, ranks: int
) -> Variables:
    """Variables of the spectra of one kind.

    Parameters
    ----------
    prefix : str
        ``""``, ``"field_"`` or ``"lag_"``.
    found : list of Trusted
        One a band, or one alone where ``dims`` is empty.
    dims : tuple of str
    statuses : dict
        The measures' own statuses, arrays by name; ``ok`` gives way where a replicate is undefined.
    modes, ranks : int
        Lengths of these axes.
    """

    def stacked(values: list[Any], *more: str) -> tuple[tuple[str, ...], np.ndarray]:
        return (*dims, *more), np.stack([np.asarray(v) for v in values]) if dims else np.asarray(values[0])

    def words(values: list[Any], *more: str) -> tuple[tuple[str, ...], np.ndarray]:
        return (*dims, *more), np.array(values if dims else values[0], dtype=object)

    made: Variables = {}
    for name in WITH_INTERVAL:
        made[f"{prefix}{name}_low"] = stacked([t.intervals[name].low for t in found])
        made[f"{prefix}{name}_high"] = stacked([t.intervals[name].high for t in found])
    for name, value in (("beta_resolved", "beta"), ("t_spec_resolved", "t_spec")):
        made[f"{prefix}{name}"] = stacked([getattr(t.resolved, value) for t in found])
        made[f"{prefix}{name}_status"] = words([t.resolved_status for t in found])
    brackets = [t.bracket for t in found]
    made |= {
        f"{prefix}resolved_curvature": stacked([t.resolved.curvature for t in found]),
        f"{prefix}resolved_window": stacked([float(t.resolved.window) for t in found]),
        f"{prefix}resolved_variances": stacked(
            [_long(t.resolved.halves.variances, FIT_RANKS) for t in found], "resolved_rank"
        ),
        f"{prefix}resolved_overlap": stacked([_long(t.resolved.overlap, FIT_RANKS) for t in found], "resolved_rank"),
        f"{prefix}mode_overlap": stacked([_long(t.resolved.halves.mode_overlap, modes) for t in found], "mode"),
        f"{prefix}mode_separated": stacked([_long(t.separated.astype(float), modes) for t in found], "mode"),
        f"{prefix}effective_rank_low": stacked([b.low for b in brackets], "tolerance"),
        f"{prefix}effective_rank_high": stacked([b.high for b in brackets], "tolerance"),
        f"{prefix}greatest_capture": stacked([b.greatest_capture for b in brackets]),
        f"{prefix}measure_at": stacked([t.curve for t in found], "fraction", "measure"),
        f"{prefix}measure_convergence": words([[v.verdict for v in t.verdicts] for t in found], "measure"),
        f"{prefix}measure_convergence_reason": words([[v.reason for v in t.verdicts] for t in found], "measure"),
        f"{prefix}effective_rank_at": stacked([t.rank_curve for t in found], "fraction", "tolerance"),
        f"{prefix}effective_rank_convergence": words(
            [[v.verdict for v in t.rank_verdicts] for t in found], "tolerance"
        ),
        f"{prefix}effective_rank_convergence_reason": words(
            [[v.reason for v in t.rank_verdicts] for t in found], "tolerance"
        ),
    }
    if all(t.noise_reduced is not None for t in found) and prefix != "lag_":
        made[f"{prefix}noise_reduced_eigenvalues"] = stacked([_long(t.noise_reduced, ranks) for t in found], "rank")
    if not dims:
        made |= _replicates(prefix, found[0])
    return made | _statuses(prefix, found, dims, statuses)


def _replicates(prefix: str, found: Trusted) -> Variables:
    """Replicates of a layer's own spectra, from which differences to other ensembles are judged."""
    curves = found.resolved.curves
    groups = found.replicates.shape[0]
    laid = np.full((groups, FIT_RANKS), np.nan)
    if curves is not None:
        laid[:, : curves.shape[1]] = curves
    return {
        f"{prefix}measure_replicates": (("jackknife_group", "measure"), found.replicates),
        f"{prefix}resolved_variances_replicates": (("jackknife_group", "resolved_rank"), laid),
    }


def _statuses(prefix: str, found: list[Trusted], dims: tuple[str, ...], statuses: dict[str, Any]) -> Variables:
    """Statuses of measures that were ``ok`` as long as only their values were looked at."""
    made: Variables = {}
    for name in WITH_INTERVAL:
        key = f"{prefix}{name}_status"
        if key not in statuses:
            continue
        given = np.array(statuses[key], dtype=object).reshape(-1)
        own = [_worse(str(s), str(t.intervals[name].status)) for s, t in zip(given, found, strict=True)]
        made[key] = (dims, np.array(own if dims else own[0], dtype=object))
    key = f"{prefix}effective_rank_status"
    ranks = np.array(statuses[key], dtype=object).reshape(len(found), -1)
    ranks = np.array(
        [
            [_worse(str(s), r) for s, r in zip(own, t.rank_status, strict=True)]
            for own, t in zip(ranks, found, strict=True)
        ],
        dtype=object,
    )
    made[key] = ((*dims, "tolerance"), ranks if dims else ranks[0])
    return made


def _worse(own: str, other: str) -> str:
    return other if own == "ok" else own


def _long(values: FloatArray | None, size: int) -> FloatArray:
    """Bring an array to a length: cut, or filled with NaN."""
    laid = np.full(size, np.nan)
    if values is not None:
        cut = np.asarray(values, dtype=np.float64)[:size]
        laid[: cut.size] = cut
    return laid
