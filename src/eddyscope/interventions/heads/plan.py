"""A plan: which heads of each layer keep a pattern of their own, and what mix of these the others use.

Written as ``heads.json``::

    {"format_version": 1,
     "model": {"id", "class", "layers", "heads", "kv_heads", "weights_sha256"},
     "layers": [{"name", "kept": [heads], "keys_kept": [key-value heads], "mixing": [[one row a head]]}],
     "criterion": "residual x importance",
     "loss": {"measure", "unit", "before", "after", "rise", "interval": [low, high], "documents",
              "compared": {"zeroing by gradient importance": {"rise", "interval"}, ...}},
     "cost": {"parameters": {"before", "after"}, ...}}

Row h of ``mixing`` gives the pattern of head h as a sum over the kept patterns; it is a zero row for a head whose
pattern is lost and, unless the plan was healed, a unit row for a kept head.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from eddyscope.errors import InputError, StoreError
from eddyscope.interventions.editing import Edit
from eddyscope.interventions.layers import AttentionLayer, attention_layers
from eddyscope.lagfield import FloatArray
from eddyscope.schema import FORMAT_VERSION

FILE = "heads.json"
#: Most layers, or heads of a layer, that a file may state.
_MOST = 2**20


@dataclass(frozen=True, eq=False)
class LayerPlan:
    """The plan of one layer.

    Parameters
    ----------
    name : str
        Qualified name of the attention module.
    kept : tuple of int
        Heads that keep their own pattern, ascending.
    mixing : array, shape (head, kept)
        Pattern of each head as a sum over the kept ones.
    """

    name: str
    kept: tuple[int, ...]
    mixing: FloatArray

    def __post_init__(self) -> None:
        heads = self.mixing.shape[0] if self.mixing.ndim == 2 else 0
        inside = all(0 <= head < heads for head in self.kept)
        if self.mixing.shape != (heads, len(self.kept)) or not inside or list(self.kept) != sorted(set(self.kept)):
            raise InputError(
                f"The plan of layer '{self.name}' keeps heads {list(self.kept)!s:.80} with mixing weights of shape "
                f"{self.mixing.shape}; expected ascending heads and one row of {len(self.kept)} weights a head."
            )
        if not np.isfinite(self.mixing).all():
            raise InputError(f"The plan of layer '{self.name}' has mixing weights that are not finite.")

    @property
    def shared(self) -> tuple[int, ...]:
        """Heads without a pattern of their own."""
        return tuple(head for head in range(self.mixing.shape[0]) if head not in self.kept)

    @property
    def mixed(self) -> tuple[int, ...]:
        """Heads that use other patterns than just their own: the shared ones and, in healed plans, kept ones too."""
        own = np.zeros_like(self.mixing)
        own[list(self.kept), np.arange(len(self.kept))] = 1.0
        unlike = (self.mixing != own).any(axis=1)
        return tuple(head for head in range(len(own)) if unlike[head] or head not in self.kept)

    def keys_kept(self, key_value_heads: int) -> tuple[int, ...]:
        """Key-value heads whose keys are still needed: those of the kept heads."""
        size = self.mixing.shape[0] // key_value_heads
        return tuple(sorted({head // size for head in self.kept}))


@dataclass(frozen=True, eq=False)
class Plan:
    """Which patterns a model keeps, and what is known of it.

    Parameters
    ----------
    model : dict
        Identity of the model that the plan was made for, see :func:`model_identity`.
    layers : tuple of LayerPlan
        In the order of the model's layers.
    criterion : str
    loss, cost : dict
        What the plan costs and saves; empty before it was measured.
    provenance : dict
        Documents, seed and options.
    """

    model: dict[str, Any]
    layers: tuple[LayerPlan, ...]
    criterion: str
    loss: dict[str, Any] = field(default_factory=dict)
    cost: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def patterns(self) -> int:
        """Patterns that are kept, over all layers."""
        return sum(len(layer.kept) for layer in self.layers)

    @property
    def heads(self) -> int:
        """Heads of the model, over all layers."""
        return sum(layer.mixing.shape[0] for layer in self.layers)

    def with_results(self, **results: Any) -> Plan:
        """The same plan with loss, cost or provenance."""
        return replace(self, **results)

    def to_dict(self) -> dict[str, Any]:
        """The content of ``heads.json``."""
        return {
            "format_version": FORMAT_VERSION,
            "model": self.model,
            "layers": [
                {
                    "name": layer.name,
                    "kept": list(layer.kept),
                    "keys_kept": list(layer.keys_kept(int(self.model["kv_heads"]))),
                    "mixing": [[float(f"{weight:.7g}") for weight in row] for row in layer.mixing],
                }
                for layer in self.layers
            ],
            "criterion": self.criterion,
            "loss": self.loss,
            "cost": self.cost,
            "provenance": self.provenance,
        }

    def write(self, path: str | Path) -> None:
        """Write ``heads.json``, beside its place first."""
        from eddyscope.models.folder import write_whole

        write_whole(Path(path), json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")


def read_plan(path: str | Path) -> Plan:
    """Read a plan that :meth:`Plan.write` wrote.

    Parameters
    ----------
    path : str or Path
        A ``heads.json``, or the folder that holds it.

    Raises
    ------
    StoreError
        Where it is missing, damaged, or of a newer format.
    """
    place = Path(path)
    place = place / FILE if place.is_dir() else place
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(
            f"The plan '{place}' cannot be read ({error.strerror}).", "Give a heads.json that 'eddyscope heads' wrote."
        ) from error
    except (ValueError, RecursionError) as error:
        raise StoreError(f"'{place}' is not valid JSON ({error}).", "Run 'eddyscope heads' again.") from error
    version = content.get("format_version") if isinstance(content, dict) else None
    if _whole(version) and version > FORMAT_VERSION:
        raise StoreError(
            f"'{place}' has format_version {version}; this version of eddyscope reads up to {FORMAT_VERSION}.",
            "Upgrade eddyscope.",
        )
    try:
        return _from_dict(content)
    except (KeyError, TypeError, ValueError, OverflowError, InputError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise StoreError(
            f"'{place}' is not a plan of heads ({reason}).",
            "Give a heads.json that 'eddyscope heads' wrote.",
        ) from error


def _whole(value: Any) -> TypeGuard[int]:
    """Whether something read from JSON is a whole number (true and false are not)."""
    return isinstance(value, int) and not isinstance(value, bool)


def _from_dict(content: dict[str, Any]) -> Plan:
    if not isinstance(content, dict) or not _whole(content["format_version"]) or content["format_version"] < 1:
        raise ValueError("its format_version is not a number from 1")
    model = dict(content["model"])
    for name in ("layers", "heads", "kv_heads"):
        if not _whole(model[name]) or not 0 < model[name] <= _MOST:
            raise ValueError(f"its model has {name} {model[name]!r:.40}")
    for name in ("class", "weights_sha256"):
        if not isinstance(model[name], str):
            raise TypeError(f"its model has {name} {model[name]!r:.40}")
    layers = [_layer(entry) for entry in content["layers"]]
    rest = {name: dict(content.get(name) or {}) for name in ("loss", "cost", "provenance")}
    return Plan(model, tuple(layers), str(content["criterion"]), **rest)


def _layer(entry: dict[str, Any]) -> LayerPlan:
    name, kept, rows = entry["name"], entry["kept"], entry["mixing"]
    if not isinstance(name, str) or not isinstance(kept, list) or not isinstance(rows, list):
        raise TypeError("a layer's name, kept heads or mixing weights are of the wrong kind")
    if not all(_whole(head) for head in kept):
        raise TypeError(f"layer {name!r:.60} keeps heads that are not whole numbers")
    numbers = all(isinstance(row, list) and all(_whole(w) or isinstance(w, float) for w in row) for row in rows)
    if not numbers or any(len(row) != len(kept) for row in rows):
        raise TypeError(f"layer {name!r:.60} has mixing weights that are not a row of {len(kept)} numbers a head")
    return LayerPlan(name, tuple(kept), np.array(rows, dtype=np.float64).reshape(len(rows), len(kept)))


def model_identity(model: Any) -> dict[str, Any]:
    """What a plan remembers of its model: id, class, sizes, and a hash of the attention weights."""
    layers = attention_layers(model)
    config = getattr(model, "config", None)
    name = getattr(config, "variant", None) or getattr(config, "_name_or_path", None) or ""
    digest = hashlib.sha256()
    for layer in layers:
        for key, tensor in sorted(layer.module.state_dict().items()):
            digest.update(f"{layer.name}.{key}".encode())
            digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return {
        "id": Path(str(name)).name,  # a folder's name, not where it lies
        "class": type(model).__name__,
        "layers": len(layers),
        "heads": layers[0].heads,
        "kv_heads": layers[0].key_value_heads,
        "weights_sha256": digest.hexdigest(),
    }


def check_fits(model: Any, plan: Plan) -> None:
    """See that a plan was made for this model.

    Raises
    ------
    InputError
        With the reason: another class, other sizes, other layers, or other weights.
    """
    mine = model_identity(model)
    words = {"class": "class", "layers": "layers", "heads": "heads a layer", "kv_heads": "key-value heads a layer"}
    for key, word in words.items():
        if mine[key] != plan.model[key]:
            raise InputError(
                f"The plan was made for a model with {word} {plan.model[key]}; this one has {mine[key]}.",
                "Make a plan for this model: eddyscope heads MODEL --text FILE --out DIR.",
            )
    layers = attention_layers(model)
    theirs = [(layer.name, layer.mixing.shape[0]) for layer in plan.layers]
    for (name, heads), layer in zip(theirs, layers, strict=False):
        if (name, heads) != (layer.name, layer.heads):
            raise InputError(
                f"The plan's layer '{name}' with {heads} heads is '{layer.name}' with {layer.heads} heads in this "
                "model."
            )
    if len(theirs) != len(layers):
        raise InputError(f"The plan has {len(theirs)} layers, this model {len(layers)}.")
    if plan.model.get("weights_sha256") not in (None, mine["weights_sha256"]):
        raise InputError(
            f"The plan was made for other weights ('{plan.model.get('id', '')}') than those of this model "
            f"('{mine['id']}'): its mixing weights mean nothing here.",
            "Make a plan for this model: eddyscope heads MODEL --text FILE --out DIR.",
        )


def sharing(layer: LayerPlan) -> Edit:
    """The edit that lets the heads of a layer use mixes of the kept patterns."""
    kept = torch.tensor(layer.kept, dtype=torch.int64)
    mixing = torch.from_numpy(np.ascontiguousarray(layer.mixing, dtype=np.float64))

    def share(weights: Tensor, _: AttentionLayer) -> Tensor:
        # Rounded before it moves: some devices have no float64.
        return mix_patterns(weights, kept.to(weights.device), mixing.to(weights.dtype).to(weights.device))

    return share


def mix_patterns(weights: Tensor, kept: Tensor, mixing: Tensor) -> Tensor:
    """Patterns of all heads, ``sum_k mixing[h, k] weights[kept[k]]``.

    Parameters
    ----------
    weights : Tensor, shape (batch, head, query, key)
    kept : Tensor of int, shape (kept,)
    mixing : Tensor, shape (head, kept) or, one for each document, (batch, head, kept)
    """
    chosen = weights.index_select(1, kept).flatten(2)  # (batch, kept, query * key)
    return (mixing @ chosen).reshape(weights.shape)


def sharing_edits(plan: Plan) -> Mapping[str, Edit]:
    """Edits of every layer in which a head uses other patterns than its own."""
    return {layer.name: sharing(layer) for layer in plan.layers if layer.mixed}
