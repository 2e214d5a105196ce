"""The study repeated: read, capture, analyse, judge."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eddyscope.documents import Documents
from eddyscope.ensemble import AttentionEnsemble
from eddyscope.errors import EddyscopeWarning, InputError
from eddyscope.reproduction.evidence import Evidence, gather, head_mean
from eddyscope.reproduction.judgement import Judged, Witness, judge
from eddyscope.reproduction.members import Architecture, Member, architectures, find_members
from eddyscope.reproduction.reading import read
from eddyscope.reproduction.records import Record, fit_statuses, gate_of, layer_rows
from eddyscope.study.analyze import analyze
from eddyscope.study.sample import sample_of
from eddyscope.study.study import Study
from eddyscope.trust.jackknife import GROUPS, MIN_GROUPS

#: Untrained twins of each architecture.
TWINS = 3

#: Called with (what is done, number done, number of all).
Progress = Callable[[str, int, int], None]
#: Called with (model, preset, study) as soon as a study is there, before it is let go.
Keep = Callable[[Member, str, Study], None]


@dataclass(frozen=True)
class Reproduction:
    """The study repeated.

    Parameters
    ----------
    judged : list of Judged
        One a claim.
    records : list of Record
        One a trained model.
    architectures : list of Architecture
    twins : dict
        Evidence of the untrained twins of each architecture, by its label.
    description : str
        What was read, in words.
    documents : Documents
    notes : list of str
        Models that were left out.
    failed_fit : str
        Status of the published fit where every document is the same.
    seed : int
    """

    judged: list[Judged]
    records: list[Record]
    architectures: list[Architecture]
    twins: dict[str, list[Evidence]]
    description: str
    documents: Documents
    notes: list[str]
    failed_fit: str
    seed: int = 0

    def of(self, architecture: Architecture) -> list[Record]:
        """Records of the trainings of an architecture."""
        names = {member.name for member in architecture.members}
        return [record for record in self.records if record.member.name in names]


def repeat(
    models: str | Path | None = None,
    *,
    bundled: Sequence[str] | None = None,
    text: str | Path | None = None,
    documents: int = 150,
    seed: int = 0,
    keep: Keep | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Repeat the study; see :func:`eddyscope.reproduction.run.reproduce`, which also writes it down."""
    members, notes = find_members(models, bundled)
    found = architectures(members)
    read_documents, description = read(members[0], text, documents, seed)
    _enough(read_documents)
    total = len(members) + TWINS * len(found)
    say = _counter(progress, total)
    twins: dict[str, list[Evidence]] = {}
    failed_fit = ""
    records: dict[str, Record] = {}
    with warnings.catch_warnings():
        # Published gates fail the causality check, and the masked half is read on purpose: the page says both.
        warnings.simplefilter("ignore", EddyscopeWarning)
        for architecture in found:
            twins[architecture.label] = []
            for twin in range(TWINS):
                say(f"untrained {architecture.label}, seed {twin}")
                twins[architecture.label].append(_untrained(architecture.members[0], twin, read_documents))
            for member in architecture.members:
                say(member.name)
                records[member.name], status = _trained(member, read_documents, seed, keep, first=not failed_fit)
                failed_fit = failed_fit or status
    if progress is not None:
        progress("", total, total)
    witnesses = [
        Witness(
            a.label,
            a.config.variant,
            f"{a.config.width}/{a.members[0].budget}",
            tuple(records[m.name].evidence for m in a.members),
            tuple(twins[a.label]),
        )
        for a in found
    ]
    return Reproduction(
        judge(witnesses), list(records.values()), found, twins, description, read_documents, notes,
        failed_fit, seed,
    )  # fmt: skip


def _counter(progress: Progress | None, total: int) -> Callable[[str], None]:
    counted: Iterator[int] = iter(range(total))

    def say(what: str) -> None:
        done = next(counted)
        if progress is not None:
            progress(what, done, total)

    return say


def _enough(documents: Documents) -> None:
    groups = int(documents.groups(GROUPS).max()) + 1
    if groups < MIN_GROUPS:
        raise InputError(
            f"{len(documents)} documents form {groups} groups; verdicts need at least {MIN_GROUPS}.",
            "Read more documents, or a longer text (--text).",
        )


def _untrained(member: Member, twin: int, documents: Documents) -> Evidence:
    """Evidence of one untrained twin."""
    from eddyscope.capture import capture
    from eddyscope.models import untrained

    model = untrained(member.config, twin, list(member.vocabulary))
    return gather(capture(model, documents, heads="each", checks=False))


def _trained(member: Member, documents: Documents, seed: int, keep: Keep | None, first: bool) -> tuple[Record, str]:
    from eddyscope.capture import capture
    from eddyscope.models import load

    model = load(member.folder)
    each = capture(model, documents, heads="each")
    mean = head_mean(each)
    published = analyze(mean, preset="published", dominant=1, intervals=False, seed=seed)
    ahead = analyze(mean, preset="published", dominant=1, modes=1, intervals=False, seed=seed, lags="ahead")
    defaults = analyze(mean, seed=seed)
    evidence = gather(each, defaults)
    if keep is not None:
        keep(member, "published", published)
        keep(member, "defaults", defaults)
    groups = sample_of(mean).groups
    assert groups is not None
    record = Record(
        member,
        evidence,
        tuple(layer_rows(mean, published, ahead, defaults, evidence)),
        gate_of(model, documents.ids, groups),
        tuple(fit_statuses(published, ahead)),
    )
    return record, _equal_documents(mean) if first else ""


def _equal_documents(ensemble: AttentionEnsemble) -> str:
    """Status of the published fit where every document is the first: there is nothing to fit."""
    layer = ensemble.select_layers([0])
    same = layer.select_documents(np.zeros(layer.count, dtype=np.int64))
    study = analyze(same, preset="published", dominant=1, modes=1, intervals=False)
    return fit_statuses(study)[0]
