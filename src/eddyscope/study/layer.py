"""The analysis of one head of one layer, from packed snapshots or from statistics of them to a Dataset."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from eddyscope.errors import InputError
from eddyscope.kernels.fieldmoments import by_query, field_moments
from eddyscope.kernels.lagstats import lag_moments
from eddyscope.lagfield import LagField, LagGeometry
from eddyscope.schema import attributes
from eddyscope.study.headstats import FieldSource, HeadStatistics, LagPart, LagSource
from eddyscope.study.laganalysis import LagAnalysis, allowed_lags, analyze_lags, query_start, rank_count
from eddyscope.study.lagpart import Variables
from eddyscope.study.layertrust import Decomposed, lag_trust, no_pod_trust, pod_trust
from eddyscope.study.measures import NOT_KEPT
from eddyscope.study.modes import pod_of_windows
from eddyscope.study.options import Options, masked_keys
from eddyscope.study.podpart import (
    coherence_variables,
    early_share,
    field_variables,
    no_pod_variables,
    pod_variables,
)
from eddyscope.study.published import published_rows
from eddyscope.study.rows import mask_first_keys
from eddyscope.study.sample import Sample
from eddyscope.study.topdocuments import top_document_variables

#: Shortest field that has a lag axis worth the name, in tokens.
MIN_LENGTH = 4


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
    check_length(geometry)
    source = FieldSource(field, sample.groups, options.max_lag, kind)
    spectral = None
    if options.preset == "published" and kind != "cross":
        rows = published_rows(field, options.lags)
        spectral = LagPart(rows.axis, lag_moments(rows.values, sample.groups))
    lags = analyze_lags(source, options, sample.groups is not None, spectral)
    values, min_query = mask_first_keys(field, options.sink_pod)[0], query_start(geometry, options)
    weights = np.vstack([allowed_lags(field.lags, field.causal, options), lags.windows])
    pods, passed = pod_of_windows(values, geometry, weights, options.modes, min_query)
    raw = passed if masked_keys(options.sink_pod) == 0 else None  # coherence is that of the field as it is
    kept = np.float64 if field.values.dtype == np.float64 else np.float32
    variables = {
        **lags.variables,
        **pod_variables(pods, options, sample, rank_count(source, lags.axis)),
        **field_variables(geometry, passed.mean, by_query(passed.energy, geometry), min_query),
        "packed_mean_field": (("entry",), passed.mean.astype(kept)),
        "early_share": ((), early_share(geometry, pods[0])),
        **top_document_variables(values, geometry, weights, pods, passed, min_query),
        **coherence_variables(field, options, lags.bands, lags.found, sample.groups is not None, raw),
        **group_variables(sample),
    }
    if sample.groups is not None:
        level = None
        if (weights[0] == 1).all():  # else the POD lacks the energy of some lags
            moments = field_moments(values, geometry, sample.groups)
            level = moments.level(geometry.query_mask(min_query), min_query)
        computed = Decomposed(geometry, pods, weights, passed, min_query)
        variables |= pod_trust(options, sample, computed, variables)
        variables |= lag_trust(source, options, sample, lags, level, variables)
    return layer_dataset(variables, source, options, lags)


def analyze_statistics(head: HeadStatistics, options: Options, sample: Sample) -> xr.Dataset:
    """The same from statistics: what only fields can tell is NaN, with the status ``fields not kept``.

    Parameters
    ----------
    head : HeadStatistics
    options : Options
    sample : Sample
    """
    geometry, by_group = head.geometry, sample.groups is not None
    check_length(geometry)
    lags = analyze_lags(head, options, by_group)
    min_query, bands = query_start(geometry, options), len(lags.bands)
    ranks = rank_count(head, lags.axis)
    variables = {
        **lags.variables,
        **no_pod_variables(options, bands, ranks, geometry.lags.size),
        **field_variables(geometry, head.field.mean, head.field.energy_by_query(geometry), min_query),
        **group_variables(sample),
    }
    if sample.groups is not None:
        level = head.field.level(geometry.query_mask(min_query), min_query)
        variables |= no_pod_trust(options, head.masses.counts.size, bands, NOT_KEPT, variables)
        variables |= lag_trust(head, options, sample, lags, level, variables)
    return layer_dataset(variables, head, options, lags)


def check_length(geometry: LagGeometry) -> None:
    """Refuse a field that has no lag axis worth the name."""
    if min(geometry.queries, geometry.keys) < MIN_LENGTH:
        raise InputError(
            f"Attention has {geometry.queries} queries and {geometry.keys} keys; an analysis along the lag needs at "
            f"least {MIN_LENGTH} tokens.",
            "Capture with a longer context.",
        )


def group_variables(sample: Sample) -> Variables:
    """Jackknife group of each document."""
    groups = np.full(sample.blocks.size, -1) if sample.groups is None else sample.groups
    return {"group": (("document",), groups)}


#: Variables that label an axis, or stand beside the one that does.
COORDINATES = (
    "octave", "octave_last", "side", "part", "normalisation", "scale", "wavelength", "scale_status", "band",
    "band_label", "lag", "query", "key", "document", "rank", "mode", "tolerance",
    "measure", "quantity", "fraction", "resolved_rank", "jackknife_group", "sink_measure", "documents_at", "top_mode",
)  # fmt: skip


def layer_dataset(variables: Variables, source: LagSource, options: Options, lags: LagAnalysis) -> xr.Dataset:
    """Variables with their attributes, coordinates, and the parameters of the node."""
    geometry = source.geometry
    variables = {
        **variables,
        "lag": (("lag",), geometry.lags),
        "query": (("query",), np.arange(geometry.queries)),
        "key": (("key",), np.arange(geometry.keys)),
        "document": (("document",), np.arange(source.documents)),
        "rank": (("rank",), np.arange(1, rank_count(source, lags.axis) + 1)),
        "mode": (("mode",), np.arange(1, options.modes + 1)),
        "tolerance": (("tolerance",), np.array(options.tolerances)),
    }
    # fastpath: without it every array of strings is searched for dates, at half of the cost of the Dataset
    described = {
        name: xr.Variable(dims, np.asarray(values), _attributes(name, geometry, options, lags), fastpath=True)
        for name, (dims, values) in variables.items()
    }
    coords = {name: described.pop(name) for name in COORDINATES if name in described}
    return xr.Dataset(described, coords, _node_attributes(source, options, lags))


def _attributes(name: str, geometry: LagGeometry, options: Options, lags: LagAnalysis) -> dict[str, Any]:
    """Description and units of a variable, and which field and parameters it was made with."""
    published = options.preset == "published"
    spectral = {"omega0": options.omega0, "edges": lags.found.edges}
    extra: dict[str, Any] = {}
    if name.startswith(("scalogram", "spectrum", "peak", "dominant")):
        extra = {"field": "raw" if published else lags.axis.field, **spectral}
    elif name.startswith(("octave_", "lag_", "median", "near", "far", "energy_outside")):
        extra = {"field": lags.axis.field}
    elif "coherence" in name or name.endswith(("phase_consistency", "amplitude_correlation")):
        extra = {"field": "raw", "part": "total" if published else "fluctuation", **spectral}
    elif name not in COORDINATES:
        kind = "raw" if options.sink_pod == "keep" else "masked"
        extra = {"field": kind, "window": options.window, "min_query": query_start(geometry, options)}
    return attributes(name, **extra)


def _node_attributes(source: LagSource, options: Options, lags: LagAnalysis) -> dict[str, Any]:
    geometry, queries = source.geometry, lags.axis.queries
    attrs: dict[str, Any] = {
        "queries": geometry.queries,
        "keys": geometry.keys,
        "causal": int(geometry.causal),
        "documents": source.documents,
        "edges": lags.found.edges,
        "min_query": query_start(geometry, options),
        "full_row_first": int(queries[0]) if queries.size else -1,
        "full_rows": int(queries.size),
    }
    if geometry.max_lag is not None:
        attrs["max_lag"] = geometry.max_lag
    return attrs
