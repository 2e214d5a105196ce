"""The analysis of one head of one layer in blocks of documents: neither its field nor a Gram of it is held whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from eddyscope.kernels.coherence import key_transform, leakage_share
from eddyscope.kernels.fieldmoments import by_query
from eddyscope.kernels.gram import FieldPass
from eddyscope.kernels.gramblocks import PartSums
from eddyscope.kernels.merging import GroupMeans, weighted_mean
from eddyscope.kernels.pairs import PairStatistics
from eddyscope.lagfield import FloatArray, IntArray, LagGeometry
from eddyscope.study.blockfields import BlockField, GramFiles
from eddyscope.study.blockpasses import (
    GramMaker,
    Snapshots,
    correlation_of,
    energy_of,
    form_grams,
    lag_part_of,
    modes_of,
    moments_of,
    pairs_of,
    picked,
    published_part_of,
)
from eddyscope.study.blockpod import BlockPod, decomposed, leading_pod, ranks_known
from eddyscope.study.coherence import MAX_LEAKAGE
from eddyscope.study.headstats import HeadStatistics, LagPart
from eddyscope.study.laganalysis import LagAnalysis, allowed_lags, analyze_lags, query_start, rank_count
from eddyscope.study.lagpart import Variables
from eddyscope.study.layer import check_length, group_variables, layer_dataset
from eddyscope.study.layertrust import lag_trust, trusted_variables, varying_entries
from eddyscope.study.leadingtrust import Parts
from eddyscope.study.measures import APPROXIMATE
from eddyscope.study.modes import Pod, assembled
from eddyscope.study.options import Options
from eddyscope.study.podpart import (
    coherence_maps,
    coherence_scale,
    decomposition_variables,
    early_share,
    field_variables,
    no_coherence,
)
from eddyscope.study.sample import Sample
from eddyscope.study.sketched import difference_on_sample, sketched_pods
from eddyscope.study.topdocuments import TOP_MODES, top_document_variables, top_documents
from eddyscope.trust.sinks import Sinks


@dataclass(frozen=True)
class BlockWork:
    """How an analysis in blocks goes about it.

    Parameters
    ----------
    folder : Path
        Scratch files of one head; exists.
    held : int
        Blocks of documents that are held while Grams are formed.
    keep_grams : bool
        Whether the Grams become part of the results.
    advance : callable
        Told which share of the work on the head is done, 0 to 1.
    grams : GramMaker, optional
        What forms blocks of Grams in the place of this process.
    """

    folder: Path
    held: int
    keep_grams: bool
    advance: Callable[[float], None]
    grams: GramMaker | None = None


class BlockSource:
    """What the lag part of an analysis reads from: statistics of a head, and its rows where they are asked for.

    Parameters
    ----------
    field : BlockField
    head : HeadStatistics
        Of the same, with at least the treatment of sinks that is in use.
    groups : int array, shape (document,)
    max_lag : int, optional
    kind : {"self", "cross"}
    ranks : int
        Eigenvalues of the field POD that are known.
    """

    def __init__(
        self, field: BlockField, head: HeadStatistics, groups: IntArray, max_lag: int | None, kind: str, ranks: int
    ) -> None:
        self._field, self._head, self._groups, self._max_lag, self._kind = field, head, groups, max_lag, kind
        self.field_ranks = ranks

    @property
    def geometry(self) -> LagGeometry:
        """Of the field."""
        return self._field.geometry

    @property
    def documents(self) -> int:
        """Number of documents."""
        return self._field.documents

    @property
    def masses(self) -> GroupMeans:
        """Mass on the first key and row sums."""
        return self._head.masses

    def lags(self, sink: str) -> LagPart:
        """Lag statistics under a treatment of sinks; another one than that in use takes a pass."""
        known = self._head.lags(sink)
        return known or lag_part_of(self._field, self._groups, sink, self._kind, self._max_lag)

    def correlation(self, sink: str, modes: FloatArray, documents: IntArray) -> FloatArray:
        """How far the rows of a document say the same along lag modes; one pass."""
        part = self.lags(sink)
        assert part.moments is not None
        mean = weighted_mean(part.moments.means, part.moments.counts)
        return correlation_of(self._field, sink, part.axis, mean, modes, documents, self._max_lag)

    def sinks(self) -> Sinks | None:
        """Sinks of attention."""
        return self._head.sinks()


def analyze_blocks(
    field: BlockField, head: HeadStatistics, options: Options, sample: Sample, kind: str, work: BlockWork
) -> xr.Dataset:
    """All results of one head of one layer, as :func:`eddyscope.study.layer.analyze_field` gives them.

    Parameters
    ----------
    field : BlockField
    head : HeadStatistics
        Of the same documents, by the groups of the sample (or one group), under ``options.sink``.
    options : Options
    sample : Sample
    kind : {"self", "cross"}
    work : BlockWork

    Returns
    -------
    xarray.Dataset
        Up to 4,000 documents the same to rounding. Beyond, eigenvalues are the leading 200, ``total_energy`` and
        ``field_total_energy`` are there, and what would need all eigenvalues is NaN, with a status that says so.
    """
    geometry, documents = field.geometry, field.documents
    check_length(geometry)
    groups = np.zeros(documents, dtype=np.int64) if sample.groups is None else sample.groups
    source = BlockSource(field, head, groups, options.max_lag, kind, ranks_known(documents, options))
    spectral = None
    if options.preset == "published" and kind != "cross":
        spectral = published_part_of(field, groups, options.lags)
    lags = analyze_lags(source, options, sample.groups is not None, spectral)
    work.advance(0.1)
    snapshots, min_query = Snapshots.of(field, options.sink_pod), query_start(geometry, options)
    moments = head.field if snapshots.usable is None else moments_of(snapshots, groups)
    mean, energy = moments.mean, energy_of(snapshots, moments.mean)
    weights = np.vstack([allowed_lags(geometry.lags, geometry.causal, options), lags.windows])
    maps = _coherence(field, head, options, lags, sample.groups is not None)
    work.advance(0.2)
    found, pods = _pods(snapshots, weights, mean, energy, options, sample, work)
    variables = {
        **lags.variables,
        **_pod_variables(found, pods, options, rank_count(source, lags.axis)),
        **field_variables(geometry, mean, by_query(energy, geometry), min_query),
        "packed_mean_field": (("entry",), mean.astype(np.float64 if field.dtype == np.float64 else np.float32)),
        "early_share": ((), early_share(geometry, pods[0])),
        **_top(snapshots, weights, pods, mean, energy, min_query),
        **maps,
        **group_variables(sample),
    }
    if sample.groups is not None:
        level = moments.level(geometry.query_mask(min_query), min_query) if (weights[0] == 1).all() else None
        variables |= trusted_variables([own.trusted for own in found if own.trusted], options, sample, variables)
        variables |= lag_trust(source, options, sample, lags, level, variables)
    data = layer_dataset(variables, source, options, lags)
    return data.assign_attrs(_attributes(found))


def _pods(
    snapshots: Snapshots,
    weights: FloatArray,
    mean: FloatArray,
    energy: FloatArray,
    options: Options,
    sample: Sample,
    work: BlockWork,
) -> tuple[list[BlockPod], list[Pod]]:
    """Decompositions of all windows with what is said of them, and their modes."""
    geometry = snapshots.field.geometry
    min_query = query_start(geometry, options)
    entries = varying_entries(geometry, energy, weights, min_query)
    parts = Parts.of(sample, options.seed)
    found = (_sketched if options.pod == "randomized" else _from_grams)(
        snapshots, weights, mean, entries, parts, options, sample, work
    )
    used = geometry.query_mask(min_query)
    per_entry = np.where(used, weights[:, geometry.entry_lag - geometry.lags[0]], 0.0)
    patterns = modes_of(snapshots, [own.decomposition for own in found], per_entry, options.modes, mean)
    within = np.add.reduceat(used.astype(np.float64), geometry.offsets[:-1])
    return found, [
        assembled(own.gram, own.decomposition, own_modes, geometry, within)
        for own, own_modes in zip(found, patterns, strict=True)
    ]


def _from_grams(
    snapshots: Snapshots,
    weights: FloatArray,
    mean: FloatArray,
    entries: list[int],
    parts: Parts,
    options: Options,
    sample: Sample,
    work: BlockWork,
) -> list[BlockPod]:
    """Decompositions from Grams that are formed on disk."""
    sums = [PartSums.empty(parts.members) for _ in weights]
    files = GramFiles(work.folder, snapshots.field.documents, len(weights))

    def advance(done: int, pairs: int) -> None:
        work.advance(0.2 + 0.4 * done / pairs)

    min_query = query_start(snapshots.field.geometry, options)
    form_grams(snapshots, weights, min_query, mean, files, sums, work.held, advance, work.grams)
    found = []
    for window, own in enumerate(sums):
        keep, vary = work.keep_grams, entries[window]
        found.append(decomposed(files, window, own, parts, options, sample, entries=vary, keep_gram=keep))
        work.advance(0.6 + 0.35 * (window + 1) / len(sums))
    return found


def _sketched(
    snapshots: Snapshots,
    weights: FloatArray,
    mean: FloatArray,
    entries: list[int],
    parts: Parts,
    options: Options,
    sample: Sample,
    work: BlockWork,
) -> list[BlockPod]:
    """Decompositions from a sketch, without a Gram."""
    min_query = query_start(snapshots.field.geometry, options)

    def advance(done: int, products: int) -> None:
        work.advance(0.2 + 0.6 * done / products)

    pairs, sums = sketched_pods(snapshots, weights, min_query, mean, parts, options, advance)
    difference, checked = difference_on_sample(snapshots, weights, min_query, options)
    return [
        leading_pod(
            pair,
            float(own.diagonal.sum()),
            own,
            parts,
            options,
            sample,
            entries=vary,
            follow_resolved=window == 0,
            residual=difference,
            checked=checked,
        )
        for window, (pair, own, vary) in enumerate(zip(pairs, sums, entries, strict=True))
    ]


def _pod_variables(found: list[BlockPod], pods: list[Pod], options: Options, ranks: int) -> Variables:
    """Variables of the field POD, which is first, and of the bands."""
    made: Variables = {}
    for prefix, dims, which in (("", ("band",), slice(1, None)), ("field_", (), slice(0, 1))):
        measures = [own.measures for own in found[which]]
        made |= decomposition_variables(prefix, pods[which], dims, options, ranks, measures)
        if found[0].leading:
            for values, own in zip(np.atleast_2d(made[f"{prefix}eigenvalues"][1]), found[which], strict=True):
                values[own.decomposition.eigenvalues.size :] = np.nan  # unknown, not zero
            energy = np.array([own.energy for own in found[which]])
            made[f"{prefix}total_energy"] = (dims, energy if dims else energy[0])
        if found[0].gram.size:
            grams = [own.gram for own in found[which]]
            made[f"{prefix}gram"] = ((*dims, "document", "other_document"), np.stack(grams) if dims else grams[0])
    return made


def _top(
    snapshots: Snapshots, weights: FloatArray, pods: list[Pod], mean: FloatArray, energy: FloatArray, min_query: int
) -> Variables:
    shown = [int(d) for pod in pods for mode in range(TOP_MODES) for d in _shown(pod, mode)]
    passed = FieldPass(np.empty((0, 0, 0)), mean, energy)
    values = picked(snapshots, shown)
    return top_document_variables(values, snapshots.field.geometry, weights, pods, passed, min_query)


def _shown(pod: Pod, mode: int) -> IntArray:
    if mode >= pod.coefficients.shape[1]:
        return np.empty(0, dtype=np.int64)
    return top_documents(np.nan_to_num(pod.coefficients[:, mode]))


def _coherence(
    field: BlockField, head: HeadStatistics, options: Options, lags: LagAnalysis, against_chance: bool
) -> Variables:
    """Coherence at the scale of the first band, from sums over documents."""
    geometry, bands = field.geometry, len(lags.bands)
    scale = coherence_scale(geometry, lags.bands, lags.found)
    if np.isnan(scale):
        return no_coherence(bands)
    published = options.preset == "published"
    transform = key_transform(geometry.keys, scale, options.omega0, 2 * geometry.keys if published else None)
    mean = None if published else head.field.mean
    found = pairs_of(field, transform, mean).statistics(geometry.causal)
    if mean is not None:
        energy = geometry.unpack(energy_of(Snapshots.of(field, "keep"), mean))
        leaking = leakage_share(energy, transform, scale) > MAX_LEAKAGE
        for whole in (found.coherence, found.chance, found.phase_consistency, found.amplitude_correlation):
            whole[leaking] = np.nan
    shown: PairStatistics | Any = found if against_chance and not published else found.coherence
    return coherence_maps(shown, geometry, scale, bands)


def _attributes(found: list[BlockPod]) -> dict[str, Any]:
    """How the eigenvalues were found, for the node of the layer."""
    if not found[0].leading:
        return {}
    known = int(min(own.decomposition.eigenvalues.size for own in found))
    worst = float(max(own.residual for own in found))
    if found[0].checked:
        return {
            "pod": APPROXIMATE,
            "leading_eigenvalues": known,
            "largest_relative_difference": worst,
            "documents_checked": found[0].checked,
        }
    return {"pod": "leading", "leading_eigenvalues": known, "largest_residual": worst}


__all__ = ["BlockSource", "BlockWork", "analyze_blocks"]
