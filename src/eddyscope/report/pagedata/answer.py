"""The answer in sentences: where each layer works, what recurs, and what so many documents cannot tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eddyscope.report.nulls import NULL_STYLES
from eddyscope.report.pagedata.facts import Facts, of_layers
from eddyscope.report.views import View
from eddyscope.study.nulltable import NULL_MEASURES

#: Layers up to which each is named with its number; beyond, the ends of the range are.
_FEW = 8
_LEVEL = 0.05


@dataclass(frozen=True)
class Sentence:
    """One sentence of the answer.

    Parameters
    ----------
    about : str
        What it says something about: ``nearest``, ``farthest``, ``flat``, ``shares``, ``first mode``, ...
    text : str
        ``[[term]]`` and ``[[term|as written]]`` mark terms of art, see :mod:`eddyscope.report.pagedata.glossary`.
    numbers : dict
        The numbers in it, as the study holds them.
    """

    about: str
    text: str
    numbers: dict[str, Any] = field(default_factory=dict)


def answer(found: Sequence[Facts], shown: Sequence[View], documents: int) -> list[Sentence]:
    """Sentences on a study, the most important first.

    Parameters
    ----------
    found : sequence of Facts
        One a layer and head.
    shown : sequence of View
        The same layers and heads.
    documents : int
    """
    layers = [one for one in of_layers(found, shown) if np.isfinite(one.median_lag)]
    known = [one for one in found if np.isfinite(one.median_lag)]
    said = [*_distances(layers), *_shares(layers), *_heads(known), *_missing(found), *_first_modes(found, documents)]
    said += [*_not_kept(found), *_wavelengths(known), *_unresolved(found, documents), *_nulls(shown)]
    return said


def _heads(known: Sequence[Facts]) -> list[Sentence]:
    """The nearest and the farthest of single heads."""
    if len({one.head for one in known}) < 2:
        return []
    near, far = min(known, key=lambda one: one.median_lag), max(known, key=lambda one: one.median_lag)
    if near.median_lag == far.median_lag:
        return []

    def alike(one: Facts) -> str:
        others = sum(other.median_lag == one.median_lag for other in known) - 1
        return f" (as in {others} other{'s' if others > 1 else ''})" if others else ""

    text = (
        f"Of single heads, {_head(near)} is nearest, with half within {_tokens(near.median_lag)}{alike(near)}, and "
        f"{_head(far)} farthest, with half within {_tokens(far.median_lag)}{alike(far)}."
    )
    return [Sentence("heads", text, {"nearest": near.median_lag, "farthest": far.median_lag})]


def _head(one: Facts) -> str:
    return one.label if one.head == "mean" else f"head {one.head} of layer {one.index}"


def _distances(known: Sequence[Facts]) -> list[Sentence]:
    if not known:
        return []
    flat = [one for one in known if one.flat]
    if len(flat) == len(known):
        who = "No layer prefers" if len(known) > 1 else f"{_cap(known[0].label)} does not prefer"
        text = (
            f"{who} a distance: the [[fluctuation]] is spread over all of them about evenly, as attention without "
            "structure would be."
        )
        return [Sentence("flat", text, {"flat": [one.label for one in flat]})]
    least = min(one.median_lag for one in known)
    most = max(one.median_lag for one in known)
    near = [one for one in known if one.median_lag == least]
    if least == most:
        text = f"{_all(near)} within {_tokens(least)} of the query."
        return [Sentence("nearest", text, {"median_lag": least})]
    far = [one for one in known if one.median_lag == most]
    said = [
        Sentence(
            "nearest",
            f"{_who(near, 'works nearest', 'work nearest')}: half of the [[fluctuation]] there lies within "
            f"{_tokens(least)} of the query{_unsure(near)}.",
            {"median_lag": least, "layers": [one.label for one in near]},
        ),
        Sentence(
            "farthest",
            f"{_who(far, 'works farthest', 'work farthest')}: half lies within {_tokens(most)}{_unsure(far)}.",
            {"median_lag": most, "layers": [one.label for one in far]},
        ),
    ]
    if flat:
        text = f"{_who(flat, 'prefers', 'prefer')} no distance: every [[octave]] holds about its part of them."
        said.append(Sentence("flat", text, {"flat": [one.label for one in flat]}))
    return said


def _shares(known: Sequence[Facts]) -> list[Sentence]:
    if not known:
        return []
    parts, numbers = [], {}
    for name, where in (("near", "at distances below 8 tokens"), ("far", "in the farther half of the distances")):
        values = [(getattr(one, name), one) for one in known if np.isfinite(getattr(one, name))]
        if not values:
            continue
        (low, least), (high, most) = min(values, key=lambda v: v[0]), max(values, key=lambda v: v[0])
        numbers[name] = (low, high)
        if percent(low) == percent(high):
            parts.append(f"{where} {percent(low)}")
        else:
            parts.append(f"{where} from {percent(low)} ({_head(least)}) to {percent(high)} ({_head(most)})")
    text = f"Share of the [[fluctuation]] {'; '.join(parts)}."
    return [Sentence("shares", text, numbers)] if parts else []


def _missing(found: Sequence[Facts]) -> list[Sentence]:
    said = []
    for reason in dict.fromkeys(one.missing for one in found if one.missing):
        which = [one for one in found if one.missing == reason]
        why = reason.replace("fluctuation", "[[fluctuation]]")
        text = f"{_cap(_names(which))}: no distances, {why}."
        said.append(Sentence("missing", text, {"layers": [one.label for one in which], "reason": reason}))
    return said


def _first_modes(found: Sequence[Facts], documents: int) -> list[Sentence]:
    known = [one for one in found if np.isfinite(one.first_share)]
    if not known:
        return []
    even = 1 / max(1, documents - 1)
    numbers = {one.label: (one.first_share, one.first_lag) for one in known}
    if len(known) <= _FEW:
        each = "; ".join(
            f"{one.label} {percent(one.first_share)}, {_lag(i)}{one.first_lag:.0f}" for i, one in enumerate(known)
        )
        text = f"The first [[mode]] of each layer holds of its fluctuation: {each}."
        if len(known) == 1:
            one = known[0]
            text = (
                f"The first [[mode]] of {one.label} holds {percent(one.first_share)} of its fluctuation and is largest "
                f"at a [[lag]] of {one.first_lag:.0f}."
            )
    else:
        low, high = min(known, key=lambda o: o.first_share), max(known, key=lambda o: o.first_share)
        text = (
            f"The first [[mode]] holds from {percent(low.first_share)} ({_head(low)}) to {percent(high.first_share)} "
            f"({_head(high)}) of the fluctuation; the table below has each."
        )
    text += f" If {documents} documents had nothing in common and fluctuated alike, it would hold {percent(even)}."
    return [Sentence("first mode", text, numbers | {"even": even})]


def _lag(place: int) -> str:
    return "largest at a [[lag]] of " if place == 0 else "at "


def _not_kept(found: Sequence[Facts]) -> list[Sentence]:
    without = [one for one in found if not one.kept]
    if not without:
        return []
    text = (
        "Which patterns recur, how many there are and where they are in the text cannot be said: this study kept "
        "statistics along the distance, and not the attention itself."
    )
    return [Sentence("fields", text, {"layers": [one.label for one in without]})]


def _wavelengths(known: Sequence[Facts]) -> list[Sentence]:
    if not known:
        return []
    found = [one for one in known if one.wavelengths]
    without = [one for one in known if not one.wavelengths]
    if not found:
        return [Sentence("wavelengths", "No layer has a [[dominant wavelength]].", {})]
    each = "; ".join(f"{_head(one)}: {', '.join(f'{w:.3g}' for w in one.wavelengths)}" for one in found[:_FEW])
    more = f" and {len(found) - _FEW} more" if len(found) > _FEW else ""
    text = f"[[dominant wavelength|Dominant wavelengths]] in tokens: {each}{more}."
    if without:
        text += f" {_who(without, 'has', 'have')} none."
    return [Sentence("wavelengths", text, {one.label: one.wavelengths for one in found})]


#: What may not be resolved: the status to look at, and how to say it.
_UNRESOLVED: dict[str, tuple[Callable[[Facts], bool], str]] = {
    "decay": (lambda one: one.decay == "unresolved", "the [[decay exponent]]"),
    "rank": (lambda one: one.rank == "unresolved", "the [[effective rank]]"),
    "dimension": (
        lambda one: one.dimension in ("unresolved", "too few documents"),
        "the [[effective dimension]]",
    ),
    "distance": (lambda one: bool(np.isfinite(one.median_lag)) and not one.sure, "the distance that holds half"),
}


def _unresolved(found: Sequence[Facts], documents: int) -> list[Sentence]:
    parts, numbers = [], {}
    for name, (fails, what) in _UNRESOLVED.items():
        which = [one for one in found if fails(one)]
        if which:
            numbers[name] = [one.label for one in which]
            everywhere = len(which) == len(found) and len(found) > 1
            parts.append(f"{what} ({'everywhere' if everywhere else _names(which, most=4)})")
    count = f"{documents} document{'' if documents == 1 else 's'}"
    if not any(one.decay for one in found):
        text = f"No intervals were computed, so nothing here says how far {count} can be trusted."
        return [Sentence("unresolved", text, numbers)]
    if not parts:
        return [Sentence("unresolved", f"All of these numbers are [[resolved]] by {count}.", numbers)]
    return [Sentence("unresolved", f"Not [[resolved]] by {count}: {_and(parts)}.", numbers)]


_COMPARED = {
    "near_share": "the share near",
    "far_share": "the share far",
    "fluctuation_level": "the level of fluctuation",
    "field_participation_ratio": "the [[effective dimension]]",
}


def _nulls(shown: Sequence[View]) -> list[Sentence]:
    """How many layers differ from each null model, corrected for all that was looked at."""
    held = [view.data for view in shown if "null_p_holm" in view.data]
    if not held:
        text = (
            "No [[null model]] stands beside these numbers; eddyscope run --null twin adds what the same model gives "
            "untrained."
        )
        return [Sentence("nulls", text, {})]
    said = []
    for place, comparison in enumerate(str(c) for c in held[0]["comparison"].values):
        if comparison not in NULL_STYLES:
            continue
        parts, numbers = [], {}
        for measure, what in _COMPARED.items():
            column = NULL_MEASURES.index(measure)
            sure = [d["null_p_holm"].values[place, column] < _LEVEL for d in held]
            up = [d["null_difference"].values[place, column] > 0 for d in held]
            higher = sum(s and u for s, u in zip(sure, up, strict=True))
            lower = sum(s and not u for s, u in zip(sure, up, strict=True))
            numbers[measure] = (int(higher), int(lower), len(held))
            directions = [(higher, "higher"), (lower, "lower")]
            told = " and ".join(f"{word} in {count}" for count, word in directions if count)
            if told:
                parts.append(f"{what} is {told}")
        what = {"twin": "the untrained twin", "shuffled": "shuffled documents"}[comparison]
        text = f"Against the [[null model]] of {what}, of {_counted(held, shown)}: "
        text += f"{'; '.join(parts)}." if parts else "no difference beyond chance."
        said.append(Sentence(f"null {comparison}", text, numbers))
    return said


def _counted(held: Sequence[Any], shown: Sequence[View]) -> str:
    what = "layers" if all(view.head == "mean" for view in shown) else "heads"
    return f"{len(held)} {what if len(held) != 1 else what[:-1]}"


def _all(which: Sequence[Facts]) -> str:
    if len(which) == 1:
        return f"Half of the [[fluctuation]] of {which[0].label} lies"
    return "All layers work at the same distances: half of the [[fluctuation]] lies"


def _unsure(which: Sequence[Facts]) -> str:
    return "" if all(one.sure for one in which) else " (a distance that changes with the documents)"


def _who(which: Sequence[Facts], one: str, many: str) -> str:
    return f"{_cap(_names(which))} {one if len(which) == 1 else many}"


def _names(which: Sequence[Facts], most: int = _FEW) -> str:
    """``layer 3``, ``layers 0, 2 and 5``, ``head 1 of layer 3``; of many the first and their number."""
    if len(which) == 1:
        return _head(which[0])
    layers = all(one.head == "mean" for one in which)
    shown = [str(one.index) if layers else _head(one) for one in which[: most if layers else 3]]
    rest = len(which) - len(shown)
    listed = _and(shown) if not rest else f"{', '.join(shown)} and {rest} more"
    return f"layers {listed}" if layers else listed


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _cap(text: str) -> str:
    return text[:1].upper() + text[1:]


def _tokens(count: float) -> str:
    return f"{count:.0f} token{'' if round(count) == 1 else 's'}"


def percent(share: float) -> str:
    """Two digits: 4.7 %, 84 %, below a hundredth of a percent as such."""
    if 0 < share < 1e-4:
        return "under 0.01 %"
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.2g} %"
