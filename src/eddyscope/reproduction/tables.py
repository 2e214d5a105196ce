"""The tables of the study: T_spec, H* and scalogram energy, as published and by our defaults."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from eddyscope.reproduction.evidence import LAYERS, TOLERANCES
from eddyscope.reproduction.pipeline import Reproduction
from eddyscope.reproduction.records import Record, mean_row


def t_spec_table(found: Reproduction) -> pd.DataFrame:
    """T_spec by model, convention and layer: as published, as the script reads it, resolved, and of untrained twins."""
    rows = []
    for architecture in found.architectures:
        for record in found.of(architecture):
            name = record.member.name
            rows += [
                _row(name, "published", [interval(*r["published"]["t_spec"]) for r in record.rows]),
                _row(name, "published, masked half", [number(r["ahead"]["t_spec"]) for r in record.rows]),
                _row(name, "ours", [_resolved(r, "") for r in record.rows]),
                _row(name, "ours, lag profiles", [_resolved(r, "lag_") for r in record.rows]),
            ]
        twins = mean_row([twin.t_spec.value for twin in found.twins[architecture.label]])
        rows.append(_row(f"untrained {architecture.label}", "published", [number(v) for v in twins]))
    return pd.DataFrame(rows)


def rank_table(found: Reproduction) -> pd.DataFrame:
    """H* by model, tolerance, convention and layer."""
    rows = []
    for architecture in found.architectures:
        for record in found.of(architecture):
            for index, tolerance in enumerate(TOLERANCES):
                name = f"{record.member.name}, H*({tolerance:.2f})"
                rows += [
                    _row(name, "published", [number(r["published"]["h"][index]) for r in record.rows]),
                    _row(name, "published, masked half", [number(r["ahead"]["h"][index]) for r in record.rows]),
                    _row(name, "ours, bracket", [_bracket(r, index) for r in record.rows]),
                ]
        for index, tolerance in enumerate(TOLERANCES):
            low = mean_row([twin.rank_low[:, index] for twin in found.twins[architecture.label]])
            name = f"untrained {architecture.label}, H*({tolerance:.2f})"
            rows.append(_row(name, "published", [number(v) for v in low]))
    return pd.DataFrame(rows)


def energy_table(found: Reproduction) -> pd.DataFrame:
    """Scalogram energy by model, convention and layer."""
    rows = []
    for architecture in found.architectures:
        for record in found.of(architecture):
            name = record.member.name
            rows += [
                _row(name, "published", [number(r["published"]["energy"]) for r in record.rows]),
                _row(name, "ours", [number(r["defaults"]["energy"]) for r in record.rows]),
            ]
        twins = mean_row([twin.energy.value for twin in found.twins[architecture.label]])
        rows.append(_row(f"untrained {architecture.label}", "published", [number(v) for v in np.exp(twins)]))
    return pd.DataFrame(rows)


def model_table(found: Reproduction) -> pd.DataFrame:
    """The models that took part."""
    rows = []
    for architecture in found.architectures:
        for member in architecture.members:
            recipe = member.recipe
            rows.append(
                {
                    "model": member.name,
                    "architecture": architecture.label,
                    "width": member.config.width,
                    "seed": "" if member.seed is None else member.seed,
                    "training": f"{recipe['steps']} steps of {recipe['batch']} x {member.config.context}"
                    if {"steps", "batch"} <= set(recipe)
                    else "not recorded",
                    "validation loss": "" if member.loss is None else f"{member.loss:.4f}",
                }
            )
    return pd.DataFrame(rows)


def _row(name: str, convention: str, cells: list[str]) -> dict[str, str]:
    return {"model": name, "convention": convention} | {f"layer {k + 1}": cells[k] for k in range(LAYERS)}


def _resolved(row: dict[str, dict[str, object]], prefix: str) -> str:
    ours = row["defaults"]
    status, value = str(ours[f"{prefix}t_spec_status"]), ours[f"{prefix}t_spec"]
    assert isinstance(value, tuple)
    if status == "ok":
        return interval(*value)
    return status if not math.isfinite(value[0]) else f"{number(value[0])}, {status}"


def _bracket(row: dict[str, dict[str, object]], index: int) -> str:
    low, high = (np.asarray(row["defaults"][name])[index] for name in ("h_low", "h_high"))
    return f"{low:.0f} to {'∞' if math.isinf(high) else f'{high:.0f}'}"


def number(value: float) -> str:
    """Three digits; a dash where there is none."""
    if not math.isfinite(value):
        return "none"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def interval(value: float, low: float, high: float) -> str:
    """A value with its interval, where it has one."""
    return number(value) if not math.isfinite(low) else f"{number(value)} ({number(low)} to {number(high)})"


def of_record(records: list[Record], name: str) -> Record:
    """The record of a model."""
    return next(record for record in records if record.member.name == name)
