"""The decompositions of a layer: without a window, of each band, and along the lag."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from eddyscope.kernels.decay import FIT_RANKS
from eddyscope.report.nulls import members
from eddyscope.report.pagedata.budget import Shipping
from eddyscope.report.pagedata.encode import few_ranks, number, numbers, pooled, signed_codes, text_of
from eddyscope.report.pagedata.tokens import TopData, top_data
from eddyscope.report.pagedata.values import FloatArray, array, full_lags, value, word
from eddyscope.report.views import View

#: Share of a mode's entries that the colours resolve; the largest few take the end colours.
_RESOLVED = 0.99


@dataclass(frozen=True)
class ModeData:
    """One mode: its share of the energy, its map in codes of the signed root, its lag profile, its coefficients."""

    share: float | int | str | None
    overlap: float | int | str | None
    rows: int
    columns: int
    row_step: int
    column_step: int
    limit: float | int | str | None
    lower: bool
    codes: str
    profile: list[Any]
    coefficients: list[Any]
    top: list[TopData]


@dataclass(frozen=True)
class SpectrumOfModes:
    """Eigenvalues with the published fit, and the number of modes they amount to; each with interval and status."""

    ranks: list[int]
    eigenvalues: list[Any]
    noise_reduced: list[Any]
    twin: list[Any]
    shuffled: list[Any]
    fitted: list[int]
    intercept: float | int | str | None
    measures: dict[str, dict[str, Any]]
    effective_rank: list[dict[str, Any]]
    window: float | int | str | None


@dataclass(frozen=True)
class DecompositionData:
    """The POD of one windowed ensemble (``key`` 0, 1, ...), of the whole field (``field``) or along the lag."""

    key: str
    label: str
    status: str
    lags: list[int]
    weights: list[Any]
    spectrum: SpectrumOfModes
    modes: list[ModeData]


_MEASURES = ("beta_published", "t_spec_published", "r2", "beta_resolved", "participation_ratio", "first_mode_energy")


def decompositions(view: View, shipping: Shipping) -> list[DecompositionData]:
    """Without a window first, then the bands, then the lag profiles; those that the study holds."""
    data = view.data
    found: list[DecompositionData] = []
    if not view.fluctuates:
        return found
    if np.isfinite(array(data, "field_eigenvalues", "rank")).any():
        found.append(_decomposition(view, "field", "no window", "", shipping))
    if np.isfinite(array(data, "eigenvalues", "band", "rank")).any():
        for band in view.bands[: shipping.bands]:
            label, status = str(data["band_label"].values[band]), str(data["status"].values[band])
            found.append(_decomposition(view, str(band), label, status, shipping))
    if (array(data, "lag_eigenvalues", "rank") > 0).any():
        found.append(_lag_decomposition(data, shipping))
    return found


def _decomposition(view: View, key: str, label: str, status: str, shipping: Shipping) -> DecompositionData:
    data = view.data
    prefix, at = ("field_", {}) if key == "field" else ("", {"band": int(key)})
    kept = full_lags(data)
    weights = array(data, "window", "lag", **at)[kept] if at else np.ones(int(kept.sum()))
    return DecompositionData(
        key=key,
        label=label,
        status=status,
        lags=[int(lag) for lag in data["lag"].values[kept]],
        weights=numbers(weights, 3),
        spectrum=_spectrum(data, prefix, at),
        modes=_modes(view, prefix, at, kept, shipping),
    )


def _lag_decomposition(data: xr.Dataset, shipping: Shipping) -> DecompositionData:
    kept = full_lags(data)
    eigenvalues = array(data, "lag_eigenvalues", "rank")
    modes = array(data, "lag_modes", "mode", "lag")
    total = float(eigenvalues.sum())
    shown = [
        ModeData(
            share=number(eigenvalues[k] / total if total > 0 else np.nan, 6),
            overlap=number(_at(array(data, "lag_mode_overlap", "mode"), k), 3),
            rows=0, columns=0, row_step=1, column_step=1, limit=None, lower=False, codes="",
            profile=numbers(modes[k, kept], 3), coefficients=[], top=[],
        )
        for k in range(min(shipping.modes, modes.shape[0]))
        if np.isfinite(modes[k, kept]).any()
    ]  # fmt: skip
    return DecompositionData(
        key="lag",
        label="lag profiles",
        status="",
        lags=[int(lag) for lag in data["lag"].values[kept]],
        weights=[],
        spectrum=_spectrum(data, "lag_", {}),
        modes=shown,
    )


def _spectrum(data: xr.Dataset, prefix: str, at: dict[str, int]) -> SpectrumOfModes:
    values = array(data, f"{prefix}eigenvalues", "rank", **at)
    there = int((values > 0).sum())
    few = few_ranks(there)
    reduced = array(data, f"{prefix}noise_reduced_eigenvalues", "rank", **at)
    nulls: dict[str, list[Any]] = {"twin": [], "shuffled": []}
    name = {"field_": "null_eigenvalues", "lag_": "null_lag_eigenvalues"}.get(prefix, "")
    if name in data:
        for kind in nulls:
            found = members(data[name], kind).transpose("null", "rank").values
            nulls[kind] = [numbers(np.where(one[few] > 0, one[few], np.nan), 3) for one in found] if found.size else []
    place = (at["band"],) if at else ()
    leading = values[:FIT_RANKS]
    floor = 1e-12 if data.attrs.get("edges") == "replicate" else 1e-10 * (leading[0] if leading.size else 0.0)
    fitted = np.flatnonzero(leading > floor) + 1
    return SpectrumOfModes(
        ranks=[int(r) + 1 for r in few],
        eigenvalues=numbers(values[few]),
        noise_reduced=numbers(np.where(reduced[few] > 0, reduced[few], np.nan), 3) if reduced.size else [],
        **nulls,
        fitted=[int(fitted[0]), int(fitted[-1])] if fitted.size else [],
        intercept=number(value(data, f"{prefix}fit_intercept", *place)),
        measures={name: _measure(data, f"{prefix}{name}", place) for name in _MEASURES},
        effective_rank=[
            _rank(data, prefix, float(t), (*place, i)) for i, t in enumerate(array(data, "tolerance", "tolerance"))
        ],
        window=number(value(data, f"{prefix}resolved_window", *place)),
    )


def _measure(data: xr.Dataset, name: str, place: tuple[int, ...]) -> dict[str, Any]:
    return {
        "value": number(value(data, name, *place)),
        "low": number(value(data, f"{name}_low", *place)),
        "high": number(value(data, f"{name}_high", *place)),
        "status": word(data, f"{name}_status", *place),
    }


def _rank(data: xr.Dataset, prefix: str, tolerance: float, place: tuple[int, ...]) -> dict[str, Any]:
    return {"tolerance": tolerance} | _measure(data, f"{prefix}effective_rank", place)


def _modes(view: View, prefix: str, at: dict[str, int], kept: Any, shipping: Shipping) -> list[ModeData]:
    data = view.data
    eigenvalues = array(data, f"{prefix}eigenvalues", "rank", **at)
    known = f"{prefix}total_energy"  # of large ensembles, whose eigenvalues are the leading ones
    total = value(data, known, *at.values()) if known in data else float(eigenvalues.sum())
    profiles = array(data, f"{prefix}mode_profile", "mode", "lag", **at)
    coefficients = array(data, f"{prefix}coefficients", "mode", "document", **at)
    overlap = array(data, f"{prefix}mode_overlap", "mode", **at)
    packed = data.variables.get(f"packed_{prefix}modes")
    made = []
    for mode in range(min(shipping.modes, profiles.shape[0])):
        if not np.isfinite(profiles[mode]).any():
            break
        dense = None if packed is None else view.expand(packed.isel({**at, "mode": mode}).values, from_first_query=True)
        made.append(
            ModeData(
                share=number(eigenvalues[mode] / total if total > 0 else np.nan, 6),
                overlap=number(_at(overlap, mode), 3),
                **_mode_map(dense, shipping.side, view.causal),
                profile=numbers(profiles[mode, kept], 3),
                coefficients=numbers(coefficients[mode], 3),
                top=top_data(data, prefix, at, mode, shipping.documents),
            )
        )
    return made


def _mode_map(dense: FloatArray | None, side: int, causal: bool) -> dict[str, Any]:
    if dense is None:
        return {
            "rows": 0, "columns": 0, "row_step": 1, "column_step": 1, "limit": None, "lower": False, "codes": "",
        }  # fmt: skip
    small = pooled(dense, side)
    sizes = np.abs(dense[np.isfinite(dense) & (dense != 0)])
    limit = float(np.quantile(sizes, _RESOLVED)) if sizes.size else 1.0
    limit = float(f"{limit:.4g}")
    return {
        "rows": small.shape[0],
        "columns": small.shape[1],
        "row_step": -(-dense.shape[0] // side),
        "column_step": -(-dense.shape[1] // side),
        "limit": number(limit),
        "lower": causal,
        "codes": text_of(signed_codes(small, limit), lower=causal),
    }


def _at(values: FloatArray, index: int) -> float:
    return float(values[index]) if index < values.size else math.nan


__all__ = ["DecompositionData", "ModeData", "SpectrumOfModes", "decompositions"]
