"""Capture from TransformerLens: the same as from Hugging Face, for the same weights."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tiny_models import VOCABULARY, tiny
from torch import nn

from eddyscope.capture import capture
from eddyscope.documents import Documents
from eddyscope.errors import CaptureError

Ids = NDArray[np.int64]


def _bridge(family: str, folder: Path) -> Any:
    """A model of TransformerLens with the weights of a tiny model; it reads a folder with a tokenizer."""
    import tokenizers
    import transformers

    # The class is asked for, as parts of the library may be there without what they need.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bridge = pytest.importorskip("transformer_lens.model_bridge", reason="transformer-lens is not installed")
    words = {f"w{index}": index for index in range(VOCABULARY - 3)} | {"<unk>": 61, "<s>": 62, "</s>": 63}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, **special).save_pretrained(folder)
    tiny(family).save_pretrained(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bridge.TransformerBridge.boot_transformers(str(folder), device="cpu")


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_bridge_gives_the_attention_of_the_model_in_hugging_face(family: str, tmp_path: Path, ids: Ids) -> None:
    model, documents = _bridge(family, tmp_path), Documents.from_ids(ids)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ensemble = capture(model, documents, heads="each", batch=2)
    expected = capture(tiny(family), documents, heads="each", batch=2)
    assert ensemble.layers == ("blocks.0.attn", "blocks.1.attn")
    assert ensemble.provenance["source"] == "transformerlens"
    assert ensemble.provenance["failed_checks"] == []
    for mine, theirs in zip(ensemble.fields.values(), expected.fields.values(), strict=True):
        assert mine.causal
        np.testing.assert_allclose(mine.values, theirs.values, atol=1e-5)
    info = [e.info[e.layers[0]] for e in (ensemble, expected)]
    assert info[0].key_value_map == info[1].key_value_map


class _Point(nn.Module):
    """A hook point as older versions have it: it passes its input on, through hooks."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.hooks: list[Any] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for hook in self.hooks:
            made = hook(x, hook=self)
            x = x if made is None else made
        return x


class _Old(nn.Module):
    """A one-layer model with the interface of TransformerLens before version 4."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cfg = type("Config", (), {"n_heads": 2, "n_layers": 1, "d_vocab": VOCABULARY, "n_ctx": 32})()
        self.cfg.attention_dir = "causal"
        self.embed = nn.Embedding(VOCABULARY, 16)
        self.point = _Point("blocks.0.attn.hook_pattern")
        self.hook_dict = {self.point.name: self.point}

    def forward(self, ids: torch.Tensor, return_type: str | None = "logits") -> Any:
        x = self.embed(ids)
        heads = x.unflatten(-1, (2, 8)).transpose(1, 2)
        mask = torch.ones(ids.shape[1], ids.shape[1]).triu(1).bool()
        weights = (heads @ heads.transpose(-2, -1) / 8**0.5).masked_fill(mask, -torch.inf).softmax(-1)
        mixed = (self.point(weights) @ heads).transpose(1, 2).flatten(2)
        return mixed @ self.embed.weight.T if return_type == "logits" else None

    def run_with_hooks(self, ids: torch.Tensor, fwd_hooks: Any, return_type: str | None = "logits") -> Any:
        try:
            for name, hook in fwd_hooks:
                self.hook_dict[name].hooks.append(hook)
            return self(ids, return_type=return_type)
        finally:
            for name, _ in fwd_hooks:
                self.hook_dict[name].hooks.pop()


def test_older_objects_are_known_by_what_they_can_do(ids: Ids) -> None:
    model = _Old()
    kept: list[torch.Tensor] = []
    model.run_with_hooks(torch.from_numpy(ids), [(model.point.name, lambda x, hook: kept.append(x.detach()))])
    ensemble = capture(model, Documents.from_ids(ids), heads="each", batch=2)
    assert ensemble.layers == ("blocks.0.attn",)
    np.testing.assert_allclose(ensemble[0].dense(), kept[0].numpy(), atol=1e-6)
    assert {c["check"] for c in ensemble.provenance["checks"]} >= {"causality", "outputs", "masked keys"}
    assert model.point.hooks == []


def test_a_model_without_patterns_is_refused(documents: Documents) -> None:
    model = _Old()
    model.hook_dict = {"blocks.0.hook_mlp_out": model.point}
    with pytest.raises(CaptureError, match=r"_Old has no hook on attention patterns among its 1 hooks\. Expected"):
        capture(model, documents)
