"""Decay of eigenvalues: the exponent beta and the spectral concentration index T_spec = 1 / beta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

FloatArray = NDArray[np.floating[Any]]

FIT_RANKS = 30
MIN_POINTS = 8
#: Eigenvalues at or below this share of the first are rounding.
RELATIVE_FLOOR = 1e-10
#: A quadratic term in log k below this modulus is no ground to reject a power law.
CURVATURE = 0.2


@dataclass(frozen=True)
class Decay:
    """Least-squares power law of an eigenvalue spectrum.

    Parameters
    ----------
    beta : float
        ``lambda_k ~ k^-beta``; NaN where it cannot be fitted.
    t_spec : float
        Spectral concentration index 1 / beta; larger means slower decay, more patterns share the energy.
    intercept : float
        ``log lambda_1`` of the fitted line.
    r2 : float
        Share of the variance of log lambda explained; NaN where there is none. It does not test a power law: white
        noise reaches 0.9.
    curvature : float
        Coefficient of ``(log k)^2`` when it is fitted too.
    points : int
        Number of eigenvalues used.
    status : str
        ``ok``, ``no fluctuation``, ``too few modes``, ``not a power law`` or ``no decay``.
    """

    beta: float
    t_spec: float
    intercept: float
    r2: float
    curvature: float
    points: int
    status: str


def fit_decay(
    eigenvalues: FloatArray,
    *,
    ranks: int = FIT_RANKS,
    relative_floor: float = RELATIVE_FLOOR,
    absolute_floor: float = 0.0,
) -> Decay:
    """Fit ``log lambda_k`` on ``log k`` by least squares, k = 1..ranks (the published form).

    Parameters
    ----------
    eigenvalues : array, shape (rank,)
        Descending.
    ranks : int
    relative_floor, absolute_floor : float
        Eigenvalues at or below ``relative_floor`` times the first, or the absolute one, are left out.

    Returns
    -------
    Decay

    Notes
    -----
    ``not a power law`` where the coefficient of ``(log k)^2`` is above 0.2 in modulus and its 95 % interval
    excludes 0; beta is still given. Fewer than 8 points give NaN.
    """
    x, y = fitted_points(eigenvalues, ranks, relative_floor, absolute_floor)
    if not x.size:
        return _failed(0, "no fluctuation")
    if x.size < MIN_POINTS:
        return _failed(x.size, "too few modes")
    slope, intercept, r2 = fit_line(x, y)
    curvature, half_width = _curvature(x, y)
    beta = -slope
    status = "ok"
    if abs(curvature) > CURVATURE and abs(curvature) > half_width:
        status = "not a power law"
    if not beta > 1e-12:
        return Decay(beta, np.nan, intercept, r2, curvature, x.size, "no decay")
    return Decay(beta, 1 / beta, intercept, r2, curvature, x.size, status)


def fitted_points(
    eigenvalues: FloatArray, ranks: int, relative_floor: float, absolute_floor: float
) -> tuple[FloatArray, FloatArray]:
    """``log k`` and ``log lambda_k`` of the eigenvalues that :func:`fit_decay` uses; empty without fluctuation."""
    leading = np.asarray(eigenvalues, dtype=np.float64)[:ranks]
    if not leading.size or not leading[0] > 0:
        return np.empty(0), np.empty(0)
    used = leading > max(relative_floor * leading[0], absolute_floor)
    return np.log(np.arange(1, leading.size + 1)[used]), np.log(leading[used])


def fit_line(x: FloatArray, y: FloatArray) -> tuple[float, float, float]:
    """Slope, intercept and r2 of y on x by least squares; r2 is NaN where y does not vary."""
    from_x, from_y = x - x.mean(), y - y.mean()
    squares = float((from_x * from_x).sum())
    slope = float((from_x * from_y).sum()) / squares
    r2 = slope**2 * squares / float((from_y * from_y).sum()) if np.ptp(y) > 0 else float("nan")
    return slope, float(y.mean()) - slope * float(x.mean()), r2


def _failed(points: int, status: str) -> Decay:
    return Decay(np.nan, np.nan, np.nan, np.nan, np.nan, points, status)


def _curvature(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Quadratic coefficient of y on x and the half width of its 95 % interval."""
    design = np.stack([np.ones_like(x), x, x * x], axis=1)
    coefficients, *_ = np.linalg.lstsq(design, y, rcond=None)
    freedom = x.size - 3
    variance = float(((y - design @ coefficients) ** 2).sum()) / freedom
    error = np.sqrt(variance * np.linalg.inv(design.T @ design)[2, 2])
    return float(coefficients[2]), float(stats.t.ppf(0.975, freedom) * error)
