"""The options of a capture, checked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from eddyscope.errors import UsageError

#: What is kept of each entry: the weight, or the weight times the norm of the value in the residual stream.
WEIGHTS = ("attention", "value-norm")
#: How attention is seen, see :mod:`eddyscope.capture.ways`.
WAYS = ("auto", "hooks", "function", "blocks")


@dataclass(frozen=True)
class Options:
    """The options of :func:`eddyscope.capture`, see there."""

    heads: str | tuple[int, ...] = "mean"
    weight: str = "attention"
    way: str = "auto"
    layers: tuple[int | str, ...] | None = None
    batch: int | None = None
    max_lag: int | None = None
    device: str | None = None
    dtype: str = "float32"
    drop_bad: bool = False
    allow_failed_checks: bool = False
    checks: bool = True
    extract: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        self._expect_heads()
        self._expect_layers()
        if self.weight not in WEIGHTS:
            raise UsageError(f"weight is {self.weight!r}, expected 'attention' or 'value-norm'.")
        if self.way not in WAYS:
            raise UsageError(f"way is {self.way!r}, expected one of {', '.join(WAYS)}.")
        if self.dtype not in ("float32", "float16"):
            raise UsageError(f"dtype is {self.dtype!r}, expected 'float32' or 'float16'.")
        if self.extract is not None and not callable(self.extract):
            raise UsageError(f"extract is {self.extract!r}, expected a function of (model, inputs).")
        object.__setattr__(self, "batch", whole_number("batch", self.batch, "document"))
        object.__setattr__(self, "max_lag", whole_number("max_lag", self.max_lag, "token"))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Options from arguments as users write them, with lists, ranges or arrays of layers and heads."""
        unknown = sorted(set(given) - {field.name for field in fields(cls)})
        if unknown:
            raise UsageError(f"'{unknown[0]}' is not an option of a capture.")
        made = {name: _entries(value) if name in ("heads", "layers") else value for name, value in given.items()}
        return cls(**made)

    def _expect_heads(self) -> None:
        """Heads are the mean, each, or some by their numbers, each once."""
        if isinstance(self.heads, str):
            if self.heads not in ("mean", "each"):
                raise UsageError(f"heads is {self.heads!r}, expected 'mean' or 'each', or numbers of heads.")
            return
        given: Any = self.heads
        listed = isinstance(given, tuple)
        if not listed or not given or not all(_is_whole(head) and head >= 0 for head in given):
            raise UsageError(
                f"heads is {list(given) if listed else given!r}, expected numbers of heads from 0, such as [0, 3]."
            )
        if len(set(self.heads)) < len(self.heads):
            raise UsageError(f"heads is {list(self.heads)!r}, in which a head occurs twice.")
        object.__setattr__(self, "heads", tuple(int(head) for head in self.heads))

    def _expect_layers(self) -> None:
        """Layers are a list of positions and names."""
        given: Any = self.layers
        if given is None:
            return
        listed = isinstance(given, tuple)
        if not listed or not all(isinstance(layer, str) or _is_whole(layer) for layer in given):
            raise UsageError(
                f"layers is {list(given) if listed else given!r}, expected a list of positions or names like [0, 5]."
            )
        object.__setattr__(self, "layers", tuple(x if isinstance(x, str) else int(x) for x in given))

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form, for the provenance."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        extract = given.pop("extract")
        if extract is not None:
            given["extract"] = getattr(extract, "__qualname__", type(extract).__name__)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}


def whole_number(name: str, value: Any, unit: str) -> int | None:
    """A number of documents or tokens that may be left open; UsageError where it is not whole, or below 1."""
    if value is not None and (not _is_whole(value) or value < 1):
        raise UsageError(f"{name} is {value!r}, expected at least 1 {unit}, as a whole number.")
    return None if value is None else int(value)


def _is_whole(value: Any) -> bool:
    """Whether this is a whole number, and no truth value, which Python takes for one."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _entries(value: Any) -> Any:
    """A tuple of what is listed; anything else as it is, to be refused by name."""
    if isinstance(value, (str, bytes, Mapping)):
        return value
    try:
        return tuple(value)
    except TypeError:
        return value
