"""Checkpoints of nanoGPT: forward hooks on a model that shows its softmax."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

from eddyscope.capture.source import HookSource, Site, Wants
from eddyscope.capture.state import weights_sha256
from eddyscope.models.nanogpt import CausalSelfAttention, NanoGPT


class NanoGPTSource(HookSource):
    """A model that was read from a checkpoint of nanoGPT.

    Parameters
    ----------
    model : eddyscope.models.nanogpt.NanoGPT
    """

    name = "nanogpt"
    way = "forward hooks, softmax recomputed"

    def __init__(self, model: NanoGPT, wants: Wants = Wants()) -> None:
        super().__init__()
        self.model = model
        self.config = model.config
        self.sites = tuple(
            Site(name, module, causal=True, heads=model.config.n_head)
            for name, module in model.named_modules()
            if isinstance(module, CausalSelfAttention)
        )
        self.unreadable = {}

    @property
    def vocabulary(self) -> int | None:
        """Number of token ids."""
        return self.config.vocab_size

    @property
    def context(self) -> int | None:
        """Longest sequence, in tokens."""
        return self.config.block_size

    def identity(self) -> dict[str, Any]:
        """Name of the checkpoint, sizes, and hashes of config and weights."""
        config = self.config
        text = json.dumps(asdict(config), sort_keys=True)
        return {
            "class": type(self.model).__name__,
            "name": str(self.model.name),
            "model_type": "nanogpt",
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "dtype": str(self.dtype).removeprefix("torch."),
            "layers": config.n_layer,
            "heads": config.n_head,
            "key_value_heads": config.n_head,
            "context": config.block_size,
            "vocabulary": config.vocab_size,
            "implementation": "eager",
            "config_sha256": hashlib.sha256(text.encode()).hexdigest(),
            "weights_sha256": weights_sha256(self.model),
        }
