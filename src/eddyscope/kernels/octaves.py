"""Octaves of distance: the hard bins of the lag energy budget and the smooth windows that go with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]

#: Width of the octave windows, in octaves.
OCTAVE_WIDTH = 0.6


def octave_count(distances: int) -> int:
    """Number of octaves for distances 0..h-1: ``ceil(log2 h)``, at least one."""
    return max(1, int(np.ceil(np.log2(max(distances, 2)))))


def octave_of(distance: IntArray, count: int) -> IntArray:
    """Octave j of each distance, ``2^j <= 1 + d < 2^(j+1)``; distances beyond the last bin join it."""
    exact = np.frexp(np.asarray(distance) + 1)[1] - 1  # frexp: exact where log2 rounds
    return np.asarray(np.minimum(exact, count - 1), dtype=np.int64)


def octave_first(count: int) -> IntArray:
    """First distance of each octave, ``2^j - 1``."""
    return np.asarray(2 ** np.arange(count) - 1, dtype=np.int64)


def octave_last(count: int, distances: int) -> IntArray:
    """Last distance of each octave; that of the last is the largest distance."""
    last = 2 ** (np.arange(count) + 1) - 2
    last[-1] = distances - 1
    return np.asarray(last, dtype=np.int64)


def octave_centre(count: int) -> IntArray:
    """Centre distance of each octave, ``round(2^(j + 1/2)) - 1``."""
    return np.asarray(np.round(2 ** (np.arange(count) + 0.5)) - 1, dtype=np.int64)


def energy_budget(energy: FloatArray, distance: IntArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Share of the energy in each octave, and its density.

    Parameters
    ----------
    energy : array, shape (lag,)
        Mean energy of each lag.
    distance : int array, shape (lag,)
    count : int
        Number of octaves.

    Returns
    -------
    share : array, shape (octave,)
        Adds up to 1; NaN where there is no energy.
    density : array, shape (octave,)
        Share over the octave's share of the lags: 1 means flat. NaN for an octave that holds no lag.
    """
    octave = octave_of(distance, count)
    total = float(energy.sum())
    held = np.bincount(octave, minlength=count) / octave.size
    if not total > 0:
        return np.full(count, np.nan), np.full(count, np.nan)
    share = np.bincount(octave, weights=energy, minlength=count) / total
    density = np.divide(share, held, out=np.full(count, np.nan), where=held > 0)
    return share, density


def octave_windows(distance: IntArray, count: int) -> FloatArray:
    """Smooth windows ``w_j = sqrt(g_j / sum_j g_j)``, a partition of unity in energy: ``sum_j w_j^2 = 1``.

    ``g_j(d) = exp(-(log2(1 + d) - j - 1/2)^2 / (2 * 0.6^2))``.

    Parameters
    ----------
    distance : int array, shape (lag,)
    count : int

    Returns
    -------
    array, shape (octave, lag)
    """
    offset = np.log2(1.0 + np.asarray(distance))[None, :] - np.arange(count)[:, None] - 0.5
    exponent = -(offset**2) / (2 * OCTAVE_WIDTH**2)
    bumps = np.exp(exponent - exponent.max(axis=0))  # the common factor cancels and cannot underflow
    return np.asarray(np.sqrt(bumps / bumps.sum(axis=0)))
