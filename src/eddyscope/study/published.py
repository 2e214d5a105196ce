"""The published script's way with rows and transforms, so that its numbers can be repeated to rounding.

Differences from the defaults: every row enters, also those with few lags; a row that runs past the last key repeats
its last value up to T lags and is zero from there to 2T, the length of the transform; the wavelet lacks the factor
``pi^(-1/4)``; spectra are sums over all positions, without a cone of influence; the raw field is used.
"""

from __future__ import annotations

import numpy as np

from eddyscope.errors import InputError
from eddyscope.kernels.morlet import LagTransform
from eddyscope.lagfield import FloatArray, LagField
from eddyscope.study.rows import LagRows

OMEGA0 = 5.0
#: Eigenvalues at or below it are left out of the fit.
EIGENVALUE_FLOOR = 1e-12


def published_scales() -> FloatArray:
    """``2 ** linspace(1, 6, 20)`` tokens."""
    return 2.0 ** np.linspace(1, 6, 20)


def published_rows(field: LagField, lags: str) -> LagRows:
    """All rows over lags 0..T-1, the last value repeated past the end.

    Parameters
    ----------
    field : LagField
        One head, all lags kept.
    lags : {"back", "ahead"}
        ``back``: ``A[i, max(i - s, 0)]``. ``ahead``: ``A[i, min(i + s, T - 1)]`` as the script reads; of a causal
        field that is the masked half, where only s = 0 has mass.
    """
    geometry = field.geometry
    if not geometry.whole:
        raise InputError(
            f"The published preset needs square attention with all lags, got {geometry.queries} queries, "
            f"{geometry.keys} keys and max_lag={geometry.max_lag}.",
            "Analyse without the preset, or capture without max_lag.",
        )
    length = geometry.queries
    dense = field.dense()[:, 0].astype(np.float64)
    query, step = np.arange(length), np.arange(length)[:, None]
    key = np.clip(query + (-step if lags == "back" else step), 0, length - 1)
    values = np.ascontiguousarray(dense[:, query[None, :], key].transpose(1, 0, 2))
    if lags == "ahead" and not field.causal:  # on the lag axis these steps are -(T-1)..0, and |W| mirrors with the row
        return LagRows(-np.arange(length)[::-1], query, 0, "raw", values=np.ascontiguousarray(values[::-1]))
    return LagRows(np.arange(length), query, 0, "raw", values=values)


def published_transform(length: int, scales: FloatArray) -> LagTransform:
    """The script's transform: zeros to exactly 2T, no unit energy, no cone."""
    return LagTransform(length, tuple(scales), OMEGA0, "zero", unit_energy=False, length=2 * length, whole_axis=True)
