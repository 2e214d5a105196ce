"""The plan of windows: a file that says how far each layer looks, what it costs, and which model it is for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eddyscope.errors import InputError, StoreError
from eddyscope.interventions.layers import AttentionLayer, attention_layers
from eddyscope.interventions.windows.removal import SINKS, Removals, removals_of
from eddyscope.places import writing
from eddyscope.schema import FORMAT_VERSION

WINDOWS = "windows.json"


@dataclass(frozen=True)
class LayerWindow:
    """How far one layer looks.

    Parameters
    ----------
    name : str
        Qualified name of its attention module.
    window : int
        Tokens that it sees, the query's own among them; the context where nothing is removed. The longest of its
        heads' where they differ.
    heads : tuple of int, optional
        Window of each head, where each has its own.
    """

    name: str
    window: int
    heads: tuple[int, ...] | None = None

    @property
    def each(self) -> tuple[int, ...]:
        """Window of all heads, or of each."""
        return (self.window,) if self.heads is None else self.heads

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return {"name": self.name, "window": self.window} | ({} if self.heads is None else {"heads": list(self.heads)})


@dataclass(frozen=True)
class WindowPlan:
    """Windows of every layer of a model.

    Parameters
    ----------
    model : dict
        ``id, class, layers, heads, kv_heads`` of the model that it was made for.
    context : int
        Tokens of the documents that it was measured on.
    sink : {"keep", "drop"}
        Whether key 0 stays visible beyond a window.
    layers : tuple of LayerWindow
        In order.
    measured : dict
        JSON-able: ``loss``, ``cost`` and how they were measured.
    """

    model: dict[str, Any]
    context: int
    sink: str
    layers: tuple[LayerWindow, ...]
    measured: dict[str, Any] = field(default_factory=dict)

    def removals(self) -> dict[int, Removals]:
        """What the windows take away from each layer, by its index."""
        return {i: removals_of(layer.each, self.context) for i, layer in enumerate(self.layers)}

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form: what ``windows.json`` holds."""
        return {
            "format_version": FORMAT_VERSION,
            "model": self.model,
            "context": self.context,
            "sink": self.sink,
            "layers": [layer.as_dict() for layer in self.layers],
            **self.measured,
        }

    def check(self, model: Any) -> tuple[AttentionLayer, ...]:
        """The attention layers of a model that the plan fits.

        Raises
        ------
        InputError
            Where it was made for another class of model, other layers, or other numbers of heads.
        """
        model = getattr(model, "_orig_mod", model)
        layers, found = attention_layers(model), type(model).__name__
        if found != self.model["class"]:
            raise InputError(f"The windows were made for a {self.model['class']}, not for a {found}.", _REMEDY)
        names, own = [layer.name for layer in layers], [layer.name for layer in self.layers]
        if names != own:
            odd = next((f", among them '{a}'" for a, b in zip(own, names, strict=False) if a != b), "")
            raise InputError(
                f"The windows were made for {len(own)} layers{odd}; this {found} has {len(names)}: "
                f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''}.",
                _REMEDY,
            )
        for name, there in (("heads", layers[0].heads), ("kv_heads", layers[0].key_value_heads)):
            if self.model[name] != there:
                raise InputError(
                    f"The windows were made for a model with {self.model[name]} {name}; this {found} has {there}.",
                    _REMEDY,
                )
        for mine, layer in zip(self.layers, layers, strict=True):
            if mine.heads is not None and len(mine.heads) != layer.heads:
                raise InputError(
                    f"The plan has windows for {len(mine.heads)} heads of layer '{mine.name}'; this {found} has "
                    f"{layer.heads} there.",
                    _REMEDY,
                )
        return layers


_REMEDY = "Find windows for this model: eddyscope windows MODEL --text FILE --out DIR."


def describe_model(model: Any, layers: Sequence[AttentionLayer], name: str | None = None) -> dict[str, Any]:
    """What identifies a model in a plan: ``id, class, layers, heads, kv_heads``."""
    known = name or getattr(model.config, "_name_or_path", None) or type(model).__name__
    return {
        "id": str(known),
        "class": type(model).__name__,
        "layers": len(layers),
        "heads": layers[0].heads,
        "kv_heads": layers[0].key_value_heads,
    }


def save(plan: WindowPlan, path: str | Path) -> Path:
    """Write a plan as JSON, whole or not at all.

    Parameters
    ----------
    plan : WindowPlan
    path : str or Path
        A file, such as ``windows.json``; what is there is replaced.
    """
    place = Path(path)
    with writing(place):
        beside = place.with_name(f".{place.name}.partial")
        beside.write_text(json.dumps(plan.as_dict(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        beside.replace(place)
    return place


def load(path: str | Path) -> WindowPlan:
    """Read a plan.

    Parameters
    ----------
    path : str or Path
        ``windows.json``, or the folder that ``eddyscope windows`` wrote.

    Raises
    ------
    StoreError
        Where it is not there, is no plan, or has a newer format.
    """
    place = Path(path)
    place = place / WINDOWS if place.is_dir() else place
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"There is no plan of windows at '{path}' ({error.strerror}).", _MAKE) from error
    except (ValueError, RecursionError) as error:
        raise StoreError(f"'{place}' is not JSON.", _MAKE) from error
    version = content.get("format_version") if isinstance(content, dict) else None
    if type(version) is not int or version < 1:
        raise StoreError(f"'{place}' is not a plan of windows: it has no format_version.", _MAKE)
    if version > FORMAT_VERSION:
        raise StoreError(
            f"'{place}' has format {version}; this version of eddyscope reads up to {FORMAT_VERSION}.",
            "Update eddyscope.",
        )
    return _from_dict(content, place)


_MAKE = "Make one with: eddyscope windows MODEL --text FILE --out DIR."


def _from_dict(content: dict[str, Any], place: Path) -> WindowPlan:
    try:
        context, sink, model = content["context"], content.get("sink", "keep"), content["model"]
        layers = []
        for row in content["layers"]:
            heads = row.get("heads")
            layers.append(LayerWindow(row["name"], row["window"], None if heads is None else tuple(heads)))
        shape = {name: model[name] for name in ("id", "class", "layers", "heads", "kv_heads")}
    except (KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"'{place}' is not a plan of windows: {error!r} in it.", _MAKE) from error
    said = _wrong(shape, context, sink, layers)
    if said is not None:
        raise StoreError(f"'{place}' is not a plan of windows: it has {said}.", _MAKE)
    rest = {k: v for k, v in content.items() if k not in ("format_version", "model", "context", "sink", "layers")}
    return WindowPlan(shape, context, sink, tuple(layers), rest)


def _wrong(model: dict[str, Any], context: Any, sink: Any, layers: list[LayerWindow]) -> str | None:
    """What no plan has, in words; None where all is as it should be."""
    if sink not in SINKS:
        return f"sink {sink!r:.40}"
    if not layers:
        return "no layers"
    windows = [("a window", window) for layer in layers for window in (layer.window, *layer.each)]
    sizes = [(f"a model with {name}", model[name]) for name in ("layers", "heads", "kv_heads")]
    for name, number in [("a context", context), *sizes, *windows]:
        if type(number) is not int or number < 1:
            return f"{name} of {number!r:.40}"
    if len(layers) != model["layers"]:
        return f"{len(layers)} layers where its model has {model['layers']}"
    return next((f"no window for the heads of '{layer.name}'" for layer in layers if layer.heads == ()), None)
