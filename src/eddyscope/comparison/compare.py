"""Compare studies layer by layer, with intervals paired over the documents that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from eddyscope.comparison.axes import Numbers, octave_table, spectrum_table
from eddyscope.comparison.quantities import BESIDE, COMPARED, LayerNumbers, difference, estimate, is_ratio
from eddyscope.comparison.series import series_table, steps_of
from eddyscope.comparison.subjects import (
    Subject,
    characters_per_token,
    make_subjects,
    same_documents,
    why_unpaired,
)
from eddyscope.errors import InputError
from eddyscope.study.measures import APPROXIMATE
from eddyscope.study.study import Study
from eddyscope.study.summary import rank_name
from eddyscope.trust.differences import holm
from eddyscope.trust.seeds import MIN_SEEDS


@dataclass(frozen=True)
class Comparison:
    """Studies side by side.

    Parameters
    ----------
    labels : tuple of str
        The first is the reference.
    values : pandas.DataFrame
        ``layer, head, subject, measure, value, low, high, seeds``: mean over seeds with its 95 % interval.
    differences : pandas.DataFrame
        ``layer, head, subject, reference, measure, kind, difference, low, high, p, paired, p_holm``: subject minus
        reference, or over it where ``kind`` is ``ratio``. ``p_holm`` is corrected for all layers and measures.
    octaves : pandas.DataFrame
        Shares of each octave that all have, and their differences.
    spectra : pandas.DataFrame
        Energy spectra on the scales that all have, and their ratios.
    notes : tuple of str
        What to know before reading the numbers.
    steps : tuple of float or None
        Training step of each, for a series.
    series : pandas.DataFrame or None
        Of a series: when each layer takes up its distances, see :func:`series_table`.
    """

    labels: tuple[str, ...]
    values: pd.DataFrame
    differences: pd.DataFrame
    octaves: pd.DataFrame
    spectra: pd.DataFrame
    notes: tuple[str, ...]
    steps: tuple[float, ...] | None = None
    series: pd.DataFrame | None = None

    def __repr__(self) -> str:
        layers = self.values["layer"].nunique()
        return f"<Comparison of {', '.join(self.labels)}: {layers} layers>"

    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table by its name."""
        made = {
            "values": self.values,
            "differences": self.differences,
            "octaves": self.octaves,
            "spectra": self.spectra,
        }
        return made if self.series is None else made | {"series": self.series}

    def save(self, out: str | Path, force: bool = False) -> Path:
        """Write tables and figures; see :func:`eddyscope.comparison.write.write_comparison`."""
        from eddyscope.comparison.write import write_comparison

        return write_comparison(self, out, force=force)


def compare(
    *studies: Study,
    labels: Sequence[str] | None = None,
    groups: Mapping[str, Sequence[Study]] | None = None,
    over: str | Sequence[float] | None = None,
    paired: bool | None = None,
) -> Comparison:
    """Compare studies layer by layer.

    Parameters
    ----------
    *studies : Study
        At least two; the first is the reference. Layers are aligned by their position.
    labels : sequence of str, optional
        Names of the studies; by default those of their models, or their steps.
    groups : mapping of str to sequence of Study, optional
        In place of studies: trainings of one architecture that differ by their seed. Differences then include the
        spread between seeds.
    over : "step" or sequence of float, optional
        The studies are checkpoints of one training run: at the steps that their labels end in, or at these.
    paired : bool, optional
        Whether the studies read the same documents; found out by default. For attention from arrays, of which this is
        not known, say it.

    Returns
    -------
    Comparison

    Raises
    ------
    UsageError
        For arguments that do not fit together.
    InputError
        Where one study kept heads and another their mean, or pairs have different groups of documents.

    Notes
    -----
    Differences are paired over documents by the jackknife over their groups. Where tokenizers or texts differ they
    are not, a note says so, and distances are also given in characters.
    """
    if labels is None and over is not None and not isinstance(over, str):
        labels = [f"step-{step:g}" for step in over]
    subjects = make_subjects(studies, labels, groups, paired)
    steps = steps_of(subjects, over, bool(groups))
    if steps is not None:
        order = np.argsort(steps, kind="stable")
        subjects, steps = [subjects[i] for i in order], tuple(steps[i] for i in order)
    if len({"head" in study.packed(0).dims for s in subjects for study in s.studies}) > 1:
        raise InputError(
            "One study kept each head and another their mean.", "Capture all with the same heads (--heads)."
        )
    notes: list[str] = []
    pairs = [_paired(subject, subjects[0], paired, notes) for subject in subjects]
    numbers = _layers(subjects, notes)
    characters = [characters_per_token(s.first) for s in subjects]
    in_characters = bool(np.ptp(characters) > 1e-9) if np.isfinite(characters).all() else False
    if in_characters:
        listed = ", ".join(f"{s.label} {c:.2f}" for s, c in zip(subjects, characters, strict=True))
        notes.append(f"Tokens differ in length (characters a token: {listed}): distances stand in characters too.")
    _note_seeds(subjects, notes)
    _note_sketches(subjects, notes)
    values = _values(subjects, numbers, characters if in_characters else None)
    return Comparison(
        labels=tuple(s.label for s in subjects),
        values=values,
        differences=_differences(subjects, numbers, pairs),
        octaves=octave_table(subjects, numbers, pairs, characters if in_characters else None),
        spectra=spectrum_table(subjects, numbers, pairs),
        notes=tuple(notes),
        steps=steps,
        series=None if steps is None else series_table(numbers, steps, pairs),
    )


def _paired(subject: Subject, reference: Subject, wanted: bool | None, notes: list[str]) -> bool:
    """Whether a subject read what the reference read; a note where it did not."""
    if subject is reference:
        return True
    known = same_documents(subject.first, reference.first)
    pair = known if wanted is None else wanted
    if wanted and not known and subject.first.documents is not None and reference.first.documents is not None:
        raise InputError(
            f"{subject.label} and {reference.label} cannot be paired: {why_unpaired(subject.first, reference.first)}.",
            "Leave out paired=True (--paired).",
        )
    if pair:
        groups = [s.first.packed(0)["group"].values for s in (subject, reference)]
        if not np.array_equal(groups[0], groups[1]):
            raise InputError(
                f"{subject.label} and {reference.label} have different groups of documents, so they cannot be paired."
            )
    else:
        why = why_unpaired(subject.first, reference.first) if not known else "that was asked for"
        notes.append(
            f"{subject.label} against {reference.label}: not paired over documents, {why}; intervals are wider, and "
            "what the texts do stands in the differences."
        )
    return pair


def _layers(subjects: list[Subject], notes: list[str]) -> list[Numbers]:
    """Numbers of every subject at the layers and heads that all have."""
    counts = [len(study.layers) for s in subjects for study in s.studies]
    depth = min(counts)
    if max(counts) > depth:
        notes.append(f"Models have {min(counts)} to {max(counts)} layers: the first {depth} are compared, by position.")
    lengths = {int(s.first.packed(0).attrs["full_rows"]) and int(s.first.packed(0).attrs["keys"]) for s in subjects}
    if len(lengths) > 1:
        notes.append("Contexts differ: octaves and scales that only some have are left out.")
    found: list[Numbers] = []
    for subject in subjects:
        own: Numbers = {}
        for layer in range(depth):
            for head in _heads(subject.first.packed(layer)):
                own[layer, head] = LayerNumbers(
                    [study.packed(layer, None if head == "mean" else head) for study in subject.studies]
                )
        found.append(own)
    shared = set.intersection(*(set(own) for own in found))
    if any(set(own) != shared for own in found):
        notes.append("Models have different heads: those that all have are compared.")
    return [{key: own[key] for key in own if key in shared} for own in found]


def _heads(data: xr.Dataset) -> list[str]:
    return [str(h) for h in data["head"].values] if "head" in data.dims else ["mean"]


def _note_sketches(subjects: list[Subject], notes: list[str]) -> None:
    """Say whose exponents and ranks come from a randomized POD."""
    for subject in subjects:
        layers = [study.packed(layer).attrs for study in subject.studies for layer in study.layers]
        apart = [float(own["largest_relative_difference"]) for own in layers if own.get("pod") == APPROXIMATE]
        if apart:
            notes.append(
                f"{subject.label}: exponents and ranks of the field POD are approximate (randomized POD); on a sample "
                f"its eigenvalues differ from the exact ones by at most {max(apart):.2g} of their size."
            )


def _note_seeds(subjects: list[Subject], notes: list[str]) -> None:
    fewest = min(len(s.studies) for s in subjects)
    if fewest >= MIN_SEEDS:
        notes.append(f"Groups of at least {fewest} seeds: differences are between architectures.")
    elif fewest > 1:
        notes.append(f"The smallest group has {fewest} seeds; a statement about an architecture needs {MIN_SEEDS}.")
    else:
        notes.append("Single models are compared: other seeds of the same architectures may differ.")


def _values(subjects: list[Subject], numbers: list[Numbers], characters: list[float] | None) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for index, (subject, own) in enumerate(zip(subjects, numbers, strict=True)):
        for (layer, head), layer_numbers in own.items():
            place = {"layer": layer, "head": head, "subject": subject.label}
            for name in COMPARED:
                found = estimate(layer_numbers, name)
                rows.append(place | {"measure": name, "value": found.value, "low": found.low, "high": found.high})
            beside = {name: _beside(layer_numbers, name) for name in BESIDE}
            if characters is not None:
                octave = estimate(layer_numbers, "mean_octave")
                moved = np.log2(characters[index])
                ends = {"value": octave.value + moved, "low": octave.low + moved, "high": octave.high + moved}
                rows.append(place | {"measure": "mean_octave_characters"} | ends)
                for name in ("median_lag", "dominant_wavelength"):
                    beside[f"{name}_characters"] = beside[name] * characters[index]
            nothing = {"low": float("nan"), "high": float("nan")}
            rows += [place | {"measure": name, "value": value} | nothing for name, value in beside.items()]
    table = pd.DataFrame(rows)
    table["seeds"] = table["subject"].map({s.label: len(s.studies) for s in subjects})
    return table


def _beside(numbers: LayerNumbers, name: str) -> float:
    """Mean over seeds of a number without an interval."""
    found = []
    for data in numbers.layers:
        if name == "dominant_wavelength":
            found.append(float(data[name].values[0]))
        elif name == "h_10":
            names = [rank_name(float(t)) for t in data["tolerance"].values]
            found.append(float(data["field_effective_rank"].values[names.index(name)]) if name in names else np.nan)
        else:
            found.append(float(data[name]))
    return float(np.mean(found))


def _differences(subjects: list[Subject], numbers: list[Numbers], pairs: list[bool]) -> pd.DataFrame:
    """Differences of every subject to the first, corrected together."""
    rows: list[dict[str, Any]] = []
    for subject, own, pair in list(zip(subjects, numbers, pairs, strict=True))[1:]:
        for key, layer_numbers in own.items():
            for name in COMPARED:
                found = difference(layer_numbers, numbers[0][key], name, pair)
                ends = np.array([found.value, found.low, found.high])
                ends = np.exp(ends) if is_ratio(name) else ends
                rows.append(
                    {
                        "layer": key[0],
                        "head": key[1],
                        "subject": subject.label,
                        "reference": subjects[0].label,
                        "measure": name,
                        "kind": "ratio" if is_ratio(name) else "difference",
                        "difference": ends[0],
                        "low": ends[1],
                        "high": ends[2],
                        "p": found.p,
                        "paired": pair,
                    }
                )
    table = pd.DataFrame(rows)
    table["p_holm"] = np.nan
    for label in table["subject"].unique():
        chosen = table["subject"] == label
        table.loc[chosen, "p_holm"] = holm(table.loc[chosen, "p"].to_numpy())
    return table
