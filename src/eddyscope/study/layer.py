"""The analysis of one field of one head, from packed snapshots to a Dataset."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from eddyscope.errors import InputError
from eddyscope.kernels.gram import FieldPass
from eddyscope.kernels.lagstats import lag_covariance
from eddyscope.kernels.peaks import Peak
from eddyscope.lagfield import FloatArray, IntArray, LagField
from eddyscope.schema import attributes
from eddyscope.study.bands import Band, band_windows, choose_bands, dominant_peaks
from eddyscope.study.coherence import field_coherence, field_pair_statistics
from eddyscope.study.lagpart import (
    Variables,
    budget_variables,
    lag_pod,
    spectra_variables,
)
from eddyscope.study.layertrust import Computed, layer_trust
from eddyscope.study.measures import NO_FLUCTUATION, SCALAR_MEASURES, Measures, measure
from eddyscope.study.modes import Pod, pod_of_windows
from eddyscope.study.options import Options
from eddyscope.study.published import EIGENVALUE_FLOOR, published_rows
from eddyscope.study.rows import CROSS, LagRows, full_range, lag_rows, mask_first_keys, no_rows
from eddyscope.study.sample import Sample
from eddyscope.study.spectra import Spectra, spectra
from eddyscope.study.topdocuments import top_document_variables

#: Shortest field that has a lag axis worth the name, in tokens.
MIN_LENGTH = 4
#: Grams are kept in a study up to this many documents.
KEPT_GRAM = 4000


def analyze_field(field: LagField, options: Options, sample: Sample, kind: str = "self") -> xr.Dataset:
    """All results of one head of one layer.

    Parameters
    ----------
    field : LagField
        One head.
    options : Options
    sample : Sample
        Without groups there are no intervals, and nothing else that resamples.
    kind : {"self", "cross"}
        Cross attention has no lags: what is along them is NaN, with the status ``cross attention``, and its one band
        is everything.

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
    cross = kind == "cross"
    rows = no_rows(field, options.max_lag) if cross else lag_rows(field, options.sink, options.max_lag)
    published = options.preset == "published" and not cross
    spectral_rows = published_rows(field, options.lags) if published else rows
    found = spectra(spectral_rows, options, field.causal, sample.groups)
    own = lag_covariance(rows.values, sample.groups) if published else found.covariance
    peaks = [] if published else dominant_peaks(found)
    bands = choose_bands(found, spectral_rows, options, peaks)
    windows = lag_windows(field, bands, spectral_rows, options)
    values = mask_first_keys(field, options.sink_pod)[0]
    min_query = query_start(field, options)
    weights = np.vstack([allowed_lags(field.lags, field.causal, options), windows])
    pods, passed = pod_of_windows(values, geometry, weights, options.modes, min_query)
    energy = np.diag(found.covariance.fluctuation)
    variables = {
        **_lag_variables(field, options, rows, spectral_rows, found, own.fluctuation, peaks),
        **_band_variables(bands),
        **_pod_variables(pods, options, sample, _ranks(field, rows)),
        **_field_variables(field, passed, pods[0], min_query),
        **top_document_variables(values, geometry, weights, pods, passed, min_query),
        "window": (("band", "lag"), windows),
        "energy_outside": ((), _energy_outside(energy, spectral_rows, windows, field.lags)),
        **_coherence_variables(field, options, bands, found, sample.groups is not None),
        "group": (("document",), np.full(field.documents, -1) if sample.groups is None else sample.groups),
    }
    if sample.groups is not None:
        computed = Computed(rows, own.groups, found, bands, pods, weights, passed, values, min_query, variables)
        variables |= layer_trust(field, options, sample, computed)
    return _dataset(variables, field, options, rows, found)


def _lag_variables(
    field: LagField,
    options: Options,
    rows: LagRows,
    spectral_rows: LagRows,
    found: Spectra,
    covariance: FloatArray,
    peaks: list[Peak],
) -> Variables:
    eigenvalues, modes = lag_pod(covariance, rows, field.lags, options.modes)
    assert field.first_key is not None and field.row_sum is not None
    _, first, stop = full_range(field, options.max_lag)
    if rows.none_left == CROSS:
        first, stop = 0, field.geometry.queries
    total = float(np.trace(found.covariance.total))
    measured = measure(
        eigenvalues,
        options.tolerances,
        samples=(field.documents - 1) * rows.queries.size,
        documents=field.documents,
        without_energy=NO_FLUCTUATION if rows.queries.size else rows.none_left,
    )
    return {
        **budget_variables(np.diag(covariance), rows, field.lags),
        **spectra_variables(found, spectral_rows, field.lags, peaks, options.omega0),
        "lag_eigenvalues": (("rank",), _padded(eigenvalues, _ranks(field, rows))),
        "lag_modes": (("mode", "lag"), modes),
        **_measure_variables("lag_", [measured], ()),
        "lag_fluctuation_level": ((), np.trace(found.covariance.fluctuation) / total if total > 0 else np.nan),
        "sink_mass": ((), float(field.first_key[:, 0, first:stop].mean())),
        "row_mass": ((), float(field.row_sum[:, 0].mean())),
        "queries_left_out": ((), rows.left_out),
    }


def _band_variables(bands: list[Band]) -> Variables:
    def column(name: str) -> tuple[tuple[str, ...], FloatArray]:
        return ("band",), np.array([getattr(b, name) for b in bands], dtype=np.float64)

    return {
        "band": (("band",), np.arange(len(bands))),
        "band_label": (("band",), np.array([b.label for b in bands], dtype=object)),
        "dominant_scale": column("scale"),
        "dominant_wavelength": column("wavelength"),
        "dominant_lag": column("lag"),
        "band_first": column("first"),
        "band_last": column("last"),
        "status": (("band",), np.array([b.status for b in bands], dtype=object)),
    }


def _pod_variables(pods: list[Pod], options: Options, sample: Sample, ranks: int) -> Variables:
    return {
        **_decomposition_variables("", pods[1:], ("band",), options, sample, ranks),
        **_decomposition_variables("field_", pods[:1], (), options, sample, ranks),
    }


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
    windows = band_windows(bands, np.abs(field.lags), rows.octaves, options.window)
    return windows * allowed_lags(field.lags, field.causal, options)


def allowed_lags(lags: IntArray, causal: bool, options: Options) -> FloatArray:
    """1 for the lags that enter the POD, 0 for others."""
    allowed = np.ones(lags.size)
    if options.max_lag is not None:
        allowed[np.abs(lags) >= options.max_lag + (0 if causal else 1)] = 0
    if options.preset == "published":  # the script's window is zero on the other side of lag 0
        allowed[(lags < 0) if options.lags == "back" else (lags > 0)] = 0
    return allowed


def _decomposition_variables(
    prefix: str, pods: list[Pod], dims: tuple[str, ...], options: Options, sample: Sample, ranks: int
) -> Variables:
    """Eigenvalues, modes, coefficients and measures; ``dims`` is ("band",), or () for the one without a window."""
    floor = EIGENVALUE_FLOOR if options.preset == "published" else None
    measures = [
        measure(
            p.eigenvalues,
            options.tolerances,
            gram=sample.gram(p.gram),
            absolute_floor=floor,
            samples=max(1, sample.distinct.size - 1),
        )
        for p in pods
    ]

    def stacked(arrays: list[FloatArray]) -> FloatArray:
        return np.stack(arrays) if dims else arrays[0]

    count = options.modes
    variables: Variables = {
        f"{prefix}eigenvalues": ((*dims, "rank"), stacked([_padded(p.eigenvalues, ranks) for p in pods])),
        f"packed_{prefix}modes": ((*dims, "mode", "entry"), stacked([_filled(p.modes, count) for p in pods])),
        f"{prefix}mode_profile": ((*dims, "mode", "lag"), stacked([_filled(p.profiles, count) for p in pods])),
        f"{prefix}coefficients": (
            (*dims, "document", "mode"),
            stacked([_filled(p.coefficients.T, count).T for p in pods]),
        ),
        **_measure_variables(prefix, measures, dims),
    }
    if pods[0].gram.shape[0] <= KEPT_GRAM:
        variables[f"{prefix}gram"] = ((*dims, "document", "other_document"), stacked([p.gram for p in pods]))
    return variables


def _measure_variables(prefix: str, measures: list[Measures], dims: tuple[str, ...]) -> Variables:
    def shaped(values: list[Any], dtype: type) -> np.ndarray:
        return np.array(values if dims else values[0], dtype=dtype)

    variables: Variables = {}
    for name in SCALAR_MEASURES:
        variables[f"{prefix}{name}"] = (dims, shaped([m.values[name] for m in measures], float))
        variables[f"{prefix}{name}_status"] = (dims, shaped([m.statuses[name] for m in measures], object))
    of_rank = (*dims, "tolerance")
    variables[f"{prefix}effective_rank"] = (of_rank, shaped([m.effective_rank for m in measures], float))
    statuses = [m.effective_rank_status for m in measures]
    variables[f"{prefix}effective_rank_status"] = (of_rank, shaped(statuses, object))
    return variables


def _field_variables(field: LagField, passed: FieldPass, pod: Pod, min_query: int) -> Variables:
    geometry = field.geometry
    by_query = np.bincount(geometry.entry_query, weights=passed.energy, minlength=geometry.queries)
    used = geometry.query_mask(min_query)
    fluctuation = float(passed.energy[used].sum())
    total = fluctuation + float((passed.mean[used] ** 2).sum())
    early = geometry.entry_query < max(1, geometry.queries // 8)
    first = pod.modes[0].astype(np.float64)
    whole = float(by_query.sum())
    kept = np.float64 if field.values.dtype == np.float64 else np.float32
    return {
        "packed_mean_field": (("entry",), passed.mean.astype(kept)),
        "fluctuation_level": ((), fluctuation / total if total > 0 else np.nan),
        "energy_by_query": (("query",), by_query / whole if whole > 0 else np.full(geometry.queries, np.nan)),
        "early_share": ((), float((first[early] ** 2).sum())),
    }


def _energy_outside(energy: FloatArray, rows: LagRows, windows: FloatArray, lags: IntArray) -> float:
    """``1 - sum_d e(d) max_m w_m(d)^2 / sum_d e(d)``."""
    total = float(energy.sum())
    if not total > 0:
        return float("nan")
    covered = np.zeros(rows.lags.size)
    shared = np.isin(rows.lags, lags)
    covered[shared] = windows[:, np.searchsorted(lags, rows.lags[shared])].max(axis=0) ** 2
    return 1.0 - float((energy * covered).sum()) / total


def _coherence_variables(
    field: LagField, options: Options, bands: list[Band], found: Spectra, against_chance: bool
) -> Variables:
    """Coherence at the scale of the first band; of an octave band at the scale whose wavelength is its lag."""
    scale = np.full(len(bands), np.nan)
    if not field.geometry.whole or bands[0].whole:
        return {"coherence_scale": (("band",), scale)}
    first = bands[0]
    wanted = first.scale
    if first.octaves:
        wanted = float(found.scales[np.abs(np.log(found.wavelengths / max(first.lag, 1.0))).argmin()])
    scale[0] = wanted
    published = options.preset == "published"
    pack = field.geometry.pack
    beside: Variables = {}
    if against_chance and not published:
        pairs = field_pair_statistics(field, wanted, omega0=options.omega0)
        gamma = pairs.coherence
        for name in ("coherence_chance", "phase_consistency", "amplitude_correlation"):
            values = getattr(pairs, name.removeprefix("coherence_"))
            beside[f"packed_{name}"] = (("entry",), pack(values).astype(np.float32))
    else:
        gamma = field_coherence(
            field,
            wanted,
            omega0=options.omega0,
            of="raw" if published else "fluctuation",
            length=2 * field.geometry.keys if published else None,
        )
    return {
        **beside,
        "coherence_scale": (("band",), scale),
        "packed_coherence": (("entry",), pack(np.abs(gamma)).astype(np.float32)),
        "packed_coherence_phase": (("entry",), pack(np.angle(gamma)).astype(np.float32)),
    }


def _ranks(field: LagField, rows: LagRows) -> int:
    """Length of the rank axis: N - 1, or the number of lags of the lag POD where that is larger."""
    return max(1, field.documents - 1, rows.lags.size)


def _padded(eigenvalues: FloatArray, ranks: int) -> FloatArray:
    rest = np.nan if eigenvalues.size and np.isnan(eigenvalues).all() else 0.0  # unknown, or past the rank
    return np.concatenate([eigenvalues, np.full(ranks - eigenvalues.size, rest)])


def _filled(patterns: FloatArray, count: int) -> FloatArray:
    """Bring (mode, ...) to ``count`` modes, NaN where the ensemble has fewer."""
    missing = count - patterns.shape[0]
    if missing <= 0:
        return patterns
    return np.concatenate([patterns, np.full((missing, *patterns.shape[1:]), np.nan, dtype=patterns.dtype)])


#: Variables that label an axis, or stand beside the one that does.
COORDINATES = (
    "octave", "octave_last", "side", "part", "normalisation", "scale", "wavelength", "scale_status", "band",
    "band_label", "lag", "query", "key", "document", "rank", "mode", "tolerance",
    "measure", "quantity", "fraction", "resolved_rank", "jackknife_group", "sink_measure", "documents_at", "top_mode",
)  # fmt: skip


def _dataset(variables: Variables, field: LagField, options: Options, rows: LagRows, found: Spectra) -> xr.Dataset:
    """Variables with their attributes, coordinates, and the parameters of the node."""
    geometry = field.geometry
    variables = {
        **variables,
        "lag": (("lag",), field.lags),
        "query": (("query",), np.arange(geometry.queries)),
        "key": (("key",), np.arange(geometry.keys)),
        "document": (("document",), np.arange(field.documents)),
        "rank": (("rank",), np.arange(1, _ranks(field, rows) + 1)),
        "mode": (("mode",), np.arange(1, options.modes + 1)),
        "tolerance": (("tolerance",), np.array(options.tolerances)),
    }
    described = {
        name: (dims, values, _attributes(name, field, options, rows, found))
        for name, (dims, values) in variables.items()
    }
    coords = {name: described.pop(name) for name in COORDINATES if name in described}
    return xr.Dataset(described, coords, _node_attributes(field, options, rows, found))


def _attributes(name: str, field: LagField, options: Options, rows: LagRows, found: Spectra) -> dict[str, Any]:
    """Description and units of a variable, and which field and parameters it was made with."""
    published = options.preset == "published"
    spectral = {"omega0": options.omega0, "edges": found.edges}
    extra: dict[str, Any] = {}
    if name.startswith(("scalogram", "spectrum", "peak", "dominant")):
        extra = {"field": "raw" if published else rows.field, **spectral}
    elif name.startswith(("octave_", "lag_", "median", "near", "far", "energy_outside")):
        extra = {"field": rows.field}
    elif "coherence" in name or name.endswith(("phase_consistency", "amplitude_correlation")):
        extra = {"field": "raw", "part": "total" if published else "fluctuation", **spectral}
    elif name not in COORDINATES:
        kind = "raw" if options.sink_pod == "keep" else "masked"
        extra = {"field": kind, "window": options.window, "min_query": query_start(field, options)}
    return attributes(name, **extra)


def _node_attributes(field: LagField, options: Options, rows: LagRows, found: Spectra) -> dict[str, Any]:
    geometry = field.geometry
    attrs: dict[str, Any] = {
        "queries": geometry.queries,
        "keys": geometry.keys,
        "causal": int(geometry.causal),
        "documents": field.documents,
        "edges": found.edges,
        "min_query": query_start(field, options),
        "full_row_first": int(rows.queries[0]) if rows.queries.size else -1,
        "full_rows": int(rows.queries.size),
    }
    if geometry.max_lag is not None:
        attrs["max_lag"] = geometry.max_lag
    return attrs
