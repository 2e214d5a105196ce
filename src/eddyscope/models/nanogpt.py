"""nanoGPT: the model of its checkpoints, with a softmax that can be seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eddyscope.errors import CaptureError, InputError
from eddyscope.models.folder import WRAPPER_PREFIXES

#: Of any one size; no model has more, and products of more would overflow.
_LARGEST = 10**7


@dataclass(frozen=True)
class NanoGPTConfig:
    """Sizes of a nanoGPT, by the names of its ``model_args``."""

    n_layer: int
    n_head: int
    n_embd: int
    block_size: int
    vocab_size: int
    bias: bool


class CausalSelfAttention(nn.Module):
    """Causal attention with the fused projection of nanoGPT split, and an explicit softmax.

    ``forward`` returns ``(out, weights)``, weights of shape (document, head, query, key).
    """

    def __init__(self, config: NanoGPTConfig) -> None:
        super().__init__()
        self.heads = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Attend within x of shape (document, token, feature)."""
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.c_attn(x).chunk(3, dim=-1))
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(future, -torch.inf).softmax(-1)
        return self.c_proj((weights @ v).transpose(1, 2).flatten(2)), weights


class MLP(nn.Module):
    """Four times the width, exact GELU."""

    def __init__(self, config: NanoGPTConfig) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map features position by position."""
        made: Tensor = self.c_proj(F.gelu(self.c_fc(x)))
        return made


class Block(nn.Module):
    """Pre-norm block."""

    def __init__(self, config: NanoGPTConfig) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.mlp = MLP(config)

    def forward(self, x: Tensor) -> Tensor:
        """Map the residual stream to the next."""
        x = x + self.attn(self.ln_1(x))[0]
        changed: Tensor = x + self.mlp(self.ln_2(x))
        return changed


class NanoGPT(nn.Module):
    """The model of a nanoGPT checkpoint, under the same names of weights; it has no dropout, as it is only read.

    Parameters
    ----------
    config : NanoGPTConfig
    name : str
        Of the checkpoint.
    """

    def __init__(self, config: NanoGPTConfig, name: str = "") -> None:
        super().__init__()
        self.config = config
        self.name = name
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(config.vocab_size, config.n_embd),
                "wpe": nn.Embedding(config.block_size, config.n_embd),
                "h": nn.ModuleList(Block(config) for _ in range(config.n_layer)),
                "ln_f": nn.LayerNorm(config.n_embd, bias=config.bias),
            }
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (document, token, vocabulary) of token ids (document, token)."""
        length = ids.shape[-1]
        if length > self.config.block_size:
            raise InputError(
                f"The sequence has {length} tokens; expected at most the block_size of {self.config.block_size}."
            )
        parts = self.transformer
        x = parts["wte"](ids) + parts["wpe"](torch.arange(length, device=ids.device))
        for block in parts["h"]:  # type: ignore[attr-defined]
            x = block(x)
        logits: Tensor = self.lm_head(parts["ln_f"](x))
        return logits

    @classmethod
    def from_checkpoint(cls, content: Mapping[str, Any], name: str) -> NanoGPT:
        """The model of a checkpoint's content, with weights that fill it exactly.

        Parameters
        ----------
        content : mapping
            ``model`` (state dict) and ``model_args``. Prefixes that wrappers leave on the names (``_orig_mod.``,
            ``module.``) are taken off; masks that older versions stored are left out; an output layer that was not
            stored is tied to the embedding.
        name : str

        Raises
        ------
        CaptureError
            Where this is no such content, or weights are missing, left over or of another shape.
        """
        weights, args = content.get("model"), content.get("model_args")
        if not isinstance(weights, Mapping) or not isinstance(args, Mapping):
            raise CaptureError(
                f"'{name}' is not a checkpoint of nanoGPT: it has {', '.join(map(str, content)) or 'nothing'}.",
                "Expected 'model' and 'model_args'. Other checkpoints are read as a folder with config.json.",
            )
        state = _tensors(weights, name)
        config = _config(args, state, name)
        state.setdefault("lm_head.weight", state.get("transformer.wte.weight"))
        with torch.device("meta"):  # no memory is taken for sizes that the weights do not have
            model = cls(config, name)
        expected = model.state_dict()
        problems = {
            "missing": [key for key in expected if state.get(key) is None],
            "left over": [key for key in state if key not in expected],
            "of another shape": [k for k, v in expected.items() if k in state and state[k].shape != v.shape],
        }
        found = [f"{len(keys)} {word} (first '{keys[0]}')" for word, keys in problems.items() if keys]
        if found:
            raise CaptureError(
                f"The weights in '{name}' do not fit the nanoGPT of its model_args: {', '.join(found)}.",
                "A model that is partly random would be analysed otherwise. Is it a changed nanoGPT? Capture that with "
                "an extractor: capture(model, documents, extract=function).",
            )
        model = model.to_empty(device="cpu")
        model.load_state_dict(state)
        return model.eval()


def _tensors(weights: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Weights by their names in the model, each once; CaptureError where one is no dense array of real numbers."""
    state: dict[str, Any] = {}
    for key, value in weights.items():
        plain = _unwrapped(str(key))
        if _is_mask(plain, value):
            continue
        if not isinstance(value, Tensor) or not value.is_floating_point() or value.layout != torch.strided:
            given = f"a tensor of {value.dtype}, {value.layout}" if isinstance(value, Tensor) else type(value).__name__
            raise CaptureError(
                f"Weight '{key}' in '{name}' is {given}, expected a dense tensor of floating-point numbers.",
                "Save the weights of the model as it was trained.",
            )
        if plain in state:
            raise CaptureError(
                f"'{name}' has two weights '{plain}', with and without the prefix of a wrapper.",
                "Which of them the model has cannot be known; save one.",
            )
        state[plain] = value
    return state


def _unwrapped(key: str) -> str:
    while key.startswith(WRAPPER_PREFIXES):
        key = key.split(".", 1)[1]
    return key


def _is_mask(key: str, value: Any) -> bool:
    """The causal mask, which versions without a fused kernel stored beside the weights."""
    return key.endswith((".attn.bias", ".attn.masked_bias")) and getattr(value, "ndim", 1) in (0, 4)


def _config(args: Mapping[str, Any], state: Mapping[str, Any], name: str) -> NanoGPTConfig:
    """Sizes as the arguments say; vocabulary and biases, which may not be said, from the weights."""
    table = state.get("transformer.wte.weight")
    known = {
        "vocab_size": int(table.shape[0]) if table is not None and table.ndim else None,
        "bias": any(key.endswith("attn.c_attn.bias") for key in state),
    }
    sizes = known | {key: value for key, value in args.items() if value is not None}
    wanted = ("n_layer", "n_head", "n_embd", "block_size", "vocab_size")
    wrong = [key for key in wanted if not isinstance(sizes.get(key), int) or not 1 <= sizes[key] <= _LARGEST]
    if wrong or sizes["n_embd"] % sizes["n_head"]:
        problem = f"no usable {', '.join(wrong)}" if wrong else "an n_embd that n_head does not divide"
        raise CaptureError(f"The model_args in '{name}' have {problem}.", "Restore the checkpoint, or train again.")
    if sizes["n_layer"] > len(state):
        raise CaptureError(
            f"The model_args in '{name}' have {sizes['n_layer']} layers, for which {len(state)} weights do not do.",
            "Restore the checkpoint, or train again.",
        )
    return NanoGPTConfig(**{key: sizes[key] for key in wanted}, bias=bool(sizes["bias"]))
