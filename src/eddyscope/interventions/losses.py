"""What a model loses: next-token loss of each document, or how far an encoder's embeddings move, with intervals.

All measures are paired over documents: the same documents are read before and after, so what they do to both cancels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from eddyscope.capture.state import evaluated
from eddyscope.documents import Documents
from eddyscope.errors import InputError
from eddyscope.interventions.layers import attention_layers
from eddyscope.lagfield import FloatArray
from eddyscope.models.gpt import GPT
from eddyscope.trust.jackknife import Interval, jackknife

#: Most numbers of logits, or of a layer's attention, that are held at a time: on the CPU what its caches hold (what is
#: larger is taken from the system and given back for every product), on a device what fills it.
_ENTRIES_CPU, _ENTRIES_DEVICE = 2**20, 2**25
LOSS = "next-token loss"
EMBEDDING = "embedding distance"
UNITS = {LOSS: "nats", EMBEDDING: "1 - cosine"}


def measure_of(model: Any) -> str:
    """How a model's loss is measured: ``next-token loss`` for causal language models, else ``embedding distance``."""
    if isinstance(model, GPT):
        return LOSS
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    causal = all(layer.causal for layer in attention_layers(model))
    return LOSS if causal and head is not None else EMBEDDING


def forward(model: Any, ids: Tensor) -> Tensor:
    """Logits of a causal language model, else the last hidden states, shape (document, token, feature).

    Parameters
    ----------
    model : torch.nn.Module
    ids : Tensor, shape (document, token)
        Without padding.
    """
    if isinstance(model, GPT):
        return model(ids)  # type: ignore[no-any-return]
    mask = torch.ones_like(ids)
    if measure_of(model) == LOSS:
        return model(input_ids=ids, attention_mask=mask, use_cache=False).logits  # type: ignore[no-any-return]
    return model.base_model(input_ids=ids, attention_mask=mask)[0]  # type: ignore[no-any-return]


def token_losses(logits: Tensor, ids: Tensor) -> Tensor:
    """Cross-entropy of each next token in nats, shape (document, token - 1)."""
    return F.cross_entropy(logits[:, :-1].transpose(1, 2).float(), ids[:, 1:], reduction="none")


def document_losses(model: Any, documents: Documents, *, batch: int | None = None) -> FloatArray:
    """Mean next-token loss of each document, in nats per token.

    Parameters
    ----------
    model : torch.nn.Module
        A causal language model; read in eval mode, and left as it was.
    documents : Documents
        Without padding. Special tokens are read but not predicted.
    batch : int, optional
        Documents read at a time; by the size of the logits where it is not given.

    Returns
    -------
    array, shape (document,), float64
    """
    if measure_of(model) != LOSS:
        raise InputError(f"{type(model).__name__} does not predict next tokens, so it has no next-token loss.")
    losses = []
    predicted = torch.from_numpy(~documents.special[:, 1:])
    with evaluated(model):
        for rows, wanted in zip(
            batches(model, documents, batch), torch.split(predicted, batch or _batch(model, documents)), strict=True
        ):
            each = token_losses(forward(model, rows), rows).double().cpu()
            losses.append((each * wanted).sum(1) / wanted.sum(1))
    return np.asarray(torch.cat(losses).numpy())


def embeddings(model: Any, documents: Documents, *, batch: int | None = None) -> FloatArray:
    """Mean of the last hidden states over the tokens of each document, shape (document, width), float64."""
    found = []
    with evaluated(model):
        for rows in batches(model, documents, batch):
            found.append(forward(model, rows).double().mean(1).cpu())
    return np.asarray(torch.cat(found).numpy())


def cosine_similarity(first: FloatArray, second: FloatArray) -> FloatArray:
    """Cosine similarity of the embeddings of each document, shape (document,)."""
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray((first * second).sum(axis=1) / norms)


class Yardstick:
    """What a change costs on fixed documents, against the model as it is when this is made.

    Parameters
    ----------
    model : torch.nn.Module
    documents : Documents
    batch : int, optional

    Attributes
    ----------
    measure, unit : str
        ``next-token loss`` in nats, or ``embedding distance``, 1 - cosine similarity with the unchanged model.
    before : array, shape (document,)
        Of the unchanged model; zero for embedding distances.
    """

    def __init__(self, model: Any, documents: Documents, *, batch: int | None = None) -> None:
        self.model, self.documents, self.batch = model, documents, batch
        self.measure = measure_of(model)
        self.unit = UNITS[self.measure]
        self._reference = None if self.measure == LOSS else embeddings(model, documents, batch=batch)
        self.before: FloatArray = np.zeros(len(documents)) if self.measure == EMBEDDING else self.now()

    def now(self) -> FloatArray:
        """The measure of the model as it is now, shape (document,)."""
        if self._reference is None:
            return document_losses(self.model, self.documents, batch=self.batch)
        return 1 - cosine_similarity(self._reference, embeddings(self.model, self.documents, batch=self.batch))

    def rise(self, after: FloatArray) -> Interval:
        """Mean rise over the documents with its interval."""
        return mean_interval(after - self.before, self.documents)


def mean_interval(values: FloatArray, documents: Documents) -> Interval:
    """Mean over documents with its jackknife interval over groups of source blocks.

    Parameters
    ----------
    values : array, shape (document,)
        A loss, or the paired difference of two.
    documents : Documents
        Fewer than 8 groups give no interval.
    """
    groups = documents.groups()
    replicates = [values[groups != group].mean() for group in range(int(groups.max()) + 1) if (groups != group).any()]
    return jackknife(float(values.mean()), np.array(replicates or [np.nan]))


def paired_rise(before: FloatArray, after: FloatArray, documents: Documents) -> Interval:
    """Mean of ``after - before`` over the same documents, with its interval."""
    return mean_interval(after - before, documents)


def batches(model: Any, documents: Documents, batch: int | None = None) -> tuple[Tensor, ...]:
    """Token ids on the model's device, some documents at a time.

    Raises
    ------
    InputError
        Where documents are padded.
    """
    if documents.mask is not None:
        raise InputError("Some documents are padded.", "Losses are measured on documents of equal length.")
    ids = torch.from_numpy(np.ascontiguousarray(documents.ids)).to(next(model.parameters()).device)
    return torch.split(ids, batch or _batch(model, documents))


def _batch(model: Any, documents: Documents) -> int:
    """Documents whose logits and attention of a layer fit in what is held at a time."""
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    layer = attention_layers(model)[0]
    each = documents.context * max(int(getattr(config, "vocab_size", 1)), layer.heads * documents.context)
    on_host = next(model.parameters()).device.type == "cpu"
    return int(np.clip((_ENTRIES_CPU if on_host else _ENTRIES_DEVICE) // each, 1, 32))
