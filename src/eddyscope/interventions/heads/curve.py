"""What every way of losing patterns costs, over budgets, on the same unseen documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from eddyscope.documents import Documents
from eddyscope.interventions.heads.allocation import (
    BOTH,
    IMPORTANCE,
    RESIDUAL,
    LayerPath,
    by_score,
    cheapest_sets,
    distribute,
    in_proportion,
    layer_plans,
    map_form,
    random_path,
    zeroing_plans,
)
from eddyscope.interventions.heads.plan import LayerPlan, Plan, model_identity
from eddyscope.interventions.heads.planning import Evidence, Progress, rise_of
from eddyscope.interventions.heads.projections import magnitude
from eddyscope.interventions.losses import Yardstick
from eddyscope.lagfield import FloatArray
from eddyscope.trust.jackknife import Interval

FRACTIONS = (1.0, 0.9, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4)
SHARE, ZERO = "share", "zero"
#: Ways of losing patterns: what becomes of the lost ones, and by what the others were chosen.
METHODS = (
    (SHARE, BOTH),
    (SHARE, "residual x importance, head by head"),
    (SHARE, RESIDUAL),
    (SHARE, IMPORTANCE),
    (SHARE, "H*"),
    (SHARE, "magnitude"),
    (SHARE, "random"),
    (ZERO, IMPORTANCE),
    (ZERO, "importance, layers normalised"),
    (ZERO, "magnitude"),
    (ZERO, "random"),
)


def loss_curve(
    model: Any,
    evidence: Evidence,
    yardstick: Yardstick,
    *,
    effective_ranks: FloatArray | None = None,
    fractions: Sequence[float] = FRACTIONS,
    seed: int = 0,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Rise of the loss of every method at every budget.

    Parameters
    ----------
    model : torch.nn.Module
    evidence : Evidence
    yardstick : Yardstick
        On documents that the evidence has not seen.
    effective_ranks : array, shape (layer,), optional
        ``H*(0.10)`` of each layer, for the published allocation; left out without them.
    fractions : sequence of float
        Shares of the patterns that are kept. Where all are, the model is as it was, so that one reading stands for all.
    seed : int
        Of the random choice.
    progress : callable, optional

    Returns
    -------
    pandas.DataFrame
        Columns ``lost`` (share: the others' patterns are mixed from the kept; zero: their output goes), ``chosen_by``,
        ``patterns, fraction, rise, low, high`` and ``kept`` (patterns of each layer).

    Notes
    -----
    Of a method that shares, each layer keeps at least one pattern. ``H*`` gives each layer patterns in proportion to
    its effective rank, and chooses heads and mixes as the default does. ``importance, layers normalised`` divides by
    the norm of each layer's importance, as Michel et al. (2019) do.
    """
    rows: list[dict[str, Any]] = []
    identity = model_identity(model)
    whole: Interval | None = None
    methods = [m for m in METHODS if m[1] != "H*" or effective_ranks is not None]
    tasks = [(method, fraction) for method in methods for fraction in fractions]
    for done, ((lost, chosen), fraction) in enumerate(tasks):
        patterns = max(len(evidence.layers), round(fraction * evidence.heads))
        layers = _layers(evidence, lost, chosen, patterns, effective_ranks, seed)
        if layers is not None:
            if whole is None or patterns < evidence.heads:
                rise = rise_of(model, Plan(identity, layers, chosen), yardstick)[1]
            else:
                rise = whole
            if patterns == evidence.heads:
                whole = rise
            rows.append(
                {
                    "lost": lost,
                    "chosen_by": chosen,
                    "patterns": patterns,
                    "fraction": patterns / evidence.heads,
                    "rise": float(rise.estimate),
                    "low": float(rise.low),
                    "high": float(rise.high),
                    "kept": " ".join(str(len(layer.kept)) for layer in layers),
                }
            )
        if progress is not None:
            progress(done + 1, len(tasks))
    return pd.DataFrame(rows)


def _layers(
    evidence: Evidence, lost: str, chosen: str, patterns: int, ranks: FloatArray | None, seed: int
) -> tuple[LayerPlan, ...] | None:
    """The plan of a method, or None where it cannot be had for this model."""
    scores = _scores(evidence, chosen, seed)
    if lost == ZERO:
        return None if scores is None else zeroing_plans(evidence.names, scores, patterns)
    if chosen == "H*":
        assert ranks is not None
        counts = in_proportion(ranks, [layer.heads for layer in evidence.layers], patterns)
        return layer_plans(evidence.names, evidence.paths[BOTH], counts, evidence.forms[BOTH])
    if chosen in evidence.paths:
        paths, forms = evidence.paths[chosen], evidence.forms[chosen]
    elif chosen == "residual x importance, head by head":
        forms = tuple(_head_by_head(evidence, layer.index) for layer in evidence.layers)
        paths = tuple(cheapest_sets(form) for form in forms)
    elif chosen == "random":
        return _random(evidence, patterns, seed)
    elif scores is None:
        return None
    else:
        paths, forms = tuple(by_score(score) for score in scores), evidence.forms[RESIDUAL]
    return layer_plans(evidence.names, paths, distribute(paths, patterns), forms)


def _scores(evidence: Evidence, chosen: str, seed: int) -> list[FloatArray] | None:
    """Score of each head by layer; the lowest are lost first."""
    importance = list(evidence.sensitivity.importance)
    if chosen == IMPORTANCE:
        return importance
    if chosen == "importance, layers normalised":
        return [score / max(float(np.linalg.norm(score)), np.finfo(float).tiny) for score in importance]
    if chosen == "magnitude":
        found = [magnitude(layer) for layer in evidence.layers]
        return None if any(score is None for score in found) else [np.asarray(score) for score in found]
    if chosen == "random":
        rng = np.random.default_rng(seed)
        return [rng.random(layer.heads) for layer in evidence.layers]
    return None


def _head_by_head(evidence: Evidence, index: int) -> FloatArray:
    """Residual of each head's map times the importance of the head."""
    heads = evidence.layers[index].heads
    weight = np.repeat(evidence.sensitivity.importance[index], heads)
    return np.asarray(map_form(evidence.redundancy.layer_gram(index)) * weight[:, None])


def _random(evidence: Evidence, patterns: int, seed: int) -> tuple[LayerPlan, ...]:
    """Patterns kept at random, at least one a layer."""
    rng = np.random.default_rng(seed)
    paths: list[LayerPath] = [random_path(layer.heads, rng) for layer in evidence.layers]
    room = np.concatenate([np.full(layer.heads - 1, layer.index) for layer in evidence.layers])
    more = rng.permutation(room)[: patterns - len(paths)]
    counts = 1 + np.bincount(more, minlength=len(paths))
    return layer_plans(evidence.names, paths, [int(count) for count in counts], evidence.forms[RESIDUAL])


def layers_alone(
    model: Any, evidence: Evidence, yardstick: Yardstick, progress: Progress | None = None
) -> pd.DataFrame:
    """What each layer can lose: rise of the loss where one layer alone shares, keeping half of its patterns, or one.

    Returns
    -------
    pandas.DataFrame
        One row a layer: ``layer, half, one``, rises by the default criterion.
    """
    rows = []
    identity = model_identity(model)
    full = {layer.name: layer.heads for layer in evidence.layers}
    for done, layer in enumerate(evidence.layers):
        row: dict[str, Any] = {"layer": layer.name}
        for word, patterns in (("half", max(1, layer.heads // 2)), ("one", 1)):
            counts = [patterns if name == layer.name else heads for name, heads in full.items()]
            layers = layer_plans(evidence.names, evidence.paths[BOTH], counts, evidence.forms[BOTH])
            rise = rise_of(model, Plan(identity, layers, BOTH), yardstick)[1]
            row |= {word: float(rise.estimate), f"{word}_low": float(rise.low), f"{word}_high": float(rise.high)}
        rows.append(row)
        if progress is not None:
            progress(done + 1, len(evidence.layers))
    return pd.DataFrame(rows)


def effective_ranks(model: Any, documents: Documents) -> FloatArray:
    """``H*(0.10)`` of each layer's head-mean attention, field POD without a window, shape (layer,)."""
    from eddyscope.capture import capture
    from eddyscope.study.analyze import analyze

    study = analyze(capture(model, documents), intervals=False)
    table = study.summary()
    return np.asarray(table["h_10"], dtype=np.float64)
