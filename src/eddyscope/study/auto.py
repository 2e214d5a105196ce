"""Reading on until a measure is known well enough."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eddyscope.ensemble import AttentionEnsemble
from eddyscope.errors import EddyscopeWarning, UsageError
from eddyscope.statistics import AttentionStatistics
from eddyscope.study.analyze import analyze
from eddyscope.study.study import Study
from eddyscope.study.trustsummary import COLUMNS
from eddyscope.trust.jackknife import GROUPS

if TYPE_CHECKING:
    from eddyscope.documents import Documents

#: Documents that are read first, and the most that are read where nothing else is said.
FIRST = 100
MOST = 1600
PRECISION = 0.05
MEASURE = "participation_ratio"
#: The same where only statistics are kept.
LAG_MEASURE = "lag_participation_ratio"


@dataclass(frozen=True)
class Look:
    """What one look at the measure gave.

    Parameters
    ----------
    documents : int
    widest : float
        Largest half width of the interval over its value, over layers and heads; NaN where some have no interval.
    """

    documents: int
    widest: float


def read_on(
    read: Callable[[int], Documents],
    capture: Callable[[Documents], AttentionEnsemble | AttentionStatistics],
    *,
    analysis: Mapping[str, Any],
    precision: float = PRECISION,
    measure: str = MEASURE,
    most: int = MOST,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[AttentionEnsemble | AttentionStatistics, Study]:
    """Read 100 documents, 200, 400 and so on, until a measure's interval is narrow enough in every layer.

    Parameters
    ----------
    read : callable
        From a number of documents to documents; fewer where there are no more.
    capture : callable
        From documents to their attention.
    analysis : mapping
        Arguments of :func:`eddyscope.analyze`.
    precision : float
        Half of the interval over the value, below which a measure is known well enough.
    measure : str
        A column of the summary that has an interval.
    most : int
        Documents at which it ends in any case.
    progress : callable, optional
        Called with (what is done, documents of this look, most).

    Returns
    -------
    ensemble, study
        Of the last look; the provenance lists all of them under ``auto``.

    Notes
    -----
    Stopping at the first interval that is narrow enough favours intervals that are too narrow, so looks are rare (at
    doublings), the first needs 15 groups, and the study says that it stopped by looking.
    """
    if measure not in COLUMNS:
        raise UsageError(f"measure must be among {', '.join(COLUMNS)}, got {measure!r}.")
    if not 0 < precision < 1:
        raise UsageError(f"precision must lie between 0 and 1, got {precision!r}.")
    if not analysis.get("intervals", True):
        raise UsageError("documents='auto' reads on by the width of intervals, which intervals=False leaves out.")
    looks: list[Look] = []
    wanted = min(FIRST, most)
    while True:
        documents = read(wanted)
        if progress is not None:
            progress("reading", len(documents), most)
        ensemble = capture(documents)
        _expect_measure(ensemble, measure)
        study = analyze(ensemble, **analysis)
        looks.append(Look(ensemble.count, _widest(study, measure)))
        ended = len(documents) < wanted or wanted >= most
        reached = looks[-1].widest <= precision and np.unique(documents.groups()).size >= GROUPS
        if reached or ended:
            break
        wanted = min(2 * wanted, most)
    _say(looks, measure, precision, bool(reached))
    record = {
        "measure": measure,
        "precision": precision,
        "most": most,
        "reached": bool(reached),
        "looks": [{"documents": look.documents, "widest": look.widest} for look in looks],
    }
    return ensemble, Study(study.data, {**study.provenance, "auto": record}, study.documents)


def _expect_measure(attention: AttentionEnsemble | AttentionStatistics, measure: str) -> None:
    """Refuse a measure that no number of documents would make known."""
    if isinstance(attention, AttentionStatistics) and COLUMNS[measure].startswith("field_"):
        raise UsageError(
            f"measure is {measure!r}, which needs fields, and statistics alone are kept.",
            f"Read on by {LAG_MEASURE}, or keep the fields.",
        )


def _widest(study: Study, measure: str) -> float:
    """Largest half width over value; NaN, which no precision reaches, where a layer has no interval."""
    table = study.summary()
    value = table[measure].to_numpy(dtype=float)
    half = (table[f"{measure}_high"] - table[f"{measure}_low"]).to_numpy(dtype=float) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return float((half / np.abs(value)).max())


def _say(looks: list[Look], measure: str, precision: float, reached: bool) -> None:
    last = looks[-1]
    known = (
        f"{measure} is known to {last.widest:.1%} at worst" if np.isfinite(last.widest) else f"{measure} is unresolved"
    )
    ended = f"as asked for ({precision:.1%})" if reached else f"and not to {precision:.1%}: there was no more to read"
    warnings.warn(
        EddyscopeWarning(
            f"Stopped by looking, {len(looks)} times, at {last.documents} documents: {known}, {ended}.",
            "stopped-by-looking",
        ),
        stacklevel=3,
    )
