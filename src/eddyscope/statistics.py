"""AttentionStatistics: what an analysis along the lag needs, in memory that does not grow with the documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd

from eddyscope.ensemble import AttentionEnsemble, LayerInfo
from eddyscope.errors import InputError
from eddyscope.lagfield import IntArray, LagField
from eddyscope.study.headstats import ENTROPY, FIRST_KEY, ROW_SUM, HeadStatistics, head_statistics, lag_part
from eddyscope.study.options import SINKS, Options, masked_keys
from eddyscope.study.rows import mass_range
from eddyscope.study.sample import Sample, sample_of
from eddyscope.trust.jackknife import MIN_GROUPS

if TYPE_CHECKING:
    from eddyscope.documents import Documents

#: Fields of some documents and the group of each; read again where queries turn out to be left out.
Shards = Callable[[], Iterable[tuple[Mapping[str, LagField], IntArray]]]
#: Documents of an ensemble that are looked at together.
_SLICE = 64


@dataclass(frozen=True, repr=False)
class AttentionStatistics:
    """Mergeable statistics of all layers' attention over the same documents.

    It stands where an :class:`AttentionEnsemble` does: ``analyze(statistics)`` gives a study whose results along the
    lag equal those from the fields, with intervals, while what needs the fields themselves (POD of the field and of
    bands, coherence) is NaN with the status ``fields not kept``.

    Parameters
    ----------
    layers_of : mapping of str to mapping of str to HeadStatistics
        By qualified module name in reading order, and by the label of the head.
    info : mapping of str to LayerInfo
    groups : int array, shape (document,)
        Jackknife group of each document.
    documents : Documents, optional
        Token ids, character spans, sources and source blocks.
    provenance : dict
        JSON-able, as that of an ensemble.
    """

    layers_of: Mapping[str, Mapping[str, HeadStatistics]]
    info: Mapping[str, LayerInfo]
    groups: IntArray
    documents: Documents | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        source = (self.provenance.get("model") or {}).get("name") or self.provenance.get("source", "unknown source")
        sinks = ", ".join(self.sinks)
        return f"<AttentionStatistics of {source}: {len(self.layers)} layers, {self.count} documents, sinks: {sinks}>"

    @property
    def count(self) -> int:
        """Number of documents."""
        return int(self.groups.size)

    @property
    def layers(self) -> tuple[str, ...]:
        """Qualified names of the layers, in reading order."""
        return tuple(self.layers_of)

    @property
    def sinks(self) -> tuple[str, ...]:
        """Treatments of sinks for which there are lag statistics."""
        return tuple(next(iter(next(iter(self.layers_of.values())).values())).parts)

    @property
    def nbytes(self) -> int:
        """Bytes that the statistics take; the same for any number of documents."""
        return sum(head.nbytes for heads in self.layers_of.values() for head in heads.values())

    def __getitem__(self, layer: str | int) -> NoReturn:
        """InputError: there are no fields."""
        raise InputError(
            f"The field of layer {layer!r} was asked for, and only statistics were kept.",
            "Capture with keep='fields' (--keep fields).",
        )

    @classmethod
    def from_ensemble(
        cls, ensemble: AttentionEnsemble, *, sinks: Sequence[str] = SINKS, groups: IntArray | None = None
    ) -> AttentionStatistics:
        """Statistics of fields at hand.

        Parameters
        ----------
        ensemble : AttentionEnsemble
        sinks : sequence of str
            Treatments of sinks for which lag statistics are taken: ``mask``, ``keep``, ``first=K``. Scores
            (``unnormalised``) are never masked.
        groups : int array, shape (document,), optional
            Jackknife group of each document. To be given where the statistics will be merged with those of other
            documents of the same sources; by default 15 groups of whole source blocks.

        Raises
        ------
        UsageError, InputError
            For a treatment of sinks that there is not, or that needs lags which were not kept.
        """
        sinks = ("keep",) if ensemble.provenance.get("unnormalised") else checked_sinks(sinks)
        if groups is None:
            sample = sample_of(ensemble)
            groups = np.zeros(ensemble.count, dtype=np.int64) if sample.groups is None else sample.groups
        labels = np.asarray(groups, dtype=np.int64)
        if labels.shape != (ensemble.count,):
            raise InputError(f"groups has shape {labels.shape}, expected one label for each of {ensemble.count}.")
        found: dict[str, Mapping[str, HeadStatistics]] = {}
        for name in ensemble.layers:  # one at a time: the fields may lie on disk
            own, kinds = ensemble.fields[name], {name: ensemble.info[name].kind}
            found |= collect(partial(_slices, name, own, labels), kinds, sinks)
        return cls(found, ensemble.info, labels, ensemble.documents, ensemble.provenance)

    def merge(self, other: AttentionStatistics) -> AttentionStatistics:
        """Statistics of the documents of both; those of one group come together.

        Stable: any number of parts, merged in any order, gives the same to rounding. The provenance is that of the
        first, with ``merged`` counting the parts.

        Raises
        ------
        InputError
            Where they are of different layers, heads, contexts or treatments of sinks, or where documents of one leave
            out queries that the other has counted (the mass beside the sink falls below 0.05).
        """
        labels = [{name: tuple(heads) for name, heads in part.layers_of.items()} for part in (self, other)]
        if labels[0] != labels[1]:
            raise InputError(
                f"Statistics of {len(labels[0])} and of {len(labels[1])} layers, or of other heads, cannot be merged.",
                "Take both from the same model, with the same layers and heads.",
            )
        merged = {
            name: {label: head.merged(other.layers_of[name][label]) for label, head in heads.items()}
            for name, heads in self.layers_of.items()
        }
        for name, heads in merged.items():
            for head in heads.values():
                if head.incomplete:
                    raise InputError(
                        f"Layer '{name}': documents of one part leave out queries that the other has counted, since "
                        f"the sink holds nearly all their mass (sink={head.incomplete[0]!r}).",
                        "Take the statistics of all documents in one go, or with sinks=['keep'].",
                    )
        documents = None
        if self.documents is not None and other.documents is not None:
            documents = _joined(self.documents, other.documents)
        parts = [int(part.provenance.get("merged", 1)) for part in (self, other)]
        groups = np.concatenate([self.groups, other.groups])
        return AttentionStatistics(merged, self.info, groups, documents, {**self.provenance, "merged": sum(parts)})

    def sample(self, intervals: bool = True) -> Sample:
        """How the documents hang together; without groups where there are fewer than 8, or no intervals are wanted."""
        everyone = np.arange(self.count, dtype=np.int64)
        enough = intervals and np.unique(self.groups).size >= MIN_GROUPS
        return Sample(self.groups, self.groups if enough else None, everyone)

    def expect_answers(self, options: Options) -> None:
        """Refuse options of an analysis that these statistics cannot answer.

        Raises
        ------
        InputError
        """
        expect_no_fields(options)
        if masked_keys(options.sink) not in [masked_keys(sink) for sink in self.sinks]:
            raise _unanswered(
                f"There are no statistics for sink={options.sink!r}, only for {', '.join(self.sinks)}",
                f"sinks=[{options.sink!r}]",
            )
        for name, heads in self.layers_of.items():
            kept = next(iter(heads.values())).geometry.max_lag
            if options.max_lag not in (None, kept):
                raise _unanswered(
                    f"max_lag={options.max_lag} was asked for, and the statistics of layer '{name}' were taken with "
                    f"max_lag={kept}",
                    f"max_lag={options.max_lag}",
                )

    def select_layers(self, layers: Sequence[str]) -> AttentionStatistics:
        """The statistics of some layers, in the order of the original."""
        keep = [name for name in self.layers if name in set(layers)]
        return replace(self, layers_of={n: self.layers_of[n] for n in keep}, info={n: self.info[n] for n in keep})

    def masses(self) -> pd.DataFrame:
        """Where the mass of the rows is, one row a layer and head.

        Returns
        -------
        pandas.DataFrame
            ``layer``, ``head``, ``sink_mass`` (mean attention to the first key, full rows), ``row_mass`` (mean row
            sum), ``entropy`` (mean entropy of a row over the keys that were kept, nats), ``documents``.
        """
        rows = []
        for name, heads in self.layers_of.items():
            for label, head in heads.items():
                mean = head.masses.of()
                queries = mass_range(head.geometry, next(iter(head.parts.values())).axis)
                rows.append(
                    {
                        "layer": name,
                        "head": label,
                        "sink_mass": float(mean[FIRST_KEY, queries].mean()),
                        "row_mass": float(mean[ROW_SUM].mean()),
                        "entropy": float(mean[ENTROPY].mean()),
                        "documents": head.documents,
                    }
                )
        return pd.DataFrame(rows)

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write the statistics as Zarr; see :func:`eddyscope.statstore.save_statistics`."""
        from eddyscope.statstore import save_statistics

        return save_statistics(self, path, force=force)


def expect_no_fields(options: Options) -> None:
    """InputError for options of an analysis that no statistics can answer."""
    if options.preset is not None:
        raise _unanswered(f"The preset {options.preset} needs the fields", "keep='fields' (--keep fields)")
    if options.sink_pod != "keep":
        raise _unanswered(f"sink_pod={options.sink_pod!r} needs the fields", "keep='fields' (--keep fields)")
    if options.pod != "exact":
        raise _unanswered(f"pod={options.pod!r} needs the fields", "keep='fields' (--keep fields)")


def _unanswered(what: str, remedy: str) -> InputError:
    return InputError(f"{what}, and there are statistics alone.", f"Capture with {remedy}.")


def _joined(first: Documents, second: Documents) -> Documents:
    """Documents of both; those of one reading keep their source blocks, of two readings none are shared."""
    identities = [{k: v for k, v in part.identity.items() if k != "selection"} for part in (first, second)]
    apart = 0 if identities[0] == identities[1] else int(first.blocks.max()) + 1 - int(second.blocks.min())
    joined: dict[str, Any] = {}
    for name in ("ids", "special", "starts", "spans", "mask"):
        mine, theirs = getattr(first, name), getattr(second, name)
        joined[name] = None if mine is None or theirs is None else np.concatenate([mine, theirs])
    for name in ("texts", "sources"):
        mine, theirs = getattr(first, name), getattr(second, name)
        joined[name] = None if mine is None or theirs is None else (*mine, *theirs)
    blocks = np.concatenate([first.blocks, second.blocks + apart])
    chosen = [list(part.identity.get("selection", range(len(part)))) for part in (first, second)]
    identity = {**first.identity, "selection": chosen[0] + chosen[1]} if not apart else {"joined": identities}
    return replace(first, **joined, blocks=blocks, identity=identity)


def checked_sinks(sinks: Sequence[str]) -> tuple[str, ...]:
    """Treatments of sinks, each once; UsageError for one that there is not."""
    given = (sinks,) if isinstance(sinks, str) else tuple(sinks)
    for sink in given:
        masked_keys(sink, "sinks")
    if not given:
        raise InputError("No treatment of sinks was given, statistics along the lag need one.", "Give sinks=['mask'].")
    return tuple(dict.fromkeys(given))


def collect(
    shards: Shards, kinds: Mapping[str, str], sinks: Sequence[str], max_lag: int | None = None
) -> dict[str, Mapping[str, HeadStatistics]]:
    """Statistics of fields that come shard by shard.

    Parameters
    ----------
    shards : callable
        Gives the fields of some documents at a time, by layer, and the group of each document. Called a second time
        where a late document leaves out a query that was counted before, since what it leaves out is left out for all.
    kinds : mapping of str to str
        ``self`` or ``cross``, by layer.
    sinks : sequence of str
    max_lag : int, optional
        Of the lag statistics.
    """
    total: dict[str, dict[str, HeadStatistics]] = {name: {} for name in kinds}
    for fields, groups in shards():
        for name, own in fields.items():
            for label in own.heads:
                before = total[name].get(label)
                found = head_statistics(own.select_head(label), groups, sinks, kinds[name], before, max_lag)
                total[name][label] = found if before is None else before.merged(found)
    if any(head.incomplete for heads in total.values() for head in heads.values()):
        _take_again(total, shards, kinds, max_lag)
    return dict(total)


def _take_again(
    total: dict[str, dict[str, HeadStatistics]], shards: Shards, kinds: Mapping[str, str], max_lag: int | None
) -> None:
    """Take the lag statistics that lost queries on the way again, without these queries."""
    begun = set()
    missing = {(name, label): head.incomplete for name, heads in total.items() for label, head in heads.items()}
    for fields, groups in shards():
        for (name, label), sinks in missing.items():
            if not sinks or name not in fields:
                continue
            own, head = fields[name].select_head(label), total[name][label]
            parts = dict(head.parts)
            for sink in sinks:
                part = lag_part(own, groups, sink, kinds[name], parts[sink].axis.queries, max_lag=max_lag)
                parts[sink] = (
                    parts[sink].merged(part)
                    if (name, label, sink) in begun
                    else replace(parts[sink], moments=part.moments)
                )
                begun.add((name, label, sink))
            total[name][label] = replace(head, parts=parts)


def _slices(name: str, own: LagField, groups: IntArray) -> Iterator[tuple[Mapping[str, LagField], IntArray]]:
    for start in range(0, own.documents, _SLICE):
        part = slice(start, start + _SLICE)
        yield {name: own.select_documents(part)}, groups[part]
