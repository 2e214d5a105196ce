"""From the name of a model on the command line to the model, its tokenizer and its context."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eddyscope.capture.origins import has_separator, is_own
from eddyscope.errors import CaptureError, MissingDependencyError, UsageError


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to read.

    Parameters
    ----------
    model : torch.nn.Module
    tokenizer : object or None
        What :func:`eddyscope.read_documents` takes; None where there is none beside the model.
    context : int or None
        Most tokens that the model was made for, where it says.
    """

    model: Any
    tokenizer: Any
    context: int | None


def resolve_model(
    name: str,
    *,
    gguf_file: str | None = None,
    device: str | None = None,
    dtype: str = "float32",
    trust_pickle: bool = False,
) -> Loaded:
    """Load a model by its name.

    Parameters
    ----------
    name : str
        In this order: a bundled model; where the name contains a separator, a folder (written by ``eddyscope train``
        or by transformers); else the id of a model on the Hugging Face hub.
    gguf_file, device, dtype, trust_pickle
        See :func:`eddyscope.load_model`; a bundled model and a trained folder are float32 and have no GGUF file.

    Returns
    -------
    Loaded

    Raises
    ------
    CaptureError, InputError, StoreError
        Where it cannot be found or loaded.
    MissingDependencyError
        Where torch or transformers is missing.
    UsageError
        Where an option does not apply to this kind of model.
    """
    from eddyscope.models.config import names

    if is_own(name):
        if gguf_file is not None or dtype != "float32":
            raise UsageError(f"'{name}' is a model of eddyscope, to which --gguf-file and --dtype do not apply.")
        return _own_model(name, device)
    from eddyscope.capture import load_model

    try:
        model, tokenizer = load_model(name, gguf_file=gguf_file, device=device, dtype=dtype, trust_pickle=trust_pickle)
    except CaptureError as error:
        if has_separator(name):
            raise
        raise CaptureError(str(error), f"Bundled models are {', '.join(names()) or 'none'}.") from error
    from eddyscope.capture.sources import source_for  # needs torch, the lack of which load_model explains

    return Loaded(model, tokenizer, source_for(model).context)


def resolve_sizes(
    name: str,
    *,
    gguf_file: str | None = None,
    device: str | None = None,
    dtype: str = "float32",
    trust_pickle: bool = False,
) -> Loaded:
    """The same without the weights of a Hugging Face model, which its sizes do not depend on.

    A model of eddyscope is small, and a checkpoint of nanoGPT is in one piece: these are loaded.
    """
    if is_own(name):
        return resolve_model(name, gguf_file=gguf_file, dtype=dtype)
    for package in ("torch", "transformers"):
        try:
            __import__(package)
        except ImportError as error:
            raise MissingDependencyError(package, "Reading the config of a model", "hf") from error
    from eddyscope.capture.checkpoint import is_checkpoint
    from eddyscope.capture.hf import context_of
    from eddyscope.capture.load import skeleton

    if is_checkpoint(name):
        return resolve_model(name, gguf_file=gguf_file, dtype=dtype, trust_pickle=trust_pickle)
    model, tokenizer = skeleton(name, gguf_file=gguf_file, dtype=dtype)
    return Loaded(model, tokenizer, context_of(model.config))


def _own_model(name: str, device: str | None) -> Loaded:
    from eddyscope import models
    from eddyscope.tokenizers import CharTokenizer

    model = models.load(name)
    if device is not None:
        from eddyscope.capture.state import move

        model = move(model, device)
    vocabulary = model.vocabulary
    tokenizer = None
    if vocabulary is not None:
        fallback = " " if " " in vocabulary else vocabulary[0]  # as the model's own encode does
        tokenizer = CharTokenizer(vocabulary, fallback=fallback, name=f"characters of {Path(name).name}")
    return Loaded(model, tokenizer, model.config.context)
