"""The options of a capture, checked once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from eddyscope.errors import UsageError


@dataclass(frozen=True)
class Options:
    """The options of :func:`eddyscope.capture`, see there."""

    heads: str | tuple[int, ...] = "mean"
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
        if isinstance(self.heads, str) and self.heads not in ("mean", "each"):
            raise UsageError(f"heads is {self.heads!r}, expected 'mean' or 'each'.")
        if self.dtype not in ("float32", "float16"):
            raise UsageError(f"dtype is {self.dtype!r}, expected 'float32' or 'float16'.")
        if self.batch is not None and self.batch < 1:
            raise UsageError(f"batch is {self.batch}, expected at least 1 document.")

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form, for the provenance."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        extract = given.pop("extract")
        if extract is not None:
            given["extract"] = getattr(extract, "__qualname__", type(extract).__name__)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
