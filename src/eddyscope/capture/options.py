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
        if self.weight not in WEIGHTS:
            raise UsageError(f"weight is {self.weight!r}, expected 'attention' or 'value-norm'.")
        if self.way not in WAYS:
            raise UsageError(f"way is {self.way!r}, expected one of {', '.join(WAYS)}.")
        if self.dtype not in ("float32", "float16"):
            raise UsageError(f"dtype is {self.dtype!r}, expected 'float32' or 'float16'.")
        if self.batch is not None and self.batch < 1:
            raise UsageError(f"batch is {self.batch}, expected at least 1 document.")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Options from arguments as users write them, with lists of layers and heads."""
        made: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
        return cls(**made)

    def _expect_heads(self) -> None:
        """Heads are the mean, each, or some by their numbers, each once."""
        if isinstance(self.heads, str):
            if self.heads not in ("mean", "each"):
                raise UsageError(f"heads is {self.heads!r}, expected 'mean' or 'each', or numbers of heads.")
            return
        wrong = [h for h in self.heads if not isinstance(h, (int, np.integer)) or isinstance(h, bool) or h < 0]
        if wrong or not self.heads:
            raise UsageError(f"heads is {list(self.heads)!r}, expected numbers of heads from 0, such as [0, 3].")
        if len(set(self.heads)) < len(self.heads):
            raise UsageError(f"heads is {list(self.heads)!r}, in which a head occurs twice.")
        object.__setattr__(self, "heads", tuple(int(head) for head in self.heads))

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form, for the provenance."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        extract = given.pop("extract")
        if extract is not None:
            given["extract"] = getattr(extract, "__qualname__", type(extract).__name__)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
