"""Peak memory of one way to read 4,096 tokens, for a process of its own.

Prints the growth of the peak resident memory, in bytes, over what the process held with the model loaded and warm.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from eddyscope.capture import capture
from peaks import peak_bytes

LENGTH, MAX_LAG = 4096, 256


def model_of_long_context() -> Any:
    """A random Llama of two layers and eight heads on two key-value heads."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=LENGTH,
        pad_token_id=0,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6)
    return model


def eager(model: Any, ids: Any) -> None:
    """A plain forward pass under eager attention."""
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        model(input_ids=torch.from_numpy(ids), attention_mask=torch.ones(ids.shape, dtype=torch.long), use_cache=False)


def main(way: str, out: str) -> None:
    torch.set_num_threads(1)
    model = model_of_long_context()
    ids = np.random.default_rng(0).integers(5, 64, (1, LENGTH))
    capture(model, ids[:, :64], max_lag=8)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    before = peak_bytes()
    if way == "eager":
        eager(model, ids)
        print(peak_bytes() - before)
        return
    ensemble = capture(model, ids, heads="each", max_lag=MAX_LAG, way=way)
    print(peak_bytes() - before)
    fields = [ensemble[layer] for layer in range(len(ensemble.layers))]
    np.savez(out, values=np.stack([f.values for f in fields]), row_sum=np.stack([f.row_sum for f in fields]))
