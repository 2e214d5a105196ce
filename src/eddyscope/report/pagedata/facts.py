"""The few numbers of each layer and head that sentences, tables and figures by layer are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from eddyscope.report.pagedata.layers import missing_lags
from eddyscope.report.pagedata.values import FloatArray, array, full_lags, value, word
from eddyscope.report.views import View
from eddyscope.study.summary import octave_density, octave_labels, peak_octave

#: Octave densities within this factor of 1 are flat: the layer looks nowhere in particular.
FLAT = 1.25
#: An octave or a distance on which fewer of the replicates agree is unsure.
SELECTED = 0.9


@dataclass(frozen=True)
class Facts:
    """Headline numbers of one layer and head; NaN and empty where there are none.

    Parameters
    ----------
    label, layer, head : str
    index : int
    missing : str
        Why there are no lag statistics.
    median_lag, near, far : float
        Distance within which half of the fluctuation lies; shares below 8 tokens and in the farther half.
    peak_octave : str
        Distances of largest density.
    flat : bool
        Every octave's density is within a factor of :data:`FLAT` of 1.
    sure : bool
        The median distance stays the same in at least nine tenths of the replicates; True without replicates.
    wavelengths : tuple of float
        Dominant wavelengths that count, in tokens.
    first_share, first_lag : float
        Share of the field's fluctuation in its first mode, and the distance at which its profile is largest.
    decay, dimension, rank : str
        Statuses of the resolved exponent, of the participation ratio, and of the effective rank at the first
        tolerance.
    level, sink : float
        Fluctuation level and mass on the first key.
    kept : bool
        False where statistics were kept and not the fields, so that there are no modes.
    """

    label: str
    layer: str
    head: str
    index: int
    missing: str
    median_lag: float
    near: float
    far: float
    peak_octave: str
    flat: bool
    sure: bool
    wavelengths: tuple[float, ...]
    first_share: float
    first_lag: float
    decay: str
    dimension: str
    rank: str
    level: float
    sink: float
    kept: bool


def facts(view: View) -> Facts:
    """Headline numbers of one layer and head."""
    data = view.data
    missing = missing_lags(view)
    there = not missing
    selected = value(data, "median_lag_selected")
    share, lag = _first_mode(view)
    return Facts(
        label=view.label,
        layer=view.layer,
        head=view.head,
        index=view.index,
        missing=missing,
        median_lag=value(data, "median_lag") if there else np.nan,
        near=value(data, "near_share") if there else np.nan,
        far=value(data, "far_share") if there else np.nan,
        peak_octave=peak_octave(data) if there else "",
        flat=there and _flat(data),
        sure=not selected < SELECTED,
        wavelengths=_wavelengths(data) if there else (),
        first_share=share,
        first_lag=lag,
        decay=word(data, "field_beta_resolved_status"),
        dimension=word(data, "field_participation_ratio_status"),
        rank=word(data, "field_effective_rank_status", 0) if "field_effective_rank_status" in data else "",
        level=value(data, "fluctuation_level"),
        sink=value(data, "sink_mass"),
        kept=word(data, "field_stable_rank_status") != "fields not kept",
    )


def of_layers(found: Sequence[Facts], shown: Sequence[View]) -> list[Facts]:
    """The same of whole layers: of single heads the mean, each head's energy by lag over its sum.

    What has no mean, such as modes and statuses, is empty.
    """
    if all(one.head == "mean" for one in found):
        return list(found)
    made = []
    for layer in dict.fromkeys(one.layer for one in found):
        ones = [(one, view) for one, view in zip(found, shown, strict=True) if one.layer == layer]
        known = [(one, view) for one, view in ones if np.isfinite(one.median_lag)]
        first = ones[0][0]
        density = [octave_density(view.data) for _, view in known]
        mean = np.mean(density, axis=0) if density else np.full(1, np.nan)
        labels = octave_labels(known[0][1].data) if known else [""]
        made.append(
            replace(
                first,
                label=f"layer {first.index}",
                head="mean",
                missing="" if known else first.missing,
                median_lag=_median([view.data for _, view in known]),
                near=float(np.mean([one.near for one, _ in known])) if known else np.nan,
                far=float(np.mean([one.far for one, _ in known])) if known else np.nan,
                peak_octave=labels[int(np.argmax(mean))] if known else "",
                flat=bool(known) and _is_flat(mean),
                sure=True,
                wavelengths=(),
                first_share=np.nan,
                first_lag=np.nan,
            )
        )
    return made


def _median(heads: Sequence[xr.Dataset]) -> float:
    """Smallest distance with half of the energy at or below it, of the mean over heads."""
    if not heads:
        return float("nan")
    distance = np.abs(heads[0]["lag"].values)
    energy = np.zeros(int(distance.max()) + 1)
    for data in heads:
        own = np.nan_to_num(array(data, "lag_energy", "lag"))
        energy += np.bincount(distance, own, energy.size) / own.sum()
    return float(np.argmax(np.cumsum(energy) >= 0.5 * energy.sum() * (1 - 1e-12)))


def _flat(data: xr.Dataset) -> bool:
    return _is_flat(octave_density(data))


def _is_flat(density: FloatArray) -> bool:
    return bool(np.isfinite(density).all() and density.max() <= FLAT and density.min() >= 1 / FLAT)


def _wavelengths(data: xr.Dataset) -> tuple[float, ...]:
    if "dominant_wavelength" not in data:
        return ()
    pairs = zip(array(data, "dominant_wavelength", "band"), data["status"].values, strict=True)
    return tuple(float(w) for w, status in pairs if np.isfinite(w) and str(status) == "ok")


def _first_mode(view: View) -> tuple[float, float]:
    data = view.data
    profile = array(data, "field_mode_profile", "mode", "lag")
    if not view.fluctuates or not profile.size or not np.isfinite(profile[0]).any():
        return np.nan, np.nan
    kept = full_lags(data)
    lag = data["lag"].values[kept][np.nanargmax(np.abs(profile[0, kept]))]
    return value(data, "field_first_mode_energy"), float(lag)
