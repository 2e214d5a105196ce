"""Heads at a glance: what every head of a model does, whatever is kept of it.

A few rows of the first documents are looked at as they are read, and once a few sequences of random tokens that repeat
themselves, in which an induction head finds what followed last time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from eddyscope.capture.source import Inputs, Rows, Site
from eddyscope.kernels.headmeasures import DOCUMENTS, HeadSums, looked_at
from eddyscope.lagfield import FloatArray, IntArray, LagGeometry

#: Sequences of repeated random tokens, and the length of what is repeated.
SEQUENCES, REPEATED = 4, 64
SEED = 0


@dataclass
class Glance:
    """Receiver of the attention of the first documents."""

    sums: dict[str, HeadSums] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def take(self, name: str, rows: Rows, geometry: LagGeometry, index: IntArray) -> None:
        """Look at the rows of one layer of the documents with this index."""
        chosen = np.flatnonzero(index < DOCUMENTS)
        if not chosen.size:
            return
        self.seen.update(index[chosen].tolist())
        weights = rows.weights[: chosen.size] if chosen[-1] + 1 == chosen.size else rows.weights[chosen.tolist()]
        heads = weights.shape[1]
        sums = self.sums.setdefault(name, HeadSums.empty(heads, geometry.queries, geometry.keys))
        low, high = looked_at(geometry.queries, geometry.causal)
        first, stop = max(low, rows.first), min(high, rows.first + weights.shape[2])
        if stop <= first:
            return
        cut = weights[:, :, first - rows.first : stop - rows.first, : geometry.keys]
        finite = cut.sum(dim=(1, 2, 3), dtype=torch.float32).isfinite()
        cut = cut if finite.all() else cut[finite]
        for head in range(heads):
            sums.add(head, cut[:, head].float().cpu().numpy(), first)
        sums.rows += cut.shape[0] * (stop - first)


class Induction:
    """Receiver of the attention to repeated random tokens.

    Parameters
    ----------
    repeated : int
        Length of what is repeated.
    """

    def __init__(self, repeated: int) -> None:
        self.repeated = repeated
        self.scores: dict[str, FloatArray] = {}
        self._rows: dict[str, int] = {}

    def __call__(self, name: str, site: Site, given: Any) -> None:
        """Mean attention of the second half to the token that followed the query's token in the first half."""
        if not isinstance(given, Rows) or given.weights.shape[3] != 2 * self.repeated:
            return
        queries = given.first + torch.arange(given.weights.shape[2], device=given.weights.device)
        keys = queries - self.repeated + 1
        # The first query of the repetition is left out: what followed its token depends on nothing before.
        own = torch.nonzero(queries > self.repeated).flatten()
        found = given.weights[:, :, own, keys[own]].float().sum(dim=(0, 2)).cpu().numpy()
        self.scores[name] = self.scores.get(name, 0.0) + found
        self._rows[name] = self._rows.get(name, 0) + given.weights.shape[0] * len(own)

    def score(self, name: str) -> FloatArray | None:
        """Score of each head of a layer, 0 to 1; None where the layer was not seen."""
        rows = self._rows.get(name, 0)
        return None if rows == 0 else np.asarray(self.scores[name] / rows)


def repeated_tokens(model: nn.Module, vocabulary: int, context: int | None) -> Inputs | None:
    """Random tokens that repeat themselves once, shape (sequence, token); None where the context is too short."""
    # Two less than the context, as some configs count two positions that are no token's (RoBERTa, ProphetNet).
    length = min(REPEATED, REPEATED if context is None else (context - 2) // 2)
    if length < 4:
        return None
    ids = random_ids(model, vocabulary, (SEQUENCES, length))
    return {"input_ids": torch.from_numpy(np.concatenate([ids, ids], axis=1))}


def random_ids(model: nn.Module, vocabulary: int, shape: tuple[int, int]) -> IntArray:
    """Random token ids, the same in every call.

    Ids that the config names (padding, end of text, an image's place) are left out, as they may stand for more than a
    token.
    """
    special = _named_ids(model)
    plain = np.setdiff1d(np.arange(vocabulary), special) if special else np.arange(vocabulary)
    return np.random.default_rng(SEED).choice(plain, size=shape).astype(np.int64)


def _named_ids(model: nn.Module) -> list[int]:
    """Token ids that a Hugging Face config gives a meaning to: ``pad_token_id``, ``image_token_index`` and so on."""
    config: Any = getattr(model, "config", None)
    found = config.to_dict() if hasattr(config, "to_dict") else {}
    ids = [value for name, value in found.items() if name.endswith(("_token_id", "_token_index"))]
    flat = [entry for value in ids for entry in (value if isinstance(value, (list, tuple)) else [value])]
    return [entry for entry in flat if isinstance(entry, int)]
