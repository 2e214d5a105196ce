"""Read checkpoints of nanoGPT (``ckpt.pt``) and their tokenizers, without running code that may be in them."""

from __future__ import annotations

import io
import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from eddyscope.errors import CaptureError, EddyscopeWarning, InputError
from eddyscope.models.nanogpt import NanoGPT
from eddyscope.tokenizers import CharTokenizer, Tokenizer, as_tokenizer

SUFFIXES = (".pt", ".pth", ".ckpt")
META = "meta.pkl"
#: Sizes of the GPT-2 vocabulary, as it is and rounded up to a multiple of 64.
_GPT2 = (50257, 50304)


def is_checkpoint(name: str) -> bool:
    """Whether this names a file that torch.save writes."""
    path = Path(name).expanduser()
    return path.suffix.lower() in SUFFIXES and path.is_file()


def load_checkpoint(name: str, *, dtype: str = "float32", trust_pickle: bool = False) -> tuple[NanoGPT, Any]:
    """Read a checkpoint of nanoGPT.

    Parameters
    ----------
    name : str
        The file.
    dtype : str
        Type of the weights, or ``"auto"`` for that in which most of them are stored.
    trust_pickle : bool
        Also read a checkpoint that holds more than tensors and plain values, and ``meta.pkl``.

    Returns
    -------
    model : NanoGPT
        In eval mode.
    tokenizer : Tokenizer or None
        ``meta.pkl`` beside the checkpoint or in nanoGPT's folder of its data set, where pickles are trusted; else
        GPT-2's, where the vocabulary has its size and tiktoken is installed.

    Raises
    ------
    CaptureError
        Where it is no such checkpoint, holds code, or its weights do not fit.
    """
    path = Path(name).expanduser()
    content = _content(path, trust_pickle)
    model = NanoGPT.from_checkpoint(content, name)
    if dtype != "auto":
        model = model.to(getattr(torch, dtype))
    return model, _tokenizer(path, content, model.config.vocab_size, trust_pickle)


def _content(path: Path, trust_pickle: bool) -> Mapping[str, Any]:
    try:
        content = _unpickled(path, weights_only=True)
    except pickle.UnpicklingError as error:
        if not trust_pickle:
            raise CaptureError(
                f"'{path}' is a pickle with more in it than tensors and plain values, which can run code when it is "
                "loaded; nothing of it was run.",
                "If you trust where it comes from, pass trust_pickle=True (--trust-pickle); otherwise save 'model' and "
                "'model_args' alone.",
            ) from error
        try:
            content = _unpickled(path, weights_only=False)
        except pickle.UnpicklingError as damaged:
            raise _unreadable(path, damaged) from damaged
    if not isinstance(content, Mapping):
        raise CaptureError(
            f"'{path}' holds a {type(content).__name__}, expected a checkpoint of nanoGPT: 'model' and 'model_args'."
        )
    return content


def _unpickled(path: Path, weights_only: bool) -> Any:
    """What torch.load makes of a file; CaptureError where it is damaged, UnpicklingError where it asks for more."""
    try:
        with warnings.catch_warnings():
            # Of another protocol than torch writes: it is read, or refused, all the same.
            warnings.filterwarnings("ignore", message="Detected pickle protocol", category=UserWarning)
            return torch.load(path, map_location="cpu", weights_only=weights_only)
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # the reader of a damaged pickle fails wherever it stands, in any way
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> CaptureError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    if isinstance(error, (LookupError, TypeError, AttributeError)):  # whose words are about the reader
        reason = "its pickle is damaged"
    return CaptureError(f"'{path}' cannot be read: {reason:.200}.", "It may be cut; copy or save it again.")


def _tokenizer(path: Path, content: Mapping[str, Any], vocabulary: int, trust_pickle: bool) -> Tokenizer | None:
    meta = _meta_file(path, content.get("config"))
    if meta is not None and not trust_pickle:
        _warn(f"The tokenizer in '{meta}' is a pickle and was not read; --trust-pickle (trust_pickle=True) reads it.")
        return None
    if meta is not None:
        return _character_tokenizer(meta, vocabulary)
    if vocabulary not in _GPT2:
        _warn(f"There is no {META} beside '{path}', nor in the folder of its data set, so it cannot read text.")
        return None
    try:
        import tiktoken

        return as_tokenizer(tiktoken.get_encoding("gpt2"))
    except ImportError:
        _warn(f"'{path}' reads GPT-2's tokens: install tiktoken, or give token ids.")
    except Exception as error:  # it downloads its vocabulary, and says in many ways that it cannot
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        _warn(f"'{path}' reads GPT-2's tokens, and tiktoken has no vocabulary for them here: {reason:.100}.")
    return None


def _warn(message: str) -> None:
    warnings.warn(EddyscopeWarning(message, "no-tokenizer"), stacklevel=5)


def _meta_file(path: Path, config: Any) -> Path | None:
    """``meta.pkl`` beside the checkpoint, or where nanoGPT keeps the data set that the checkpoint names."""
    places = [path.parent / META]
    dataset = config.get("dataset") if isinstance(config, Mapping) else None
    if isinstance(dataset, str) and dataset not in ("", ".", "..") and Path(dataset).name == dataset:
        places += [path.parent / "data" / dataset / META, path.resolve().parent.parent / "data" / dataset / META]
    return next((place for place in places if place.is_file()), None)


class _PlainUnpickler(pickle.Unpickler):
    """Reads numbers, texts, lists and dicts alone: a vocabulary needs no more."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse every class and function."""
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def _character_tokenizer(meta: Path, vocabulary: int) -> Tokenizer:
    """The characters of a ``meta.pkl``; even where pickles are trusted, none of its code is run."""
    try:
        content = _PlainUnpickler(io.BytesIO(meta.read_bytes())).load()
        characters = [content["itos"][index] for index in range(len(content["itos"]))]
        if len(characters) != vocabulary:
            raise ValueError(f"it has {len(characters)} characters, the model {vocabulary} token ids")
        if "stoi" in content and content["stoi"] != {character: index for index, character in enumerate(characters)}:
            raise ValueError("'stoi' does not give the ids that 'itos' has the characters at")
        return CharTokenizer(characters, fallback=" " if " " in characters else None, name=f"characters of {META}")
    except (pickle.UnpicklingError, EOFError, OSError, ValueError, LookupError, TypeError, InputError) as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise CaptureError(
            f"'{meta}' is not the vocabulary of this checkpoint: {reason}.",
            "Expected the characters of nanoGPT: 'itos' and 'stoi'. Move it away to read token ids.",
        ) from error
