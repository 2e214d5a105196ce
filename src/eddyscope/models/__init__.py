"""The GPT family of the published study: to load, to train, and the trained weights that come with the package.

``load("base")`` gives a bundled model, ``names()`` lists them, ``untrained(config, seed)`` builds the untrained twin of
an architecture, ``untrained_twin(model, seed)`` that of any loaded model, ``train(...)`` trains one. Torch is imported
on the first use of a name that needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from eddyscope.errors import MissingDependencyError
from eddyscope.models.config import CAUSAL_GATES, PUBLISHED_GATES, VARIANTS, GPTConfig, names
from eddyscope.models.corpus import Corpus, find_corpus

if TYPE_CHECKING:
    from eddyscope.models.bundle import load, untrained
    from eddyscope.models.folder import load_weights, read_config, read_model, save_model
    from eddyscope.models.gpt import GPT, CausalSelfAttention
    from eddyscope.models.sampling import sample
    from eddyscope.models.training import PAPER, PAPER_SIZES, Progress, Recipe, evaluate, evaluation_windows, train
    from eddyscope.models.twin import untrained_twin

_LAZY = {
    "load": "bundle",
    "untrained": "bundle",
    "load_weights": "folder",
    "read_config": "folder",
    "read_model": "folder",
    "save_model": "folder",
    "GPT": "gpt",
    "CausalSelfAttention": "gpt",
    "sample": "sampling",
    "PAPER": "training",
    "PAPER_SIZES": "training",
    "Progress": "training",
    "Recipe": "training",
    "evaluate": "training",
    "evaluation_windows": "training",
    "train": "training",
    "untrained_twin": "twin",
}

__all__ = [
    "CAUSAL_GATES",
    "GPT",
    "PAPER",
    "PAPER_SIZES",
    "PUBLISHED_GATES",
    "VARIANTS",
    "CausalSelfAttention",
    "Corpus",
    "GPTConfig",
    "Progress",
    "Recipe",
    "evaluate",
    "evaluation_windows",
    "find_corpus",
    "load",
    "load_weights",
    "names",
    "read_config",
    "read_model",
    "sample",
    "save_model",
    "train",
    "untrained",
    "untrained_twin",
]


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    try:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name in ("torch", "safetensors"):
            raise MissingDependencyError(error.name, "Reading a GPT of the study", "hf") from error
        raise
