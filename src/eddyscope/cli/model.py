"""From the name of a model on the command line to the model, its tokenizer and its context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eddyscope.capture.origins import is_own
from eddyscope.errors import MissingDependencyError


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
    """Load a model by its name; names, options and errors are those of :func:`eddyscope.load_model`."""
    from eddyscope.capture import load_model

    model, tokenizer = load_model(name, gguf_file=gguf_file, device=device, dtype=dtype, trust_pickle=trust_pickle)
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
