"""Which patterns to keep: for each layer a kept set of every size, over layers the cheapest of these together.

A criterion gives, for each layer, the cost of keeping a set of patterns and the mix by which the other heads use them.
All but ``importance`` are quadratic forms of the change ``f = M - 1`` of the mixing weights: the best mix of a kept set
is a least-squares problem, and its residual is the cost.

- ``residual``: ``sum_h |A_h - sum_k M[h, k] A_k|^2 / |A_h|^2``, how well maps are rebuilt;
- ``importance``: gradient importance of the heads that are lost; mixes by least squares of the maps;
- ``residual x importance``: the residual weighted by the gradient of the predictions, entry by entry of the maps: the
  Fisher form of :mod:`~eddyscope.interventions.heads.sensitivity`, in nats a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.errors import UsageError
from eddyscope.interventions.heads.plan import LayerPlan
from eddyscope.lagfield import FloatArray

RESIDUAL, IMPORTANCE, BOTH = "residual", "importance", "residual x importance"
#: Criteria by the name of the option.
CRITERIA = {"residual": RESIDUAL, "importance": IMPORTANCE, "residual-x-importance": BOTH}

#: Ridge of the least squares, as a share of the mean diagonal.
_RIDGE = 1e-5
#: Weight of the maps' own Gram in the Fisher form, which is known from few gradients only, so that every kept set is
#: chosen to make its noise look good.
_PRIOR = 0.1
#: Most heads of a layer of which every set is tried.
_ALL_SETS = 12
#: Gradients for each entry of a layer's mixing weights at which half of the terms between heads is believed.
_ENOUGH = 10


@dataclass(frozen=True, eq=False)
class LayerPath:
    """Kept sets of one layer, one of every size.

    Parameters
    ----------
    kept : tuple of tuple of int
        Entry ``n`` keeps ``n + 1`` heads.
    cost : array, shape (head,)
        Of each entry.
    """

    kept: tuple[tuple[int, ...], ...]
    cost: FloatArray


def map_form(gram: FloatArray) -> FloatArray:
    """Quadratic form of the residual of maps, each head's relative to its energy, shape (head^2, head^2)."""
    heads = gram.shape[0]
    form = np.zeros((heads, heads, heads, heads))
    for head in range(heads):
        form[head, :, head, :] = gram / max(float(gram[head, head]), np.finfo(float).tiny)
    return np.asarray(form.reshape(heads**2, heads**2))


def weighted_form(fisher: FloatArray, gram: FloatArray, samples: int) -> FloatArray:
    """Quadratic form of the cost in nats, half the Fisher information, made safe against the noise of few gradients.

    Parameters
    ----------
    fisher : array, shape (head^2, head^2)
    gram : array, shape (head, head)
        Of the maps; a tenth of it, at the same trace, goes into each head's own terms.
    samples : int
        Gradients n behind the Fisher information: terms between heads count ``n / (n + 10 head^2)``.
    """
    heads = gram.shape[0]
    form = 0.5 * fisher.reshape(heads, heads, heads, heads)
    own = np.array([form[h, :, h, :] for h in range(heads)])  # (head, pattern, pattern)
    form = form * samples / (samples + _ENOUGH * heads**2)
    for head in range(heads):
        scale = float(np.trace(own[head])) / max(float(np.trace(gram)), np.finfo(float).tiny)
        form[head, :, head, :] = (1 - _PRIOR) * own[head] + _PRIOR * scale * gram
    return np.asarray(form.reshape(heads**2, heads**2))


def best_mixing(form: FloatArray, kept: Sequence[int]) -> tuple[float, FloatArray]:
    """The mix of kept patterns that costs least under a quadratic form, and its cost.

    Parameters
    ----------
    form : array, shape (head^2, head^2)
    kept : sequence of int

    Returns
    -------
    float
    array, shape (head, kept)
    """
    heads = round(form.shape[0] ** 0.5)
    chosen = list(kept)
    mixing = np.zeros((heads, len(chosen)))
    mixing[chosen, np.arange(len(chosen))] = 1.0
    lost = [head for head in range(heads) if head not in chosen]
    if not lost:
        return 0.0, mixing
    own = [head * heads + head for head in lost]  # their weight of 1 goes
    free = [head * heads + pattern for head in lost for pattern in chosen]
    inner = form[np.ix_(free, free)]
    towards = form[np.ix_(free, own)].sum(axis=1)
    ridge = _RIDGE * max(float(np.trace(inner)) / len(free), np.finfo(float).tiny)
    weights = np.linalg.solve(inner + ridge * np.eye(len(free)), towards)
    mixing[lost] = weights.reshape(len(lost), len(chosen))
    rest = float(form[np.ix_(own, own)].sum())
    return max(0.0, rest - 2 * float(weights @ towards) + float(weights @ inner @ weights)), mixing


def cheapest_sets(form: FloatArray) -> LayerPath:
    """The kept set of every size that costs least: of all sets in layers of up to 12 heads, else by elimination.

    Backward elimination starts from all heads and loses the one whose loss costs least, until one is left.
    """
    heads = round(form.shape[0] ** 0.5)
    everything = tuple(range(heads))
    sets, costs = [everything], [0.0]
    for size in range(heads - 1, 0, -1):
        candidates = list(combinations(everything if heads <= _ALL_SETS else sets[-1], size))
        cost, kept = _cheapest(form, candidates)
        sets.append(kept)
        costs.append(cost)
    return LayerPath(tuple(sets[::-1]), np.array(costs[::-1]))


def _cheapest(form: FloatArray, candidates: Sequence[tuple[int, ...]]) -> tuple[float, tuple[int, ...]]:
    """The first of the kept sets that cost least, with its cost."""
    costs = [best_mixing(form, kept)[0] for kept in candidates]
    best = int(np.argmin(costs))
    return costs[best], candidates[best]


def by_score(score: FloatArray) -> LayerPath:
    """Lose heads in the order of a score, the smallest first; the cost is the sum of the scores lost."""
    order = np.argsort(-score, kind="stable")
    sets = tuple(tuple(sorted(int(h) for h in order[: n + 1])) for n in range(score.size))
    return LayerPath(sets, float(score.sum()) - np.cumsum(score[order]))


def distribute(paths: Sequence[LayerPath], patterns: int) -> tuple[int, ...]:
    """How many patterns each layer keeps, so that the costs add up to the least possible.

    Parameters
    ----------
    paths : sequence of LayerPath
        One a layer.
    patterns : int
        Kept over all layers, at least one a layer.

    Returns
    -------
    tuple of int

    Raises
    ------
    UsageError
        Where there are fewer patterns than layers, or more than heads.
    """
    sizes = [path.cost.size for path in paths]
    if not len(paths) <= patterns <= sum(sizes):
        raise UsageError(
            f"{patterns} patterns were asked for; expected {len(paths)} (one a layer) to {sum(sizes)} (all heads).",
            "Choose another --budget.",
        )
    least = np.full(patterns + 1, np.inf)
    least[0] = 0.0
    choices = []
    for path in paths:
        table = np.full(patterns + 1, np.inf)
        choice = np.zeros(patterns + 1, dtype=np.int64)
        for count in range(1, min(path.cost.size, patterns) + 1):
            reached = np.full(patterns + 1, np.inf)
            reached[count:] = least[: patterns + 1 - count] + path.cost[count - 1]
            better = reached < table
            table[better], choice[better] = reached[better], count
        least = table
        choices.append(choice)
    counts, left = [], patterns
    for choice in choices[::-1]:
        counts.append(int(choice[left]))
        left -= counts[-1]
    return tuple(counts[::-1])


def in_proportion(measure: FloatArray, heads: Sequence[int], patterns: int) -> tuple[int, ...]:
    """Patterns of each layer in proportion to a measure of it, at least one, at most its heads.

    Parameters
    ----------
    measure : array, shape (layer,)
        Such as the effective rank H* of each layer, which the published study proposes.
    heads : sequence of int
        Heads of each layer.
    patterns : int
        Given out one by one, each to the layer that has the fewest for its measure (D'Hondt's rule).
    """
    size = np.asarray(heads)
    counts = np.ones(size.size, dtype=np.int64)
    for _ in range(patterns - size.size):
        merit = np.where(counts < size, np.nan_to_num(measure, nan=0.0) / (counts + 1), -np.inf)
        counts[int(np.argmax(merit))] += 1
    return tuple(int(count) for count in counts)


def layer_plans(
    names: Sequence[str], paths: Sequence[LayerPath], counts: Sequence[int], forms: Sequence[FloatArray]
) -> tuple[LayerPlan, ...]:
    """Plans of all layers: the kept sets at these counts, with the mixes that cost least."""
    plans = []
    for name, path, count, form in zip(names, paths, counts, forms, strict=True):
        kept = path.kept[count - 1]
        plans.append(LayerPlan(name, kept, best_mixing(form, kept)[1]))
    return tuple(plans)


def zeroing_plans(names: Sequence[str], scores: Sequence[FloatArray], patterns: int) -> tuple[LayerPlan, ...]:
    """Plans that lose all heads but those of the highest scores over all layers; lost heads have zero rows."""
    flat = np.concatenate(scores)
    chosen: NDArray[np.bool_] = np.zeros(flat.size, dtype=bool)
    chosen[np.argsort(-flat, kind="stable")[:patterns]] = True
    plans, start = [], 0
    for name, score in zip(names, scores, strict=True):
        kept = tuple(int(h) for h in np.flatnonzero(chosen[start : start + score.size]))
        plans.append(LayerPlan(name, kept, unit_rows(score.size, kept)))
        start += score.size
    return tuple(plans)


def unit_rows(heads: int, kept: Sequence[int]) -> FloatArray:
    """Mixing weights of heads that are kept or lost, shape (head, kept)."""
    rows = np.zeros((heads, len(kept)))
    rows[list(kept), np.arange(len(kept))] = 1.0
    return rows


def random_path(heads: int, rng: Any) -> LayerPath:
    """Heads in random order, all of the same cost."""
    return by_score(np.asarray(1.0 + 1e-9 * rng.permutation(heads)))
