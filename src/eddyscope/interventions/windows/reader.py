"""Measure a model under many removals, each time reading again only the blocks that a change can reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eddyscope.capture.state import evaluated
from eddyscope.documents import Documents
from eddyscope.interventions.editing import AppliedEdits, Edit
from eddyscope.interventions.layers import AttentionLayer, attention_layers
from eddyscope.interventions.losses import LOSS, UNITS, batches, forward, mean_interval, measure_of, token_losses
from eddyscope.interventions.windows.removal import Removals, check_sink, without
from eddyscope.lagfield import FloatArray
from eddyscope.trust.jackknife import Interval

#: Most bytes of block outputs that are kept.
KEPT_BYTES = 2**30
#: What a loss may differ by when blocks are replayed, in nats; more, and they are not.
SAME_LOSS = 1e-5

#: What is removed of each layer (distances, or what an edit takes away), by its index; others lose nothing.
State = Mapping[int, Removals | Edit]


class Reader:
    """The loss of fixed documents under any removal of distances.

    A removal in layer l leaves every block before it as it was, so these blocks' outputs are kept and given again. That
    halves the work of a curve over all layers. It is checked on the model at hand, and left where it does not hold
    (weights shared between layers, more than 1 GiB).

    Parameters
    ----------
    model : torch.nn.Module
        Left as it was between calls.
    documents : Documents
        Without padding.
    sink : {"keep", "drop"}
        Whether key 0 stays visible.
    batch : int, optional
        Documents read at a time.

    Attributes
    ----------
    layers : tuple of AttentionLayer
    measure, unit : str
        ``next-token loss`` in nats, or ``embedding distance``, 1 - cosine similarity with the unchanged model.
    before : array, shape (document,)
        Of the unchanged model; zero for embedding distances.
    """

    def __init__(self, model: Any, documents: Documents, *, sink: str = "keep", batch: int | None = None) -> None:
        self.model, self.documents, self.sink = model, documents, check_sink(sink)
        self.layers = attention_layers(model)
        self.measure = measure_of(model)
        self.unit = UNITS[self.measure]
        self._batches = batches(model, documents, batch)
        predicted = torch.from_numpy(~documents.special[:, 1:])
        self._predicted = torch.split(predicted, [len(rows) for rows in self._batches])
        self._state: dict[int, Removals | Edit] = {}
        self._blocks = blocks_of(model, self.layers)
        self._kept: list[dict[int, Any]] = []
        self._settled: dict[int, Removals | Edit] = {}
        self._first = 0  # block from which on a pass computes
        self._at = 0  # batch being read
        self._reference: list[Tensor] | None = None
        raw = self._pass(record=True)
        if self.measure != LOSS:
            self._reference = raw
        self.before: FloatArray = self._values(raw)
        if self._kept and not self._replays(raw):
            self._blocks, self._kept = (), []

    def rise(self, values: FloatArray) -> Interval:
        """Mean of a rise over the documents, with its interval."""
        return mean_interval(values, self.documents)

    def measured(self, state: State) -> FloatArray:
        """Rise of the measure over that of the unchanged model, shape (document,).

        Parameters
        ----------
        state : mapping of int to tuple of Removal or None, or to an edit of the weights
        """
        self._state = _trimmed(state)
        self._first = self._first_difference(self._state) if self._kept else 0
        return self._values(self._pass()) - self.before

    def settle(self, state: State) -> None:
        """Make a state the one that the next ones are compared with: what comes before a change is not read again."""
        wanted = _trimmed(state)
        if self._kept and wanted != self._settled:
            self._state, self._first = wanted, self._first_difference(wanted)
            self._pass(record=True)
            self._settled = wanted

    def _first_difference(self, state: State) -> int:
        changed = [i for i in {*state, *self._settled} if state.get(i) != self._settled.get(i)]
        return min(changed, default=len(self.layers))

    def _pass(self, record: bool = False) -> list[Tensor]:
        """Losses of each batch, (document, token - 1), or embeddings, (document, width)."""
        found = []
        if record and not self._kept:
            self._kept = [{} for _ in self._batches] if self._blocks else []
        with evaluated(self.model), AppliedEdits(self.model, self._edits()), self._watched(record):
            for at, rows in enumerate(self._batches):
                self._at = at
                output = forward(self.model, rows)
                found.append(token_losses(output, rows) if self.measure == LOSS else output.double().mean(1))
        return found

    def _values(self, raw: list[Tensor]) -> FloatArray:
        if self.measure == LOSS:
            each = [
                (losses.double().cpu() * wanted).sum(1) / wanted.sum(1)
                for losses, wanted in zip(raw, self._predicted, strict=True)
            ]
            return np.asarray(torch.cat(each).numpy())
        assert self._reference is not None
        pairs = zip(self._reference, raw, strict=True)
        return np.asarray(torch.cat([1 - torch.cosine_similarity(a, b, dim=1) for a, b in pairs]).cpu().numpy())

    def _edits(self) -> dict[str, Edit]:
        # Every layer, also those that lose nothing: all then run under the same implementation.
        return {layer.name: self._edit for layer in self.layers}

    def _edit(self, weights: Tensor, layer: AttentionLayer) -> Tensor:
        removals = self._state.get(layer.index)
        if callable(removals):
            return removals(weights, layer)
        return weights if removals is None else without(weights, layer, removals, self.sink)

    @contextmanager
    def _watched(self, record: bool) -> Iterator[None]:
        """Blocks that give what they gave before, up to the first that a change reaches, and keep what they give."""
        replaced: list[tuple[nn.Module, Any]] = []
        try:
            for index, block in enumerate(self._blocks):
                own = block.__dict__.get("forward")
                replaced.append((block, own))
                block.forward = partial(self._block, index, block.forward, record)
            yield
        finally:
            for block, own in replaced:
                del block.forward
                if own is not None:
                    block.forward = own

    def _block(self, index: int, own: Any, record: bool, *arguments: Any, **options: Any) -> Any:
        if index < self._first:
            return self._kept[self._at][index]
        given = own(*arguments, **options)
        if record and self._kept:
            self._keep(index, given)
        return given

    def _keep(self, index: int, given: Any) -> None:
        first = self._at == 0 and index == 0
        if first and _bytes(given) * len(self._batches) * len(self._blocks) > KEPT_BYTES:
            self._kept = []
            return
        self._kept[self._at][index] = given

    def _replays(self, raw: list[Tensor]) -> bool:
        """Whether the model gives the same when every block gives what it gave before."""
        self._first = len(self._blocks)
        again = self._pass()
        return all(torch.allclose(a, b, atol=SAME_LOSS) for a, b in zip(raw, again, strict=True))


def blocks_of(model: nn.Module, layers: tuple[AttentionLayer, ...]) -> tuple[nn.Module, ...]:
    """The blocks of a model that hold one attention layer each, in order; none where it is not built so."""
    for parent in model.modules():
        if isinstance(parent, nn.ModuleList) and len(parent) == len(layers):
            inside = [{id(part) for part in block.modules()} for block in parent]
            holds = [[id(layer.module) in parts for layer in layers] for parts in inside]
            if all(row == [i == j for j in range(len(layers))] for i, row in enumerate(holds)):
                return tuple(parent)
    return ()


def _trimmed(state: State) -> dict[int, Removals | Edit]:
    """Without the layers that lose nothing."""
    return {i: given for i, given in state.items() if callable(given) or any(r is not None for r in given)}


def _bytes(given: Any) -> int:
    tensors = given if isinstance(given, (tuple, list)) else [given]
    return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, Tensor))
