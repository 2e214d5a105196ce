"""Tiny random models of many families, by a table: name, model class, config class and what the config states."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

VOCABULARY = 64
_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GROUPED = {"num_key_value_heads": 2}

#: Family: (model class, config class, options beside the sizes).
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_inner": 48}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", _GROUPED),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", _GROUPED),
    "mistral": ("MistralForCausalLM", "MistralConfig", _GROUPED | {"sliding_window": 6}),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", _GROUPED | {"head_dim": 8, "sliding_window": 6}),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", {}),
    "opt": ("OPTForCausalLM", "OPTConfig", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "phi": ("PhiForCausalLM", "PhiConfig", {}),
    "bert": ("BertModel", "BertConfig", {}),
    "bert-decoder": ("BertLMHeadModel", "BertConfig", {"is_decoder": True}),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", {"max_position_embeddings": 66}),
    "modernbert": (
        "ModernBertModel",
        "ModernBertConfig",
        {"local_attention": 8, "global_attn_every_n_layers": 2, "num_hidden_layers": 3},
    ),
    "distilbert": (
        "DistilBertModel",
        "DistilBertConfig",
        {"dim": 32, "n_heads": 4, "n_layers": 2, "hidden_dim": 48},
    ),
    "albert": ("AlbertModel", "AlbertConfig", {"embedding_size": 16, "num_hidden_layers": 3}),
}

CAUSAL = {"gpt2", "llama", "qwen2", "mistral", "gemma2", "gpt_neox", "opt", "phi", "bert-decoder"}


def tiny(family: str, **more: Any) -> Any:
    """A random model of a family, in eval mode under the implementation that it comes with."""
    model_class, config_class, options = FAMILIES[family]
    torch.manual_seed(0)
    config = getattr(transformers, config_class)(**(_SIZES | options | more))
    model = getattr(transformers, model_class)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            # Larger than usual, so that attention is far from uniform and mistakes show.
            if parameter.dim() > 1:
                parameter.mul_(6)
    return model.eval()


def eager_attentions(model: Any, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    """What ``output_attentions=True`` gives under eager: (layer, document, head, query, key)."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    tokens = torch.from_numpy(ids)
    with torch.inference_mode():
        output = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), output_attentions=True)
    model.set_attn_implementation(before)
    return np.stack([a.float().numpy() for a in output.attentions])
