"""Peaks of a global spectrum: the wavelengths at which attention varies, with the conditions they must meet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import signal

FloatArray = NDArray[np.floating[Any]]

MIN_PROMINENCE = 0.05
MIN_ENERGY = 0.05
STANDARD_ERRORS = 3.0
#: Farthest that the peak of the spectrum itself may lie from that of the flattened one, in grid steps.
SHOULDER_STEPS = 2


@dataclass(frozen=True)
class Peak:
    """A local maximum of the flattened log spectrum and what became of it.

    Parameters
    ----------
    scale : float
        In tokens; the maximum of the spectrum itself refined by a parabola in log scale, or the grid scale of the
        flattened maximum where there is none (a shoulder).
    index : int
        Grid index of that scale.
    energy : float
        The spectrum there.
    prominence : float
        Topographic, of the flattened log spectrum.
    standard_error : float
        Of the prominence, by the jackknife over document groups; NaN where it was not computed.
    status : str
        ``ok``, ``untested`` (no standard error), ``harmonic``, ``edge-dependent``, ``within error``, ``weak``
        (too little energy or prominence) or ``shoulder``.
    """

    scale: float
    index: int
    energy: float
    prominence: float
    standard_error: float
    status: str

    @property
    def counts(self) -> bool:
        """Whether the peak is a dominant scale."""
        return self.status in ("ok", "untested", "harmonic")


def flatten(spectrum: FloatArray, scales: FloatArray) -> FloatArray:
    """``log E(a)`` after removing its straight line in log a; works on a stack of spectra (last axis is scale)."""
    x = np.log(scales) - np.log(scales).mean()
    y = np.log(spectrum)
    slope = (y * x).sum(axis=-1, keepdims=True) / (x * x).sum()
    return np.asarray(y - y.mean(axis=-1, keepdims=True) - slope * x)


def find_peaks(
    spectrum: FloatArray,
    scales: FloatArray,
    other_edges: FloatArray,
    replicates: FloatArray | None = None,
    harmonic_step: float = 2.0 ** (1 / 8),
) -> list[Peak]:
    """All local maxima of the flattened spectrum, each with its status, by prominence times energy.

    Parameters
    ----------
    spectrum : array, shape (scale,)
        Global spectrum of the fluctuation, positive.
    scales : array, shape (scale,)
        Ascending, log-spaced.
    other_edges : array, shape (scale,)
        The same spectrum under the other edge rule. A bump at distance d and its mirror image interfere like two
        slits and fake wavelengths 2 d / k, so a peak must appear under both.
    replicates : array, shape (group, scale), optional
        Spectra with one group of documents left out.
    harmonic_step : float
        Ratio within which two wavelengths count as equal.

    Returns
    -------
    list of Peak
        Those that count first, each part by prominence times energy; ties to the smaller scale.
    """
    if spectrum.size < 3 or not (np.all(spectrum > 0) and np.all(other_edges > 0)):
        return []
    flat = flatten(spectrum, scales)
    found, bases = signal.find_peaks(flat, prominence=0)
    peaks = []
    for number, index in enumerate(found):
        at = np.array([index, bases["left_bases"][number], bases["right_bases"][number]])
        error = np.nan if replicates is None else _prominence_error(flatten(replicates, scales)[:, at])
        peaks.append(_judge(spectrum, scales, other_edges, int(index), float(bases["prominences"][number]), error))
    return _order(_mark_harmonics(_one_for_each_maximum(peaks), harmonic_step))


def _prominence_error(points: FloatArray) -> float:
    """Jackknife standard error of the prominence from the same three grid points in every replicate."""
    prominence = points[:, 0] - points[:, 1:].max(axis=1)
    groups = prominence.size
    return float(np.sqrt((groups - 1) / groups * ((prominence - prominence.mean()) ** 2).sum()))


def _judge(
    spectrum: FloatArray, scales: FloatArray, other_edges: FloatArray, index: int, prominence: float, error: float
) -> Peak:
    own = signal.find_peaks(spectrum)[0]
    near = own[np.abs(own - index) <= SHOULDER_STEPS]
    if near.size == 0:
        energy = float(spectrum[index])
        return Peak(float(scales[index]), index, energy, prominence, error, "shoulder")
    top = int(near[np.argmin(np.abs(near - index))])
    scale = refine_peak(spectrum, scales, top)
    energy = float(spectrum[top])
    if prominence < MIN_PROMINENCE or energy < MIN_ENERGY * float(spectrum.max()):
        status = "weak"
    elif np.isfinite(error) and prominence < STANDARD_ERRORS * error:
        status = "within error"
    elif not _appears(other_edges, scales, index):
        status = "edge-dependent"
    else:
        status = "ok" if np.isfinite(error) else "untested"
    return Peak(scale, top, energy, prominence, error, status)


def _appears(spectrum: FloatArray, scales: FloatArray, index: int) -> bool:
    """Whether a peak that is more than a shoulder and not weak stands within one grid step."""
    flat_peaks, _ = signal.find_peaks(flatten(spectrum, scales), prominence=MIN_PROMINENCE)
    own = signal.find_peaks(spectrum)[0]
    strong = spectrum >= MIN_ENERGY * spectrum.max()
    return any(abs(p - index) <= 1 and np.any((np.abs(own - p) <= SHOULDER_STEPS) & strong[own]) for p in flat_peaks)


def refine_peak(spectrum: FloatArray, scales: FloatArray, index: int) -> float:
    """Vertex of the parabola through three points of log E in log a."""
    if not 0 < index < spectrum.size - 1:
        return float(scales[index])
    left, middle, right = np.log(spectrum[index - 1 : index + 2])
    x = np.log(scales[index - 1 : index + 2])
    below, above = x[1] - x[0], x[2] - x[1]
    rise, fall = (middle - left) / below, (middle - right) / above  # neither negative at a maximum
    if not rise + fall > 0:
        return float(scales[index])
    return float(np.exp(x[1] + (above * rise - below * fall) / (2 * (rise + fall))))


def _one_for_each_maximum(peaks: list[Peak]) -> list[Peak]:
    """Of flattened maxima that share a maximum of the spectrum, the most prominent stands for it."""
    best: dict[int, Peak] = {}
    for peak in peaks:
        if peak.status != "shoulder" and peak.prominence > getattr(best.get(peak.index), "prominence", 0.0):
            best[peak.index] = peak
    return [p if best.get(p.index) is p else replace(p, status="shoulder") for p in peaks]


def _mark_harmonics(peaks: list[Peak], step: float) -> list[Peak]:
    """Peaks at 1/2, 1/3, ... of the wavelength of a stronger counting peak are its harmonics."""
    marked = []
    for peak in peaks:
        status = peak.status
        for other in peaks:
            ratio = other.scale / peak.scale
            whole = round(ratio)
            stronger = other.counts and _weight(other) > _weight(peak)
            if peak.counts and stronger and whole >= 2 and 1 / step <= ratio / whole <= step:
                status = "harmonic"
        marked.append(replace(peak, status=status))
    return marked


def _weight(peak: Peak) -> float:
    return peak.prominence * peak.energy


def _order(peaks: list[Peak]) -> list[Peak]:
    return sorted(peaks, key=lambda p: (not p.counts, -_weight(p), p.scale))
