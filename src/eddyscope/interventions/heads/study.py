"""All of it in one call: documents to a measured plan, with what it was made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from eddyscope.documents import Documents
from eddyscope.errors import UsageError
from eddyscope.interventions.heads.allocation import BOTH
from eddyscope.interventions.heads.cost import measure_cost
from eddyscope.interventions.heads.curve import effective_ranks, layers_alone, loss_curve
from eddyscope.interventions.heads.healing import STEPS, heal
from eddyscope.interventions.heads.joint import solve_jointly
from eddyscope.interventions.heads.plan import Plan
from eddyscope.interventions.heads.planning import (
    Evidence,
    compared,
    gather_evidence,
    make_plan,
    measured,
    part_documents,
    patterns_of,
    plan_for_rise,
)
from eddyscope.interventions.heads.sensitivity import DRAWS
from eddyscope.interventions.losses import Yardstick
from eddyscope.lagfield import FloatArray

#: Called with the name of a stage, what is done and how much there is.
StageProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class HeadStudy:
    """A plan and what is known beside it.

    Parameters
    ----------
    plan : Plan
        Measured; healed where that was asked for.
    evidence : Evidence
        What it was made from.
    curve : pandas.DataFrame, optional
        With ``curve=True``: the loss of all methods over budgets.
    alone : pandas.DataFrame, optional
        With ``layers=True``: what each layer alone can lose.
    effective_ranks : array, shape (layer,), optional
        With either: ``H*(0.10)`` of each layer.
    """

    plan: Plan
    evidence: Evidence
    curve: pd.DataFrame | None = None
    alone: pd.DataFrame | None = None
    effective_ranks: FloatArray | None = None

    def table(self) -> pd.DataFrame:
        """One row a layer: heads, patterns that are kept and which, effective number of patterns with its interval."""
        found = self.evidence.redundancy.patterns
        rows = []
        for index, layer in enumerate(self.plan.layers):
            rows.append(
                {
                    "layer": layer.name,
                    "heads": layer.mixing.shape[0],
                    "patterns_kept": len(layer.kept),
                    "heads_kept": " ".join(map(str, layer.kept)),
                    "effective_patterns": float(found.estimate[index]),
                    "effective_patterns_low": float(found.low[index]),
                    "effective_patterns_high": float(found.high[index]),
                    "effective_patterns_raw": float(self.evidence.redundancy.patterns_raw.estimate[index]),
                }
            )
        return pd.DataFrame(rows)


def plan(
    model: Any,
    documents: Documents,
    *,
    budget: float | None = None,
    max_loss_rise: float | None = None,
    criterion: str = BOTH,
    healing: int | bool = 0,
    joint: bool = True,
    curve: bool = False,
    layers: bool = False,
    draws: int = DRAWS,
    seed: int = 0,
    progress: StageProgress | None = None,
) -> HeadStudy:
    """Plan which heads of a model keep a pattern of their own, and measure what that costs.

    Parameters
    ----------
    model : torch.nn.Module
        A GPT of ``eddyscope.models`` or a Hugging Face model; left as it was.
    documents : Documents
        Half of them make the plan, a tenth is for the search, on the rest the loss is measured.
    budget : float, optional
        Share of the patterns that are kept; half where nothing is said.
    max_loss_rise : float, optional
        In place of a budget: the fewest patterns whose loss rises by no more.
    criterion : {"residual x importance", "residual", "importance"}
    healing : int or bool
        Steps in which the mixing weights are fitted on the loss; True for the usual number.
    joint : bool
        With the criterion ``residual x importance``: solve the mixing weights of all layers once more, together
        (:mod:`~eddyscope.interventions.heads.joint`).
    curve : bool
        Measure every method over budgets.
    layers : bool
        Measure what each layer alone can lose.
    draws : int
        Targets drawn for each document, for the sensitivity.
    seed : int
        Of everything random.
    progress : callable, optional
        Called with (stage, done, in all).

    Returns
    -------
    HeadStudy

    Raises
    ------
    UsageError
        Where both a budget and a rise are given, or one out of range.
    InputError
        Where the documents come from fewer than 20 separate stretches of text.
    """
    if budget is not None and max_loss_rise is not None:
        raise UsageError("Both a budget and a rise of the loss were given.", "Give --budget or --max-loss-rise.")

    def stage(name: str) -> Callable[[int, int], None]:
        return lambda done, total: None if progress is None else progress(name, done, total)

    parts = part_documents(documents)
    stage("evidence")(0, len(parts.plan))
    evidence = gather_evidence(model, parts.plan, draws=draws, seed=seed, progress=stage("evidence"))
    if max_loss_rise is None:
        share = patterns_of(0.5 if budget is None else budget, evidence.heads)
        made = make_plan(model, evidence, share, criterion)
    else:
        made = plan_for_rise(model, evidence, parts.search, max_loss_rise, criterion, stage("search"))
    alone = made
    if joint and made.criterion == BOTH:
        made = solve_jointly(model, made, parts.plan, draws=draws, seed=seed, progress=stage("joint"))
    others = {} if made is alone else {"sharing, each layer solved alone": alone}
    if healing:
        others["sharing before healing"] = made
    if healing:
        steps = STEPS if healing is True else int(healing)
        made = heal(model, made, parts.plan, steps=steps, seed=seed, progress=stage("healing"))
    stage("unseen")(0, 1)
    yardstick = Yardstick(model, parts.unseen)
    made = measured(model, made, yardstick, max_loss_rise)
    rises = compared(model, evidence, made, yardstick, others)
    made = made.with_results(
        loss=made.loss | {"compared": rises},
        cost=measure_cost(model, made, parts.unseen),
        provenance={
            "documents": {name: len(getattr(parts, name)) for name in ("plan", "search", "unseen")},
            "options": {
                "budget": budget,
                "max_loss_rise": max_loss_rise,
                "criterion": criterion,
                "healing": int(healing),
                "joint": joint,
                "draws": draws,
                "seed": seed,
            },
        },
    )
    if not curve and not layers:
        return HeadStudy(made, evidence)
    ranks = effective_ranks(model, parts.plan)
    losses = each = None
    if curve:
        losses = loss_curve(model, evidence, yardstick, effective_ranks=ranks, seed=seed, progress=stage("curve"))
    if layers:
        each = layers_alone(model, evidence, yardstick, stage("layers"))
    return HeadStudy(made, evidence, losses, each, ranks)
