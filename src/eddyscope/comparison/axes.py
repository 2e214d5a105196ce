"""Octaves and scales that all have, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from eddyscope.comparison.quantities import LayerNumbers, shares
from eddyscope.comparison.subjects import Subject
from eddyscope.lagfield import FloatArray
from eddyscope.trust.differences import holm
from eddyscope.trust.seeds import seeds_difference

#: Numbers of a subject by (layer position, head label).
Numbers = dict[tuple[int, str], LayerNumbers]


def octave_table(
    subjects: list[Subject], numbers: list[Numbers], pairs: list[bool], characters: list[float] | None
) -> pd.DataFrame:
    """Share of each octave by layer and subject, with its difference to the first subject.

    The last octave of an axis holds what lies beyond it, so only octaves that all have with the same bounds are
    compared. Holm's correction is over all layers and octaves of a subject.
    """
    rows: list[dict[str, Any]] = []
    for index, (subject, own, pair) in enumerate(zip(subjects, numbers, pairs, strict=True)):
        for key, layer in own.items():
            reference = numbers[0][key]
            bounds = _shared_bounds([other[key] for other in numbers])
            ours, theirs = _shares(layer), _shares(reference)
            for octave, (first, last) in bounds.items():
                row: dict[str, Any] = {
                    "layer": key[0],
                    "head": key[1],
                    "subject": subject.label,
                    "octave": octave,
                    "first": first,
                    "last": last,
                    "share": float(ours[0][:, octave].mean()),
                    "density": _density(layer, octave),
                }
                if characters is not None:
                    row |= {"first_characters": first * characters[index], "last_characters": last * characters[index]}
                found = seeds_difference(
                    ours[0][:, octave], ours[1][..., octave], theirs[0][:, octave], theirs[1][..., octave], paired=pair
                )
                apart = index > 0
                row |= {
                    "difference": found.value if apart else np.nan,
                    "low": found.low if apart else np.nan,
                    "high": found.high if apart else np.nan,
                    "p": found.p if apart else np.nan,
                }
                rows.append(row)
    return _corrected(pd.DataFrame(rows))


def _shares(layer: LayerNumbers) -> tuple[FloatArray, FloatArray]:
    parts = [shares(data) for data in layer.layers]
    return np.stack([p[0] for p in parts]), np.stack([p[1] for p in parts])


def _shared_bounds(layers: list[LayerNumbers]) -> dict[int, tuple[int, int]]:
    """Octaves that all have, with first and last distance."""
    found = []
    for layer in layers:
        data = layer.layers[0]
        bounds = zip(data["octave"].values, data["octave_last"].values, strict=True)
        found.append({k: (int(a), int(b)) for k, (a, b) in enumerate(bounds)})
    return {k: v for k, v in found[0].items() if all(other.get(k) == v for other in found)}


def _density(layer: LayerNumbers, octave: int) -> float:
    """Share over the octave's part of the lags, mean over seeds."""
    from eddyscope.study.summary import octave_density

    return float(np.mean([octave_density(data)[octave] for data in layer.layers]))


def spectrum_table(subjects: list[Subject], numbers: list[Numbers], pairs: list[bool]) -> pd.DataFrame:
    """Energy spectrum of the fluctuation by layer and subject, with its ratio to the first subject.

    On the scales of the first subject that all cover; others are interpolated in the logarithm of the scale.
    """
    rows: list[dict[str, Any]] = []
    for index, (subject, own, pair) in enumerate(zip(subjects, numbers, pairs, strict=True)):
        for key, layer in own.items():
            scales, wavelengths = _shared_scales([other[key] for other in numbers])
            ours, theirs = _log_spectra(layer, scales), _log_spectra(numbers[0][key], scales)
            for column, scale in enumerate(scales):
                found = seeds_difference(
                    ours[0][:, column], ours[1][..., column], theirs[0][:, column], theirs[1][..., column], paired=pair
                )
                ends = np.exp([found.value, found.low, found.high]) if index else np.full(3, np.nan)
                rows.append(
                    {
                        "layer": key[0],
                        "head": key[1],
                        "subject": subject.label,
                        "scale": float(scale),
                        "wavelength": float(wavelengths[column]),
                        "energy": float(np.exp(ours[0][:, column].mean())),
                        "ratio": ends[0],
                        "low": ends[1],
                        "high": ends[2],
                        "p": found.p if index else np.nan,
                    }
                )
    return _corrected(pd.DataFrame(rows))


def _shared_scales(layers: list[LayerNumbers]) -> tuple[FloatArray, FloatArray]:
    data = layers[0].layers[0]
    scales = data["scale"].values
    low = max(float(layer.layers[0]["scale"].values[0]) for layer in layers)
    high = min(float(layer.layers[0]["scale"].values[-1]) for layer in layers)
    kept = (scales >= low * (1 - 1e-9)) & (scales <= high * (1 + 1e-9))
    return np.asarray(scales[kept]), np.asarray(data["wavelength"].values[kept])


def _log_spectra(layer: LayerNumbers, scales: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logarithms of the spectra of each seed, and of their replicates, on these scales."""
    values, replicates = [], []
    for data in layer.layers:
        own = np.log(data["scale"].values)
        whole = data["spectrum"].values[2, 0]
        parts = data["spectrum_replicates"].values if "spectrum_replicates" in data else np.zeros((0, own.size))
        with np.errstate(divide="ignore", invalid="ignore"):
            values.append(np.interp(np.log(scales), own, np.log(whole)))
            logs = [np.interp(np.log(scales), own, np.log(part)) for part in parts]
        replicates.append(np.array(logs).reshape(len(parts), scales.size))
    return np.stack(values), np.stack(replicates)


def _corrected(table: pd.DataFrame) -> pd.DataFrame:
    """With ``p_holm``, corrected over all rows of a subject."""
    table["p_holm"] = np.nan
    for label in table["subject"].unique() if len(table) else ():
        chosen = table["subject"] == label
        table.loc[chosen, "p_holm"] = holm(table.loc[chosen, "p"].to_numpy())
    return table
