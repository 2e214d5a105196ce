"""Reading results that may not be there: other options, other kinds of attention, older studies."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

FloatArray = npt.NDArray[np.floating[Any]]


# Variables are read without their coordinates (``data.variables``, not ``data[name]``), which takes a twentieth of the
# time: a page asks thousands of times.


def value(data: xr.Dataset, name: str, *at: int) -> float:
    """One number; NaN where the study does not have it."""
    if name not in data.variables:
        return float("nan")
    found = np.asarray(data.variables[name].values, dtype=np.float64)
    return float(found[at] if at else found.ravel()[0] if found.size else np.nan)


def word(data: xr.Dataset, name: str, *at: int) -> str:
    """One string; empty where the study does not have it."""
    if name not in data.variables:
        return ""
    found = np.asarray(data.variables[name].values, dtype=object)
    return str(found[at] if at else found.ravel()[0] if found.size else "")


def array(data: xr.Dataset, name: str, *dims: str, **at: Any) -> FloatArray:
    """An array with these dimensions; empty where the study does not have it."""
    found = data.variables.get(name)
    if found is None or any(key not in found.dims for key in at):
        return np.zeros((0,) * max(1, len(dims)))
    found = found.isel(at)
    return np.asarray(found.transpose(*dims).values if dims else found.values, dtype=np.float64)


def full_lags(data: xr.Dataset) -> npt.NDArray[np.bool_]:
    """Lags that the full rows have; the nearer half of all where there are no full rows."""
    lags = data["lag"].values
    known = np.isfinite(array(data, "lag_energy", "lag")) if "lag_energy" in data else np.zeros(0, dtype=bool)
    if known.size and known.any():
        return known
    return np.asarray(np.abs(lags) <= np.abs(lags).max() // 2)
