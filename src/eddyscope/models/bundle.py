"""Models by name: the bundled weights, folders written by training, and untrained twins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from eddyscope.capture.origins import Origin, remember
from eddyscope.errors import InputError
from eddyscope.models.config import BUNDLED, GPTConfig, names
from eddyscope.models.folder import build, read_model
from eddyscope.models.gpt import GPT


def load(name: str | Path) -> GPT:
    """Return a trained model in eval mode and float32.

    Parameters
    ----------
    name : str or Path
        A bundled model (see :func:`eddyscope.models.names`) or a folder that ``eddyscope train`` has written. A
        bundled name wins over a folder of the same name; write ``./base`` for the folder.

    Raises
    ------
    InputError
        For a name that is neither; lists the names.
    StoreError
        For a folder whose files do not fit.
    """
    folder = BUNDLED / str(name) if str(name) in names() else Path(name)
    if folder.is_dir():
        model = read_model(folder)
        remember(model, Origin(str(name), own=True))
        return model
    raise InputError(
        f"No model '{name}': it is not a folder, and the bundled models are {', '.join(names()) or 'none'}.",
        "Use one of these names or the folder of a training run.",
    )


def untrained(config: GPTConfig, seed: int = 0, vocabulary: Sequence[str] | None = None) -> GPT:
    """Return a fresh model of an architecture, in eval mode: the untrained twin of a trained one.

    Parameters
    ----------
    config : GPTConfig
        Such as ``model.config`` of the trained model.
    seed : int
        Seed of the weights. Equal seeds give equal weights on every call, whatever torch's global seed.
    vocabulary : sequence of str, optional
        Characters, such as ``model.vocabulary``.
    """
    return build(config, None if vocabulary is None else list(vocabulary), seed=seed).eval()
