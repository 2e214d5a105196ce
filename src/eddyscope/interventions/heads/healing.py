"""Healing: the mixing weights of the shared heads fitted on the loss, with the model frozen."""

from __future__ import annotations

from collections.abc import Callable
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

STEPS = 150
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
        With the weights of its shared heads fitted; kept patterns are the same.
    """
    check_fits(model, plan)
    weights = {
        layer.name: nn.Parameter(torch.from_numpy(layer.mixing[list(layer.shared)]).float())
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
    rng = np.random.default_rng(seed)
    with gradients_of_edits(model), edited(model, edits):
        for step in range(steps):
            chosen = torch.from_numpy(rng.choice(len(documents), size=min(batch, len(documents)), replace=False))
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


def _fitted(layer: LayerPlan, shared: Tensor) -> Edit:
    """The sharing of a layer with weights that are being fitted."""
    kept = torch.tensor(layer.kept)
    order = torch.tensor(np.argsort([*layer.kept, *layer.shared]))

    def share(weights: Tensor, _: AttentionLayer) -> Tensor:
        unit = torch.eye(len(layer.kept), dtype=weights.dtype, device=weights.device)
        rows = torch.cat([unit, shared.to(weights)])[order.to(weights.device)]
        return mix_patterns(weights, kept.to(weights.device), rows)

    return share


def _loss(model: Any, ids: Tensor, target: Tensor | None) -> Tensor:
    output = forward(model, ids)
    if target is None:
        return token_losses(output, ids).mean()
    return (1 - F.cosine_similarity(output.float().mean(1), target)).mean()


def _with(layer: LayerPlan, shared: Tensor | None) -> LayerPlan:
    if shared is None:
        return layer
    mixing = layer.mixing.copy()
    mixing[list(layer.shared)] = shared.detach().double().numpy()
    return replace(layer, mixing=mixing)
