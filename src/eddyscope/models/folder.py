"""A model on disk: ``model.safetensors`` and ``config.json`` in one folder, read without running any code."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from eddyscope.errors import StoreError
from eddyscope.models.config import GPTConfig
from eddyscope.models.gpt import GPT
from eddyscope.models.shared import SharedGPT

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
FORMAT_VERSION = 1
WRAPPER_PREFIXES = ("_orig_mod.", "module.")  # left by torch.compile and by data-parallel wrappers


def write_whole(path: Path, text: str) -> None:
    """Write a text file beside its place and rename it."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file beside its place and rename it."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, beside, metadata)
    beside.replace(path)


def save_model(
    model: GPT, folder: str | Path, *, dtype: torch.dtype = torch.float32, training: dict[str, Any] | None = None
) -> None:
    """Write a model as a folder that :func:`read_model` and ``eddyscope.models.load`` read.

    Parameters
    ----------
    model : GPT
        The model.
    folder : str or Path
        Made if it is not there.
    dtype : torch.dtype
        Type of the stored weights; float16 halves the size.
    training : dict, optional
        How the model came about, kept in ``config.json``.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    write_tensors(target / WEIGHTS, {name: tensor.to(dtype) for name, tensor in model.state_dict().items()})
    content = {
        "format_version": FORMAT_VERSION,
        "config": model.config.to_dict(),
        "vocabulary": model.vocabulary,
        "training": training or {},
    }
    if isinstance(model, SharedGPT):
        content["kept_heads"] = [list(heads) for heads in model.kept]
    # Last, so that a folder with a config is whole.
    write_whole(target / CONFIG, json.dumps(content, indent=1) + "\n")


def read_config(folder: str | Path) -> dict[str, Any]:
    """Return the content of a model folder's ``config.json``.

    Raises
    ------
    StoreError
        Where it is missing, not JSON, or of a newer format.
    """
    path = Path(folder) / CONFIG
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(
            f"'{folder}' is not a model folder: {CONFIG} cannot be read ({error.strerror}).",
            f"Expected {WEIGHTS} and {CONFIG}, as 'eddyscope train' writes them.",
        ) from error
    except ValueError as error:
        raise StoreError(f"'{path}' is not valid JSON ({error}).", "Restore the file or train again.") from error
    version = content.get("format_version") if isinstance(content, dict) else None
    if not isinstance(version, int) or version < 1 or not isinstance(content.get("config"), dict):
        raise StoreError(
            f"'{path}' does not describe a model of eddyscope; expected format_version and config.",
            "Give a folder that 'eddyscope train' has written.",
        )
    if version > FORMAT_VERSION:
        raise StoreError(
            f"'{path}' has format_version {version}; this version of eddyscope reads up to {FORMAT_VERSION}.",
            "Upgrade eddyscope.",
        )
    return content


def read_model(folder: str | Path) -> GPT:
    """Return the model of a folder, in eval mode and float32.

    Raises
    ------
    StoreError
        Where a file is missing, is a pickle, or holds other weights than the config says.
    """
    content = read_config(folder)
    try:
        config = GPTConfig(**content["config"])
    except TypeError as error:
        raise StoreError(f"The config in '{folder}' has unknown fields ({error}).", "Upgrade eddyscope.") from error
    kept = content.get("kept_heads")
    model = build(config, content.get("vocabulary"), kept=kept)
    load_weights(model, read_weights(Path(folder) / WEIGHTS))
    return model.eval()


def build(
    config: GPTConfig,
    vocabulary: list[str] | None = None,
    seed: int = 0,
    kept: Sequence[Sequence[int]] | None = None,
) -> GPT:
    """Return a fresh model without moving torch's global random state; with ``kept``, one whose heads share."""
    with torch.random.fork_rng(devices=[]):  # torch's layers draw when made; the weights come from the seed
        return GPT(config, vocabulary, seed=seed) if kept is None else SharedGPT(config, kept, vocabulary, seed=seed)


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file; pickles are refused.

    Raises
    ------
    StoreError
        Where the file cannot be read as safetensors.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise StoreError(
            f"'{path}' is not a safetensors file; weights are read from .safetensors only, because a pickle runs code "
            "when it is opened.",
            "Convert it with safetensors.torch.save_file where you trust its source.",
        )
    try:
        return dict(load_file(path))
    except FileNotFoundError as error:
        raise StoreError(f"The weights '{path}' do not exist.", f"Expected {WEIGHTS} beside {CONFIG}.") from error
    except SafetensorError as error:
        raise StoreError(
            f"'{path}' cannot be read as safetensors ({error}).", "It may be cut or a renamed pickle; save it again."
        ) from error


def load_weights(model: GPT, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model, exactly: no key missing, none left over.

    Prefixes that wrappers leave (``_orig_mod.``, ``module.``) are taken off.

    Raises
    ------
    StoreError
        Naming the missing and unexpected keys and those of another shape.
    """
    clean = {_unwrapped(name): tensor for name, tensor in weights.items()}
    expected = model.state_dict()
    problems = {
        "missing": [name for name in expected if name not in clean],
        "unexpected": [name for name in clean if name not in expected],
        "of another shape": [
            f"{name} {tuple(clean[name].shape)} instead of {tuple(tensor.shape)}"
            for name, tensor in expected.items()
            if name in clean and clean[name].shape != tensor.shape
        ],
    }
    found = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in problems.items() if names)
    if found:
        raise StoreError(
            f"The weights do not fit a model of variant '{model.config.variant}' ({found}).",
            "Use the config that was saved with them.",
        )
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(clean[name])


def _unwrapped(name: str) -> str:
    """Take wrapper prefixes off a key."""
    while name.startswith(WRAPPER_PREFIXES):
        name = name.split(".", 1)[1]
    return name
