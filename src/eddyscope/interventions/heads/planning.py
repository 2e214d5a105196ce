"""From documents to a plan: what is measured once, the plan of a budget, and what it costs on unseen documents."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eddyscope.documents import Documents
from eddyscope.errors import EddyscopeWarning, InputError, UsageError
from eddyscope.interventions.heads.allocation import (
    BOTH,
    CRITERIA,
    IMPORTANCE,
    RESIDUAL,
    LayerPath,
    by_score,
    cheapest_sets,
    distribute,
    layer_plans,
    map_form,
    weighted_form,
    zeroing_plans,
)
from eddyscope.interventions.heads.applying import apply
from eddyscope.interventions.heads.plan import Plan, model_identity
from eddyscope.interventions.heads.redundancy import Redundancy, measure_redundancy
from eddyscope.interventions.heads.sensitivity import DRAWS, Sensitivity, measure_sensitivity
from eddyscope.interventions.layers import AttentionLayer, attention_layers
from eddyscope.interventions.losses import Yardstick, mean_interval
from eddyscope.lagfield import FloatArray
from eddyscope.trust.jackknife import Interval

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Parts:
    """Documents for three purposes, which share no source block.

    Parameters
    ----------
    plan : Documents
        What plans are made (and healed) from.
    search : Documents
        What a plan for a given rise is chosen on.
    unseen : Documents
        What is reported is measured on these alone.
    """

    plan: Documents
    search: Documents
    unseen: Documents


def part_documents(documents: Documents) -> Parts:
    """Half of the documents for the plan, a tenth for the search, the rest unseen; whole source blocks, mixed in order.

    Raises
    ------
    InputError
        Where there are fewer than 20 source blocks.
    """
    groups = documents.groups(20)
    if int(groups.max()) < 19:
        raise InputError(
            f"The documents come from {int(groups.max()) + 1} separate stretches of text; a plan that is measured on "
            "documents it has not seen needs at least 20.",
            "Give more text, or a smaller --context.",
        )
    searched = np.isin(groups, (3, 13))
    planned = (groups % 2 == 0) & ~searched
    return Parts(*(documents.select(chosen) for chosen in (planned, searched, ~planned & ~searched)))


@dataclass(frozen=True, eq=False)
class Evidence:
    """What plans are made from.

    Parameters
    ----------
    layers : tuple of AttentionLayer
    redundancy : Redundancy
    sensitivity : Sensitivity
    paths : dict
        By criterion: the path of each layer.
    forms : dict
        By criterion: the quadratic form of each layer that mixes are solved under.
    """

    layers: tuple[AttentionLayer, ...]
    redundancy: Redundancy
    sensitivity: Sensitivity
    paths: dict[str, tuple[LayerPath, ...]]
    forms: dict[str, tuple[FloatArray, ...]]

    @property
    def names(self) -> list[str]:
        """Names of the layers."""
        return [layer.name for layer in self.layers]

    @property
    def heads(self) -> int:
        """Heads over all layers."""
        return sum(layer.heads for layer in self.layers)


def gather_evidence(
    model: Any, documents: Documents, *, draws: int = DRAWS, seed: int = 0, progress: Progress | None = None
) -> Evidence:
    """Measure what every criterion needs, on the documents that plans are made from.

    Parameters
    ----------
    model : torch.nn.Module
    documents : Documents
    draws : int
        Targets drawn for each document, see :func:`~eddyscope.interventions.heads.sensitivity.measure_sensitivity`.
    seed : int
    progress : callable, optional
    """
    layers = attention_layers(model)
    redundancy = measure_redundancy(model, documents)
    sensitivity = measure_sensitivity(model, documents, draws=draws, seed=seed, progress=progress)
    grams = [redundancy.layer_gram(layer.index) for layer in layers]
    maps = tuple(map_form(gram) for gram in grams)
    weighted = tuple(
        weighted_form(fisher, gram, sensitivity.samples) for fisher, gram in zip(sensitivity.fisher, grams, strict=True)
    )
    paths = {
        RESIDUAL: tuple(cheapest_sets(form) for form in maps),
        IMPORTANCE: tuple(by_score(score) for score in sensitivity.importance),
        BOTH: tuple(cheapest_sets(form) for form in weighted),
    }
    return Evidence(layers, redundancy, sensitivity, paths, {RESIDUAL: maps, IMPORTANCE: maps, BOTH: weighted})


def make_plan(model: Any, evidence: Evidence, patterns: int, criterion: str = BOTH) -> Plan:
    """The plan that keeps so many patterns.

    Parameters
    ----------
    model : torch.nn.Module
    evidence : Evidence
    patterns : int
        Over all layers, at least one a layer.
    criterion : {"residual x importance", "residual", "importance"}
        The options' names, with hyphens, are understood too.
    """
    name = CRITERIA.get(criterion, criterion)
    if name not in evidence.paths:
        raise UsageError(f"The criterion is '{criterion}'; expected one of {', '.join(CRITERIA)}.")
    counts = distribute(evidence.paths[name], patterns)
    layers = layer_plans(evidence.names, evidence.paths[name], counts, evidence.forms[name])
    return Plan(model_identity(model), layers, name)


def patterns_of(budget: float, heads: int) -> int:
    """Patterns of a budget that is a share of the heads.

    Raises
    ------
    UsageError
        Outside of 0 to 1.
    """
    if not 0 < budget <= 1:
        raise UsageError(f"--budget is {budget:g}; expected a share of the heads, above 0 and at most 1.")
    return round(budget * heads)


def plan_for_rise(
    model: Any,
    evidence: Evidence,
    documents: Documents,
    limit: float,
    criterion: str = BOTH,
    progress: Progress | None = None,
) -> Plan:
    """The plan with the fewest patterns whose loss rises by no more than a limit, by bisection.

    Parameters
    ----------
    model : torch.nn.Module
    evidence : Evidence
    documents : Documents
        What the rise is measured on while searching; not those that plans are made from.
    limit : float
        Mean rise of the loss; nats a token, or embedding distance.
    criterion : str
    progress : callable, optional
    """
    if not limit > 0:
        raise UsageError(f"--max-loss-rise is {limit:g}; expected a number above 0.")
    yardstick = Yardstick(model, documents)
    low, high = len(evidence.layers), evidence.heads  # the answer lies in (low - 1, high]
    steps, done = int(np.ceil(np.log2(high - low + 1))) + 1, 0
    while low < high:
        middle = (low + high) // 2
        plan = make_plan(model, evidence, middle, criterion)
        if float(rise_of(model, plan, yardstick)[1].estimate) <= limit:
            high = middle
        else:
            low = middle + 1
        done += 1
        if progress is not None:
            progress(done, steps)
    return make_plan(model, evidence, high, criterion)


def rise_of(model: Any, plan: Plan, yardstick: Yardstick) -> tuple[FloatArray, Interval]:
    """Loss of each document with a plan applied, and the mean rise with its interval."""
    with apply(model, plan):
        after = yardstick.now()
    return after, yardstick.rise(after)


def measured(model: Any, plan: Plan, yardstick: Yardstick, limit: float | None = None) -> Plan:
    """The plan with its loss before and after, on documents that it has not seen.

    Parameters
    ----------
    model : torch.nn.Module
    plan : Plan
    yardstick : Yardstick
    limit : float, optional
        Rise that was asked for; a larger one gives a warning (``rise-above-limit``).
    """
    after, rise = rise_of(model, plan, yardstick)
    documents = yardstick.documents
    loss: dict[str, Any] = {
        "measure": yardstick.measure,
        "unit": yardstick.unit,
        "before": float(yardstick.before.mean()),
        "after": float(after.mean()),
        "rise": float(rise.estimate),
        "interval": ends(rise),
        "interval_before": ends(mean_interval(yardstick.before, documents)),
        "documents": len(documents),
        "context": documents.context,
    }
    if limit is not None and loss["rise"] > limit:
        warnings.warn(
            EddyscopeWarning(
                f"The loss rises by {loss['rise']:.4f} on unseen documents, more than the {limit:g} that was asked for "
                "and that held on the documents of the search. Ask for less, or give more documents.",
                "rise-above-limit",
            ),
            stacklevel=2,
        )
    return plan.with_results(loss=loss)


def compared(
    model: Any, evidence: Evidence, plan: Plan, yardstick: Yardstick, others: Mapping[str, Plan]
) -> dict[str, Any]:
    """Rises of the loss to read a plan's by, on the same documents: entry ``compared`` of its ``loss``.

    Parameters
    ----------
    model : torch.nn.Module
    evidence : Evidence
    plan : Plan
    yardstick : Yardstick
    others : mapping of str to Plan
        Further plans by name: this one before its mixing weights were solved together, or healed.

    Returns
    -------
    dict
        ``rise`` and ``interval`` of ``zeroing by gradient importance``, which keeps as many heads and loses the others
        with their output (one ranking over all layers), and of the further plans.
    """
    zeroed = zeroing_plans(evidence.names, evidence.sensitivity.importance, plan.patterns)
    plans = {"zeroing by gradient importance": Plan(plan.model, zeroed, IMPORTANCE), **others}
    rises = {name: rise_of(model, other, yardstick)[1] for name, other in plans.items()}
    return {name: {"rise": float(rise.estimate), "interval": ends(rise)} for name, rise in rises.items()}


def ends(interval: Interval) -> list[float] | None:
    """Low and high end, or None where there is no interval."""
    low, high = float(interval.low), float(interval.high)
    return [low, high] if np.isfinite([low, high]).all() else None
