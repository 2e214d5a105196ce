"""Bands: the ranges of lags under analysis, and the windows that cut them out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyscope.kernels.morlet import wavelength
from eddyscope.kernels.octaves import (
    energy_budget,
    octave_centre,
    octave_first,
    octave_last,
    octave_windows,
)
from eddyscope.kernels.peaks import Peak, find_peaks
from eddyscope.lagfield import FloatArray, IntArray
from eddyscope.study.options import Options
from eddyscope.study.rows import CROSS, LagAxis
from eddyscope.study.spectra import Spectra, scale_status

NO_DOMINANT_SCALE = "no dominant scale"


@dataclass(frozen=True)
class Band:
    """A range of lags under analysis: around a dominant scale, some octaves, or (of cross attention) everything.

    Parameters
    ----------
    scale : float
        In tokens; NaN for octaves, and for everything.
    wavelength : float
        In tokens; NaN for octaves.
    lag : float
        Distance that the band stands for.
    status : str
    octaves : tuple of int
        Octaves that the band spans; empty for a scale.
    first, last : float
        First and last distance of the octaves; NaN for a scale.
    """

    scale: float
    wavelength: float
    lag: float
    status: str
    octaves: tuple[int, ...] = ()
    first: float = float("nan")
    last: float = float("nan")

    @property
    def whole(self) -> bool:
        """Whether it is no range of lags but everything."""
        return not self.octaves and np.isnan(self.scale)

    @property
    def label(self) -> str:
        """Short name: the wavelength, or the distances."""
        if self.octaves:
            return f"lags {self.first:.0f}-{self.last:.0f}" if self.last > self.first else f"lag {self.first:.0f}"
        if self.whole:
            return "everything"
        return f"wavelength {self.wavelength:.3g}"


def choose_bands(found: Spectra, rows: LagAxis, options: Options, peaks: list[Peak]) -> list[Band]:
    """The bands of one field.

    Parameters
    ----------
    found : Spectra
    rows : LagAxis
    options : Options
        ``select``: ``peaks`` (dominant scales; octaves denser than flat where there are none), ``top`` (the largest
        values of the spectrum), ``octaves`` (all), ``bands`` (fine, medium, coarse by terciles of the energy), or a
        list of scales.
    peaks : list of Peak
        From :func:`dominant_peaks`.
    """
    energy = np.diag(found.covariance.fluctuation)
    if rows.none_left == CROSS:
        nan = float("nan")
        return [Band(nan, nan, nan, CROSS)]
    if not isinstance(options.select, str):
        statuses = scale_status(np.array(options.select), rows.lags.size, options.omega0)
        return [
            _scale_band(a, found, rows, options, "given" if s == "ok" else s)
            for a, s in zip(options.select, statuses, strict=True)
        ]
    if options.select != "octaves" and not rows.queries.size:
        return dense_octaves(energy, rows, options.dominant, rows.none_left)
    if options.select == "top":
        # The published script ranks the total, in which the mean field dominates.
        spectrum = found.spectrum[0 if options.preset == "published" else 2, 0]
        ranked = np.argsort(-np.nan_to_num(spectrum, nan=-np.inf), kind="stable")
        return [
            _scale_band(
                float(found.scales[i]),
                found,
                rows,
                options,
                "largest energy" if found.status[i] == "ok" else found.status[i],
            )
            for i in ranked[: options.dominant]
        ]
    if options.select == "octaves":
        return _octave_bands(range(rows.octaves), rows, "octave")
    if options.select == "bands":
        return _tercile_bands(energy, rows)
    counting = [p for p in peaks if p.counts][: options.dominant]
    if counting:
        return [_scale_band(p.scale, found, rows, options, p.status) for p in counting]
    return dense_octaves(energy, rows, options.dominant)


def dominant_peaks(found: Spectra) -> list[Peak]:
    """Local maxima of the fluctuation's flattened spectrum, among scales clear of Nyquist and of the edges."""
    clear = found.clear()
    if clear.sum() < 3:
        return []
    replicates = None if found.replicates is None else found.replicates[:, clear]
    if replicates is not None and not np.all(replicates > 0):
        replicates = None
    return find_peaks(found.fluctuation[clear], found.scales[clear], found.other_edges[clear], replicates)


def dense_octaves(energy: FloatArray, rows: LagAxis, most: int, status: str = NO_DOMINANT_SCALE) -> list[Band]:
    """Octaves with a density above 1, most energy first; where there is no fluctuation, none is above, so all."""
    count = rows.octaves
    share, density = energy_budget(energy, rows.distance, count)
    order = np.argsort(-np.nan_to_num(share), kind="stable")
    chosen = [int(j) for j in order if density[j] > 1][:most]
    if not chosen:  # exactly flat, or nothing fluctuates
        chosen = [int(j) for j in order[:most]]
    return _octave_bands(chosen, rows, status)


def _scale_band(scale: float, found: Spectra, rows: LagAxis, options: Options, status: str) -> Band:
    nearest = int(np.abs(np.log(found.scales / scale)).argmin())
    period = float(wavelength(scale, options.omega0))
    lag = _loudest_distance(nearest, found, rows)
    if not np.isfinite(lag):  # no position inside the cone: the band stands at one wavelength, as far as the axis goes
        lag = float(min(round(period), rows.distances - 1))
    return Band(scale, period, lag, status)


def _loudest_distance(index: int, found: Spectra, rows: LagAxis) -> float:
    """Distance inside the cone at which the fluctuation has most energy at one scale; NaN for an empty cone."""
    low, high = found.cones[index]
    position = np.arange(rows.lags.size)
    inside = (position >= low) & (position <= high)  # NaN, an empty cone, compares false
    if not inside.any():
        return float("nan")
    energy = np.where(inside, found.scalogram[2, index], -np.inf)
    return float(rows.distance[int(energy.argmax())])


def _octave_bands(octaves: range | list[int], rows: LagAxis, status: str) -> list[Band]:
    count = rows.octaves
    first, last, centre = octave_first(count), octave_last(count, rows.distances), octave_centre(count)
    nan = float("nan")
    return [Band(nan, nan, float(centre[j]), status, (j,), float(first[j]), float(last[j])) for j in octaves]


def _tercile_bands(energy: FloatArray, rows: LagAxis) -> list[Band]:
    """Fine, medium and coarse: octaves split where a third and two thirds of the energy are reached."""
    count = rows.octaves
    share, _ = energy_budget(energy, rows.distance, count)
    middle = np.cumsum(np.nan_to_num(share, nan=1 / count)) - np.nan_to_num(share, nan=1 / count) / 2
    tercile = np.clip((middle * 3).astype(int), 0, 2)
    first, last, centre = octave_first(count), octave_last(count, rows.distances), octave_centre(count)
    bands = []
    for index, name in enumerate(("fine", "medium", "coarse")):
        members = tuple(int(j) for j in np.flatnonzero(tercile == index))
        if members:
            lag = float(np.average(centre[list(members)], weights=np.nan_to_num(share[list(members)], nan=1) + 1e-300))
            bands.append(
                Band(
                    float("nan"),
                    float("nan"),
                    round(lag),
                    name,
                    members,
                    float(first[members[0]]),
                    float(last[members[-1]]),
                )
            )
    return bands


def band_windows(bands: list[Band], distance: IntArray, octaves: int, kind: str) -> FloatArray:
    """Lag windows of the bands.

    Parameters
    ----------
    bands : list of Band
    distance : int array, shape (lag,)
        ``|lag|`` of the lags to be weighted; may reach beyond the range of the full rows.
    octaves : int
        Number of octaves of the full rows.
    kind : {"band", "lowpass", "octaves"}
        ``band``: ``exp(-(d - d*)^2 / (2 sigma^2))``, ``sigma = max(a* / 2, 1)``. ``lowpass``:
        ``exp(-d^2 / (2 a*^2))``. ``octaves``: the smooth window of the octave that holds d*. Octave bands always use
        their octave windows, and a band of everything has none.

    Returns
    -------
    array, shape (band, lag)
    """
    smooth = octave_windows(distance, octaves)
    windows = np.empty((len(bands), distance.size))
    for index, band in enumerate(bands):
        if band.whole:
            windows[index] = 1.0
        elif band.octaves:
            windows[index] = np.sqrt((smooth[list(band.octaves)] ** 2).sum(axis=0))
        elif kind == "lowpass":
            windows[index] = np.exp(-(distance**2) / (2 * band.scale**2))
        elif kind == "octaves":
            windows[index] = smooth[min(int(np.log2(1 + band.lag)), octaves - 1)]
        else:
            sigma = max(band.scale / 2, 1.0)
            windows[index] = np.exp(-((distance - band.lag) ** 2) / (2 * sigma**2))
    return windows
