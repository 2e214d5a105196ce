"""Documents that are inputs of a model rather than tokens of a text: images, sounds, pairs of sequences."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eddyscope.capture.batches import Reading
from eddyscope.capture.source import Inputs
from eddyscope.errors import InputError
from eddyscope.lagfield import IntArray

#: What a tokenizer gives of a text, and :class:`~eddyscope.documents.Documents` holds.
_TEXT = {"input_ids", "attention_mask", "token_type_ids"}
#: Inputs that are token ids.
_TOKENS = ("input_ids", "decoder_input_ids")

_EXPECTED = (
    "Expected a dict of arrays whose first axis is the document, such as {'pixel_values': array}, or a list of such "
    "dicts, one for each document."
)


@dataclass(frozen=True)
class InputReading(Reading):
    """Documents as a model takes them: every input with the document as its first axis.

    Parameters
    ----------
    arrays : dict of str to Tensor
        By the name of the argument of the model's forward; on the CPU.
    """

    arrays: Inputs

    @property
    def longest(self) -> int:
        """Largest number of tokens, where there are any; of an image what the model has shown, 1 before that."""
        return self.length

    @property
    def largest_id(self) -> int:
        """Largest token id, -1 where there are none."""
        return max((int(self.arrays[name].max()) for name in _TOKENS if name in self.arrays), default=-1)

    @property
    def described(self) -> str:
        """What one document is, in words."""
        shapes = (f"{name} {tuple(value.shape[1:])}" for name, value in self.arrays.items())
        return f"documents of {', '.join(shapes)}"

    @property
    def identity(self) -> dict[str, Any]:
        """Names, shapes and types of the inputs of a document, and a hash of all."""
        digest = hashlib.sha256()
        for name, value in sorted(self.arrays.items()):
            digest.update(f"{name}\0{tuple(value.shape)}\0{value.dtype}\0".encode())
            digest.update(np.ascontiguousarray(value.numpy()).tobytes())
        inputs = {
            name: {"shape": list(value.shape[1:]), "dtype": str(value.dtype).removeprefix("torch.")}
            for name, value in self.arrays.items()
        }
        return {"kind": "model inputs", "count": self.count, "inputs": inputs, "sha256": digest.hexdigest()}

    @property
    def count(self) -> int:
        """Number of documents."""
        return int(next(iter(self.arrays.values())).shape[0])

    def inputs(self, index: IntArray, device: torch.device) -> Inputs:
        """What the model takes for some documents."""
        chosen = torch.from_numpy(np.asarray(index, dtype=np.int64))
        return {name: value[chosen].to(device) for name, value in self.arrays.items()}

    def beginning(self, document: int, tokens: int, device: torch.device) -> Inputs:
        """One document, whole: an image has no beginning."""
        return self.inputs(np.array([document]), device)

    def covering(self, longest: int) -> InputReading:
        """The same, once the model has shown how many positions a document has."""
        return replace(self, length=max(self.length, longest))

    def sizes(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Queries and keys of a layer: those of its maps, as all documents are of one shape."""
        return shape[2], shape[3]

    def lengths(self) -> IntArray:
        """All documents are read together."""
        return np.zeros(self.count, dtype=np.int64)


def is_inputs(documents: Any) -> bool:
    """Whether these are inputs of a model: a mapping, or a list of them, with more in it than a text."""
    if isinstance(documents, Mapping):
        return not _is_text(documents)
    return isinstance(documents, (list, tuple)) and bool(documents) and isinstance(documents[0], Mapping)


def _is_text(documents: Mapping[str, Any]) -> bool:
    """A tokenizer's output for single texts; with token types there are two in each."""
    if "input_ids" not in documents or not set(documents) <= _TEXT:
        return False
    types = documents.get("token_type_ids")
    return types is None or not np.asarray(_on_host(types)).any()


def input_reading(documents: Any) -> InputReading:
    """Take documents that are inputs of a model.

    Parameters
    ----------
    documents : mapping of str to array, or sequence of such mappings
        Arrays or tensors by the name of the argument of the model's forward. In a mapping the first axis of each is the
        document; in a sequence each entry is one document, without that axis.

    Raises
    ------
    InputError
        Where inputs have different numbers of documents, or documents different inputs or shapes; where a mask hides
        something; where something is no array of numbers.
    """
    arrays = _of_mapping(documents) if isinstance(documents, Mapping) else _of_sequence(documents)
    if not arrays:
        raise InputError("The documents are a dict without inputs.", _EXPECTED)
    counts = {name: value.shape[0] for name, value in arrays.items()}
    if len(set(counts.values())) > 1:
        raise InputError(f"Inputs have different numbers of documents: {counts}.", _EXPECTED)
    if not next(iter(counts.values())):
        raise InputError("There are no documents to read.")
    for name, value in arrays.items():
        if name.endswith("mask") and name != "bool_masked_pos" and not bool(value.bool().all()):
            document = int((~value.bool()).flatten(1).any(1).nonzero()[0])
            raise InputError(
                f"'{name}' hides a part of document {document}; documents that are dicts are read whole.",
                "Give documents without padding, all of one shape; padded token ids alone are taken off their padding.",
            )
    length = max((arrays[name].shape[1] for name in _TOKENS if name in arrays), default=1)
    return InputReading((), None, length, 0, arrays)


def _of_mapping(documents: Mapping[str, Any]) -> Inputs:
    return {str(name): _tensor(str(name), value, 1) for name, value in documents.items() if value is not None}


def _of_sequence(documents: Sequence[Any]) -> Inputs:
    """Stack the inputs of single documents."""
    first = documents[0]
    for index, document in enumerate(documents):
        if not isinstance(document, Mapping) or set(document) != set(first):
            given = sorted(document) if isinstance(document, Mapping) else type(document).__name__
            raise InputError(f"Document {index} has {given}, document 0 has {sorted(first)}.", _EXPECTED)
    stacked = {}
    for name in first:
        parts = [_tensor(str(name), document[name], 0) for document in documents]
        shapes = {tuple(part.shape) for part in parts}
        if len(shapes) > 1:
            raise InputError(
                f"'{name}' has {len(shapes)} shapes over the documents: {sorted(shapes)[:3]}.",
                "Documents that are dicts must all be of one shape.",
            )
        stacked[str(name)] = torch.stack(parts)
    return stacked


def _tensor(name: str, value: Any, least: int) -> Tensor:
    """A CPU tensor: integers as int64, other numbers as float32."""
    array = np.asarray(_on_host(value))
    if array.dtype.kind not in "biuf" or array.ndim < least:
        raise InputError(f"'{name}' is {type(value).__name__} of {array.dtype} and shape {array.shape}.", _EXPECTED)
    kind = {"b": np.bool_, "f": np.float32}.get(array.dtype.kind, np.int64)
    return torch.from_numpy(np.array(array, dtype=kind))


def _on_host(value: Any) -> Any:
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return (value.float() if value.is_floating_point() else value).numpy()  # NumPy has no bfloat16
    return value
