"""The analysis of one field of one head, from packed snapshots to a Dataset."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xarray as xr

from eddyscope.errors import InputError
from eddyscope.kernels.gram import FieldPass
from eddyscope.kernels.octaves import octave_count
from eddyscope.kernels.peaks import Peak
from eddyscope.lagfield import FloatArray, IntArray, LagField
from eddyscope.schema import attributes
from eddyscope.study.bands import Band, band_windows, choose_bands, dominant_peaks
from eddyscope.study.coherence import field_coherence
from eddyscope.study.lagpart import budget_dataset, fluctuation_covariance, lag_pod, on_axis, spectra_dataset
from eddyscope.study.measures import SCALAR_MEASURES, Measures, measure
from eddyscope.study.modes import Pod, pod_of_windows
from eddyscope.study.options import Options
from eddyscope.study.published import EIGENVALUE_FLOOR, published_rows
from eddyscope.study.rows import LagRows, lag_rows, mask_first_key
from eddyscope.study.spectra import Spectra, spectra

#: Shortest field that has a lag axis worth the name, in tokens.
MIN_LENGTH = 4
#: Grams are kept in a study up to this many documents.
KEPT_GRAM = 4000


def analyze_field(field: LagField, options: Options, groups: IntArray | None) -> xr.Dataset:
    """All results of one head of one layer.

    Parameters
    ----------
    field : LagField
        One head.
    options : Options
    groups : int array, shape (document,), or None
        Jackknife groups; None leaves the peak test out.

    Returns
    -------
    xarray.Dataset
        With packed modes and maps; see :meth:`eddyscope.Study.layer` for the variables.
    """
    geometry = field.geometry
    if min(geometry.queries, geometry.keys) < MIN_LENGTH:
        raise InputError(
            f"Attention has {geometry.queries} queries and {geometry.keys} keys; an analysis along the lag needs at "
            f"least {MIN_LENGTH} tokens.",
            "Capture with a longer context.",
        )
    rows = lag_rows(field, options.sink, options.max_lag)
    published = options.preset == "published"
    spectral_rows = published_rows(field, options.lags) if published else rows
    found = spectra(spectral_rows, options, field.causal, groups)
    covariance = fluctuation_covariance(rows) if published else found.covariance.fluctuation
    peaks = [] if published else dominant_peaks(found)
    bands = choose_bands(found, spectral_rows, options, peaks)
    parts = [
        _lag_dataset(field, options, rows, spectral_rows, found, covariance, peaks),
        _bands_dataset(bands),
        *_pod_datasets(field, options, bands, rows, spectral_rows, np.diag(found.covariance.fluctuation)),
        _coherence_dataset(field, options, bands, found),
    ]
    merged = xr.merge([p.drop_attrs() for p in parts], join="outer", compat="no_conflicts")
    return _describe(merged, field, options, rows, found)


def _lag_dataset(
    field: LagField,
    options: Options,
    rows: LagRows,
    spectral_rows: LagRows,
    found: Spectra,
    covariance: FloatArray,
    peaks: list[Peak],
) -> xr.Dataset:
    lags = field.lags
    energy = np.diag(covariance)
    eigenvalues, modes = lag_pod(covariance, rows, lags, options.modes)
    assert field.first_key is not None and field.row_sum is not None
    of_rows = slice(None) if not rows.queries.size else rows.queries
    total = float(np.trace(found.covariance.total))
    data = xr.Dataset(
        {
            "lag_eigenvalues": ("rank", _padded(eigenvalues, _ranks(field, rows))),
            "lag_modes": (("mode", "lag"), modes),
            "lag_fluctuation_level": ((), np.trace(found.covariance.fluctuation) / total if total > 0 else np.nan),
            "sink_mass": ((), float(field.first_key[:, 0, of_rows].mean())),
            "row_mass": ((), float(field.row_sum[:, 0].mean())),
            "queries_left_out": ((), rows.left_out),
        }
    )
    measured = _measures_dataset("lag_", [measure(eigenvalues, options.tolerances)], options).isel(band=0, drop=True)
    return xr.merge(
        [
            data,
            budget_dataset(energy, rows, lags),
            spectra_dataset(found, spectral_rows, lags, peaks, options.omega0),
            measured,
        ],
        join="outer",
        compat="no_conflicts",
    )


def _bands_dataset(bands: list[Band]) -> xr.Dataset:
    def column(values: Iterable[float]) -> tuple[str, FloatArray]:
        return "band", np.array(list(values), dtype=np.float64)

    return xr.Dataset(
        {
            "dominant_scale": column(b.scale for b in bands),
            "dominant_wavelength": column(b.wavelength for b in bands),
            "dominant_lag": column(b.lag for b in bands),
            "band_first": column(b.first for b in bands),
            "band_last": column(b.last for b in bands),
            "status": ("band", np.array([b.status for b in bands], dtype=object)),
        },
        coords={
            "band": np.arange(len(bands)),
            "band_label": ("band", np.array([b.label for b in bands], dtype=object)),
        },
    )


def _pod_datasets(
    field: LagField, options: Options, bands: list[Band], rows: LagRows, spectral_rows: LagRows, energy: FloatArray
) -> list[xr.Dataset]:
    geometry = field.geometry
    windows = lag_windows(field, bands, spectral_rows, options)
    values = field.values[:, 0] if options.sink_pod == "keep" else mask_first_key(field)[0]
    min_query = query_start(field, options)
    allowed = _allowed_lags(field.lags, field.causal, options)
    pods, passed = pod_of_windows(values, geometry, np.vstack([allowed, windows]), options.modes, min_query)
    outside = _energy_outside(energy, spectral_rows, windows, field.lags)
    ranks = _ranks(field, rows)
    of_bands = _pod_dataset("", pods[1:], field, options, ranks)
    of_field = _pod_dataset("field_", pods[:1], field, options, ranks).isel(band=0, drop=True)
    shared = _field_dataset(field, passed, pods[0], min_query)
    shared["window"] = (("band", "lag"), windows)
    shared["energy_outside"] = ((), outside)
    return [of_bands, of_field, shared]


def query_start(field: LagField, options: Options) -> int:
    """First query of the field POD: L/8 of a causal field, whose early queries have few keys; else 0."""
    if options.min_query is not None:
        if options.min_query >= field.geometry.queries:
            raise InputError(
                f"min_query={options.min_query} leaves no query of {field.geometry.queries}.",
                "Choose a smaller one.",
            )
        return options.min_query
    return field.geometry.queries // 8 if field.causal else 0


def lag_windows(field: LagField, bands: list[Band], rows: LagRows, options: Options) -> FloatArray:
    """Windows of the bands on the field's whole lag axis, shape (band, lag)."""
    windows = band_windows(bands, np.abs(field.lags), rows.distances, options.window)
    return windows * _allowed_lags(field.lags, field.causal, options)


def _allowed_lags(lags: IntArray, causal: bool, options: Options) -> FloatArray:
    """1 for the lags that enter the POD, 0 for others."""
    allowed = np.ones(lags.size)
    if options.max_lag is not None:
        allowed[np.abs(lags) >= options.max_lag + (0 if causal else 1)] = 0
    if options.preset == "published":  # the script's window is zero on the other side of lag 0
        allowed[(lags < 0) if options.lags == "back" else (lags > 0)] = 0
    return allowed


def _pod_dataset(prefix: str, pods: list[Pod], field: LagField, options: Options, ranks: int) -> xr.Dataset:
    floor = EIGENVALUE_FLOOR if options.preset == "published" else None
    measures = [measure(p.eigenvalues, options.tolerances, gram=p.gram, absolute_floor=floor) for p in pods]
    data = {
        f"{prefix}eigenvalues": (("band", "rank"), np.stack([_padded(p.eigenvalues, ranks) for p in pods])),
        f"packed_{prefix}modes": (("band", "mode", "entry"), _modes_padded([p.modes for p in pods], options.modes, 0)),
        f"{prefix}mode_profile": (
            ("band", "mode", "lag"),
            _modes_padded([p.profiles for p in pods], options.modes, 0),
        ),
        f"{prefix}coefficients": (
            ("band", "document", "mode"),
            _modes_padded([p.coefficients for p in pods], options.modes, 1),
        ),
    }
    if field.documents <= KEPT_GRAM:
        data[f"{prefix}gram"] = (("band", "document", "other_document"), np.stack([p.gram for p in pods]))
    return xr.merge(
        [xr.Dataset(data), _measures_dataset(prefix, measures, options)], join="outer", compat="no_conflicts"
    )


def _measures_dataset(prefix: str, measures: list[Measures], options: Options) -> xr.Dataset:
    data: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for name in SCALAR_MEASURES:
        data[f"{prefix}{name}"] = (("band",), np.array([m.values[name] for m in measures]))
        statuses = [m.statuses[name] for m in measures]
        data[f"{prefix}{name}_status"] = (("band",), np.array(statuses, dtype=object))
    dims = ("band", "tolerance")
    data[f"{prefix}effective_rank"] = (dims, np.stack([m.effective_rank for m in measures]))
    data[f"{prefix}effective_rank_status"] = (dims, np.array([m.effective_rank_status for m in measures], dtype=object))
    return xr.Dataset(data, coords={"tolerance": np.array(options.tolerances)})


def _field_dataset(field: LagField, passed: FieldPass, pod: Pod, min_query: int) -> xr.Dataset:
    geometry = field.geometry
    by_query = np.bincount(geometry.entry_query, weights=passed.energy, minlength=geometry.queries)
    used = geometry.query_mask(min_query)
    fluctuation = float(passed.energy[used].sum())
    total = fluctuation + float((passed.mean[used] ** 2).sum())
    early = geometry.entry_query < max(1, geometry.queries // 8)
    first = pod.modes[0].astype(np.float64)
    whole = float(by_query.sum())
    return xr.Dataset(
        {
            "packed_mean_field": ("entry", passed.mean.astype(field.values.dtype)),
            "fluctuation_level": ((), fluctuation / total if total > 0 else np.nan),
            "energy_by_query": ("query", by_query / whole if whole > 0 else np.full(geometry.queries, np.nan)),
            "early_share": ((), float((first[early] ** 2).sum())),
        },
        coords={
            "lag": field.lags,
            "query": np.arange(geometry.queries),
            "key": np.arange(geometry.keys),
            "document": np.arange(field.documents),
        },
    )


def _energy_outside(energy: FloatArray, rows: LagRows, windows: FloatArray, lags: IntArray) -> float:
    """``1 - sum_d e(d) max_m w_m(d)^2 / sum_d e(d)``."""
    total = float(energy.sum())
    if not total > 0:
        return float("nan")
    covered = np.zeros(rows.lags.size)
    shared = np.isin(rows.lags, lags)
    covered[shared] = windows[:, np.searchsorted(lags, rows.lags[shared])].max(axis=0) ** 2
    return 1.0 - float((energy * covered).sum()) / total


def _coherence_dataset(field: LagField, options: Options, bands: list[Band], found: Spectra) -> xr.Dataset:
    """Coherence at the scale of the first band; of an octave band at the scale whose wavelength is its lag."""
    scale = np.full(len(bands), np.nan)
    if field.geometry.queries != field.geometry.keys or field.geometry.max_lag is not None:
        return xr.Dataset({"coherence_scale": ("band", scale)})
    first = bands[0]
    wanted = first.scale
    if first.octaves:
        wanted = float(found.scales[np.abs(np.log(found.wavelengths / max(first.lag, 1.0))).argmin()])
    scale[0] = wanted
    published = options.preset == "published"
    gamma = field_coherence(
        field,
        wanted,
        omega0=options.omega0,
        of="raw" if published else "fluctuation",
        length=2 * field.geometry.keys if published else None,
    )
    pack = field.geometry.pack
    return xr.Dataset(
        {
            "coherence_scale": ("band", scale),
            "packed_coherence": ("entry", pack(np.abs(gamma)).astype(np.float32)),
            "packed_coherence_phase": ("entry", pack(np.angle(gamma)).astype(np.float32)),
        }
    )


def _ranks(field: LagField, rows: LagRows) -> int:
    """Length of the rank axis: N - 1, or the number of lags of the lag POD where that is larger."""
    return max(1, field.documents - 1, rows.lags.size)


def _padded(eigenvalues: FloatArray, ranks: int) -> FloatArray:
    return np.concatenate([eigenvalues, np.zeros(ranks - eigenvalues.size)])


def _modes_padded(arrays: list[FloatArray], count: int, axis: int) -> FloatArray:
    """Stack arrays of modes, NaN where the ensemble has fewer than ``count``."""
    stacked = np.stack(arrays)
    missing = count - stacked.shape[axis + 1 if axis == 0 else 2]
    if missing <= 0:
        return stacked
    shape = list(stacked.shape)
    where = axis + 1 if axis == 0 else 2
    shape[where] = missing
    return np.concatenate([stacked, np.full(shape, np.nan, dtype=stacked.dtype)], axis=where)


def _describe(data: xr.Dataset, field: LagField, options: Options, rows: LagRows, found: Spectra) -> xr.Dataset:
    """Coordinates of ranks and modes, attributes of every variable, parameters of the node."""
    data = data.assign_coords(rank=np.arange(1, data.sizes["rank"] + 1), mode=np.arange(1, data.sizes["mode"] + 1))
    spectral = {"omega0": options.omega0, "edges": found.edges}
    windowed = {"window": options.window, "min_query": query_start(field, options)}
    for name, variable in data.variables.items():
        base = str(name)
        extra: dict[str, object] = {}
        if base.startswith(("scalogram", "spectrum", "peak", "dominant")):
            extra = {"field": "raw" if options.preset == "published" else rows.field, **spectral}
        elif base.startswith(("octave", "lag_", "median", "near", "far", "energy_outside")):
            extra = {"field": rows.field}
        elif "coherence" in base:
            extra = {"field": "raw", "part": "total" if options.preset == "published" else "fluctuation", **spectral}
        elif base not in data.coords:
            extra = {"field": "raw" if options.sink_pod == "keep" else "masked", **windowed}
        variable.attrs.update(attributes(base, **extra))
    geometry = field.geometry
    data.attrs.update(
        queries=geometry.queries,
        keys=geometry.keys,
        causal=int(geometry.causal),
        documents=field.documents,
        octaves=octave_count(rows.distances),
        edges=found.edges,
        min_query=query_start(field, options),
        full_row_first=int(rows.queries[0]) if rows.queries.size else -1,
        full_rows=int(rows.queries.size),
    )
    if geometry.max_lag is not None:
        data.attrs["max_lag"] = geometry.max_lag
    return data


__all__ = ["analyze_field", "lag_windows", "on_axis", "query_start"]
