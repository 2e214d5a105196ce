"""How much the model's predictions depend on each pattern: gradients with respect to the mixing weights.

Let head h of a layer use ``sum_g M[h, g] A_g``; the model as it is has M = 1. One backward pass gives, for every
document, ``d[h, g] = dL/dM[h, g] = <dL/dA_h, A_g>``. With the targets drawn from the model's own predictions, the mean
of their products is the Fisher information F, and ``f' F f / 2`` with ``f = M - 1`` is what the change f costs, to
second order, in nats a token (Kwon et al. 2022, arXiv 2204.09656, use its diagonal to prune heads). For encoders L is a
random projection of the embedding, and the form is ``1 - cosine``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eddyscope.documents import Documents
from eddyscope.interventions.editing import edited
from eddyscope.interventions.layers import AttentionLayer, attention_layers
from eddyscope.interventions.losses import LOSS, batches, forward, measure_of
from eddyscope.lagfield import FloatArray

#: Draws of the targets for each document.
DRAWS = 6
#: Most entries of attention maps of all layers that are held at a time while gradients are taken.
_ENTRIES = 2**25


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """How predictions depend on patterns, by layer.

    Parameters
    ----------
    fisher : tuple of array, shape (head * head, head * head)
        Of each layer; index ``h * heads + g`` is the weight of pattern g in head h.
    importance : tuple of array, shape (head,)
        Gradient importance of each head, ``<|dL/dM[h, h]|>`` over documents, from the text's own next tokens
        (Michel et al. 2019, arXiv 1905.10650, without their normalisation by layer).
    samples : int
        Gradients that the Fisher information was averaged over.
    """

    fisher: tuple[FloatArray, ...]
    importance: tuple[FloatArray, ...]
    samples: int


def measure_sensitivity(
    model: Any, documents: Documents, *, draws: int = DRAWS, seed: int = 0, progress: Any = None
) -> Sensitivity:
    """Gradients of a model's predictions with respect to its mixing weights, over documents.

    Parameters
    ----------
    model : torch.nn.Module
        Left as it was.
    documents : Documents
        Without padding.
    draws : int
        Targets drawn for each document.
    seed : int
        Of the targets (encoders: of the projections).
    progress : callable, optional
        Called with (documents done, in all).
    """
    layers = attention_layers(model)
    language = measure_of(model) == LOSS
    generator = torch.Generator().manual_seed(seed)
    products = [np.zeros((layer.heads**2, layer.heads**2)) for layer in layers]
    importance = [np.zeros(layer.heads) for layer in layers]
    done = 0
    with gradients_of_edits(model):
        for ids in batches(model, documents, batch_of(layers, documents.context)):
            mixing: dict[int, Tensor] = {}
            with edited(model, {layer.name: _mixed(mixing) for layer in layers}):
                output = forward(model, ids)
            parameters = [mixing[layer.index] for layer in layers]
            for draw, (scale, loss) in enumerate(drawn_losses(output, ids, draws, generator, language)):
                found = torch.autograd.grad(loss, parameters, retain_graph=True)
                for index, gradient in enumerate(found):
                    each = gradient.double().flatten(1).cpu().numpy()
                    diagonal = np.abs(each[:, :: layers[index].heads + 1]).sum(axis=0)
                    if draw == 0 and language:
                        importance[index] += diagonal
                    else:
                        products[index] += scale * each.T @ each
                        importance[index] += 0.0 if language else diagonal / draws
            done += len(ids)
            if progress is not None:
                progress(done, len(documents))
    samples = draws * len(documents)
    return Sensitivity(
        tuple(product / samples for product in products), tuple(i / len(documents) for i in importance), samples
    )


def batch_of(layers: Sequence[AttentionLayer], context: int) -> int:
    """Documents whose maps of all layers are held at a time while gradients are taken."""
    return max(1, _ENTRIES // (sum(layer.heads for layer in layers) * context**2))


def _mixed(mixing: dict[int, Tensor]) -> Any:
    """An edit that mixes patterns by unit weights, one set for each document, and remembers these."""

    def edit(weights: Tensor, layer: AttentionLayer) -> Tensor:
        unit = torch.eye(layer.heads, dtype=weights.dtype, device=weights.device)
        weight = unit.repeat(weights.shape[0], 1, 1).requires_grad_(True)
        mixing[layer.index] = weight
        return (weight @ weights.flatten(2)).reshape(weights.shape)

    return edit


def drawn_losses(
    output: Tensor, ids: Tensor, draws: int, generator: torch.Generator, language: bool
) -> Iterator[tuple[float, Tensor]]:
    """Scalars to take gradients of, with the factor of their products; the text's own loss first, where it has one."""
    if language:
        logits = output[:, :-1].float()
        tokens = logits.shape[1]
        yield 1.0, F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="sum") / tokens
        chances = logits.detach().softmax(-1).flatten(0, 1).cpu()
        for _ in range(draws):
            drawn = torch.multinomial(chances, 1, generator=generator).view(logits.shape[:2]).to(ids.device)
            # The gradient of a mean over tokens that are drawn independently: its square is 1/tokens of a token's.
            yield float(tokens), F.cross_entropy(logits.transpose(1, 2), drawn, reduction="sum") / tokens
        return
    embedding = output.float().mean(1)
    size = embedding.detach().norm(dim=1, keepdim=True)
    along = embedding.detach() / size
    for _ in range(draws):
        drawn = torch.randn(embedding.shape, generator=generator).to(embedding.device)
        across = drawn - (drawn * along).sum(1, keepdim=True) * along
        yield 1.0, ((across / size) * embedding).sum()


@contextmanager
def gradients_of_edits(model: nn.Module) -> Iterator[None]:
    """Eval mode with gradients, of nothing but what edits bring in; the model's parameters are left out."""
    required = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        for parameter, _ in required:
            parameter.requires_grad_(False)
        with torch.enable_grad():
            yield
    finally:
        for parameter, flag in required:
            parameter.requires_grad_(flag)
        for module, mode in modes:
            module.training = mode
