"""A command line to type at, and small things to point it at: a random model, a text, attention arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import planted

SENTENCE = "the cat sat on the mat and the dog sat on the cat while a small bird sang to them of rain"


@dataclass(frozen=True)
class Typed:
    """What a command line gave."""

    status: int
    out: str
    err: str


@pytest.fixture(scope="session")
def typed() -> Callable[..., Typed]:
    """Type a command line in this process; returns status, standard output and standard error."""

    def run(*arguments: object, given: str | bytes | None = None) -> Typed:
        from eddyscope.cli.app import app

        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=given)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Typed(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of 3,000 words in random order."""
    path = tmp_path_factory.mktemp("text") / "book.txt"
    rng = np.random.default_rng(0)
    path.write_text(" ".join(rng.choice(SENTENCE.split(), size=3000)))
    return path


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random GPT-2 of two layers and three heads with a tokenizer of its own, as a folder."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tokenizers_to_try import byte_level

    folder = tmp_path_factory.mktemp("models") / "tiny"
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=300, n_embd=24, n_layer=2, n_head=3, n_positions=40)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    byte_level().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def attention() -> np.ndarray:
    """Causal attention with a period and a bump, shape (20, 2, 32, 32)."""
    layers = [planted.periodic(20, 32, 6, seed=1), planted.bump(20, 32, 12, 3, seed=2)]
    return np.stack(layers, axis=1).astype(np.float32)


@pytest.fixture(scope="session")
def arrays(attention: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, one array for each layer, named as a model names them."""
    path = tmp_path_factory.mktemp("arrays") / "attention.npz"
    np.savez(path, **{f"model.layers.{i}.self_attn": attention[:, i] for i in range(attention.shape[1])})
    return path
