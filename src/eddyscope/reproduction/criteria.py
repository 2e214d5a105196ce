"""The criteria: what must be measured for each claim of the published study to count as supported.

Each claim has one function here, and its rule in words in :mod:`eddyscope.reproduction.claims`, which the page prints.
They were fixed before any model was looked at, and know no model: a function gets the evidence of the trainings of one
architecture, of its untrained twins and, where two architectures are compared, of the other one, and gives a
:class:`Finding`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from eddyscope.lagfield import FloatArray
from eddyscope.reproduction.evidence import Evidence, Measured
from eddyscope.trust.differences import Difference, holm
from eddyscope.trust.seeds import seeds_difference, seeds_estimate

SUPPORTED, REFUTED, OPEN = "supported", "not supported", "not resolved at this N"

EARLY, MIDDLE, LATE = slice(0, 2), slice(2, 4), slice(4, 6)
#: Half an octave: the published distance between early and late layers is one and a half.
LEAST_OCTAVES = 0.5
#: "About" means within this factor.
ABOUT = 1.25
T_SPEC = 1.0
RANK = 91.0
#: Share of the replicates that must agree on what is not a number.
AGREED = 0.9
#: Oscillation: changes of sign, of what is above this share of the profile's largest value.
SIGN_CHANGES, AUDIBLE = 2, 0.1
#: Least share of the profile's energy in the range where it is said to oscillate.
HELD = 0.5
#: A peak is a local maximum above this share of the largest value.
PEAK = 0.5


@dataclass(frozen=True)
class Finding:
    """A verdict on one claim for one architecture, or for the models that stand for it.

    Parameters
    ----------
    verdict : str
        One of :data:`SUPPORTED`, :data:`REFUTED`, :data:`OPEN`.
    measured, null : str
        What the trained models gave, and their untrained twins.
    why : str
        A sentence.
    """

    verdict: str
    measured: str
    null: str
    why: str


Seeds = Sequence[Evidence]
_THIRDS = ("3-4", "5-6")


# --- one architecture -----------------------------------------------------------------------------------------------


def distances(trained: Seeds, twins: Seeds) -> Finding:
    """C1: early layers near, late layers far."""
    own, null = _rise(trained), _rise(twins)
    apart = seeds_difference(*own, *null)
    found, twin = seeds_estimate(*own), seeds_estimate(*null)
    words = f"{_shown(found)} octaves", f"{_shown(twin)} octaves"
    if found.low > 0 and apart.low > 0:
        return Finding(SUPPORTED, *words, "Late layers hold their energy at larger distances, untrained twins do not.")
    if found.high < 0:
        return Finding(
            REFUTED, *words, "It is the other way round: late layers hold their energy nearer than early ones."
        )
    if found.low > 0 and (twin.low > 0 or apart.high < 0):
        return Finding(REFUTED, *words, "Untrained twins show it too, so training is not what makes it.")
    if found.low <= 0 <= found.high < LEAST_OCTAVES:
        return Finding(REFUTED, *words, f"Early and late layers differ by less than {LEAST_OCTAVES} octaves.")
    return Finding(OPEN, *words, "The interval of the difference, or of that to the twins, holds 0.")


def _rise(models: Seeds) -> tuple[FloatArray, FloatArray]:
    """Mean octave of layers 5-6 less that of layers 1-2, one value a seed."""
    return _contrast([m.mean_octave for m in models], LATE, EARLY)


def concentration(trained: Seeds, twins: Seeds) -> Finding:
    """C2: T_spec about 1 in layers 1-2."""
    found = [_of_layer([m.t_spec for m in trained], layer) for layer in range(2)]
    null = [_of_layer([m.t_spec for m in twins], layer) for layer in range(2)]
    apart = [
        seeds_difference(*_values([m.t_spec for m in trained], k), *_values([m.t_spec for m in twins], k))
        for k in range(2)
    ]
    words = _listed(map(_shown, found)), _listed(map(_shown, null))
    low, high = T_SPEC / ABOUT, T_SPEC * ABOUT
    resolved = np.stack([m.resolved[:, :2] for m in trained])
    beside = _beside(resolved)
    if any(not np.isfinite(f.low) for f in found):
        return Finding(OPEN, *words, f"A fit failed or has no interval, which is no T_spec of 1. {beside}")
    if any(f.high < low or f.low > high for f in found):
        return Finding(REFUTED, *words, f"The published form, at the published N, gives another value. {beside}")
    if (resolved[:, 2] < low).any() or (resolved[:, 1] > high).any():
        return Finding(REFUTED, *words, f"The resolved exponent contradicts the published form. {beside}")
    inside = all(low <= f.low and f.high <= high for f in found)
    if inside and all(a.low > 0 or a.high < 0 for a in apart):
        return Finding(
            SUPPORTED, *words, f"Both layers lie within {low:g} to {high:g}, away from their twins. {beside}"
        )
    if inside and any(low <= n.low and n.high <= high for n in null):
        return Finding(REFUTED, *words, f"Untrained twins give it too. {beside}")
    return Finding(
        OPEN, *words, f"An interval reaches over an end of {low:g} to {high:g}, or holds the twins. {beside}"
    )


def _beside(resolved: FloatArray) -> str:
    known = resolved[:, 0][np.isfinite(resolved[:, 0])]
    if not known.size:
        return "The resolved exponent is unresolved in both layers."
    return f"Resolved T_spec: {', '.join(f'{v:.2f}' for v in known)}."


def patterns(trained: Seeds, twins: Seeds) -> Finding:
    """C3: layer 2 oscillates near, layer 4 peaks at 10-35, layer 6 has several peaks over 10-40."""
    found = _agreement(trained)
    if found is None:
        return Finding(OPEN, "", "", "The lag axis ends before 40 tokens, or a layer does not fluctuate.")
    null = _agreement(twins)
    names = ("layer 2 oscillates at 2-10", "layer 4 peaks at 10-35", "layer 6 has several peaks over 10-40")
    words = (_agreed(names, found), "" if null is None else _agreed(names, null))
    failing = [name for name, share in zip(names, found, strict=True) if share <= 1 - AGREED]
    if failing:
        return Finding(REFUTED, *words, f"Not so: {'; '.join(failing)}.")
    if (found >= AGREED).all():
        if null is not None and (null >= AGREED).all():
            return Finding(REFUTED, *words, "Untrained twins show all three.")
        return Finding(SUPPORTED, *words, "All three hold, whichever documents are left out, and not in the twins.")
    return Finding(OPEN, *words, "Which it is changes with the documents or the seed.")


def _agreed(names: Sequence[str], shares: FloatArray) -> str:
    return "; ".join(f"{name}: {share:.0%} of replicates" for name, share in zip(names, shares, strict=True))


def _agreement(models: Seeds) -> FloatArray | None:
    """Share of seeds and replicates in which each of the three holds; None where it cannot be said."""
    rows = []
    for model in models:
        for profiles in (model.profiles, *model.profile_replicates):
            if profiles.shape[1] <= 40 or not np.isfinite(profiles).all():
                return None
            rows.append([oscillates(profiles[1]), peaks_within(profiles[3]), several_peaks(profiles[5])])
    return np.asarray(np.mean(rows, axis=0))


def oscillates(profile: FloatArray, first: int = 2, last: int = 10) -> bool:
    """Whether a profile changes its sign at least twice over these lags, and holds half of its energy there."""
    part = profile[first : last + 1]
    audible = part[np.abs(part) >= AUDIBLE * np.abs(profile).max()]
    changes = int((np.diff(np.sign(audible)) != 0).sum())
    return changes >= SIGN_CHANGES and float((part**2).sum()) >= HELD * float((profile**2).sum())


def peaks_within(profile: FloatArray, first: int = 10, last: int = 35) -> bool:
    """Whether the largest modulus lies at these lags."""
    return first <= int(np.abs(profile).argmax()) <= last


def several_peaks(profile: FloatArray, first: int = 10, last: int = 40) -> bool:
    """Whether at least two local maxima of the modulus, above half of the largest, lie at these lags."""
    size = np.abs(profile)
    middle = size[1:-1]
    tops = np.flatnonzero((middle > size[:-2]) & (middle >= size[2:]) & (middle >= PEAK * size.max())) + 1
    return int(((tops >= first) & (tops <= last)).sum()) >= 2


def effective_ranks(trained: Seeds, twins: Seeds) -> Finding:
    """C4: H*(0.10) not reached in layers 1-2, about 91 in layers 3-6."""
    verdict, why = _ranks(trained)
    words = _brackets(trained), _brackets(twins)
    if verdict == SUPPORTED and _ranks(twins)[0] == SUPPORTED:
        return Finding(REFUTED, *words, "Untrained twins give it too.")
    return Finding(verdict, *words, why)


def _ranks(models: Seeds) -> tuple[str, str]:
    low, high = _bracket(models)
    least, most = RANK / ABOUT, RANK * ABOUT
    if np.isfinite(high[:2]).any():
        return REFUTED, "In layers 1-2 the patterns of some documents hold 90 % of the energy of others: it is reached."
    outside = [str(k + 1) for k in range(2, 6) if low[k] > most or high[k] < least]
    if outside:
        return (
            REFUTED,
            f"Of layers 3-6 the bracket lies outside {least:.0f} to {most:.0f} in layer {', '.join(outside)}.",
        )
    if np.isfinite(high).all(where=np.arange(6) >= 2) and (low[2:] >= least).all() and (high[2:] <= most).all():
        return SUPPORTED, "Not reached in layers 1-2, reached at about 91 in layers 3-6."
    return OPEN, "No number of patterns holds 90 % of the energy of documents held out, so H* says how many were read."


def _bracket(models: Seeds) -> tuple[FloatArray, FloatArray]:
    """Lowest lower and highest upper bound over seeds of H*(0.10), shape (layer,) each."""
    return np.min([m.rank_low[:, 0] for m in models], axis=0), np.max([m.rank_high[:, 0] for m in models], axis=0)


def _brackets(models: Seeds) -> str:
    low, high = _bracket(models)
    return _listed(f"{a:.0f} to {'∞' if np.isinf(b) else f'{b:.0f}'}" for a, b in zip(low, high, strict=True))


def provision(trained: Seeds, twins: Seeds) -> Finding:
    """C7: deep layers need fewer patterns over heads than early ones."""
    found, null = _with_depth(trained), _with_depth(twins)
    words = _rank_words(trained, found), _rank_words(twins, null)
    if np.isnan(found).any():
        return Finding(OPEN, *words, "Each head must be kept to say it.")
    if found[2] < 0:
        if null[2] < 0:
            return Finding(REFUTED, *words, "It falls with depth in untrained twins too.")
        return Finding(SUPPORTED, *words, "Deep layers carry fewer patterns over their heads than early ones.")
    if found[1] > 0:
        return Finding(REFUTED, *words, "It is the other way round: deep layers carry more patterns over their heads.")
    return Finding(OPEN, *words, "The interval of the rank correlation holds 0.")


def _with_depth(models: Seeds) -> FloatArray:
    """Rank correlation of the patterns over heads with depth, and the ends of its interval, shape (3,).

    On Fisher's scale: the variance of a rank correlation over six layers (Bonett and Wright 2000), over the number of
    seeds, and that of the documents.
    """
    depth = np.arange(6)
    points, parts, variance = [], [], 0.0
    for model in models:
        if not np.isfinite(model.head_patterns.value).all():
            return np.full(3, np.nan)
        own = _spearman(depth, model.head_patterns.value)
        points.append(np.arctanh(own))
        parts.append([np.arctanh(_spearman(depth, row)) for row in model.head_patterns.replicates])
        variance += (1 + own**2 / 2) / (depth.size - 3)
    of_documents = seeds_estimate(np.array([np.mean(points)]), np.mean(parts, axis=0)[None]).error
    half = stats.norm.ppf(0.975) * np.sqrt(variance / len(models) ** 2 + of_documents**2)
    middle = float(np.mean(points))
    return np.asarray(np.tanh([middle, middle - half, middle + half]))


def _spearman(depth: NDArray[np.int64], values: FloatArray) -> float:
    """Rank correlation, kept within what has a finite logarithm of odds; 0 where all values are equal."""
    if np.ptp(values) == 0:
        return 0.0
    return float(np.clip(stats.spearmanr(depth, values).statistic, -0.99, 0.99))


def _rank_words(models: Seeds, found: FloatArray) -> str:
    mean = np.mean([m.head_patterns.value for m in models], axis=0)
    listed = ", ".join(f"{v:.2f}" for v in mean)
    return f"ρ = {found[0]:.2f} ({found[1]:.2f} to {found[2]:.2f}); by layer {listed}"


# --- two architectures ----------------------------------------------------------------------------------------------


def energies(trained: Seeds, twins: Seeds, others: Seeds, other_twins: Seeds) -> Finding:
    """C5: more scalogram energy in every layer than the standard model."""
    found = [_between(trained, others, "energy", slice(k, k + 1)) for k in range(6)]
    null = [_between(twins, other_twins, "energy", slice(k, k + 1)) for k in range(6)]
    words = _listed(map(_ratio, found)), _listed(map(_ratio, null))
    corrected = holm(np.array([f.p for f in found]))
    lower = [str(k + 1) for k, f in enumerate(found) if f.value < 0 and corrected[k] < 0.05]
    alone = " Untrained, the gate alone gives more in every layer too." if all(n.low > 0 for n in null) else ""
    if all(f.low > 0 for f in found):
        return Finding(SUPPORTED, *words, f"Higher beyond its interval in every layer.{alone}")
    if lower:
        return Finding(REFUTED, *words, f"Lower in layer {', '.join(lower)}.{alone}")
    held = [str(k + 1) for k, f in enumerate(found) if not f.low > 0]
    return Finding(OPEN, *words, f"The interval of the ratio holds 1 in layer {', '.join(held)}.{alone}")


def complexity(trained: Seeds, twins: Seeds, others: Seeds, other_twins: Seeds) -> Finding:
    """C6: more complex than the standard model in layers 3-4, less in layers 5-6."""
    found = [_between(trained, others, "participation", layers) for layers in (MIDDLE, LATE)]
    null = [_between(twins, other_twins, "participation", layers) for layers in (MIDDLE, LATE)]
    words = _listed(map(_ratio, found), _THIRDS), _listed(map(_ratio, null), _THIRDS)
    if found[0].low > 0 and found[1].high < 0:
        if null[0].low > 0 and null[1].high < 0:
            return Finding(REFUTED, *words, "Untrained twins differ in the same way.")
        return Finding(SUPPORTED, *words, "More patterns in layers 3-4 and fewer in layers 5-6, beyond the intervals.")
    wrong = [
        name
        for name, bad in (("fewer in layers 3-4", found[0].high < 0), ("more in layers 5-6", found[1].low > 0))
        if bad
    ]
    if wrong:
        return Finding(REFUTED, *words, f"It has {' and '.join(wrong)}.")
    return Finding(OPEN, *words, "An interval of the ratio holds 1.")


# --- arithmetic -----------------------------------------------------------------------------------------------------


def _between(models: Seeds, others: Seeds, name: str, layers: slice) -> Difference:
    """Difference of the mean over some layers, paired over documents."""
    sides = []
    for side in (models, others):
        pairs = [getattr(m, name).mean(layers) for m in side]
        sides += [np.array([p[0] for p in pairs]), np.stack([p[1] for p in pairs])]
    return seeds_difference(*sides)


def _contrast(measured: Sequence[Measured], more: slice, less: slice) -> tuple[FloatArray, FloatArray]:
    pairs = [(m.mean(more), m.mean(less)) for m in measured]
    return np.array([a[0] - b[0] for a, b in pairs]), np.stack([a[1] - b[1] for a, b in pairs])


def _values(measured: Sequence[Measured], layer: int) -> tuple[FloatArray, FloatArray]:
    return np.array([m.value[layer] for m in measured]), np.stack([m.replicates[:, layer] for m in measured])


def _of_layer(measured: Sequence[Measured], layer: int) -> Difference:
    return seeds_estimate(*_values(measured, layer))


def _shown(found: Difference) -> str:
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def _listed(texts: Iterable[str], names: Sequence[str] = ("1", "2", "3", "4", "5", "6")) -> str:
    """Texts by layer."""
    return "; ".join(
        f"layer{'s' if '-' in name else ''} {name}: {text}" for name, text in zip(names, texts, strict=False)
    )


def _ratio(found: Difference) -> str:
    value, low, high = np.exp([found.value, found.low, found.high])
    return f"{value:.3g} ({low:.3g} to {high:.3g})"
