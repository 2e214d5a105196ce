"""The GPTs in ``eddyscope.models``: forward hooks on their attention, with the fused kernel off."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from eddyscope.capture.source import HookSource, Inputs, Site, Wants
from eddyscope.capture.state import evaluated
from eddyscope.models.gpt import GPT, CausalSelfAttention


class GPTSource(HookSource):
    """One of the project's own GPTs.

    Parameters
    ----------
    model : eddyscope.models.GPT
    """

    name = "eddyscope"
    way = "forward hooks"

    def __init__(self, model: GPT, wants: Wants = Wants()) -> None:
        super().__init__()
        self.gpt = model
        self.model = model
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
        modules = [site.module for site in self.sites if isinstance(site.module, CausalSelfAttention)]
        before = [module.fused for module in modules]
        try:
            for module in modules:
                module.fused = False
            with evaluated(self.model):
                yield
        finally:
            for module, fused in zip(modules, before, strict=True):
                module.fused = fused

    def read(self, inputs: Inputs) -> None:
        """Let the model read."""
        self.outputs(inputs)

    def read_in_full(self) -> None:
        """Nothing to do: ``read`` takes no short cut."""

    def outputs(self, inputs: Inputs) -> Tensor:
        """Logits."""
        self.new_pass()
        logits: Tensor = self.model(inputs["input_ids"])
        return logits

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
        weights = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            weights.update(name.encode())
            weights.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
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
            "weights_sha256": weights.hexdigest(),
        }
