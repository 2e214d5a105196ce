"""Muon for the weight matrices of the blocks, AdamW for everything else, on one learning-rate schedule."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor, nn

# Quintic Newton-Schulz coefficients of Keller Jordan's Muon: steep at zero, so that five steps bring singular values
# of any size into about [0.7, 1.2]; exact convergence to 1 isn't wanted and isn't needed.
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
MUON_SUFFIXES = ("attention.qkv.weight", "attention.out.weight", "expand.weight", "contract.weight")


def orthogonalise(matrices: Tensor, steps: int = 5) -> Tensor:
    """Return matrices with the same singular vectors and singular values near 1.

    Parameters
    ----------
    matrices : Tensor
        Shape (..., rows, columns).
    steps : int
        Newton-Schulz steps.

    Returns
    -------
    Tensor
        Same shape, float32. Half precision, as on GPUs, would be emulated on a CPU and slower.

    Notes
    -----
    ``X <- a X + (b G + c G G) X`` with ``G = X X^T``, from ``X / |X|_F`` (K. Jordan, Muon, 2024).
    """
    a, b, c = NEWTON_SCHULZ
    x = matrices.float()
    tall = x.shape[-2] > x.shape[-1]
    if tall:  # G is the smaller of the two Gram matrices
        x = x.mT
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    result: Tensor = x.mT if tall else x
    return result


class Muon(torch.optim.Optimizer):
    """Momentum with orthogonalised updates, for matrices (K. Jordan, 2024).

    Parameters
    ----------
    parameters : list of nn.Parameter
        Matrices (rows, columns). One whose ``rows`` is three times its ``columns`` is read as query, key and value
        stacked, and each third is orthogonalised by itself.
    lr : float
        Learning rate; the update is scaled by sqrt(max(1, rows / columns)).
    momentum : float
        Nesterov momentum.
    weight_decay : float
        Decoupled weight decay.
    """

    def __init__(
        self, parameters: list[nn.Parameter], lr: float, momentum: float = 0.95, weight_decay: float = 0.0
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            # Matrices of one shape are orthogonalised in one batched product.
            by_shape: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(parameter)
                momentum = state["momentum"].lerp_(parameter.grad, 1 - group["momentum"])
                update = parameter.grad.lerp(momentum, group["momentum"])
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                columns = parameter.shape[1]
                rows = columns if parameter.shape[0] == 3 * columns else parameter.shape[0]
                for target, change in zip(parameter.split(rows), update.split(rows), strict=True):
                    by_shape[rows, columns].append((target, change))
            for (rows, columns), pairs in by_shape.items():
                scale = group["lr"] * math.sqrt(max(1.0, rows / columns))
                updates = orthogonalise(torch.stack([change for _, change in pairs]))
                for (target, _), change in zip(pairs, updates, strict=True):
                    target.sub_(change, alpha=scale)


@dataclass
class Optimisers:
    """The optimisers of a model, stepped together.

    Parameters
    ----------
    parts : dict of str to torch.optim.Optimizer
        ``muon`` and ``adamw``, or ``adamw`` alone.
    """

    parts: dict[str, torch.optim.Optimizer]

    def __post_init__(self) -> None:
        self.peaks = {name: [group["lr"] for group in part.param_groups] for name, part in self.parts.items()}

    def step(self, factor: float) -> None:
        """Step with all learning rates at ``factor`` times their peak, then drop the gradients."""
        for name, part in self.parts.items():
            for group, peak in zip(part.param_groups, self.peaks[name], strict=True):
                group["lr"] = peak * factor
            part.step()
            part.zero_grad(set_to_none=True)


def build_optimisers(
    model: nn.Module,
    *,
    optimiser: str,
    matrix_rate: float,
    rate: float,
    betas: tuple[float, float],
    weight_decay: float,
) -> Optimisers:
    """Return the optimisers of a model.

    Parameters
    ----------
    model : nn.Module
        A :class:`~eddyscope.models.gpt.GPT`.
    optimiser : str
        ``muon``: Muon for the matrices of the blocks, AdamW for embeddings, norms, biases and gates. ``adamw``: AdamW
        for all.
    matrix_rate, rate : float
        Peak learning rates of Muon and of AdamW.
    betas : tuple of float
        AdamW's decay rates.
    weight_decay : float
        Decoupled decay of everything with two or more dimensions.
    """
    named = list(model.named_parameters())
    matrices = [p for name, p in named if optimiser == "muon" and name.endswith(MUON_SUFFIXES)]
    chosen = {id(p) for p in matrices}
    rest = [p for _, p in named if id(p) not in chosen]
    groups = [
        {"params": [p for p in rest if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0.0},
    ]
    parts: dict[str, torch.optim.Optimizer] = {"adamw": torch.optim.AdamW(groups, lr=rate, betas=betas)}
    if matrices:
        parts["muon"] = Muon(matrices, lr=matrix_rate, weight_decay=weight_decay)
    return Optimisers(parts)
