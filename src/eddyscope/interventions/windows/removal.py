"""Attention without some of its distances: which keys a query may still see, and rows brought back to their mass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from eddyscope.errors import UsageError
from eddyscope.interventions.layers import AttentionLayer

SINKS = ("keep", "drop")


@dataclass(frozen=True)
class Removal:
    """A range of distances that is taken away from a layer or a head.

    Parameters
    ----------
    first : int
        Smallest distance ``|query - key|`` that is removed, in tokens.
    stop : int, optional
        Smallest distance beyond it that stays; None where everything from ``first`` on goes.

    Examples
    --------
    A window of w tokens is ``Removal(w)``: of a causal layer it leaves the query's own token and the w - 1 before it.
    The octave of distances 3 to 6 is taken away by ``Removal(3, 7)``.
    """

    first: int
    stop: int | None = None

    def __post_init__(self) -> None:
        if self.first < 0 or (self.stop is not None and self.stop <= self.first):
            raise UsageError(f"Removal({self.first}, {self.stop}): expected 0 <= first < stop.")


#: What is removed from a layer: from all heads alike (one entry) or from each (one a head); None where nothing is.
Removals = tuple[Removal | None, ...]


def check_sink(sink: str) -> str:
    """UsageError unless it is ``keep`` or ``drop``."""
    if sink not in SINKS:
        raise UsageError(f"sink must be keep or drop, got {sink!r}.")
    return sink


def keeps_first(layer: AttentionLayer, sink: str) -> bool:
    """Whether key 0 stays visible in a layer: not where a window of the model's own takes it away."""
    return sink == "keep" and layer.window is None


@lru_cache(maxsize=256)
def visible(
    removals: Removals, queries: int, keys: int, *, causal: bool, keep_first: bool, device: torch.device | None = None
) -> Tensor:
    """Which keys each query may see.

    Parameters
    ----------
    removals : tuple of Removal or None
        One for all heads, or one a head.
    queries, keys : int
        The queries are the last of the keys.
    causal : bool
        Whether keys after the query are out of sight in any case.
    keep_first : bool
        Whether key 0 stays visible at any distance.
    device : torch.device, optional

    Returns
    -------
    Tensor of bool, shape (1 or head, query, key)
    """
    query = torch.arange(keys - queries, keys, device=device)[:, None]
    key = torch.arange(keys, device=device)[None, :]
    distance = (query - key).abs()
    masks = []
    for removal in removals:
        mask = torch.ones_like(distance, dtype=torch.bool)
        if removal is not None:
            beyond = distance >= removal.first
            mask = ~beyond if removal.stop is None else ~(beyond & (distance < removal.stop))
            if keep_first:
                mask = mask | (key == 0)
        masks.append(mask & (key <= query) if causal else mask)
    return torch.stack(masks)


def restrict(weights: Tensor, mask: Tensor) -> Tensor:
    """Attention to the visible keys alone, each row brought back to the mass that it had.

    ``A'(i, j) = A(i, j) m(i, j) sum_k A(i, k) / sum_k A(i, k) m(i, k)``, which is the softmax over the visible keys.

    Parameters
    ----------
    weights : Tensor, shape (batch, head, query, key)
    mask : Tensor of bool, shape (1 or head, query, key)

    Returns
    -------
    Tensor of the same shape
        Where rounding leaves no mass on any visible key, the visible keys share the row's mass evenly; a query that may
        see no key at all keeps its row.
    """
    kept = weights * mask
    mass, left = weights.sum(-1, keepdim=True), kept.sum(-1, keepdim=True)
    scaled = kept * (mass / left)
    lost = left <= torch.finfo(weights.dtype).tiny
    if not bool(lost.any()):
        return scaled
    share = mask.to(weights.dtype)
    count = share.sum(-1, keepdim=True)
    even = torch.where(count > 0, mass * share / count.clamp_min(1), weights)
    return torch.where(lost, even, scaled)


def without(weights: Tensor, layer: AttentionLayer, removals: Removals, sink: str) -> Tensor:
    """Attention weights of a layer without the removed distances; untouched where nothing is removed."""
    if all(removal is None for removal in removals):
        return weights
    mask = visible(
        removals,
        weights.shape[-2],
        weights.shape[-1],
        causal=layer.causal,
        keep_first=keeps_first(layer, sink),
        device=weights.device,
    )
    return restrict(weights, mask)


def removals_of(windows: Sequence[int], context: int) -> Removals:
    """What windows take away; one that spans the context takes nothing."""
    return tuple(None if window >= context else Removal(window) for window in windows)
