"""The mixing weights of all layers solved once more, together, where the plan has led to.

The forms that plans are made by are those of the whole model, and each layer's own. Where half of the patterns are gone
all layers have moved, so slope ``g`` and Fisher information ``F`` of the loss are measured again at the plan, over
the mixing weights of the heads without a pattern in all layers, and the quadratic problem

    minimise  g' x + x' (F + r diag F) x / 2,   r = weights / gradients

is solved in closed form, once: nothing is iterated. Heads that keep a pattern use it alone, as before: if they took
part, the rebuilt model would have to mix for them too, and would be no faster than the whole one. ``g`` is that of the
next tokens of the plan's documents (encoders: of the distance to the embedding of the whole model), ``F`` that of the
model's own predictions. A solution that does not lower the loss on these documents is not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from eddyscope.documents import Documents
from eddyscope.interventions.editing import Edit, edited
from eddyscope.interventions.heads.plan import LayerPlan, Plan, check_fits, mix_patterns, sharing_edits
from eddyscope.interventions.heads.sensitivity import DRAWS, batch_of, drawn_losses, gradients_of_edits
from eddyscope.interventions.layers import AttentionLayer, attention_layers
from eddyscope.interventions.losses import LOSS, Yardstick, batches, embeddings, forward, measure_of
from eddyscope.lagfield import FloatArray


def solve_jointly(
    model: Any,
    plan: Plan,
    documents: Documents,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """The same plan with mixing weights that suit each other.

    Parameters
    ----------
    model : torch.nn.Module
        The model that the plan was made for; left as it was.
    plan : Plan
    documents : Documents
        Those that the plan was made from; not those that the loss is measured on.
    draws : int
        Targets drawn for each document, for the Fisher information.
    seed : int
        Of the targets.
    progress : callable, optional
        Called with (documents done, in all).

    Returns
    -------
    Plan
        With the same kept patterns; as it was where no layer shares, or where nothing is gained.
    """
    check_fits(model, plan)
    sharing = [layer for layer in plan.layers if layer.shared and layer.kept]
    if not sharing:
        return plan
    slope, samples = _measure(model, plan, sharing, documents, draws, seed, progress)
    lost = np.concatenate([np.repeat(np.isin(range(len(s.mixing)), s.shared), len(s.kept)) for s in sharing])
    change = np.zeros(lost.size)
    change[lost] = damped_newton(slope[lost], samples[:, lost])
    sizes = np.cumsum([layer.mixing.size for layer in sharing])[:-1]
    moved = {
        layer.name: replace(layer, mixing=layer.mixing + part.reshape(layer.mixing.shape))
        for layer, part in zip(sharing, np.split(change, sizes), strict=True)
    }
    solved = replace(plan, layers=tuple(moved.get(layer.name, layer) for layer in plan.layers))
    yardstick = Yardstick(model, documents)
    losses = []
    for each in (plan, solved):
        with edited(model, sharing_edits(each)):
            losses.append(float(yardstick.now().mean()))
    return solved if losses[1] < losses[0] else plan


def damped_newton(slope: FloatArray, samples: FloatArray) -> FloatArray:
    """Minimise ``g' x + x' (F + r diag F) x / 2`` with ``F = S' S / n`` and ``r = weights / n``.

    Parameters
    ----------
    slope : array, shape (weight,)
    samples : array, shape (gradient, weight)

    Returns
    -------
    array, shape (weight,)

    Notes
    -----
    By the matrix inversion lemma, as there may be many more weights than gradients. Weights that nothing depends on
    stay where they are.
    """
    count, weights = samples.shape
    ridge = weights / count
    diagonal = (samples**2).mean(axis=0)
    used = diagonal > diagonal.max(initial=0.0) * 1e-12
    inverse = np.where(used, 1 / np.where(used, ridge * diagonal, 1.0), 0.0)
    scaled = samples * inverse
    inner = count * np.eye(count) + scaled @ samples.T
    change = inverse * slope - scaled.T @ np.linalg.solve(inner, scaled @ slope)
    return np.asarray(-change)


def _measure(
    model: Any,
    plan: Plan,
    sharing: list[LayerPlan],
    documents: Documents,
    draws: int,
    seed: int,
    progress: Callable[[int, int], None] | None,
) -> tuple[FloatArray, FloatArray]:
    """Mean slope of the loss, and gradients whose mean product is the Fisher information."""
    language = measure_of(model) == LOSS
    device = next(model.parameters()).device
    whole = None if language else torch.from_numpy(embeddings(model, documents)).float().to(device)
    generator = torch.Generator().manual_seed(seed)
    slope, samples, done = 0.0, [], 0
    fixed = {name: edit for name, edit in sharing_edits(plan).items() if name not in {s.name for s in sharing}}
    with gradients_of_edits(model):
        for ids in batches(model, documents, batch_of(attention_layers(model), documents.context)):
            mixing: dict[str, Tensor] = {}
            with edited(model, fixed | {layer.name: _free(layer, mixing) for layer in sharing}):
                output = forward(model, ids)
            parameters = [mixing[layer.name] for layer in sharing]
            target = None if whole is None else whole[done : done + len(ids)]
            for place, (scale, loss) in enumerate(_losses(output, ids, target, draws, generator)):
                found = torch.autograd.grad(loss, parameters, retain_graph=True)
                each = torch.cat([part.double().flatten(1).cpu() for part in found], dim=1).numpy()
                if place == 0:
                    slope = slope + each.sum(axis=0)
                else:
                    samples.append(np.sqrt(scale) * each)
            done += len(ids)
            if progress is not None:
                progress(done, len(documents))
    return np.asarray(slope / len(documents)), np.concatenate(samples)


def _free(layer: LayerPlan, mixing: dict[str, Tensor]) -> Edit:
    """The sharing of a layer with weights of its own for each document, which are remembered."""
    kept, table = torch.tensor(layer.kept), torch.from_numpy(layer.mixing)

    def share(weights: Tensor, _: AttentionLayer) -> Tensor:
        each = table.to(weights.dtype).to(weights.device).repeat(weights.shape[0], 1, 1).requires_grad_(True)
        mixing[layer.name] = each
        return mix_patterns(weights, kept.to(weights.device), each)

    return share


def _losses(
    output: Tensor, ids: Tensor, whole: Tensor | None, draws: int, generator: torch.Generator
) -> Iterator[tuple[float, Tensor]]:
    """What the slope is of, then what the Fisher information is of, with the factor of its products."""
    if whole is not None:
        yield 1.0, (1 - F.cosine_similarity(output.float().mean(1), whole)).sum()
    yield from drawn_losses(output, ids, draws, generator, whole is None)
