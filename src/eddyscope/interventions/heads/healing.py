"""Healing: the mixing weights of all heads of the layers that share, fitted on the loss with the model frozen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eddyscope.documents import Documents
from eddyscope.interventions.editing import Edit, edited
from eddyscope.interventions.heads.plan import LayerPlan, Plan, check_fits, mix_patterns
from eddyscope.interventions.heads.sensitivity import gradients_of_edits
from eddyscope.interventions.layers import AttentionLayer
from eddyscope.interventions.losses import LOSS, embeddings, forward, measure_of, token_losses

STEPS = 400
BATCH = 4
RATE = 0.03


def heal(
    model: Any,
    plan: Plan,
    documents: Documents,
    *,
    steps: int = STEPS,
    batch: int = BATCH,
    rate: float = RATE,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """Fit the mixing weights of a plan on the loss.

    Parameters
    ----------
    model : torch.nn.Module
        The model that the plan was made for; frozen, and left as it was.
    plan : Plan
    documents : Documents
        What to fit on; not those that the loss is measured on.
    steps, batch : int
        Updates, and documents of each.
    rate : float
        Of Adam, falling linearly to zero.
    seed : int
        Of the batches.
    progress : callable, optional
        Called with (steps done, in all).

    Returns
    -------
    Plan
        With other mixing weights in the layers where heads share; kept patterns are the same, but heads that have one
        may add others to it.
    """
    check_fits(model, plan)
    weights = {
        layer.name: nn.Parameter(torch.from_numpy(layer.mixing).float())
        for layer in plan.layers
        if layer.shared and layer.kept
    }
    if not weights:
        return plan
    device = next(model.parameters()).device
    edits = {layer.name: _fitted(layer, weights[layer.name]) for layer in plan.layers if layer.name in weights}
    target = None if measure_of(model) == LOSS else torch.from_numpy(embeddings(model, documents)).float().to(device)
    ids = torch.from_numpy(documents.ids).to(device)
    optimiser = torch.optim.Adam(list(weights.values()), lr=rate)
    with gradients_of_edits(model), edited(model, edits):
        for step, chosen in enumerate(_chosen(len(documents), batch, steps, seed)):
            loss = _loss(model, ids[chosen], None if target is None else target[chosen])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            for group in optimiser.param_groups:
                group["lr"] = rate * (1 - step / steps)
            optimiser.step()
            if progress is not None:
                progress(step + 1, steps)
    layers = tuple(_with(layer, weights.get(layer.name)) for layer in plan.layers)
    return replace(plan, layers=layers, criterion=f"{plan.criterion}, healed")


def _fitted(layer: LayerPlan, mixing: Tensor) -> Edit:
    """The sharing of a layer with weights that are being fitted."""
    kept = torch.tensor(layer.kept)

    def share(weights: Tensor, _: AttentionLayer) -> Tensor:
        return mix_patterns(weights, kept.to(weights.device), mixing.to(weights))

    return share


def _chosen(documents: int, batch: int, steps: int, seed: int) -> Iterator[Tensor]:
    """Indices of each batch: all documents in random order, again and again."""
    rng = np.random.default_rng(seed)
    size = min(batch, documents)
    left: list[int] = []
    for _ in range(steps):
        if len(left) < size:
            left = [int(index) for index in rng.permutation(documents)]
        yield torch.tensor([left.pop() for _ in range(size)])


def _loss(model: Any, ids: Tensor, target: Tensor | None) -> Tensor:
    output = forward(model, ids)
    if target is None:
        return token_losses(output, ids).mean()
    return (1 - F.cosine_similarity(output.float().mean(1), target)).mean()


def _with(layer: LayerPlan, mixing: Tensor | None) -> LayerPlan:
    return layer if mixing is None else replace(layer, mixing=mixing.detach().double().numpy())
