"""How alike the patterns of a model's heads are: raw, and in what changes from document to document.

Raw maps of heads that have nothing in common correlate 0.75 to 0.98, because they share a mean profile (near tokens get
more). So redundancy is judged on fluctuations, with the first key (a sink in most models) masked and rows renormalised:
``u_h = A_h - <A_h>``, ``G[h, h'] = <u_h, u_h'>`` over documents, queries and keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eddyscope.capture.state import evaluated
from eddyscope.documents import Documents
from eddyscope.interventions.editing import Edit, edited
from eddyscope.interventions.layers import AttentionLayer, attention_layers
from eddyscope.interventions.losses import batches, forward
from eddyscope.lagfield import FloatArray
from eddyscope.trust.jackknife import Interval, jackknife

#: A query whose mass beside the sink falls below this in any document is left out, as in the lag statistics.
MIN_MASS = 0.05
#: One over the share of the first queries that are left out where attention is causal: they have few keys.
EARLY = 8


@dataclass(frozen=True, eq=False)
class Redundancy:
    """Similarity of patterns within and across layers.

    Parameters
    ----------
    names : tuple of str
        Layers.
    slices : tuple of slice
        Heads of each layer among all heads.
    raw : array, shape (all heads, all heads)
        Cosine similarity of the maps as they are.
    fluctuation : array, shape (all heads, all heads)
        Of what changes from document to document, the sink masked; NaN for a head that never changes.
    gram : array, shape (all heads, all heads)
        ``<A_h, A_h'>`` of the raw maps, mean over documents and queries.
    patterns_raw, patterns : Interval, arrays of shape (layer,)
        Effective number of patterns of each layer: participation ratio of the POD over heads.
    """

    names: tuple[str, ...]
    slices: tuple[slice, ...]
    raw: FloatArray
    fluctuation: FloatArray
    gram: FloatArray
    patterns_raw: Interval
    patterns: Interval

    def layer_gram(self, index: int) -> FloatArray:
        """The raw head Gram of one layer, shape (head, head)."""
        return self.gram[self.slices[index], self.slices[index]]

    def between_layers(self) -> FloatArray:
        """Similarity of the patterns of two layers, shape (layer, layer), 0 to 1: 1 on the diagonal.

        ``sum r[h, h']^2 / sqrt(sum_own r^2 sum_other r^2)`` over heads h of the one and h' of the other layer (the RV
        coefficient of Robert and Escoufier 1976, for patterns of unit energy).
        """
        square = np.nan_to_num(self.fluctuation) ** 2
        inner = np.array([[square[a, b].sum() for b in self.slices] for a in self.slices])
        own = np.sqrt(np.diag(inner))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(inner / own[:, None] / own[None, :])


def measure_redundancy(model: Any, documents: Documents) -> Redundancy:
    """Read documents twice: for the mean of every head's masked map, then for the Grams of each document.

    Parameters
    ----------
    model : torch.nn.Module
    documents : Documents
        At least two, without padding.

    Notes
    -----
    Replicates of the intervals leave groups out of the Grams; the mean field stays that of all documents.
    """
    layers = attention_layers(model)
    means, used = _mean_fields(model, documents, layers)
    raw, fluctuation = _grams(model, documents, layers, means, used)
    ends = np.cumsum([0, *(layer.heads for layer in layers)])
    slices = tuple(slice(int(a), int(b)) for a, b in pairwise(ends))
    groups = documents.groups()
    return Redundancy(
        tuple(layer.name for layer in layers),
        slices,
        similarity(raw.mean(axis=0)),
        similarity(fluctuation.mean(axis=0)),
        raw.mean(axis=0),
        _patterns(raw, slices, groups),
        _patterns(fluctuation, slices, groups),
    )


def similarity(gram: FloatArray) -> FloatArray:
    """Cosine similarities of a Gram; NaN where an entry has no energy."""
    energy = np.sqrt(np.maximum(np.diag(gram), 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.clip(gram / energy[:, None] / energy[None, :], -1.0, 1.0))


def effective_patterns(gram: FloatArray) -> float:
    """Participation ratio ``(sum lambda)^2 / sum lambda^2`` of the POD over heads of unit energy.

    1 where all heads have the same pattern, the number of heads where no two have anything in common. Heads without
    energy do not count.
    """
    alive = np.diag(gram) > 1e-12 * max(float(np.diag(gram).max()), 0.0)
    if not alive.any():
        return float("nan")
    alike = similarity(gram[np.ix_(alive, alive)])
    return float(np.trace(alike) ** 2 / (alike**2).sum())


def _patterns(grams: FloatArray, slices: tuple[slice, ...], groups: Any) -> Interval:
    """Effective patterns of each layer with a jackknife over groups of documents."""

    def measured(kept: Any) -> FloatArray:
        mean = grams[kept].mean(axis=0)
        return np.array([effective_patterns(mean[part, part]) for part in slices])

    everything = np.ones(len(grams), dtype=bool)
    parts = [measured(groups != group) for group in range(int(groups.max()) + 1) if (groups != group).any()]
    return jackknife(measured(everything), np.array(parts or [np.full(len(slices), np.nan)]), "log")


def _masked(weights: Tensor) -> tuple[Tensor, Tensor]:
    """Maps without the first key, rows renormalised; and the mass that was left in each row."""
    left = weights.clone()
    left[..., 0] = 0.0
    mass = left.sum(-1)
    return left / mass.clamp_min(MIN_MASS)[..., None], mass


def _mean_fields(
    model: Any, documents: Documents, layers: tuple[AttentionLayer, ...]
) -> tuple[list[Tensor], list[Tensor]]:
    """Mean masked map of every head, and the queries that all heads of a layer can use."""
    means: list[Any] = [0.0] * len(layers)
    least: list[Any] = [torch.tensor(1.0)] * len(layers)

    def add(weights: Tensor, layer: AttentionLayer) -> Tensor:
        field, mass = _masked(weights.float())
        means[layer.index] = means[layer.index] + field.double().sum(0) / len(documents)
        least[layer.index] = torch.minimum(least[layer.index], mass.amin(dim=(0, 1)))
        return weights

    _read(model, documents, layers, add)
    used = []
    for layer, mass in zip(layers, least, strict=True):
        allowed = mass >= MIN_MASS
        if layer.causal:
            allowed[: len(allowed) // EARLY] = False
        used.append(allowed)
    return [mean.float() for mean in means], used


def _grams(
    model: Any,
    documents: Documents,
    layers: tuple[AttentionLayer, ...],
    means: list[Tensor],
    used: list[Tensor],
) -> tuple[FloatArray, FloatArray]:
    """Grams of all heads for each document, shape (document, all heads, all heads): raw and of the fluctuation."""
    raw: list[FloatArray] = []
    fluctuation: list[FloatArray] = []
    both: dict[int, tuple[Tensor, Tensor]] = {}

    def keep(weights: Tensor, layer: AttentionLayer) -> Tensor:
        maps = weights.float()
        field, _ = _masked(maps)
        moved = (field - means[layer.index]) * used[layer.index][:, None]
        both[layer.index] = (maps[0].flatten(1), moved[0].flatten(1))
        if layer.index == len(layers) - 1:
            for kind, found in ((0, raw), (1, fluctuation)):
                table = torch.cat([both[index][kind] for index in sorted(both)])
                found.append((table @ table.T).double().cpu().numpy() / maps.shape[-2])
            both.clear()
        return weights

    _read(model, documents, layers, keep, batch=1)
    return np.stack(raw), np.stack(fluctuation)


def _read(
    model: Any, documents: Documents, layers: tuple[AttentionLayer, ...], edit: Edit, batch: int | None = None
) -> None:
    """Let the model read, and look at its weights on the way."""
    with evaluated(model), edited(model, {layer.name: edit for layer in layers}):
        for ids in batches(model, documents, batch):
            forward(model, ids)
