"""The peer and Eddyscope must give the same numbers, or their times are not comparable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from benchmarks.data import Array

#: Largest differences that are let pass. PyWavelets takes its wavelet from a table and lets it alias at small scales.
LIMITS = {
    "eigenvalues of the bands": 1e-4,
    "eigenvalues without a window": 1e-4,
    "eigenvalues of the lag PCA": 1e-4,
    "coherence": 1e-4,
    "scalogram": 0.01,
}


def agreement(layer: xr.Dataset, scalogram: xr.DataArray, theirs: Mapping[str, Any]) -> dict[str, float]:
    """Largest difference of each kind of result.

    Parameters
    ----------
    layer : xarray.Dataset
        One layer of a study.
    scalogram : xarray.DataArray
        Of the documents that the peer's scalogram was computed from.
    theirs : mapping
        ``pca`` (one pair a window, the last without one), ``lag``, ``coherence``, ``scalogram`` of the peer.

    Returns
    -------
    dict
        Eigenvalues: relative, of those above 1e-4 of the first. Coherence: absolute. Scalogram: relative to the
        largest entry of the scale, for scales from 3 tokens on.

    Raises
    ------
    SystemExit
        Where a difference is above its limit.
    """
    *bands, field = [values for values, _ in theirs["pca"]]
    found = {
        "eigenvalues of the bands": max(
            _relative(values, layer["eigenvalues"].isel(band=i).values) for i, values in enumerate(bands)
        ),
        "eigenvalues without a window": _relative(field, layer["field_eigenvalues"].values),
        "eigenvalues of the lag PCA": _relative(theirs["lag"][0], layer["lag_eigenvalues"].values),
        "coherence": float(np.nanmax(np.abs(theirs["coherence"] - layer["coherence"].isel(band=0).values))),
        "scalogram": _scalogram(theirs["scalogram"], scalogram),
    }
    for name, difference in found.items():
        if not difference <= LIMITS[name]:
            raise SystemExit(
                f"The peer and Eddyscope differ in the {name} by {difference:.2g}, limit {LIMITS[name]:g}."
            )
    return found


def _relative(theirs: Array, ours: Array) -> float:
    count = min(len(theirs), len(ours))
    theirs, ours = theirs[:count].astype(np.float64), ours[:count].astype(np.float64)
    counted = ours > 1e-4 * ours[0]
    return float(np.max(np.abs(theirs - ours)[counted] / ours[counted]))


def _scalogram(theirs: Array, ours: xr.DataArray) -> float:
    clear = ours["scale"].values >= 3
    mine = ours.sel(part="fluctuation").values[clear, : theirs.shape[-1]]
    return float(np.max(np.abs(mine - theirs[clear]).max(axis=1) / mine.max(axis=1)))
