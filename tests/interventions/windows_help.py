"""Models and documents to take distances away from."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tiny_models import tiny

from eddyscope.documents import Documents
from eddyscope.models import GPTConfig, untrained

SIZES = {"vocab_size": 64, "context": 20, "layers": 2, "heads": 4, "width": 32}
CONTEXT = 20


def gpt(variant: str = "base", **more: Any) -> Any:
    """An untrained GPT whose attention is far from uniform."""
    model = untrained(GPTConfig(variant=variant, **(SIZES | more)), seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)
    return model


def model_named(name: str) -> Any:
    """``gpt-VARIANT``, or a family of the tiny models."""
    return gpt(name.removeprefix("gpt-")) if name.startswith("gpt-") else tiny(name)


def documents(count: int = 24, context: int = CONTEXT) -> Documents:
    return Documents.from_ids(np.random.default_rng(3).integers(3, 64, size=(count, context)))


def outputs(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Logits or last hidden states."""
    with torch.no_grad():
        found = model(ids) if not hasattr(model, "set_attn_implementation") else model(input_ids=ids)
    return found if isinstance(found, torch.Tensor) else found[0]
