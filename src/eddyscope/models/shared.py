"""A GPT in which some heads have no queries and keys of their own: they use mixes of the patterns of the others.

In a layer that keeps K of H patterns, head h attends with ``sum_k mixing[h, k] A_k``. Values and output projection are
those of all heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from eddyscope.errors import InputError
from eddyscope.models.config import GPTConfig
from eddyscope.models.gates import build_gate
from eddyscope.models.gpt import GPT, CausalSelfAttention, gated


class SharedAttention(CausalSelfAttention):
    """Causal attention of H heads with K patterns.

    By default (``fused = True``) the patterns of all heads are not formed where that can be spared, and ``weights`` is
    None. With ``fused = False``, or while there are ``edits``, the weights (batch, head, query, key) of all heads are
    formed, edited and returned, as in the model that this one was made from.

    Parameters
    ----------
    config : GPTConfig
    kept : sequence of int
        Heads that have a pattern, ascending, at least one.
    """

    def __init__(self, config: GPTConfig, kept: Sequence[int]) -> None:
        super().__init__(config)
        size = config.width // config.heads
        self.kept = tuple(kept)
        if not self.kept or not all(0 <= head < config.heads for head in self.kept):
            raise InputError(f"A layer keeps heads {list(kept)}; expected at least one of 0 to {config.heads - 1}.")
        self.fused = True
        count = len(self.kept)
        self.qkv = nn.Linear(config.width, 2 * count * size + config.width, bias=False)
        self.gate = build_gate(config.variant, config.width, count)
        self.mixing = nn.Parameter(torch.eye(config.heads)[:, list(self.kept)].clone())
        self.others = [head for head in range(config.heads) if head not in self.kept]
        order = [*self.kept, *self.others]
        self._as_heads = [order.index(head) for head in range(config.heads)]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Attend within x of shape (batch, token, width); returns the output and the weights."""
        width, size = x.shape[-1], x.shape[-1] // self.heads
        inner = len(self.kept) * size
        parts: tuple[Tensor, ...] = torch.split(self.qkv(x), [inner, inner, width], dim=-1)
        q, k, v = (part.reshape(*x.shape[:2], -1, size).transpose(1, 2) for part in parts)
        gate = None if self.gate is None else self.gate(x)
        weights: Tensor | None = None
        if self.attend is not None:
            mixed, weights = self.attend(q, k, v, gate)
        elif self.fused and not self.edits:
            mixed = self._mix(super()._weights(q, k, gate), v)
        else:
            mixed, weights = self.attend_whole(q, k, v, gate)
        return self.out(mixed.transpose(1, 2).flatten(2)), weights

    def finish(self, gate: Tensor | None) -> Callable[[Tensor], Tensor]:
        """What becomes of the kept patterns after the softmax: gated, and mixed into those of all heads."""
        return lambda patterns: _mixed(self.mixing, patterns if gate is None else gated(patterns, gate))

    def _weights(self, q: Tensor, k: Tensor, gate: Tensor | None) -> Tensor:
        """Return the patterns of all heads, from the queries and keys of the kept ones."""
        return _mixed(self.mixing, super()._weights(q, k, gate))

    def _mix(self, patterns: Tensor, v: Tensor) -> Tensor:
        """Return the values of all heads under their patterns, with as few maps as can be."""
        if len(self.kept) == 1:
            # One map for all heads: the weights go into the values.
            scaled = (v * self.mixing[:, :1, None]).transpose(1, 2).flatten(2)
            return (patterns[:, 0] @ scaled).reshape(*scaled.shape[:2], self.heads, -1).transpose(1, 2)
        if not torch.equal(self.mixing[list(self.kept)], torch.eye(len(self.kept)).to(self.mixing)):
            return _mixed(self.mixing, patterns) @ v  # a healed plan: kept heads use other patterns too
        own = patterns @ v[:, list(self.kept)]
        if not self.others:
            return own
        maps = _mixed(self.mixing[self.others], patterns)
        both = torch.cat([own, maps @ v[:, self.others]], dim=1)
        return both[:, self._as_heads]


def _mixed(mixing: Tensor, patterns: Tensor) -> Tensor:
    """Sums of patterns (batch, kept, query, key) by weights (head, kept)."""
    flat = mixing @ patterns.flatten(2)
    return flat.reshape(patterns.shape[0], mixing.shape[0], *patterns.shape[2:])


class SharedGPT(GPT):
    """A GPT whose layers keep some patterns only.

    Parameters
    ----------
    config : GPTConfig
        Of the model that this one was made from.
    kept : sequence of sequence of int
        Heads of each layer that have a pattern of their own.
    vocabulary, seed
        As for :class:`~eddyscope.models.gpt.GPT`.
    """

    def __init__(
        self,
        config: GPTConfig,
        kept: Sequence[Sequence[int]],
        vocabulary: Sequence[str] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(config, vocabulary, seed=seed)
        if len(kept) != config.layers:
            raise InputError(f"Kept heads were given for {len(kept)} layers; expected {config.layers}.")
        self.kept = tuple(tuple(int(head) for head in heads) for heads in kept)
        for block, heads in zip(self.blocks, self.kept, strict=True):
            block.attention = SharedAttention(config, heads)
