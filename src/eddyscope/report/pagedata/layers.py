"""One layer (one head) as the page draws it: its bands, scalogram, spectrum, coherence and conclusions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from eddyscope.report.maps import chance_level
from eddyscope.report.nulls import members
from eddyscope.report.pagedata.budget import Shipping
from eddyscope.report.pagedata.decomposition import DecompositionData, decompositions
from eddyscope.report.pagedata.encode import linear_codes, number, numbers, pooled, text_of
from eddyscope.report.pagedata.values import FloatArray, array, value, word
from eddyscope.report.views import View
from eddyscope.study.coherence import NEAR_SCALES
from eddyscope.study.summary import octave_labels
from eddyscope.study.words import conclusions

#: Statuses of a band whose wavelength needs no reserve.
SURE = ("ok", "given", "largest energy")


@dataclass(frozen=True)
class MapData:
    """A map in 8-bit codes, see :mod:`eddyscope.report.pagedata.encode`.

    Parameters
    ----------
    rows, columns : int
        Cells.
    row_step, column_step : int
        Tokens (or scales) in a cell.
    codes : str
        Base 64.
    lower : bool
        Only the lower triangle is there.
    low, high : float
        What the first and the last code stand for; of a signed map ``high`` is the limit and ``low`` its negative.
    """

    rows: int
    columns: int
    row_step: int
    column_step: int
    codes: str
    lower: bool
    low: float | int | str | None
    high: float | int | str | None


@dataclass(frozen=True)
class ScalogramData:
    """Energy of the fluctuation by wavelength and lag, in codes of its decimal logarithm."""

    map: MapData | None
    first_lag: int
    wavelengths: list[Any]
    statuses: list[str]
    cone_low: list[Any]
    cone_high: list[Any]
    marks: list[dict[str, Any]]
    missing: str


@dataclass(frozen=True)
class SpectrumData:
    """Global wavelet spectra by wavelength, with the interval of the fluctuation's, and those of null models."""

    total: list[Any]
    mean: list[Any]
    fluctuation: list[Any]
    low: list[Any]
    high: list[Any]
    twin: list[Any]
    shuffled: list[Any]


@dataclass(frozen=True)
class CoherenceData:
    """Coherence with the query's own position; the map is None where there is none."""

    map: MapData | None
    scale: float | int | str | None
    near: float | int | str | None
    chance: float | int | str | None
    missing: str


@dataclass(frozen=True)
class LayerData:
    """What the page draws of one layer and head."""

    label: str
    layer: str
    index: int
    head: str
    causal: bool
    documents: int
    queries: int
    keys: int
    octaves: list[str]
    share: dict[str, list[Any]]
    density: dict[str, list[Any]]
    share_low: dict[str, list[Any]]
    share_high: dict[str, list[Any]]
    twin_density: dict[str, list[Any]]
    scalogram: ScalogramData
    spectrum: SpectrumData
    pods: list[DecompositionData]
    coherence: CoherenceData
    conclusions: list[str]
    no_modes: str


def layer_data(view: View, shipping: Shipping, low: float, high: float) -> LayerData:
    """Collect what the page draws of a layer.

    Parameters
    ----------
    view : View
    shipping : Shipping
        How much of it.
    low, high : float
        Decimal logarithms of the energies that the first and the last code of all scalograms stand for.
    """
    data = view.data
    return LayerData(
        label=view.label,
        layer=view.layer,
        index=view.index,
        head=view.head,
        causal=view.causal,
        documents=int(data.attrs["documents"]),
        queries=int(data.attrs["queries"]),
        keys=int(data.attrs["keys"]),
        octaves=octave_labels(data) if "octave" in data.coords else [],
        share=by_side(data, "octave_share"),
        density=by_side(data, "octave_density"),
        share_low=by_side(data, "octave_share_low"),
        share_high=by_side(data, "octave_share_high"),
        twin_density=by_side(data, "null_octave_density"),
        scalogram=_scalogram(view, low, high),
        spectrum=_spectrum(data),
        pods=decompositions(view, shipping),
        coherence=_coherence(view, shipping.side),
        conclusions=_conclusions(data),
        no_modes=no_modes(view),
    )


def by_side(data: xr.Dataset, name: str) -> dict[str, list[Any]]:
    """Values by octave for each side that the layer has; of null models the mean over the twin's seeds."""
    if name not in data:
        return {}
    values = data[name]
    if "null" in values.dims:
        values = members(values, "twin")
        if values.sizes["null"] == 0:
            return {}
        values = values.mean("null", skipna=False)
    if "side" not in values.dims:
        return {"back": numbers(values.values)}
    return {str(side): numbers(values.sel(side=side).values) for side in values["side"].values}


def fluctuation_energy(data: xr.Dataset) -> tuple[FloatArray, FloatArray]:
    """Lags of the full rows and the energy there, shape (scale, lag); empty where there is none."""
    if "scalogram" not in data:
        return np.zeros(0), np.zeros((0, 0))
    energy = data["scalogram"].sel(part="fluctuation").transpose("scale", "lag").values
    kept = np.isfinite(energy).all(axis=0)
    return data["lag"].values[kept], energy[:, kept]


def _scalogram(view: View, low: float, high: float) -> ScalogramData:
    data = view.data
    lags, energy = fluctuation_energy(data)
    missing = missing_lags(view)
    drawn: MapData | None = None
    if energy.size and (energy > 0).any() and not missing:
        with np.errstate(divide="ignore"):
            codes = linear_codes(np.where(energy > 0, np.log10(energy), np.nan), low, high)
        drawn = MapData(energy.shape[0], energy.shape[1], 1, 1, text_of(codes), False, number(low), number(high))
    elif not missing:
        missing = "no fluctuation"
    marks = [
        {"lag": number(lag), "wavelength": number(period), "sure": str(status) in SURE, "status": str(status)}
        for lag, period, status in zip(
            array(data, "dominant_lag", "band"),
            array(data, "dominant_wavelength", "band"),
            data["status"].values if "status" in data else (),
            strict=False,
        )
        if np.isfinite(period)
    ]
    statuses = [str(s) for s in data["scale_status"].values] if "scale_status" in data else []
    return ScalogramData(
        map=drawn,
        first_lag=int(lags[0]) if lags.size else 0,
        wavelengths=numbers(data["wavelength"].values) if "wavelength" in data else [],
        statuses=statuses,
        cone_low=numbers(array(data, "cone_low", "scale")),
        cone_high=numbers(array(data, "cone_high", "scale")),
        marks=marks if drawn else [],
        missing=missing,
    )


def missing_lags(view: View) -> str:
    """Why there are no lag statistics, in a line; empty where there are some."""
    if "median_lag" not in view.data or "scalogram" not in view.data:
        return "this kind of attention has no lag statistics"
    return view.missing.replace("\n", " ")


def no_modes(view: View) -> str:
    """Why there are no modes, in a few words; empty where there are some."""
    status = word(view.data, "field_stable_rank_status")
    if status == "fields not kept":
        return "the study kept statistics and not the fields that modes are made of"
    if not view.fluctuates:
        return "nothing fluctuates, so there are no modes"
    return "" if np.isfinite(array(view.data, "field_eigenvalues", "rank")).any() else status or "no modes"


def _spectrum(data: xr.Dataset) -> SpectrumData:
    found: dict[str, list[Any]] = {part: [] for part in ("total", "mean", "fluctuation")}
    if "spectrum" in data:
        energy = data["spectrum"].sel(normalisation="energy")
        found = {part: numbers(energy.sel(part=part).values) for part in found}
    nulls: dict[str, list[Any]] = {"twin": [], "shuffled": []}
    if "null_spectrum" in data:
        for kind in nulls:
            values = members(data["null_spectrum"], kind).values
            nulls[kind] = numbers(values) if values.size else []
    return SpectrumData(
        **found,
        low=numbers(array(data, "spectrum_low", "scale")),
        high=numbers(array(data, "spectrum_high", "scale")),
        **nulls,
    )


def _coherence(view: View, side: int) -> CoherenceData:
    data = view.data
    scale = value(data, "coherence_scale")
    if "packed_coherence" not in data or not np.isfinite(scale):
        return CoherenceData(None, None, None, None, "not computed: it needs square attention with all lags")
    if not view.fluctuates:
        return CoherenceData(None, None, None, None, "no fluctuation")
    near = NEAR_SCALES * scale
    chance = chance_level(view)
    if not np.isfinite(chance):
        chance = float(data.attrs["documents"]) ** -0.5
    dense = view.expand(data["packed_coherence"].values)
    query, key = np.indices(dense.shape)
    dense = np.where(np.abs(query - key) <= near, np.nan, dense)
    small = pooled(dense, side)
    drawn = MapData(
        small.shape[0],
        small.shape[1],
        -(-dense.shape[0] // side),
        -(-dense.shape[1] // side),
        text_of(linear_codes(small, 0, 1), lower=view.causal),
        view.causal,
        0,
        1,
    )
    return CoherenceData(drawn, number(scale), number(near), number(chance), "")


def _conclusions(data: xr.Dataset) -> list[str]:
    try:
        return conclusions(data)
    except KeyError as error:  # a kind of layer that lacks what the sentences are about
        return [f"No conclusions: this study does not hold {error.args[0]!s} of this layer."]


__all__ = ["LayerData", "MapData", "by_side", "fluctuation_energy", "layer_data", "missing_lags", "word"]
