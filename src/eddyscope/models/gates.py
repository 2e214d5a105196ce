"""Energy gates on the keys of attention, in the published and in a causal form.

A gate multiplies the attention that every query pays to key ``j`` by ``g(j)`` in (0, 1), and the rows are
renormalised. Per head and energy ``s``::

    z_s(j) = (e_s(j) - mean_s) / max(deviation_s, 1e-8)
    g(j)   = sum_s pi_s sigmoid(alpha_s (z_s(j) - tau_s)),      pi = softmax(mixing)

The published form takes mean and (population) deviation over *all* tokens of the sequence, so the gate of a token
depends on tokens after it. The causal form takes them over positions 0..j.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

DEVIATION_FLOOR = 1e-8
CONVOLUTION_LENGTHS = (3, 7, 15, 31)
CHANNELS = 2  # output channels of each convolution whose squares are summed


def normalise(energy: Tensor, *, causal: bool) -> Tensor:
    """Z-normalise energies along the last axis (tokens), with the population standard deviation.

    Parameters
    ----------
    energy : Tensor
        Energies, shape (..., token).
    causal : bool
        Whether the statistics of token j run over tokens 0..j (True) or over all tokens (False, as published).

    Returns
    -------
    Tensor
        Same shape and dtype. Where the deviation is zero (a single token, equal energies) the result is 0.

    Notes
    -----
    Sums are float64 and relative to the energy of token 0, which every token may see, so that a mean that is large
    beside the deviation costs no digits.
    """
    relative = energy.double()
    relative = relative - relative[..., :1]
    if causal:
        count = torch.arange(1, energy.shape[-1] + 1, dtype=torch.float64, device=energy.device)
        mean = relative.cumsum(-1) / count
        mean_square = relative.square().cumsum(-1) / count
    else:
        mean = relative.mean(-1, keepdim=True)
        mean_square = relative.square().mean(-1, keepdim=True)
    # The floor goes in before the root: the root's slope at zero is infinite.
    deviation = (mean_square - mean.square()).clamp_min(DEVIATION_FLOOR**2).sqrt()
    return ((relative - mean) / deviation).to(energy.dtype)


class LinearEnergy(nn.Module):
    """Energies that are linear in the token: ``e_s(j) = w_s . x(j) + b_s``, ``S (width + 1)`` parameters a head."""

    def __init__(self, width: int, heads: int, count: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, count, width))
        self.bias = nn.Parameter(torch.zeros(heads, count))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, token, width) to energies (batch, head, energy, token)."""
        heads, count, width = self.weight.shape
        energy = F.linear(x, self.weight.view(heads * count, width), self.bias.view(-1))
        return energy.transpose(1, 2).reshape(x.shape[0], heads, count, x.shape[1])


class ConvolutionalEnergy(nn.Module):
    """Energies of causal convolutions over 3, 7, 15 and 31 tokens: the sum of the squares of two channels each.

    A head has ``56 * 2 * width`` weights and 8 biases.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.convolutions = nn.ModuleList(nn.Conv1d(width, heads * CHANNELS, length) for length in CONVOLUTION_LENGTHS)
        for convolution in self.convolutions:
            nn.init.zeros_(cast(Tensor, convolution.bias))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, token, width) to energies (batch, head, energy, token)."""
        tokens = x.transpose(1, 2)  # (batch, width, token)
        energies = []
        for length, convolution in zip(CONVOLUTION_LENGTHS, self.convolutions, strict=True):
            # Padded on the left alone: the energy of token j sees tokens j - length + 1 .. j.
            channels = convolution(F.pad(tokens, (length - 1, 0)))
            energies.append(channels.unflatten(1, (self.heads, CHANNELS)).square().sum(2))
        return torch.stack(energies, dim=2)


class EnergyGate(nn.Module):
    """Gate on keys, one per head, from one or several energies.

    Parameters
    ----------
    energy : nn.Module
        Maps (batch, token, width) to (batch, head, energy, token).
    heads, count : int
        Number of heads and of energies per head.
    causal : bool
        Whether energies are normalised over positions up to the key only.
    """

    def __init__(self, energy: nn.Module, heads: int, count: int, *, causal: bool) -> None:
        super().__init__()
        self.energy = energy
        self.causal = causal
        self.alpha = nn.Parameter(torch.full((heads, count), 2.0))
        self.tau = nn.Parameter(torch.zeros(heads, count))
        # Equal entries: every energy starts with weight 1 / S. With S = 1 it has no effect, but is counted.
        self.mixing = nn.Parameter(torch.zeros(heads, count))

    def forward(self, x: Tensor) -> Tensor:
        """Return the gate of each key, shape (batch, head, token), in (0, 1), for x of (batch, token, width)."""
        energy = normalise(self.energy(x), causal=self.causal)
        opened = torch.sigmoid(self.alpha[..., None] * (energy - self.tau[..., None]))
        return (self.mixing.softmax(-1)[..., None] * opened).sum(2)


def build_gate(variant: str, width: int, heads: int) -> EnergyGate | None:
    """Return the gate of a variant for one attention block, None for ``base``.

    Parameters
    ----------
    variant : str
        One of :data:`eddyscope.models.config.VARIANTS`.
    width, heads : int
        Width of the block's input and its number of heads.
    """
    if variant == "base":
        return None
    kind = variant.removesuffix("-causal").removeprefix("ega-")
    causal = variant.endswith("-causal")
    if kind == "c":
        return EnergyGate(ConvolutionalEnergy(width, heads), heads, len(CONVOLUTION_LENGTHS), causal=causal)
    count = int(kind)
    return EnergyGate(LinearEnergy(width, heads, count), heads, count, causal=causal)
