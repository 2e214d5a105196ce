"""Columns of the summary that say how far its numbers can be trusted."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from eddyscope.study.nulltable import null_columns

NO_INTERVALS = "no intervals"

#: Summary columns with an interval, and the variable of each.
COLUMNS = {
    "beta_resolved": "field_beta_resolved",
    "t_spec_resolved": "field_t_spec_resolved",
    "lag_beta_resolved": "lag_beta_resolved",
    "lag_t_spec_resolved": "lag_t_spec_resolved",
    "sink_mass": "sink_mass",
    "fluctuation_level": "fluctuation_level",
    "beta_published": "field_beta_published",
    "t_spec_published": "field_t_spec_published",
    "r2": "field_r2",
    "participation_ratio": "field_participation_ratio",
    "lag_beta_published": "lag_beta_published",
    "lag_t_spec_published": "lag_t_spec_published",
    "lag_participation_ratio": "lag_participation_ratio",
    "dominant_wavelength": "dominant_wavelength",
}
#: Columns whose value is not among the first ones of the table.
NEW = ("beta_resolved", "t_spec_resolved", "lag_beta_resolved", "lag_t_spec_resolved")


def trust_columns(data: xr.Dataset, ranks: dict[str, tuple[str, int]]) -> dict[str, Any]:
    """Interval, status and verdict of every number in one row of the summary.

    Parameters
    ----------
    data : xarray.Dataset
        One layer and head.
    ranks : dict
        For each column of an effective rank its variable and its position among the tolerances.

    Returns
    -------
    dict
        ``X_low``, ``X_high``, ``X_status`` and ``X_convergence`` for every column X; NaN and ``no intervals`` where
        the analysis left them out. The bounds of an effective rank are its bracket, and the upper one may be infinite.
        Last come the values of null models, where there are any.
    """
    row: dict[str, Any] = {}
    for column, variable in COLUMNS.items():
        if column in NEW:
            row[column] = _number(data, variable)
        row[f"{column}_low"] = _number(data, f"{variable}_low")
        row[f"{column}_high"] = _number(data, f"{variable}_high")
        row[f"{column}_status"] = _status(data, variable)
        verdict = convergence(data, variable)
        if verdict is not None:
            row[f"{column}_convergence"] = verdict[0]
    for column, (variable, index) in ranks.items():
        row[f"{column}_low"] = _number(data, f"{variable}_low", index)
        row[f"{column}_high"] = _number(data, f"{variable}_high", index)
        row[f"{column}_status"] = str(data[f"{variable}_status"].values[index])
        row[f"{column}_convergence"] = _word(data, f"{variable}_convergence", index)
    row["median_lag_selected"] = _number(data, "median_lag_selected")
    row["peak_octave_selected"] = _number(data, "peak_octave_selected")
    row["sinks"] = _word(data, "sinks", None)
    return row | null_columns(data, ranks)


def convergence(data: xr.Dataset, variable: str) -> tuple[str, str] | None:
    """Verdict on a number and its reason; None where numbers of its kind have none."""
    if variable in ("sink_mass", "fluctuation_level", "near_share", "far_share", "row_mass"):
        table, dim, name = "quantity_convergence", "quantity", variable
    else:
        prefix = next((p for p in ("field_", "lag_") if variable.startswith(p)), "")
        name = variable.removeprefix(prefix).replace("t_spec", "beta")
        table, dim = f"{prefix}measure_convergence", "measure"
    if variable.startswith("dominant"):
        return None
    if table not in data:
        return NO_INTERVALS, NO_INTERVALS
    index = [str(n) for n in data[dim].values].index(name)
    return str(data[table].values[..., index]), str(data[f"{table}_reason"].values[..., index])


def _number(data: xr.Dataset, variable: str, index: int | None = None) -> float:
    if variable not in data:
        return float("nan")
    values = np.asarray(data[variable].values, dtype=np.float64).ravel()
    return float(values[index or 0])


def _status(data: xr.Dataset, variable: str) -> str:
    if variable == "dominant_wavelength":
        return str(data["status"].values[0])
    name = f"{variable}_status"
    return str(data[name].values) if name in data else NO_INTERVALS


def _word(data: xr.Dataset, variable: str, index: int | None) -> str:
    if variable not in data:
        return NO_INTERVALS
    return str(data[variable].values if index is None else data[variable].values[index])
