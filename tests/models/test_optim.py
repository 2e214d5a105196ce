"""Muon orthogonalises the matrices of the blocks and leaves the rest to AdamW."""

from __future__ import annotations

import pytest
import torch

from eddyscope.models import GPTConfig, untrained
from eddyscope.models.optim import Muon, build_optimisers, orthogonalise


@pytest.mark.parametrize("shape", [(32, 32), (64, 16), (16, 64)])
def test_newton_schulz_brings_singular_values_near_one(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    matrices = torch.randn(3, *shape, generator=generator)
    found = orthogonalise(matrices)
    assert found.dtype == torch.float32
    values = torch.linalg.svdvals(found)
    wide = torch.linalg.svdvals(matrices) > 0.05 * torch.linalg.matrix_norm(matrices)[:, None]
    assert values[wide].min() > 0.6
    assert values.max() < 1.3


def test_newton_schulz_keeps_the_singular_vectors() -> None:
    matrix = torch.randn(24, 12, generator=torch.Generator().manual_seed(1))
    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
    rotated = u.T @ orthogonalise(matrix) @ vh.T  # diagonal where the vectors are the same
    assert (rotated - torch.diag(rotated.diagonal())).abs().max() < 1e-4


def test_query_key_and_value_are_orthogonalised_one_by_one() -> None:
    generator = torch.Generator().manual_seed(0)
    stacked = torch.nn.Parameter(torch.zeros(24, 8))
    stacked.grad = torch.randn(24, 8, generator=generator)
    optimiser = Muon([stacked], lr=1.0)
    optimiser.step()
    momentum = 0.05 * stacked.grad
    nesterov = 0.05 * stacked.grad + 0.95 * momentum
    for part, gradient in zip(stacked.detach().split(8), nesterov.split(8), strict=True):
        assert torch.allclose(part, -orthogonalise(gradient), atol=1e-5)


def build(optimiser: str) -> tuple[torch.nn.Module, dict[str, torch.optim.Optimizer]]:
    model = untrained(GPTConfig(variant="ega-c", width=16, heads=2, layers=1, context=8))
    built = build_optimisers(
        model, optimiser=optimiser, matrix_rate=0.02, rate=1e-3, betas=(0.9, 0.95), weight_decay=0.1
    )
    return model, built.parts


def test_every_parameter_is_in_one_optimiser() -> None:
    for optimiser in ("muon", "adamw"):
        model, parts = build(optimiser)
        held = [id(p) for part in parts.values() for group in part.param_groups for p in group["params"]]
        assert sorted(held) == sorted(id(p) for p in model.parameters())
    assert set(build("adamw")[1]) == {"adamw"}


def test_muon_holds_the_matrices_of_the_blocks_alone() -> None:
    model, parts = build("muon")
    names = {id(p): name for name, p in model.named_parameters()}
    held = {names[id(p)] for group in parts["muon"].param_groups for p in group["params"]}
    assert held == {f"blocks.0.{name}.weight" for name in ("attention.qkv", "attention.out", "expand", "contract")}


def test_vectors_are_not_decayed() -> None:
    _, parts = build("muon")
    for group in parts["adamw"].param_groups:
        assert all((p.dim() >= 2) == (group["weight_decay"] > 0) for p in group["params"])
