"""Attention recomputed in blocks of query rows, so that nothing of the size of a whole map is formed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from eddyscope.capture.source import Rows

#: Bytes of float32 weights that one block of rows may take, all heads and documents of a batch together.
BLOCK_BYTES_CPU = 16 << 20
BLOCK_BYTES_DEVICE = 256 << 20

#: What a mask adds to the scores of queries ``first`` to ``stop``: (document or 1, head or 1, query, key), or nothing.
RowMaskFunction = Callable[[int, int], Tensor | None]


class Room:
    """Memory of blocks, used again for every block and layer: what comes and goes is given back and cleared each time.

    One room is for one thread, and what is taken is overwritten by the next who takes the same.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str, torch.device, torch.dtype], Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor | None:
        """Memory of this shape; None where gradients are wanted, which need their own."""
        if torch.is_grad_enabled():
            return None
        size, own = math.prod(shape), (name, device, dtype)
        if own not in self._held or self._held[own].numel() < size:
            self._held.pop(own, None)
            self._held[own] = torch.empty(size, dtype=dtype, device=device)
        return self._held[own][:size].view(shape)


def blocks(queries: int, keys: int, maps: int, device: torch.device) -> Iterator[tuple[int, int]]:
    """Ranges of queries, first and one past the last, whose weights keep to the bytes of a block.

    Parameters
    ----------
    queries, keys : int
    maps : int
        Documents times heads.
    device : torch.device
    """
    room = BLOCK_BYTES_CPU if device.type == "cpu" else BLOCK_BYTES_DEVICE
    step = max(1, room // (4 * maps * keys))
    for first in range(0, queries, step):
        yield first, min(first + step, queries)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: RowMaskFunction,
    *,
    scaling: float,
    softcap: float | None = None,
    finish: Callable[[Tensor], Tensor] | None = None,
    value_norm: Tensor | None = None,
    see: Callable[[Rows], None] | None = None,
    room: Room | None = None,
) -> Tensor:
    """Scaled dot-product attention, block by block of query rows.

    For each block ``W = softmax(cap(q k^T * scaling) + mask)`` with the softmax in float32, as eager attention has it,
    and ``out = W v`` in the type of the values.

    Parameters
    ----------
    query : Tensor, shape (document, head, query, feature)
    key : Tensor, shape (document, key-value head, key, feature)
    value : Tensor, shape (document, key-value head, key, value feature)
        Fewer key-value heads than heads: neighbouring heads share one.
    mask : callable
        Gives what is added to the scores of queries ``first`` to ``stop`` (exclusive), or None for nothing.
    scaling : float
    softcap : float, optional
        ``cap(x) = softcap * tanh(x / softcap)``; without it scores are taken as they are.
    finish : callable, optional
        What a layer does to its weights after the softmax (a gate on the keys; mixes for more heads than have queries,
        where values have as many).
    value_norm : Tensor, shape (document, head, key), optional
        Goes into the rows as it is.
    see : callable, optional
        Called with the weights of each block, which must not be kept.
    room : Room, optional
        Where blocks are put, by default for this call alone.

    Returns
    -------
    Tensor, shape (document, head, query, value feature)
    """
    documents, heads, queries, _ = query.shape
    if key.shape[1] != heads:
        key = key.repeat_interleave(heads // key.shape[1], dim=1)
        value = value.repeat_interleave(heads // value.shape[1], dim=1)
    across = key.transpose(-2, -1)
    finished = value.shape[1]
    out = query.new_empty((documents, finished, queries, value.shape[-1]), dtype=value.dtype)
    room = Room() if room is None else room
    for first, stop in blocks(queries, key.shape[2], documents * max(heads, finished), query.device):
        shape = (documents, heads, stop - first, key.shape[2])
        scores = torch.matmul(
            query[:, :, first:stop], across, out=room.take("scores", shape, query.dtype, query.device)
        )
        scores.mul_(scaling)
        if softcap is not None:
            scores = torch.tanh(scores / softcap) * softcap
        added = mask(first, stop)
        if added is not None:
            scores = scores.add_(added) if added.dtype == scores.dtype else scores + added
        place = room.take("weights", shape, torch.float32, query.device)
        weights = torch.softmax(scores, -1, dtype=torch.float32, out=place)
        if finish is not None:
            weights = finish(weights)
        if see is not None:
            see(Rows(weights, first, queries, value_norm))
        out[:, :, first:stop] = torch.matmul(weights.to(value.dtype), value)
    return out
