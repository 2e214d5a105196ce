"""Sinks of one layer, and what lag statistics say with and without them."""

from __future__ import annotations

import numpy as np

from eddyscope.kernels.rank import effective_rank
from eddyscope.lagfield import FloatArray
from eddyscope.study.headstats import LagSource
from eddyscope.study.lagpart import Variables, budget_scalars
from eddyscope.study.options import Options, masked_keys
from eddyscope.study.rows import LagAxis
from eddyscope.trust.jackknife import jackknife
from eddyscope.trust.lag import energy_replicates
from eddyscope.trust.sinks import Sinks, describe_sinks
from eddyscope.trust.spectrum import SCALES, lag_spectrum, lag_spectrum_measures

#: What is compared with and without the sink, with the scale of its interval.
COMPARED = {
    "near_share": "share",
    "far_share": "share",
    "lag_beta_published": "linear",
    "lag_participation_ratio": "log",
}
#: Whose differences count, in this order, beside those: an integer, without an interval.
_RANK = "lag_effective_rank"
#: Integer ranks differ where they do by more than this share and more than one mode.
_RANK_CHANGE = 0.1
#: One over the share of the context that may be masked.
_MASKABLE = 8


def sink_variables(source: LagSource, options: Options, rows: LagAxis, variables: Variables) -> Variables:
    """Sinks that were found, and lag statistics under the other treatment of them.

    Parameters
    ----------
    source : LagSource
        With groups.
    options : Options
        ``sink`` says how the lag statistics of ``variables`` treat sinks; the other way is to keep them where all that
        were found are masked, and to mask the first keys up to the last sink where some were left.
    rows : LagAxis
        Of the rows in use.
    variables : Variables

    Returns
    -------
    Variables
        ``sink_other(sink_measure)`` and ``sink_matters(sink_measure)``, NaN and 0 where there is no sink, or
        where statistics under the other treatment were not kept.
    """
    names = [*COMPARED, _RANK]
    made: Variables = {"sink_measure": (("sink_measure",), np.array(names, dtype=object))}
    found, geometry = source.sinks(), source.geometry
    if found is None:
        nothing = np.full(geometry.keys, np.nan)
        made |= _found_variables(nothing, nothing, np.nan, np.nan, "")
    else:
        made |= _found_variables(found.share, found.mass, found.moving, found.moving_mass, describe_sinks(found))
    other: FloatArray = np.full(len(names), np.nan)
    matters: FloatArray = np.zeros(len(names))
    how = ""
    if found is not None and found.places and rows.queries.size:
        wanted = _keys_to_mask(found, geometry.keys)
        how = "keep" if masked_keys(options.sink) >= wanted else f"first={wanted}"
        if options.preset is None:
            other, matters = _compare(source, options, how, variables)
    return made | {
        "sink_other": (("sink_measure",), other),
        "sink_matters": (("sink_measure",), matters),
        "sink_other_treatment": ((), np.array(how, dtype=object)),
    }


def _found_variables(share: FloatArray, mass: FloatArray, moving: float, moving_mass: float, words: str) -> Variables:
    return {
        "sink_share": (("key",), share),
        "sink_key_mass": (("key",), mass),
        "moving_sinks": ((), moving),
        "moving_sink_mass": ((), moving_mass),
        "sinks": ((), np.array(words, dtype=object)),
    }


def _keys_to_mask(found: Sinks, keys: int) -> int:
    """First keys up to the last sink, unless that would mask more than an eighth of the context."""
    near = [place for place in found.places if place < keys // _MASKABLE]
    return max(near, default=0) + 1


def _compare(source: LagSource, options: Options, how: str, variables: Variables) -> tuple[FloatArray, FloatArray]:
    """Statistics under the other treatment, and whether those in use lie beyond their interval."""
    part = source.lags(how)
    if part is None or part.moments is None:
        return np.full(len(COMPARED) + 1, np.nan), np.zeros(len(COMPARED) + 1)
    there, covariance = part.axis, part.moments.covariance()
    if covariance.groups is None:
        return np.full(len(COMPARED) + 1, np.nan), np.ones(len(COMPARED) + 1)
    values = _statistics(covariance.fluctuation, np.diag(covariance.fluctuation), there)
    parts = [
        _statistics(covariance.groups.without(group), energy, there)
        for group, energy in enumerate(energy_replicates(covariance.groups))
    ]
    bounds = {n: jackknife(values[n], [p[n] for p in parts], scale) for n, scale in COMPARED.items()}
    matters = []
    for name in COMPARED:
        own = float(np.asarray(variables[name][1]))
        defined = np.isfinite(own) and np.isfinite(bounds[name].low)
        beyond = not bounds[name].low <= own <= bounds[name].high
        matters.append(float(beyond if defined else np.isfinite(own) != np.isfinite(values[name])))
    rank = float(effective_rank(lag_spectrum(covariance.fluctuation), options.tolerances[0]))
    own_rank = float(np.asarray(variables[_RANK][1])[0])
    matters.append(float(abs(rank - own_rank) > max(1.0, _RANK_CHANGE * max(rank, own_rank))))
    return np.array([*(values[n] for n in COMPARED), rank]), np.array(matters)


def _statistics(covariance: FloatArray, energy: FloatArray, rows: LagAxis) -> dict[str, float]:
    near, far, _ = budget_scalars(energy, rows)
    measured = dict(zip(SCALES, lag_spectrum_measures(lag_spectrum(covariance)), strict=True))
    return {
        "near_share": near,
        "far_share": far,
        "lag_beta_published": float(measured["beta_published"]),
        "lag_participation_ratio": float(measured["participation_ratio"]),
    }
