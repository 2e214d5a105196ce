"""The gates are the published formulas; the causal forms look back only, the published ones do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from eddyscope.models import CAUSAL_GATES, PUBLISHED_GATES, VARIANTS, GPTConfig, untrained
from eddyscope.models.gates import ConvolutionalEnergy, LinearEnergy, build_gate, normalise
from eddyscope.models.gpt import GPT, CausalSelfAttention

Array = NDArray[np.float64]


def parameter_count(variant: str, width: int = 256) -> int:
    return sum(p.numel() for p in untrained(GPTConfig(variant=variant, width=width)).parameters())


@pytest.mark.parametrize(
    ("variant", "added"),
    [("ega-1", 12_480), ("ega-2", 24_960), ("ega-4", 49_920), ("ega-c", 1_377_216)],
)
def test_a_gate_adds_the_published_number_of_parameters(variant: str, added: int) -> None:
    base = parameter_count("base")
    assert parameter_count(variant) - base == added
    assert parameter_count(f"{variant}-causal") - base == added


def test_a_head_of_the_convolutional_gate_has_the_published_parts() -> None:
    gate = build_gate("ega-c", width=256, heads=1)
    assert gate is not None
    sizes = {name: parameter.numel() for name, parameter in gate.named_parameters()}
    assert sum(n for name, n in sizes.items() if name.endswith("weight")) == 56 * 2 * 256
    assert sum(n for name, n in sizes.items() if name.endswith("bias")) == 8
    assert (sizes["alpha"], sizes["tau"], sizes["mixing"]) == (4, 4, 4)


def test_gates_start_at_the_published_values() -> None:
    gate = build_gate("ega-4", width=16, heads=2)
    assert gate is not None
    assert torch.all(gate.alpha == 2)
    assert torch.all(gate.tau == 0)
    assert torch.allclose(gate.mixing.softmax(-1), torch.tensor(0.25))


def looped_gate(energy: Array, alpha: Array, tau: Array, mixing: Array, *, causal: bool) -> Array:
    """The formula for one head, token by token: energy (S, L); alpha, tau, mixing (S,)."""
    scales, length = energy.shape
    share = np.exp(mixing) / np.exp(mixing).sum()
    gate = np.zeros(length)
    for j in range(length):
        for s in range(scales):
            seen = energy[s, : j + 1] if causal else energy[s]
            z = (energy[s, j] - seen.mean()) / max(seen.std(), 1e-8)
            gate[j] += share[s] / (1 + np.exp(-alpha[s] * (z - tau[s])))
    return gate


@pytest.mark.parametrize("variant", [*PUBLISHED_GATES, *CAUSAL_GATES])
def test_gate_equals_a_plain_loop_over_the_formula(variant: str) -> None:
    heads, width, length = 3, 8, 20
    torch.manual_seed(0)
    gate = build_gate(variant, width, heads)
    assert gate is not None
    with torch.no_grad():
        for parameter in gate.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    x = torch.randn(2, length, width)
    with torch.no_grad():
        found = gate(x).numpy()
    weights = {name: p.detach().double().numpy() for name, p in gate.named_parameters()}
    for b in range(2):
        for h in range(heads):
            energy = looped_energy(weights, x[b].double().numpy(), h)
            expected = looped_gate(
                energy, weights["alpha"][h], weights["tau"][h], weights["mixing"][h], causal="causal" in variant
            )
            np.testing.assert_allclose(found[b, h], expected, atol=2e-6)


def looped_energy(weights: dict[str, Array], x: Array, head: int) -> Array:
    """Energies (S, L) of one head for x (L, width), by the formula."""
    if "energy.weight" in weights:
        w, b = weights["energy.weight"][head], weights["energy.bias"][head]
        return np.array([[w[s] @ x[j] + b[s] for j in range(len(x))] for s in range(len(w))])
    energies = []
    for index, length in enumerate((3, 7, 15, 31)):
        kernel = weights[f"energy.convolutions.{index}.weight"][2 * head : 2 * head + 2]  # (channel, width, tap)
        bias = weights[f"energy.convolutions.{index}.bias"][2 * head : 2 * head + 2]
        row = []
        for j in range(len(x)):
            channels = bias.copy()
            for tap in range(length):
                source = j - (length - 1 - tap)
                if source >= 0:
                    channels = channels + kernel[:, :, tap] @ x[source]
            row.append((channels**2).sum())
        energies.append(row)
    return np.array(energies)


@pytest.mark.parametrize("causal", [False, True])
def test_equal_energies_and_single_tokens_are_normalised_to_zero(causal: bool) -> None:
    assert torch.all(normalise(torch.full((2, 3, 9), 1234.567), causal=causal) == 0)
    assert torch.all(normalise(torch.randn(2, 3, 1), causal=causal) == 0)


@pytest.mark.parametrize("causal", [False, True])
def test_a_mean_that_dwarfs_the_deviation_costs_no_digits(causal: bool) -> None:
    small = torch.randn(1, 50, generator=torch.Generator().manual_seed(0)).mul(64).round() / 64
    shifted = small + 4096  # exact in float32
    assert torch.allclose(normalise(shifted, causal=causal), normalise(small, causal=causal), atol=1e-6)


def test_energies_keep_their_gradient_at_the_first_token() -> None:
    energy = torch.randn(1, 5, requires_grad=True)
    normalise(energy, causal=True).square().sum().backward()
    assert energy.grad is not None
    assert torch.isfinite(energy.grad).all()


def attention_and_logits(model: GPT, ids: Tensor) -> tuple[list[Tensor], Tensor]:
    """What forward hooks see on every attention module, and the logits."""
    seen: list[Tensor] = []
    handles = [
        module.register_forward_hook(lambda _module, _inputs, output: seen.append(output[1]))
        for module in model.modules()
        if isinstance(module, CausalSelfAttention)
    ]
    with torch.no_grad():
        logits = model(ids)
    for handle in handles:
        handle.remove()
    return seen, logits


def movement_before(model: GPT, position: int) -> tuple[float, float]:
    """By how much attention and logits before a position move when the tokens from it on change."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, model.config.vocab_size, (2, model.config.context), generator=generator)
    other = ids.clone()
    other[:, position:] = (other[:, position:] + 5) % model.config.vocab_size
    (first, logits), (second, other_logits) = attention_and_logits(model, ids), attention_and_logits(model, other)
    attention = max(
        (a[..., :position, :] - b[..., :position, :]).abs().max().item() for a, b in zip(first, second, strict=True)
    )
    return attention, (logits[:, :position] - other_logits[:, :position]).abs().max().item()


@pytest.mark.parametrize("variant", ["base", *CAUSAL_GATES])
def test_causal_models_do_not_see_later_tokens(lively: Callable[..., GPT], variant: str) -> None:
    model = lively(variant)
    attention, logits = movement_before(model, 30)
    assert attention < 1e-6
    assert logits < 1e-6 * 10  # logits are sums of some ten entries of order one
    assert not model.config.sees_later_tokens


@pytest.mark.parametrize("variant", PUBLISHED_GATES)
def test_published_gates_see_later_tokens(lively: Callable[..., GPT], variant: str) -> None:
    model = lively(variant)
    attention, logits = movement_before(model, 30)
    assert attention > 1e-3
    assert logits > 1e-3
    assert model.config.sees_later_tokens


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_seed_gives_every_variant_the_same_start(variant: str) -> None:
    sizes = {"width": 16, "heads": 2, "layers": 2, "context": 8}
    base = untrained(GPTConfig(**sizes), seed=4).state_dict()
    other = untrained(GPTConfig(variant=variant, **sizes), seed=4).state_dict()
    assert all(torch.equal(base[name], other[name]) for name in base)


def test_energy_modules_give_one_row_per_energy() -> None:
    x = torch.randn(2, 10, 8)
    assert LinearEnergy(8, heads=3, count=2)(x).shape == (2, 3, 2, 10)
    assert ConvolutionalEnergy(8, heads=3)(x).shape == (2, 3, 4, 10)
