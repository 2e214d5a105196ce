from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from eddyscope.errors import InputError
from eddyscope.models import Corpus, GPTConfig, find_corpus, untrained
from eddyscope.models.gpt import GPT

LETTERS = "\n abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def lively() -> Callable[..., GPT]:
    """Make small models whose random weights are large enough for attention and gates to matter."""

    def make(variant: str, **sizes: int) -> GPT:
        fields = {"vocab_size": len(LETTERS), "context": 48, "layers": 2, "heads": 4, "width": 32} | sizes
        model = untrained(GPTConfig(variant=variant, **fields), seed=3, vocabulary=list(LETTERS))
        generator = torch.Generator().manual_seed(5)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
        return model

    return make


@pytest.fixture
def letters() -> Corpus:
    """A text of 6,000 letters with some order in it."""
    words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]
    text = " ".join(words[(7 * index + index // 5) % len(words)] for index in range(2000))
    return Corpus("letters", text[:6000], "made up")


@pytest.fixture(scope="session")
def tinyshakespeare() -> Corpus:
    try:
        return find_corpus(download=False)
    except InputError as error:
        pytest.skip(f"needs TinyShakespeare: {error}")
