"""What can be concluded of a layer and what cannot, in words, from the same fields that the tables show."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from eddyscope.study.measures import APPROXIMATE, LEADING_ALONE, NO_FLUCTUATION, NOT_KEPT
from eddyscope.study.nulltable import NULL_MEASURES
from eddyscope.study.summary import peak_octave
from eddyscope.study.trustsummary import convergence

_NAMES = {
    "near_share": "share near",
    "far_share": "share far",
    "sink_mass": "sink mass",
    "row_mass": "row mass",
    "fluctuation_level": "fluctuation level",
    "field_participation_ratio": "participation ratio",
    "field_beta_published": "beta as published",
    "field_beta_resolved": "resolved beta",
    "lag_participation_ratio": "participation ratio of lag profiles",
    "lag_beta_published": "lag beta as published",
    "lag_beta_resolved": "resolved lag beta",
}
_SELECTED = 0.9
_LEVEL = 0.05
#: An interval that spans more than this factor: some replicate lacks documents that carry much of the energy.
_WIDE = 4


def conclusions(data: xr.Dataset) -> list[str]:
    """Sentences on one layer and head: what holds, and what the documents cannot tell, with the reason.

    Parameters
    ----------
    data : xarray.Dataset
        Packed or expanded results of one layer and head.

    Returns
    -------
    list of str
        Without intervals there is one sentence, which says so.
    """
    status = str(data["field_stable_rank_status"].values)
    along = str(data["lag_stable_rank_status"].values)
    if NO_FLUCTUATION in (status, along if status == NOT_KEPT else status):
        if data.attrs.get("documents") == 1:
            return ["There is one document, and nothing to compare it with."]
        return ["Every document gives the same attention: nothing to measure."]
    if "measure_convergence" not in data:
        return ["No intervals: they were left out, or there are fewer than 8 groups of documents."]
    modes = [_not_kept(data)] if status == NOT_KEPT else [_decay(data), _dimension(data), _rank(data)]
    if data.attrs.get("pod") == APPROXIMATE:
        modes.insert(0, _approximate(data))
    said = [_distance(data), *modes, _sink(data), *_nulls(data)]
    return [sentence for sentence in said if sentence]


def _distance(data: xr.Dataset) -> str:
    if data.attrs.get("kind") == "cross":
        return "Distances: none, as queries and keys of cross attention belong to different sequences."
    octave, selected = peak_octave(data), float(data["peak_octave_selected"])
    if not octave:
        return "Distances: no query is left beside the sink."
    half = f"half of the fluctuation lies within {_tokens(float(data['median_lag']))}"
    if selected < _SELECTED:
        return (
            f"Distances: {half}; which octave is densest changes with the documents ({selected:.0%} agree on {octave})."
        )
    return f"Distances: densest at {octave} tokens; {half}."


def _not_kept(data: xr.Dataset) -> str:
    text = f"Patterns of the field: {NOT_KEPT}"
    if str(data["lag_participation_ratio_status"].values) != "ok":
        return f"{text}."
    return f"{text}; along the lag the effective dimension is {_interval(data, 'lag_participation_ratio')}."


def _approximate(data: xr.Dataset) -> str:
    apart, checked = float(data.attrs["largest_relative_difference"]), int(data.attrs["documents_checked"])
    return (
        f"Patterns: approximate (randomized POD); on {checked:,} of the documents eigenvalues differ from the exact "
        f"ones by at most {apart:.2g} of their size."
    )


def _decay(data: xr.Dataset) -> str:
    status = str(data["field_beta_resolved_status"].values)
    window = int(data["field_resolved_window"])
    if status == "unresolved":
        return (
            f"Decay: not resolved, two halves of the documents agree on {window} patterns and 8 are needed; beta as "
            "published says what the sample size says."
        )
    value = _interval(data, "field_beta_resolved")
    if status in ("ok", APPROXIMATE):
        verdict = convergence(data, "field_beta_resolved")
        note = "" if verdict is None or verdict[0] == "converged" else f" ({verdict[1]})"
        return f"Decay: beta {value} on the first {window} patterns{note}."
    return f"Decay: beta {value} on the first {window} patterns, but {status}."


def _dimension(data: xr.Dataset) -> str:
    status = str(data["field_participation_ratio_status"].values)
    if status == LEADING_ALONE:
        return "Effective dimension: not known, as it needs every eigenvalue."
    if status != "ok":
        return f"Effective dimension: {status}."
    verdict = convergence(data, "field_participation_ratio")
    assert verdict is not None
    value = _interval(data, "field_participation_ratio")
    low, high = (float(data[f"field_participation_ratio_{end}"]) for end in ("low", "high"))
    if high > _WIDE * low:
        value += ", so wide because a few documents decide"
    if verdict[0] == "converged":
        return f"Effective dimension: {value}, the same at half of the documents."
    return f"Effective dimension: {value}, {verdict[0]} ({verdict[1]})."


def _rank(data: xr.Dataset) -> str:
    tolerance = float(data["tolerance"].values[0])
    low = float(data["field_effective_rank_low"].values[0])
    high = float(data["field_effective_rank_high"].values[0])
    share = f"{1 - tolerance:.0%} of the energy"
    status = str(data["field_effective_rank_status"].values[0])
    if status.startswith(">"):
        return f"Patterns for {share}: more than {status.removeprefix('> ')}, beyond which none were computed."
    if math.isinf(high):
        capture = float(data["field_greatest_capture"])
        reason = str(data["field_effective_rank_convergence_reason"].values[0])
        text = f"Patterns for {share}: more than {low:.0f}; those found hold {capture:.0%} of documents held out"
        return f"{text} ({reason})." if reason.startswith("H*/N") else f"{text}."
    return f"Patterns for {share}: between {low:.0f} and {high:.0f}."


def _sink(data: xr.Dataset) -> str:
    sinks = str(data["sinks"].values)
    if not sinks:
        return ""
    names = [str(n) for n in data["sink_measure"].values]
    moved = [
        f"{name.removeprefix('lag_').replace('_', ' ')} {_plain(data, name)} against {float(other):.3g}"
        for name, other, matters in zip(names, data["sink_other"].values, data["sink_matters"].values, strict=True)
        if matters
    ]
    how = str(data["sink_other_treatment"].values)
    text = f"Sinks: {sinks}"
    if moved:
        text += f"; with sink={how} lag statistics differ: {', '.join(moved)}"
    if float(data["moving_sinks"]) >= 1:
        text += "; those at changing places stay in the lag statistics, which they make look flat"
    return f"{text}."


def _nulls(data: xr.Dataset) -> list[str]:
    if "null_p_holm" not in data:
        return []
    said = []
    for index, comparison in enumerate(str(c) for c in data["comparison"].values):
        p, apart = data["null_p_holm"].values[index], data["null_difference"].values[index]
        found = [
            f"{_NAMES[name]} {'higher' if apart[i] > 0 else 'lower'}"
            for i, name in enumerate(NULL_MEASURES)
            if name in _NAMES and p[i] < _LEVEL
        ]
        what = {"twin": "the untrained twin", "shuffled": "shuffled documents", "phases": "random phases"}[comparison]
        said.append(f"Against {what}: {', '.join(found) if found else 'no difference beyond chance'}.")
    return said


def _plain(data: xr.Dataset, name: str) -> str:
    return _figures(float(np.asarray(data[name].values).ravel()[0]))


def _interval(data: xr.Dataset, name: str) -> str:
    value, low, high = (float(data[f"{name}{end}"]) for end in ("", "_low", "_high"))
    if not math.isfinite(low):
        return _figures(value)
    return f"{_figures(value)} ({_figures(low)} to {_figures(high)})"


def _figures(value: float) -> str:
    """Three significant digits, large numbers without an exponent."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def _tokens(count: float) -> str:
    return f"{count:.0f} token{'' if round(count) == 1 else 's'}"
