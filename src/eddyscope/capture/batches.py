"""Documents as the model reads them: in batches of equal length, without padding."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eddyscope.capture.source import Inputs
from eddyscope.documents import Documents
from eddyscope.errors import CaptureError, EddyscopeWarning, InputError
from eddyscope.lagfield import IntArray

#: Bytes of one layer's weights that a batch may make, so that they stay near the caches (CPU; from 32 MiB on they would
#: be taken from the system anew each time) or fill the device.
WEIGHT_BYTES_CPU = 8 << 20
WEIGHT_BYTES_DEVICE = 512 << 20


@dataclass(frozen=True)
class Reading:
    """Documents without their padding.

    Parameters
    ----------
    tokens : tuple of arrays
        Token ids of each document.
    documents : Documents or None
        The tokens that the fields cover: the first ``length`` of each document, no padding. None where documents are
        other inputs of a model.
    length : int
        Number of tokens of the shortest document.
    padding : int
        Rows of padding that were left out, over all documents.
    """

    tokens: tuple[IntArray, ...]
    documents: Documents | None
    length: int
    padding: int

    @property
    def longest(self) -> int:
        """Number of tokens of the longest document."""
        return max(len(t) for t in self.tokens)

    @property
    def largest_id(self) -> int:
        """Largest token id, -1 where there are none."""
        return max((int(t.max()) for t in self.tokens), default=-1)

    @property
    def described(self) -> str:
        """What one document is, in words."""
        return f"documents of {self.longest} tokens"

    @property
    def identity(self) -> dict[str, Any]:
        """What identifies the text, JSON-able."""
        assert self.documents is not None
        return self.documents.identity

    @property
    def count(self) -> int:
        """Number of documents."""
        return len(self.tokens)

    def inputs(self, index: IntArray, device: torch.device) -> Inputs:
        """What the model takes for documents of one length: token ids, shape (document, token)."""
        return {"input_ids": torch.from_numpy(np.stack([self.tokens[i] for i in index])).to(device)}

    def beginning(self, document: int, tokens: int, device: torch.device) -> Inputs:
        """What the model takes for the first tokens of one document."""
        ids = torch.from_numpy(np.ascontiguousarray(self.tokens[document][None, :tokens]))
        return {"input_ids": ids.to(device)}

    def covering(self, longest: int) -> Reading:
        """The same, once the model has shown how many positions a document has; of tokens that is known before."""
        return self

    def sizes(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Queries and keys that are kept of a layer whose maps had this shape in the probe."""
        return self.length, self.length

    def lengths(self) -> IntArray:
        """What must be equal in documents that are read together: their number of tokens."""
        return np.array([len(t) for t in self.tokens], dtype=np.int64)

    def batches(self, size: int, index: IntArray | None = None) -> Iterator[IntArray]:
        """Indices of documents (of all, or of those given) that are read together: of one length, in order."""
        lengths = self.lengths()
        chosen = np.arange(self.count) if index is None else index
        for length in np.unique(lengths[chosen]):
            same = chosen[lengths[chosen] == length]
            for start in range(0, len(same), size):
                yield same[start : start + size]


def as_reading(documents: Any) -> Reading:
    """Take the padding off documents.

    Parameters
    ----------
    documents : Documents, token ids that ``Documents.from_ids`` takes, or inputs of a model
        Inputs are a mapping of arrays, or a list of mappings; see :func:`eddyscope.capture.inputs.input_reading`.

    Raises
    ------
    InputError
        Where it is none of them, or padding lies within a document.
    """
    from eddyscope.capture.inputs import input_reading, is_inputs  # which are a kind of Reading

    if is_inputs(documents):
        return input_reading(documents)
    if not isinstance(documents, Documents):
        named = documents if isinstance(documents, Mapping) else None
        ids = getattr(documents, "input_ids", documents) if named is None else named["input_ids"]
        if isinstance(documents, (str, bytes)):
            raise InputError(
                "The documents are a string, expected Documents.",
                "Read text with eddyscope.read_documents(path, tokenizer).",
            )
        mask = getattr(documents, "attention_mask", None) if named is None else named.get("attention_mask")
        documents = Documents.from_ids(_on_host(ids), mask=None if mask is None else _on_host(mask))
    if len(documents) == 0:
        raise InputError("There are no documents to read.")
    if documents.mask is None:
        return Reading(tuple(documents.ids), documents, documents.context, 0)
    spans = [_span(index, row) for index, row in enumerate(documents.mask)]
    length = min(stop - start for start, stop in spans)
    longest = max(stop - start for start, stop in spans)
    if longest > length:
        message = (
            f"Documents have {length} to {longest} tokens; the attention among the first {length} tokens of each is "
            "kept, as fields need one size."
        )
        warnings.warn(EddyscopeWarning(message, "unequal-lengths"), stacklevel=4)
    tokens = tuple(ids[start:stop] for ids, (start, stop) in zip(documents.ids, spans, strict=True))
    padding = int((~documents.mask).sum())
    return Reading(tokens, _trimmed(documents, [start for start, _ in spans], length), length, padding)


def _on_host(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else value


def _span(index: int, real: Any) -> tuple[int, int]:
    """First token of a document and one past its last; padding may lie before and after, not within."""
    kept = np.flatnonzero(real)
    if kept.size < 2 or kept[-1] - kept[0] + 1 != kept.size:
        problem = "has padding between its tokens" if kept.size >= 2 else f"has {kept.size} tokens"
        raise InputError(f"Document {index} {problem}, expected at least 2 tokens with padding on either side only.")
    return int(kept[0]), int(kept[-1]) + 1


def _trimmed(documents: Documents, starts: list[int], length: int) -> Documents:
    """The first ``length`` real tokens of each document."""
    rows = np.arange(len(documents))[:, None]
    columns = np.asarray(starts)[:, None] + np.arange(length)[None, :]
    return replace(
        documents,
        ids=documents.ids[rows, columns],
        special=documents.special[rows, columns],
        spans=None if documents.spans is None else documents.spans[rows, columns],
        mask=None,
        identity=documents.identity | {"tokens_kept": length},
    )


def batch_size(batch: int | None, heads: int, length: int, device: torch.device) -> int:
    """Documents to read at a time: what was asked for, or as many as make one layer's weights a moderate size."""
    if batch is not None:
        return batch
    room = WEIGHT_BYTES_CPU if device.type == "cpu" else WEIGHT_BYTES_DEVICE
    return max(1, min(64, room // (4 * heads * length * length)))


def check_limits(reading: Reading, vocabulary: int | None, context: int | None) -> None:
    """Refuse token ids that the model does not know; warn about documents longer than it was made for."""
    largest = reading.largest_id
    if vocabulary is not None and largest >= vocabulary:
        raise CaptureError(
            f"The documents have token id {largest}, but the model knows ids below {vocabulary}.",
            "Make the documents with the model's own tokenizer.",
        )
    if context is not None and reading.longest > context:
        message = f"Documents have {reading.longest} tokens, the model was made for {context}."
        warnings.warn(EddyscopeWarning(message, "beyond-context"), stacklevel=4)
