"""A series of checkpoints of one training run: when layers take up their distances."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from eddyscope.comparison.axes import Numbers
from eddyscope.comparison.quantities import difference, estimate
from eddyscope.comparison.subjects import Subject, step_of
from eddyscope.errors import UsageError
from eddyscope.trust.differences import holm

STEP = "step"


def steps_of(subjects: list[Subject], over: str | Sequence[float] | None, grouped: bool) -> tuple[float, ...] | None:
    """Training steps of the subjects; None where they are no series.

    Raises
    ------
    UsageError
        Where groups were given, or the steps are not one for each, each once.
    """
    if over is None:
        return None
    if grouped:
        raise UsageError("A series of checkpoints (over) takes studies, not groups.")
    if isinstance(over, str):
        if over != STEP:
            raise UsageError(f"over is '{over}'; expected '{STEP}' or a list of steps.")
        steps = tuple(step_of(s.label) for s in subjects)
    else:
        steps = tuple(float(step) for step in over)
    if len(steps) != len(subjects) or len(set(steps)) < len(steps):
        raise UsageError(f"The steps {list(steps)} are not one for each of the {len(subjects)} studies, each once.")
    return steps


def series_table(numbers: list[Numbers], steps: tuple[float, ...], pairs: list[bool]) -> pd.DataFrame:
    """When each layer takes up its distances: the way of its mean octave from the first checkpoint to the last.

    Returns
    -------
    pandas.DataFrame
        ``first, last``: mean octaves; ``change, low, high, p_holm``: of the last against the first; ``moves_at``: the
        first step from which on all checkpoints differ from the first (Holm over layers and steps); ``half_at,
        settled_at``: the first step from which on half, and nine tenths, of the change is made. NaN for the latter
        where first and last do not differ.
    """
    keys = list(numbers[0])
    found = [
        [difference(own[key], numbers[0][key], "mean_octave", pair) for key in keys]
        for own, pair in zip(numbers, pairs, strict=True)
    ]
    p = holm(np.array([[d.p for d in row] for row in found[1:]]))
    rows = []
    for column, (layer, head) in enumerate(keys):
        change = np.array([row[column].value for row in found])
        differs = np.concatenate([[False], p[:, column] < 0.05])
        last = found[-1][column]
        moved = bool(differs[-1])
        way = change / change[-1] if moved else np.zeros_like(change)
        start = estimate(numbers[0][layer, head], "mean_octave").value
        rows.append(
            {
                "layer": layer,
                "head": head,
                "first": start,
                "last": start + last.value,
                "change": last.value,
                "low": last.low,
                "high": last.high,
                "p_holm": p[-1, column],
                "moves_at": _from_then_on(differs, steps),
                "half_at": _from_then_on(way >= 0.5, steps),
                "settled_at": _from_then_on(np.abs(way - 1) <= 0.1, steps) if moved else float("nan"),
            }
        )
    return pd.DataFrame(rows)


def _from_then_on(holds: np.ndarray, steps: tuple[float, ...]) -> float:
    """First step from which on it holds at every checkpoint; NaN where it does not at the last."""
    if not holds[-1]:
        return float("nan")
    failing = np.flatnonzero(~holds)
    return float(steps[int(failing[-1]) + 1 if failing.size else 0])
