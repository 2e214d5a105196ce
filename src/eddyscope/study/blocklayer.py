"""One layer of an ensemble, analysed in blocks of documents: its fields go through scratch files that are removed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import xarray as xr

from eddyscope.ensemble import AttentionEnsemble
from eddyscope.fieldstore import StoredFields
from eddyscope.kernels.headmeasures import DOCUMENTS
from eddyscope.lagfield import IntArray, LagField
from eddyscope.statistics import collect
from eddyscope.study.blockfields import BlockField, HeldField, ScratchField, expect_space, scratch_folder
from eddyscope.study.blockpasses import slices
from eddyscope.study.blockplan import BlockPlan, scratch_bytes
from eddyscope.study.blockwise import BlockWork, analyze_blocks
from eddyscope.study.headstats import HeadStatistics
from eddyscope.study.options import Options
from eddyscope.study.podpart import KEPT_GRAM
from eddyscope.study.sample import Sample, compared, equal_labels, sample_from

#: Share of the work on a layer after which its statistics are there.
_READ = 0.2


def layer_in_blocks(
    ensemble: AttentionEnsemble,
    name: str,
    options: Options,
    sample: Sample,
    plan: BlockPlan,
    advance: Callable[[float], None],
) -> tuple[dict[str, xr.Dataset], LagField]:
    """Results of each head of one layer.

    Parameters
    ----------
    ensemble : AttentionEnsemble
        Of fields on disk or in memory.
    name : str
    options : Options
    sample : Sample
    plan : BlockPlan
    advance : callable
        Told which share of the layer is done, 0 to 1.

    Returns
    -------
    results : dict of str to Dataset
        By the label of the head.
    first : LagField
        The first documents, all heads.
    """
    kind = ensemble.info[name].kind
    groups = np.zeros(ensemble.count, dtype=np.int64) if sample.groups is None else sample.groups
    with scratch_folder(plan.scratch, plan.run) as folder:
        fields, heads = _read(ensemble, name, options, groups, folder, lambda share: advance(_READ * share))
        found: dict[str, xr.Dataset] = {}
        for place, (label, own) in enumerate(fields.items()):
            begun = _READ + (1 - _READ) * place / len(fields)
            share = (1 - _READ) / len(fields)
            with scratch_folder(folder) as grams:
                of_head = partial(_of_head, advance, begun, share)
                work = BlockWork(grams, plan.held, plan.keep_grams, of_head, plan.grams)
                found[label] = analyze_blocks(own, heads[label], options, sample, kind, work)
        return found, _first(fields)


def _read(
    ensemble: AttentionEnsemble,
    name: str,
    options: Options,
    groups: IntArray,
    folder: Path,
    advance: Callable[[float], None],
) -> tuple[dict[str, BlockField], dict[str, HeadStatistics]]:
    """Fields of the heads as they can be read in blocks, and statistics of them, in one pass over the shards."""
    fields: dict[str, BlockField] = {}
    stored, count = ensemble.fields, ensemble.count
    first_pass = iter([True])

    def shards() -> Iterator[tuple[dict[str, LagField], IntArray]]:
        copying, start = next(first_pass, False), 0
        if not copying or not isinstance(stored, StoredFields):
            whole = fields if isinstance(stored, StoredFields) else _held(stored[name])
            fields.update(whole)
            for part in slices(next(iter(whole.values()))):
                yield {name: _joined([own.read(part) for own in whole.values()])}, groups[part]
            return
        for given, _ in stored.store.iterate([name]):
            own = given[name]
            if not fields:
                g, item = own.geometry, own.values.dtype.itemsize
                expect_space(folder, scratch_bytes(g, len(own.heads), count, item, options))
                for index, label in enumerate(own.heads):
                    (folder / f"head-{index}").mkdir()
                    fields[label] = ScratchField(folder / f"head-{index}", g, label)
            for label, scratch in fields.items():
                assert isinstance(scratch, ScratchField)
                scratch.append(own.select_head(label))
            yield {name: own}, groups[start : start + own.documents]
            start += own.documents
            advance(start / count)

    kinds = {name: ensemble.info[name].kind}
    unmasked = ensemble.provenance.get("unnormalised")
    heads = collect(shards, kinds, ("keep",) if unmasked else (options.sink,), options.max_lag)[name]
    return fields, dict(heads)


def _of_head(advance: Callable[[float], None], begun: float, share: float, done: float) -> None:
    advance(begun + share * done)


def _held(field: LagField) -> dict[str, BlockField]:
    return {label: HeldField(field.select_head(label)) for label in field.heads}


def _first(fields: dict[str, BlockField]) -> LagField:
    return _joined([own.read(slice(0, DOCUMENTS)) for own in fields.values()])


def _joined(heads: list[LagField]) -> LagField:
    """One field of several heads of the same documents."""
    if len(heads) == 1:
        return heads[0]
    arrays = [
        np.concatenate([getattr(own, array) for own in heads], axis=1) for array in ("values", "first_key", "row_sum")
    ]
    labels = tuple(label for own in heads for label in own.heads)
    return LagField(arrays[0], heads[0].geometry, labels, arrays[1], arrays[2])


def sample_in_blocks(ensemble: AttentionEnsemble, intervals: bool = True) -> Sample:
    """Groups and blocks of the documents as :func:`eddyscope.study.sample.sample_of` gives them, without their Gram.

    Without documents snapshots count as equal by the same rule up to 4,000 of them, whose Gram of a few entries fits;
    of more where all their entries are.
    """
    if ensemble.documents is not None:
        return sample_from(ensemble.documents, intervals)
    if ensemble.count <= KEPT_GRAM:
        layers = (np.concatenate([compared(own.values) for own in _parts(ensemble, name)]) for name in ensemble.layers)
        return sample_from(equal_labels(layers), intervals)
    digests = [hashlib.sha256() for _ in range(ensemble.count)]
    for name in ensemble.layers:
        start = 0
        for own in _parts(ensemble, name):
            for index, values in enumerate(own.values):
                digests[start + index].update(np.ascontiguousarray(values).tobytes())
            start += own.documents
    seen: dict[bytes, int] = {}
    blocks = np.array([seen.setdefault(d.digest(), i) for i, d in enumerate(digests)], dtype=np.int64)
    return sample_from(blocks, intervals)


def _parts(ensemble: AttentionEnsemble, name: str) -> Iterator[LagField]:
    if isinstance(ensemble.fields, StoredFields):
        for given, _ in ensemble.fields.store.iterate([name]):
            yield given[name]
    else:
        yield ensemble.fields[name]
