"""Coherence against chance: threshold and debiased value that hold whatever the amplitudes do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]

ALPHA = 0.05


def coherence_threshold(chance: FloatArray, alpha: float = ALPHA) -> FloatArray:
    """Squared coherence that independent phases exceed with probability alpha: ``-ln(alpha) m0``.

    Parameters
    ----------
    chance : array
        ``m0`` of each pair, see :class:`eddyscope.kernels.pairs.PairStatistics`.
    alpha : float

    Notes
    -----
    With independent phases the sum of ``x conj y`` over documents is nearly complex Gaussian of variance
    ``sum |x|^2 |y|^2``, so its squared modulus is exponential. The analytic threshold for independent amplitudes,
    ``1 - alpha^(1/(N-1))``, fails where a document's gain is shared by both positions.
    """
    return np.asarray(-np.log(alpha) * chance)


def debiased_coherence(coherence: FloatArray, chance: FloatArray) -> FloatArray:
    """Squared coherence with chance taken off, ``(g^2 - m0) / (1 - m0)``.

    Parameters
    ----------
    coherence : array
        Modulus.
    chance : array
        ``m0``.

    Returns
    -------
    array
        0 in the mean for independent phases (so it may be negative), 1 for perfect coherence.
    """
    square = np.asarray(coherence, dtype=np.float64) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(chance < 1, (square - chance) / (1 - chance), np.nan))


def beyond_chance(coherence: FloatArray, chance: FloatArray, alpha: float = ALPHA) -> BoolArray:
    """Pairs whose coherence independent phases would reach with probability below alpha; False where it is NaN.

    Within 4 scales of the query the same wavelet sees the same noise, so this means nothing there.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(np.asarray(coherence, dtype=np.float64) ** 2 > coherence_threshold(chance, alpha))
