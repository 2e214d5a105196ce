"""Null models beside the trained one: what architecture, word order, or the lag spectrum alone give."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from eddyscope.ensemble import AttentionEnsemble
from eddyscope.errors import EddyscopeWarning, InputError, UsageError
from eddyscope.kernels.laggroups import lag_groups
from eddyscope.kernels.lagstats import take_out_mean
from eddyscope.kernels.morlet import lag_transform
from eddyscope.lagfield import FloatArray, LagGeometry
from eddyscope.schema import attributes
from eddyscope.statistics import AttentionStatistics
from eddyscope.study.analyze import analyze
from eddyscope.study.nulltable import comparisons, from_spectrum, table_of
from eddyscope.study.options import Options, make_options, masked_keys
from eddyscope.study.rows import LagAxis, lag_rows
from eddyscope.study.sample import sample_of
from eddyscope.study.study import Study
from eddyscope.trust.nulls import random_phases, shuffled_documents, uniform_rows

NULLS = ("twin", "shuffled", "uniform", "phases")
#: Untrained twins, since documents say nothing about other initialisations.
SEEDS = 3

Progress = Callable[[str, int, int], None]


def null_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Null models by name, checked: a sequence, or names joined by commas."""
    given = tuple(n.strip() for n in names.split(",")) if isinstance(names, str) else tuple(names)
    for name in given:
        if name not in NULLS:
            raise UsageError(f"null must be among {', '.join(NULLS)}, got {name!r}.")
    return tuple(dict.fromkeys(given))


def run_nulls(
    study: Study,
    ensemble: AttentionEnsemble | AttentionStatistics,
    nulls: str | Sequence[str] = ("twin", "shuffled"),
    *,
    model: Any = None,
    seeds: int = SEEDS,
    capturing: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Study:
    """Analyse null models like the trained one and put them beside it.

    Parameters
    ----------
    study : Study
        Of the ensemble.
    ensemble : AttentionEnsemble or AttentionStatistics
        Of statistics ``phases`` cannot be had.
    nulls : sequence of str
        ``twin``: the same architecture with fresh weights, several seeds, on the same documents. ``shuffled``: the
        trained model on documents whose tokens were permuted. ``phases``: the fluctuation with random phases along
        lag, one phase vector a document; it has lag statistics alone. ``uniform``: uniform attention over the allowed
        keys, which has a mean and no fluctuation.
    model : torch.nn.Module, optional
        Needed for ``twin`` and ``shuffled``.
    seeds : int
        Twins.
    capturing : mapping, optional
        Arguments of :func:`eddyscope.capture` that the ensemble was captured with.
    progress : callable, optional
        Called with (what is analysed, number done, number of all).

    Returns
    -------
    Study
        With the variables ``null_value(null, null_measure)`` and so on, see :func:`comparisons`.

    Raises
    ------
    UsageError
        For a null model that there is not.
    InputError
        Where ``twin`` or ``shuffled`` is asked for without a model or documents, or the study has no intervals.
    """
    names = null_names(nulls)
    options = make_options(**study.provenance["analysis"])
    if not all("field_measure_replicates" in study.packed(name) for name in study.layers):
        raise InputError(
            "Null models are compared by their intervals, which this study does not have.",
            "Analyse with intervals, and at least 8 groups of documents.",
        )
    tables: dict[str, dict[str, xr.Dataset]] = {}
    jobs = list(_jobs(ensemble, names, model, seeds, options, dict(capturing or {})))
    for done, (label, job) in enumerate(jobs):
        if progress is not None:
            progress(label, done, len(jobs))
        tables[label] = job()
    if progress is not None:
        progress("", len(jobs), len(jobs))
    layers = {name: study.packed(name) for name in study.layers}
    if tables:
        layers = comparisons(layers, tables)
    if "uniform" in names:
        layers = {name: _with_uniform(data, _axes(ensemble, name, options), options) for name, data in layers.items()}
    tree = xr.DataTree.from_dict(
        {"/": study.data.to_dataset(inherit=False), **{f"/{name}": data for name, data in layers.items()}}
    )
    return Study(tree, {**study.provenance, "nulls": {"names": list(names), "seeds": seeds}}, study.documents)


def _jobs(
    ensemble: AttentionEnsemble | AttentionStatistics,
    names: tuple[str, ...],
    model: Any,
    seeds: int,
    options: Options,
    capturing: dict[str, Any],
) -> Iterator[tuple[str, Callable[[], dict[str, xr.Dataset]]]]:
    """Label of each null model, and what computes its tables."""
    documents = ensemble.documents
    needing = [n for n in names if n in ("twin", "shuffled")]
    if needing and (model is None or documents is None):
        missing = "a model" if model is None else "documents"
        raise InputError(
            f"The null model {needing[0]} needs {missing}, and only attention was given.",
            "Run from a model and a text, or use the null models phases and uniform.",
        )
    if "twin" in names:
        for seed in range(seeds):
            yield f"twin {seed}", partial(_twin, model, seed, ensemble, options, capturing)
    if "shuffled" in names:
        assert documents is not None
        shuffled = shuffled_documents(documents, options.seed)
        yield "shuffled", partial(_captured, model, shuffled, ensemble, options, capturing)
    if "phases" in names:
        if isinstance(ensemble, AttentionStatistics):
            raise InputError(
                "The null model phases needs the rows of all documents, and only statistics were kept.",
                "Leave it out, or capture with keep='fields' (--keep fields).",
            )
        yield "phases", partial(_phases, ensemble, options)


def _twin(
    model: Any,
    seed: int,
    ensemble: AttentionEnsemble | AttentionStatistics,
    options: Options,
    capturing: dict[str, Any],
) -> dict[str, xr.Dataset]:
    from eddyscope.models import untrained_twin

    return _captured(untrained_twin(model, seed), ensemble.documents, ensemble, options, capturing)


def _captured(
    model: Any,
    documents: Any,
    ensemble: AttentionEnsemble | AttentionStatistics,
    options: Options,
    capturing: dict[str, Any],
) -> dict[str, xr.Dataset]:
    """Tables of another model, or of other documents."""
    from eddyscope.capture import capture

    with warnings.catch_warnings():  # what there is to say was said of the trained model
        warnings.simplefilter("ignore", EddyscopeWarning)
        captured = capture(model, documents, **(capturing | {"checks": False, "layers": list(ensemble.layers)}))
        lean = options.as_dict() | {"modes": 1, "dominant": 1}
        study = analyze(captured, **lean)
    return {name: table_of(study.packed(name)) for name in study.layers}


def _phases(ensemble: AttentionEnsemble, options: Options) -> dict[str, xr.Dataset]:
    """Tables of the fluctuation with random phases along lag: lag POD alone."""
    sample = sample_of(ensemble)
    tables = {}
    for name, field in ensemble.fields.items():
        of_heads = []
        for label in field.heads:
            rows = lag_rows(field.select_head(label), options.sink, options.max_lag)
            for lag in range(rows.lags.size):
                take_out_mean(rows.values[lag])
            assert sample.groups is not None
            sums = lag_groups(random_phases(rows.values, options.seed), sample.groups)
            of_heads.append(from_spectrum(sums, options.tolerances))
        whole = field.heads == ("mean",)
        tables[name] = of_heads[0] if whole else xr.concat(of_heads, "head")
    return tables


def _axes(
    ensemble: AttentionEnsemble | AttentionStatistics, name: str, options: Options
) -> tuple[tuple[str, ...], LagGeometry, list[LagAxis]]:
    """Labels of a layer's heads, its geometry, and the lags and queries of each head's lag statistics."""
    if isinstance(ensemble, AttentionStatistics):
        heads = ensemble.layers_of[name]
        parts = [head.lags(options.sink) for head in heads.values()]
        axes = [part.axis for part in parts if part is not None]
        return tuple(heads), next(iter(heads.values())).geometry, axes
    field = ensemble.fields[name]
    rows = [lag_rows(field.select_head(label), options.sink, options.max_lag) for label in field.heads]
    return field.heads, field.geometry, [own.axis for own in rows]


def _with_uniform(
    data: xr.Dataset, of: tuple[tuple[str, ...], LagGeometry, list[LagAxis]], options: Options
) -> xr.Dataset:
    """The layer with ``uniform_spectrum(scale)``: energy spectrum of uniform attention."""
    labels, geometry, axes = of
    heads = [_uniform_spectrum(axis, geometry, data, options) for axis in axes]
    dims, values = (("scale",), heads[0]) if labels == ("mean",) else (("head", "scale"), np.stack(heads))
    return data.assign(uniform_spectrum=(dims, values, attributes("uniform_spectrum", units_of="energy")))


def _uniform_spectrum(axis: LagAxis, geometry: LagGeometry, data: xr.Dataset, options: Options) -> FloatArray:
    scales = tuple(float(a) for a in data["scale"].values)
    if not axis.queries.size or options.preset is not None:
        return np.full(len(scales), np.nan)
    uniform = uniform_rows(axis.lags, axis.queries, geometry.keys, geometry.causal, masked_keys(options.sink))
    transform = lag_transform(axis.lags.size, scales, options.omega0, str(data.attrs["edges"]), not geometry.causal)
    return np.asarray(transform.spectra((uniform @ uniform.T / axis.queries.size)[None])[0])
