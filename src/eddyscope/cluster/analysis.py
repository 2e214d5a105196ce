"""An analysis on a cluster: each layer is a task, with its jackknife and everything else that resamples."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import xarray as xr

from eddyscope.cluster.engine import connected
from eddyscope.cluster.flow import flow
from eddyscope.cluster.grams import GramsOn
from eddyscope.cluster.outcome import attempt
from eddyscope.ensemble import AttentionEnsemble
from eddyscope.fieldstore import StoredFields
from eddyscope.statistics import AttentionStatistics
from eddyscope.study.analyze import analyze_layer, within
from eddyscope.study.blockfields import clear_scratch
from eddyscope.study.blockplan import BlockPlan
from eddyscope.study.options import Options
from eddyscope.study.sample import Sample

#: What the Grams of a layer of thousands of documents cost, as a multiple of the rest of its analysis.
GRAMS_COST = 2.0
_REMEDY = (
    "They may have run out of memory: give a budget for each (--memory-budget), start fewer, or take fewer --layers."
)


def layers_on(
    ensemble: AttentionEnsemble | AttentionStatistics,
    options: Options,
    sample: Sample,
    workers: int | None,
    dask: Any,
    progress: Callable[[str, int, int], None] | None = None,
    plan: BlockPlan | None = None,
) -> dict[str, xr.Dataset]:
    """All results of every layer, each computed by a worker; see :func:`eddyscope.analyze`.

    Fields on disk are read where they are needed, so that their place is all that travels; fields and statistics in
    memory travel, a few layers at a time. What comes back is what the study keeps. With a plan each worker analyses its
    layer in blocks, with scratch files of its own; where :func:`grams_are_shared`, the layers are analysed here one by
    one, and the blocks of their Grams are shared.
    """
    names, found = list(ensemble.layers), dict[str, xr.Dataset]()
    with ExitStack() as stack:
        if plan is not None:
            plan = replace(plan, run=f"{uuid.uuid4().hex}-")
            stack.callback(clear_scratch, plan.scratch, plan.run)  # once workers that were started here have ended
        engine = stack.enter_context(connected(workers, dask))
        engine.remedy = _REMEDY
        fields = getattr(ensemble, "fields", None)
        exact = plan is not None and options.pod == "exact"  # a sketch forms no Gram
        if exact and isinstance(fields, StoredFields) and grams_are_shared(len(names), engine.slots):
            assert plan is not None
            for done, name in enumerate(names):
                grams = GramsOn(engine, str(fields.store.path.absolute()), name)
                found[name] = analyze_layer(
                    ensemble, name, options, sample, replace(plan, grams=grams), within(progress, names, done)
                )
            return found

        def submit(name: str) -> list[tuple[Any, str]]:
            return [(engine.submit(layer_of, _packed(ensemble, name), name, options, sample, plan), name)]

        for name, outcome in flow(engine, names, submit):
            found[name] = outcome.unwrap()
            if progress is not None:
                progress(name, len(found), len(names))
    return {name: found[name] for name in names}


def grams_are_shared(layers: int, slots: int) -> bool:
    """Whether workers are better given blocks of Grams than layers.

    The rest of a layer is then the work of the caller alone, layer by layer, where it would be shared as well: with
    Grams that cost g times the rest, ``layers (1 + g / slots)`` against ``(1 + g) ceil(layers / slots)``. So it pays
    for one layer, for two with more than four workers, and for no more.
    """
    return layers * (1 + GRAMS_COST / slots) < (1 + GRAMS_COST) * -(-layers // slots)


def _packed(ensemble: AttentionEnsemble | AttentionStatistics, name: str) -> bytes:
    """One layer as it travels; opened by the task, so that what goes wrong then is an error like any other."""
    one = replace(ensemble.select_layers((name,)), documents=None)
    return pickle.dumps(one, protocol=pickle.HIGHEST_PROTOCOL)


@attempt
def layer_of(packed: bytes, name: str, options: Options, sample: Sample, plan: BlockPlan | None = None) -> xr.Dataset:
    """All results of one layer, on a worker."""
    return analyze_layer(pickle.loads(packed), name, options, sample, plan)
