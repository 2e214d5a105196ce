"""From an ensemble to a study."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from eddyscope.budget import budget_bytes
from eddyscope.ensemble import AttentionEnsemble
from eddyscope.errors import EddyscopeWarning, InputError
from eddyscope.fieldstore import FieldStore
from eddyscope.lagfield import LagField
from eddyscope.schema import FORMAT_VERSION
from eddyscope.statistics import AttentionStatistics
from eddyscope.study.blocklayer import layer_in_blocks, sample_in_blocks
from eddyscope.study.blockplan import BlockPlan, plan_blocks
from eddyscope.study.heads import with_heads
from eddyscope.study.layer import analyze_field, analyze_statistics
from eddyscope.study.options import Options, make_options, refuse_overridden
from eddyscope.study.sample import Sample, sample_of
from eddyscope.study.sidebyside import side_by_side, threads_for
from eddyscope.study.study import Study


def analyze(
    ensemble: AttentionEnsemble | AttentionStatistics | FieldStore,
    preset: str | None = None,
    scales: Sequence[float] | None = None,
    omega0: float = 6.0,
    dominant: int = 4,
    select: str | Sequence[float] = "peaks",
    window: str = "band",
    modes: int = 8,
    edges: str | None = None,
    sink: str = "mask",
    sink_pod: str = "keep",
    min_query: int | None = None,
    max_lag: int | None = None,
    lags: str = "back",
    tolerances: Sequence[float] = (0.10, 0.05, 0.01),
    intervals: bool = True,
    seed: int = 0,
    pod: str = "exact",
    power_iterations: int = 4,
    memory_budget: int | str | None = None,
    scratch: str | Path | None = None,
    workers: int | None = None,
    dask: Any = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Study:
    """At which distances does each layer work, which patterns recur, how many does it need.

    Parameters
    ----------
    ensemble : AttentionEnsemble, FieldStore or AttentionStatistics
        A store gives its fields layer by layer. Of statistics everything along the lag is computed as of fields; what
        needs fields (POD of the field and of bands, coherence) is NaN, with the status ``fields not kept``.
    preset : {"published"}, optional
        The published script's conventions. It fixes omega0, select, window, edges, sinks, min_query and max_lag;
        another value given beside it is an error.
    scales : sequence of float, optional
        Scales of the scalogram in tokens, ascending; by default eight an octave between the Nyquist limit and the
        edges.
    omega0 : float
        Centre frequency of the Morlet wavelet, radians.
    dominant : int
        Most bands that ``select="peaks"`` or ``"top"`` gives.
    select : {"peaks", "top", "octaves", "bands"} or sequence of float
        Which bands are analysed: dominant scales (octaves denser than flat where none counts), the largest values of
        the spectrum, all octaves, fine / medium / coarse by terciles of the energy, or the given scales (tokens).
    window : {"band", "lowpass", "octaves"}
        Lag window of a band.
    modes : int
        POD modes kept of each band.
    edges : {"reflect", "zero", "replicate"}, optional
        What stands beyond the lag axis; reflect for causal, zero for two-sided fields by default.
    sink : {"mask", "keep"} or "first=K"
        Mask key 0 (or the first K keys) before lag statistics, or not. Scores (``unnormalised``) are never masked.
    sink_pod : {"keep", "mask"} or "first=K"
        The same for the field POD.
    min_query : int, optional
        First query of the field POD; L/8 for causal fields, 0 for two-sided ones.
    max_lag : int, optional
        Lags below it (causal) or up to it (two-sided) are analysed.
    lags : {"back", "ahead"}
        ``ahead`` only with the published preset: it reads the masked half of a causal field, with a warning.
    tolerances : sequence of float
        Shares of the energy that the effective rank may miss.
    intervals : bool
        False leaves out everything that resamples: intervals, resolved exponents, brackets, convergence, sinks. Bands
        then have the status ``untested``.
    seed : int
        Of everything random; kept in the study.
    pod : {"exact", "randomized"}
        ``randomized`` takes the leading 200 eigenpairs of the field POD from a random sketch in blocks of documents. It
        is approximate, which every output says; the largest relative difference from exact eigenvalues on a sample of
        1,000 documents is kept in the study.
    power_iterations : int
        Of the randomized POD, at least 4.
    memory_budget : int or str, optional
        Memory that the process may take, in bytes or as ``"2GB"``. A layer whose analysis is estimated to take more is
        analysed in blocks of documents, with its fields and Grams in scratch files: up to 4,000 documents with the same
        results, beyond with the leading 200 eigenvalues of the field POD and their exact sum. By default what the
        machine has left; fields on disk of more than 4,000 documents are analysed in blocks in any case.
    scratch : str or Path, optional
        Where to make the folder for scratch files, which is removed at the end; that for temporary files by default.
    workers : int, optional
        Processes on this machine that share the layers, one thread each. Needs the extra ``cluster``.
    dask : str or distributed.Client, optional
        In place of ``workers``: address of the scheduler of a Dask cluster that is there, or a client of it. Fields on
        disk are read by its workers, which must see the store; others travel to them.
    progress : callable, optional
        Called with (layer, number done, number of all).

    Returns
    -------
    Study

    Raises
    ------
    ClusterError, MissingDependencyError
        Where workers are asked for and cannot be had, or are lost for good.
    UsageError
        Where an option is not one of those allowed, or the budget is too small.
    StoreError
        Where the disk has no space for the scratch files.
    InputError
        Where the fields are too short, an option needs lags that were not kept, or statistics cannot answer it.
    """
    given = {
        "preset": preset, "scales": scales, "omega0": omega0, "dominant": dominant, "select": select,
        "window": window, "modes": modes, "edges": edges, "sink": sink, "sink_pod": sink_pod, "min_query": min_query,
        "max_lag": max_lag, "lags": lags, "tolerances": tolerances, "intervals": intervals, "seed": seed,
        "pod": pod, "power_iterations": power_iterations,
    }  # fmt: skip
    if isinstance(ensemble, FieldStore):
        ensemble = ensemble.ensemble()
    if not isinstance(ensemble, AttentionEnsemble | AttentionStatistics):
        raise InputError(
            f"The attention is {type(ensemble).__name__}, expected an AttentionEnsemble.",
            "Make one with AttentionEnsemble.from_arrays(A, causal=True), or capture(model, documents).",
        )
    refuse_overridden(given)
    options = make_options(**given)
    if ensemble.provenance.get("unnormalised"):
        options = replace(options, sink="keep", sink_pod="keep")
    started = time.perf_counter()
    plan: BlockPlan | None = None
    if isinstance(ensemble, AttentionStatistics):
        budget_bytes(memory_budget)  # statistics fit in any, but what is no amount is said
        ensemble.expect_answers(options)
        sample = ensemble.sample(options.intervals)
    else:
        _warn_of_masked_half(ensemble, options)
        plan = plan_blocks(ensemble, options, memory_budget, scratch)
        sample = (sample_of if plan is None else sample_in_blocks)(ensemble, options.intervals)
    if workers is not None or dask is not None:
        from eddyscope.cluster.analysis import layers_on

        nodes = layers_on(ensemble, options, sample, workers, dask, progress, plan)
    else:
        nodes = _layer_by_layer(ensemble, options, sample, plan, progress)
    if progress is not None:
        progress("", len(ensemble.layers), len(ensemble.layers))
    _warn_of_sinks(nodes)
    root = xr.Dataset(attrs={"format_version": FORMAT_VERSION})
    tree = xr.DataTree.from_dict({"/": root, **{f"/{name}": data for name, data in nodes.items()}})
    provenance = {
        **{name: value for name, value in ensemble.provenance.items() if name != "heads"},  # now in the layers
        "analysis": options.as_dict(),
        "seconds_analysis": round(time.perf_counter() - started, 3),
        "versions": {**ensemble.provenance.get("versions", {}), **package_versions()},
    }
    return Study(tree, provenance, ensemble.documents)


def _layer_by_layer(
    ensemble: AttentionEnsemble | AttentionStatistics,
    options: Options,
    sample: Sample,
    plan: BlockPlan | None,
    progress: Callable[[str, int, int], None] | None,
) -> dict[str, xr.Dataset]:
    """Results of all layers, in their order."""
    names = list(ensemble.layers)

    def work(name: str) -> xr.Dataset:
        advance = within(progress, names, names.index(name))
        return analyze_layer(ensemble, name, options, sample, plan, advance)

    threads = threads_for(ensemble) if plan is None and isinstance(ensemble, AttentionEnsemble) else 1
    nodes = {}
    with closing(side_by_side(work, names, threads)) as results:
        for done, name in enumerate(names):
            if progress is not None:
                progress(name, done, len(names))
            nodes[name] = next(results)
    return nodes


def _warn_of_masked_half(ensemble: AttentionEnsemble, options: Options) -> None:
    if options.lags == "ahead" and any(f.causal for f in ensemble.fields.values()):
        warnings.warn(
            EddyscopeWarning("lags='ahead' reads the masked half of causal attention.", "masked-half"), stacklevel=3
        )


def _warn_of_sinks(nodes: dict[str, xr.Dataset]) -> None:
    """Say where sinks were left in lag statistics that depend on them; where they are masked nothing is wrong."""
    names = [
        name
        for name, data in nodes.items()
        if "sink_matters" in data
        and any(str(how).startswith("first=") for how in data["sink_other_treatment"].values.flat)
        and (data["sink_matters"] > 0).any()
    ]
    if not names:
        return
    first = nodes[names[0]]
    measures = [str(m) for m in first["sink_measure"].values]
    moved = (first["sink_matters"] > 0).any([d for d in first["sink_matters"].dims if d != "sink_measure"])
    which = ", ".join(m for m, matters in zip(measures, moved.values, strict=True) if matters)
    warnings.warn(
        EddyscopeWarning(
            f"Sinks are left in the lag statistics and change them by more than their intervals in {len(names)} of "
            f"{len(nodes)} layers, first in '{names[0]}' ({which}): both results are kept, see sink_other.",
            "strong-sink",
        ),
        stacklevel=3,
    )


def within(
    progress: Callable[[str, int, int], None] | None, layers: Sequence[str], done: int
) -> Callable[[float], None]:
    """Progress inside a layer that is analysed in blocks: hundredths of layers."""

    def advance(share: float) -> None:
        if progress is not None:
            progress(layers[done], int(100 * (done + share)), 100 * len(layers))

    return advance


def analyze_layer(
    ensemble: AttentionEnsemble | AttentionStatistics,
    name: str,
    options: Options,
    sample: Sample,
    plan: BlockPlan | None = None,
    advance: Callable[[float], None] = lambda share: None,
) -> xr.Dataset:
    """All results of one layer, over its heads where each was kept; in blocks of documents where there is a plan."""
    info = ensemble.info[name]
    field: LagField | None = None
    if isinstance(ensemble, AttentionStatistics):
        found = {label: analyze_statistics(own, options, sample) for label, own in ensemble.layers_of[name].items()}
    elif plan is not None:
        found, field = layer_in_blocks(ensemble, name, options, sample, plan, advance)
    else:
        field = ensemble.fields[name]
        found = {label: analyze_field(field.select_head(label), options, sample, info.kind) for label in field.heads}
    heads, labels = list(found.values()), tuple(found)
    data = heads[0] if labels == ("mean",) else _along_heads(heads, labels)
    data.attrs.update(
        layer=name,
        layer_index=info.index,
        kind=info.kind,
        attention_class=info.attention_class,
        query_heads=info.query_heads,
        key_value_heads=info.key_value_heads,
        heads=",".join(labels),
    )
    if info.window is not None:
        data.attrs["sliding_window"] = info.window
    if ensemble.provenance.get("weight", "attention") != "attention":
        data.attrs["weight"] = ensemble.provenance["weight"]
    return with_heads(data, ensemble.provenance.get("heads", {}).get(name), field)


def _along_heads(heads: list[xr.Dataset], labels: Iterable[str]) -> xr.Dataset:
    """Concatenate heads; bands and peaks that a head lacks become NaN, with the status ``absent``."""
    sizes = {dim: max(h.sizes[dim] for h in heads) for dim in ("band", "peak")}
    padded = []
    for head in heads:
        grown = head.pad({dim: (0, size - head.sizes[dim]) for dim, size in sizes.items()})
        for variable in grown.variables:
            if grown[variable].dtype == object:
                grown[variable] = grown[variable].where(grown[variable].notnull(), "absent")
        padded.append(grown.assign_coords(band=np.arange(sizes["band"])))
    joined: xr.Dataset = xr.concat(
        padded,
        pd.Index(list(labels), name="head", dtype=object),
        data_vars="all",
        coords="different",
        compat="equals",
        combine_attrs="override",
    )
    return joined


@lru_cache(maxsize=1)
def package_versions() -> dict[str, Any]:
    """Versions of what computed the results."""
    found: dict[str, Any] = {"python": platform.python_version()}
    for name in ("eddyscope", "numpy", "scipy", "xarray", "zarr"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
