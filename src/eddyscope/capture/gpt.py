"""The GPTs in ``eddyscope.models``: their attention computed in blocks or as a whole, or hooks on it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from eddyscope.capture.blockwise import attend
from eddyscope.capture.listener import SiteListener
from eddyscope.capture.source import HookSource, Receiver, Rows, Site, Wants
from eddyscope.capture.state import evaluated, weights_sha256
from eddyscope.capture.values import Projections
from eddyscope.capture.ways import WAYS, chosen_way
from eddyscope.errors import CaptureError
from eddyscope.models.gpt import GPT, CausalSelfAttention


class GPTSource(HookSource):
    """One of the project's own GPTs.

    Parameters
    ----------
    model : eddyscope.models.GPT

    Raises
    ------
    CaptureError
        Where its attention is edited, which needs whole weights, and blocks were asked for.
    """

    name = "eddyscope"

    def __init__(self, model: GPT, wants: Wants = Wants()) -> None:
        super().__init__()
        self.gpt = model
        self.model = model
        edited = any(module.edits for module in model.attentions())
        if edited and wants.way == "blocks":
            raise CaptureError(
                "The model's attention is edited, for which whole weights are needed.",
                "Capture it with way='hooks' (--way hooks).",
            )
        self.ways = ("hooks", "function") if edited else ("hooks", "function", "blocks")
        # Blocks stay in the caches and use their memory again.
        quickest = "function" if edited else "blocks"
        self.by = quickest if wants.way == "auto" else chosen_way(wants)
        self.way = "forward hooks" if self.by == "hooks" else WAYS[self.by]
        self._projections = Projections(model) if wants.value_norm else None
        # The published gates are known to look ahead; that is measured and noted, and is no failure of the capture.
        ahead = model.config.sees_later_tokens
        self.sites = tuple(
            Site(name, module, causal=True, looks_ahead=ahead)
            for name, module in model.named_modules()
            if isinstance(module, CausalSelfAttention)
        )
        self.unreadable = {}

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Eval mode, no gradients, and weights shown by every layer."""
        modules = self.gpt.attentions()
        before = [module.fused for module in modules]
        try:
            for module in modules:
                module.fused = False
            with evaluated(self.model):
                yield
        finally:
            for module, fused in zip(modules, before, strict=True):
                module.fused = fused

    @contextmanager
    def listening(self, receive: Receiver) -> Iterator[None]:
        """Hook every layer, or compute its attention; on leaving, nobody listens."""
        if self.by == "hooks":
            with super().listening(receive):
                yield
            return
        listener = SiteListener(self.sites, receive, self._calls, self._projections)
        attention = _whole if self.by == "function" else _in_blocks
        try:
            for module in self.gpt.attentions():
                module.attend = partial(attention, module, listener)
            with self._projections.checking() if self._projections is not None else nullcontext():
                yield
        finally:
            for module in self.gpt.attentions():
                module.attend = None

    @property
    def vocabulary(self) -> int | None:
        """Number of characters."""
        return self.gpt.config.vocab_size

    @property
    def context(self) -> int | None:
        """Longest sequence, in characters."""
        return self.gpt.config.context

    def identity(self) -> dict[str, Any]:
        """Variant, sizes, and hashes of config and weights."""
        config = self.gpt.config
        text = json.dumps(config.to_dict(), sort_keys=True)
        return {
            "class": type(self.model).__name__,
            "name": config.variant,
            "model_type": "eddyscope-gpt",
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "dtype": str(self.dtype).removeprefix("torch."),
            "layers": config.layers,
            "heads": config.heads,
            "key_value_heads": config.heads,
            "context": config.context,
            "vocabulary": config.vocab_size,
            "implementation": "fused" if any(getattr(s.module, "fused", False) for s in self.sites) else "eager",
            "config_sha256": hashlib.sha256(text.encode()).hexdigest(),
            "weights_sha256": weights_sha256(self.model),
        }


def _whole(
    module: CausalSelfAttention, listener: SiteListener, q: Tensor, k: Tensor, v: Tensor, gate: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Attention as the module computes it, which the listener is told of."""
    mixed, weights = module.attend_whole(q, k, v, gate)
    listener.begins(module)(Rows(weights, value_norm=listener.value_norm(module, v.shape[1], v)))
    listener.ends(module, mixed.transpose(1, 2))
    return mixed, weights


def _in_blocks(
    module: CausalSelfAttention, listener: SiteListener, q: Tensor, k: Tensor, v: Tensor, gate: Tensor | None
) -> tuple[Tensor, None]:
    """The same in blocks of rows; weights are never there as a whole."""
    length = q.shape[-2]
    keys = torch.arange(length, device=q.device)

    def mask(first: int, stop: int) -> Tensor:
        future = keys[None, :] > keys[first:stop, None]
        return torch.zeros(future.shape, dtype=q.dtype, device=q.device).masked_fill_(future, -torch.inf)

    mixed = attend(
        q,
        k,
        v,
        mask,
        scaling=q.shape[-1] ** -0.5,
        finish=module.finish(gate),
        value_norm=listener.value_norm(module, v.shape[1], v),
        see=listener.begins(module),
        room=listener.room,
    )
    listener.ends(module, mixed.transpose(1, 2))
    return mixed, None
