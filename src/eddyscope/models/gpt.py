"""The GPT of the published study: character tokens, pre-norm blocks, optional energy gate on the keys."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eddyscope.errors import InputError
from eddyscope.models.config import GPTConfig
from eddyscope.models.gates import build_gate

GATED_SUM_FLOOR = 1e-8


class CausalSelfAttention(nn.Module):
    """Multi-head causal attention that shows its weights.

    ``forward`` returns ``(out, weights)`` as the eager attention of Hugging Face models does, so a forward hook on
    modules of this class sees the final weights (after gate, renormalisation and, in training, dropout), shape
    (batch, head, query, key). Query, key and value have no bias; the output projection has one.

    With ``fused = True`` the same output comes from torch's fused kernel and ``weights`` is None: for training, where
    nobody looks. The gate then enters as ``log g(j)`` added to the scores, which is the same as renormalised
    multiplication except in rows whose gated sum lies below the floor of 1e-8.

    Functions in ``edits`` change the weights, one after the other, before they meet the values; while there are any,
    the fused kernel is not used. :func:`eddyscope.interventions.editing.edited` puts them there and takes them away.

    A function in ``attend`` takes the place of all that: it maps query, key, value (batch, head, token, feature) and
    gate (batch, head, key) or None to the mixed values and to the weights or None. Capture puts it there.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.fused = False
        self.edits: list[Callable[[Tensor], Tensor]] = []
        self.attend: Callable[[Tensor, Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor | None]] | None = None
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width)
        self.gate = build_gate(config.variant, config.width, config.heads)
        mask = torch.ones(config.context, config.context, dtype=torch.bool).triu(1)
        self.register_buffer("future", mask, persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Attend within x of shape (batch, token, width); returns the output and the weights."""
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        gate = None if self.gate is None else self.gate(x)  # (batch, head, key)
        weights: Tensor | None = None
        if self.attend is not None:
            mixed, weights = self.attend(q, k, v, gate)
        elif self.fused and not self.edits:
            mixed = self._fused(q, k, v, gate)
        else:
            mixed, weights = self.attend_whole(q, k, v, gate)
        return self.out(mixed.transpose(1, 2).flatten(2)), weights

    def attend_whole(self, q: Tensor, k: Tensor, v: Tensor, gate: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mix the values by the whole weights, edited; returns both."""
        weights = self._weights(q, k, gate)
        for edit in self.edits:
            weights = edit(weights)
        return weights @ v, weights

    def finish(self, gate: Tensor | None) -> Callable[[Tensor], Tensor] | None:
        """What becomes of the weights after the softmax, in eval mode; None for nothing."""
        return None if gate is None else partial(gated, gate=gate)

    def _weights(self, q: Tensor, k: Tensor, gate: Tensor | None) -> Tensor:
        """Return softmax attention, gated and renormalised: A'(i, j) = A(i, j) g(j) / sum_j A(i, j) g(j)."""
        length = q.shape[-2]
        future = self.get_buffer("future")[:length, :length]
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(future, -torch.inf).softmax(-1)
        if gate is not None:
            weights = gated(weights, gate)
        return F.dropout(weights, self.dropout, self.training)

    def _fused(self, q: Tensor, k: Tensor, v: Tensor, gate: Tensor | None) -> Tensor:
        """Return the attention output without forming the weights."""
        dropout = self.dropout if self.training else 0.0
        if gate is None:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        # One more dimension carries the gate: (q, 1) . (k, sqrt(d) log g) / sqrt(d) = q . k / sqrt(d) + log g.
        # An additive mask would do the same, but its gradient keeps torch from using the fused kernel.
        size = q.shape[-1]
        bias = gate.clamp_min(torch.finfo(gate.dtype).tiny).log() * math.sqrt(size)
        q = torch.cat([q, torch.ones_like(q[..., :1])], dim=-1)
        k = torch.cat([k, bias[..., None]], dim=-1)
        mixed = F.scaled_dot_product_attention(
            q, k, F.pad(v, (0, 1)), dropout_p=dropout, is_causal=True, scale=1 / math.sqrt(size)
        )
        return mixed[..., :size]


def gated(weights: Tensor, gate: Tensor) -> Tensor:
    """Multiply weights (batch, head, query, key) by a gate on the keys (batch, head, key) and renormalise the rows."""
    weights = weights * gate[:, :, None, :]
    return weights / weights.sum(-1, keepdim=True).clamp_min(GATED_SUM_FLOOR)


class Block(nn.Module):
    """Pre-norm block: attention, then an MLP of four times the width with exact GELU; both with residual sum."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(config.width)
        self.attention = CausalSelfAttention(config)
        self.norm_mlp = nn.LayerNorm(config.width)
        self.expand = nn.Linear(config.width, 4 * config.width)
        self.contract = nn.Linear(4 * config.width, config.width)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map the residual stream (batch, token, width) to the next."""
        attended, _ = self.attention(self.norm_attention(x))
        x = x + self.drop(attended)
        changed: Tensor = self.drop(self.contract(F.gelu(self.expand(self.norm_mlp(x)))))
        return x + changed


class GPT(nn.Module):
    """Character-level GPT: learned positions, pre-norm blocks, output tied to the embedding.

    Biases: layer norms, attention output and MLP have them; query, key, value and the logits have none.

    Parameters
    ----------
    config : GPTConfig
        Sizes and variant.
    vocabulary : sequence of str, optional
        The characters in order of their ids. Without it the model cannot read or write text.

    seed : int
        Seed of the initial weights: N(0, 0.02), with the two projections into the residual stream divided by
        sqrt(2 layers), as in GPT-2. A gate's energy weights are drawn after all others, so that one seed gives every
        variant the same start.
    """

    def __init__(self, config: GPTConfig, vocabulary: Sequence[str] | None = None, seed: int = 0) -> None:
        super().__init__()
        if vocabulary is not None and len(vocabulary) != config.vocab_size:
            raise InputError(
                f"The vocabulary has {len(vocabulary)} characters; expected vocab_size = {config.vocab_size}."
            )
        self.config = config
        self.vocabulary = None if vocabulary is None else list(vocabulary)
        self._ids = {character: index for index, character in enumerate(self.vocabulary or [])}
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self._initialise(seed)

    def _initialise(self, seed: int) -> None:
        """Draw all weights, the gates' last."""
        generator = torch.Generator().manual_seed(seed)
        residual_std = 0.02 / math.sqrt(2 * self.config.layers)
        for name, parameter in self.named_parameters():
            if ".gate." in name:
                continue
            if name.endswith(("attention.out.bias", "expand.bias", "contract.bias")):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                into_residual = name.endswith(("attention.out.weight", "contract.weight"))
                nn.init.normal_(parameter, std=residual_std if into_residual else 0.02, generator=generator)
        for name, parameter in self.named_parameters():
            if ".gate.energy." in name and name.endswith("weight"):
                nn.init.normal_(parameter, std=0.02, generator=generator)

    def forward(self, ids: Tensor) -> Tensor:
        """Return logits (batch, token, vocab_size) for token ids (batch, token)."""
        length = ids.shape[-1]
        if length > self.config.context:
            raise InputError(
                f"The sequence has {length} tokens; expected at most the model's context of {self.config.context}."
            )
        x = self.drop(self.tokens(ids) + self.positions.weight[:length])
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)

    def attentions(self) -> list[CausalSelfAttention]:
        """Return the attention modules, first layer first."""
        return [module for module in self.modules() if isinstance(module, CausalSelfAttention)]

    def encode(self, text: str) -> list[int]:
        """Return one id per character; a character outside the vocabulary becomes the fallback's (a space)."""
        fallback = self._fallback()
        return [self._ids.get(character, fallback) for character in text]

    def replaced(self, text: str) -> dict[str, int]:
        """Return the characters of a text that :meth:`encode` replaces, with how often each occurs."""
        self._fallback()
        return dict(Counter(character for character in text if character not in self._ids).most_common())

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of token ids (any iterable of integers, such as a one-dimensional tensor)."""
        self._fallback()
        vocabulary = self.vocabulary or []
        found = [int(index) for index in ids]
        outside = [index for index in found if not 0 <= index < len(vocabulary)]
        if outside:
            raise InputError(f"Token id {outside[0]} is not in the vocabulary; expected 0 to {len(vocabulary) - 1}.")
        return "".join(vocabulary[index] for index in found)

    def _fallback(self) -> int:
        """Return the id that stands for unknown characters: the space, or the first where there is none."""
        if self.vocabulary is None:
            raise InputError(
                "The model has no vocabulary, so it cannot read or write text.",
                "Give GPT(config, vocabulary) the characters in order of their ids.",
            )
        return self._ids.get(" ", 0)
