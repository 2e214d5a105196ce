"""The summary table: one row per layer (and head)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from eddyscope.study.measures import APPROXIMATE, NOT_KEPT
from eddyscope.study.trustsummary import trust_columns


def summary_table(layers: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """Collect the headline numbers of every layer and head.

    Parameters
    ----------
    layers : mapping of str to Dataset
        Results of the layers, packed or expanded.

    Returns
    -------
    pandas.DataFrame
        The unprefixed measures are those of the field POD without a window. ``peak_octave`` is the octave of largest
        density, as its range of distances; ``median_lag`` the smallest distance with half of the fluctuation energy
        at or below it. After ``status`` come the resolved exponents, and of every number its interval, status and
        whether it has converged; see :func:`eddyscope.study.trustsummary.trust_columns`.
    """
    rows = []
    for name, data in layers.items():
        if "head" in data.dims:
            rows += [_row(name, str(label), data.isel(head=i)) for i, label in enumerate(data["head"].values)]
        else:
            rows.append(_row(name, "mean", data))
    return pd.DataFrame(rows)


def _row(name: str, head: str, data: xr.Dataset) -> dict[str, Any]:
    def value(variable: str) -> float:
        return float(data[variable])

    row: dict[str, Any] = {
        "layer": name,
        "head": head,
        "peak_octave": peak_octave(data),
        "median_lag": value("median_lag"),
        "dominant_wavelength": float(data["dominant_wavelength"].isel(band=0)),
        "sink_mass": value("sink_mass"),
        "fluctuation_level": value("fluctuation_level"),
        "beta_published": value("field_beta_published"),
        "t_spec_published": value("field_t_spec_published"),
        "r2": value("field_r2"),
    }
    tolerances = [float(t) for t in data["tolerance"].values]
    for index, tolerance in enumerate(tolerances):
        row[rank_name(tolerance)] = float(data["field_effective_rank"].isel(tolerance=index))
    row["participation_ratio"] = value("field_participation_ratio")
    row["lag_beta_published"] = value("lag_beta_published")
    row["lag_t_spec_published"] = value("lag_t_spec_published")
    row[f"lag_{rank_name(tolerances[0])}"] = float(data["lag_effective_rank"].isel(tolerance=0))
    row["lag_participation_ratio"] = value("lag_participation_ratio")
    row["documents"] = int(data.attrs["documents"])
    row["status"] = layer_status(data)
    ranks = {rank_name(t): ("field_effective_rank", i) for i, t in enumerate(tolerances)}
    ranks[f"lag_{rank_name(tolerances[0])}"] = ("lag_effective_rank", 0)
    return row | trust_columns(data, ranks)


def rank_name(tolerance: float) -> str:
    """Column of an effective rank: ``h_10`` for a tolerance of 0.10, ``h_05`` for 0.05."""
    percent = tolerance * 100
    return f"h_{percent:02.0f}" if abs(percent - round(percent)) < 1e-9 else f"h_{percent:g}"


def octave_labels(data: xr.Dataset) -> list[str]:
    """Ranges of distances of the octaves, as ``"3-6"``."""
    first, last = data["octave"].values, data["octave_last"].values
    return [str(int(a)) if a == b else f"{int(a)}-{int(b)}" for a, b in zip(first, last, strict=True)]


def octave_density(data: xr.Dataset) -> np.ndarray:
    """Density of each octave, both sides of a two-sided layer taken together, shape (octave,)."""
    if "side" not in data["octave_share"].dims:
        return np.asarray(data["octave_density"].values)
    first, last = data["octave"].values, data["octave_last"].values
    lags = 2 * (last - first + 1) - (first == 0)  # lag 0 is there once
    return np.asarray(data["octave_share"].sum("side", skipna=False).values / (lags / lags.sum()))


def peak_octave(data: xr.Dataset) -> str:
    """Octave of largest density, as its range of distances; empty where nothing fluctuates."""
    density = octave_density(data)
    if not np.isfinite(density).any():
        return ""
    return octave_labels(data)[int(np.nanargmax(density))]


def layer_status(data: xr.Dataset) -> str:
    """What to know before reading the row: statuses that are not ``ok``, joined by semicolons."""
    if str(data["field_stable_rank_status"].values) == "no fluctuation":
        return "no fluctuation"
    noted = []
    bands = [str(s) for s in data["status"].values if s != "absent"]
    if bands[0] != "ok":
        noted.append(bands[0])
    for measure, text in (
        ("field_beta_published", "decay"),
        ("field_participation_ratio", "participation ratio"),
    ):
        status = str(data[f"{measure}_status"].values)
        if status == NOT_KEPT:
            noted += [NOT_KEPT] if NOT_KEPT not in noted else []
        elif status not in ("ok", APPROXIMATE):
            noted.append(f"{text} {status}" if status != "too few modes" else f"{text}: too few modes")
    ranks = [str(s) for s in data["field_effective_rank_status"].values]
    if "unresolved" in ranks:
        noted.append("effective rank unresolved")
    noted += [f"effective rank {status}" for status in dict.fromkeys(ranks) if status.startswith(">")]
    if data.attrs.get("pod") == APPROXIMATE:
        noted.append(f"{APPROXIMATE} POD")
    return "; ".join(noted) or "ok"
