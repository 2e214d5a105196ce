"""What is compared: studies, or groups of them, and whether they read the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eddyscope.errors import InputError, UsageError
from eddyscope.study.study import Study


@dataclass(frozen=True)
class Subject:
    """One side of a comparison: a study, or the studies of several training seeds.

    Parameters
    ----------
    label : str
    studies : tuple of Study
        All read the same documents.
    """

    label: str
    studies: tuple[Study, ...]

    @property
    def first(self) -> Study:
        """The study that speaks for what all have in common."""
        return self.studies[0]


def name_of(study: Study) -> str:
    """Name of a study's model, as labels start with."""
    model = study.provenance.get("model") or {}
    name = str(model.get("name") or (study.provenance.get("file") or {}).get("name") or "study")
    return re.split(r"[\\/]", name.rstrip("\\/"))[-1] or "study"


def make_subjects(
    studies: Sequence[Study],
    labels: Sequence[str] | None,
    groups: Mapping[str, Sequence[Study]] | None,
    paired: bool | None = None,
) -> list[Subject]:
    """Subjects from studies or groups, with unique labels.

    Raises
    ------
    UsageError
        Where there are both or fewer than two, or labels do not fit.
    InputError
        Where the studies of a group read different documents.
    """
    if groups and studies:
        raise UsageError("Give studies, or groups of studies, not both.")
    given = [study for members in groups.values() for study in members] if groups else list(studies)
    for study in given:
        if not isinstance(study, Study):
            raise InputError(
                f"One of the studies is {type(study).__name__}, expected a Study.",
                "Open it with eddyscope.open_study(path).",
            )
    if groups:
        made = [Subject(str(label), tuple(members)) for label, members in groups.items()]
        for subject in made:
            if not subject.studies:
                raise UsageError(f"The group '{subject.label}' is empty.")
            _check_group(subject, paired)
    else:
        names = [name_of(s) for s in studies] if labels is None else [str(label) for label in labels]
        if len(names) != len(studies):
            raise UsageError(f"There are {len(names)} labels for {len(studies)} studies.")
        made = [Subject(label, (study,)) for label, study in zip(_unique(names), studies, strict=True)]
    if len(made) < 2:
        raise UsageError(f"A comparison needs at least two studies or groups, got {len(made)}.")
    return made


def _check_group(subject: Subject, paired: bool | None) -> None:
    """Seeds of a group must be different trainings, and have read the same documents: their replicates are averaged."""
    for other in subject.studies[1:]:
        unknown = subject.first.documents is None and other.documents is None
        if not same_documents(subject.first, other) and not (paired and unknown):
            raise InputError(
                f"The studies of the group '{subject.label}' cannot be joined: {why_unpaired(subject.first, other)}.",
                "Let all seeds of a group read the same text, with the same context and seed; of arrays that are known "
                "to belong together say so (paired=True, --paired).",
            )
    weights = [weights_of(study) for study in subject.studies]
    for place, known in enumerate(weights):
        if known is not None and known in weights[:place]:
            raise InputError(
                f"Studies {weights.index(known) + 1} and {place + 1} of the group '{subject.label}' are of one model, "
                "which would count as two seeds.",
                "Give each training once.",
            )


def weights_of(study: Study) -> str | None:
    """What tells one training from another: the digest of its weights, or of the file of arrays; None if not known."""
    digests = (
        (study.provenance.get("model") or {}).get("weights_sha256"),
        (study.provenance.get("file") or {}).get("sha256"),
    )
    return next((str(digest) for digest in digests if digest), None)


def _unique(names: list[str]) -> list[str]:
    if len(set(names)) == len(names):
        return names
    return [f"{name} ({number})" if names.count(name) > 1 else name for number, name in enumerate(names, 1)]


def same_documents(first: Study, second: Study) -> bool:
    """Whether two studies are known to have read the same token windows, grouped in the same way."""
    one, other = first.documents, second.documents
    if one is None or other is None or one.ids.shape != other.ids.shape:
        return False
    return bool(np.array_equal(one.ids, other.ids)) and _tokenizer(first) == _tokenizer(second)


def _tokenizer(study: Study) -> tuple[object, object]:
    """What ids mean: equal ids of different vocabularies are different texts."""
    assert study.documents is not None
    identity = study.documents.identity
    texts = study.documents.texts
    return (identity.get("kind"), None if texts is None else texts)


def why_unpaired(first: Study, second: Study) -> str:
    """Why two studies cannot be paired over documents, as the end of a sentence."""
    one, other = first.documents, second.documents
    if one is None or other is None:
        return "what was read is not known (attention came from arrays)"
    files = [{str(s.get("sha256")) for s in d.identity.get("sources", [])} for d in (one, other)]
    if one.identity.get("kind") == other.identity.get("kind") == "text" and files[0] == files[1]:
        if one.identity.get("tokenizer") != other.identity.get("tokenizer"):
            return "the tokenizers differ"
        return "the same text was cut into different documents"
    return "the texts differ"


def characters_per_token(study: Study) -> float:
    """Mean number of characters of a token that is not special; NaN where texts were not kept."""
    documents = study.documents
    if documents is None or documents.texts is None:
        return float("nan")
    tokens = int((~documents.special).sum())
    return sum(map(len, documents.texts)) / tokens if tokens else float("nan")


def step_of(label: str) -> float:
    """Training step at the end of a label, or of a folder in it: ``000100``, ``base-100``, ``step-100/study.zarr``.

    Raises
    ------
    UsageError
        Where there is no number at the end of a part; the number in brackets by which equal names are told apart is
        none.
    """
    found = re.search(r"(\d+)(?:\.zarr)?(?:/[^/\d]*)*$", label)
    if found is None:
        raise UsageError(
            f"'{label}' does not end in a training step.",
            "Name the studies by their step, such as step-100, or give the steps (over=[0, 100, ...]).",
        )
    return float(found.group(1))
