"""The parameters of an analysis, checked once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from eddyscope.errors import UsageError
from eddyscope.kernels.sketch import LEAST_POWER_ITERATIONS

SELECTS = ("peaks", "top", "octaves", "bands")
WINDOWS = ("band", "lowpass", "octaves")
EDGES = ("reflect", "zero", "replicate")
SINKS = ("mask", "keep")
LAGS = ("back", "ahead")
PRESETS = ("published",)
PODS = ("exact", "randomized")


@dataclass(frozen=True)
class Options:
    """Parameters of :func:`eddyscope.analyze`; see there for their meaning."""

    preset: str | None = None
    scales: tuple[float, ...] | None = None
    omega0: float = 6.0
    dominant: int = 4
    select: str | tuple[float, ...] = "peaks"
    window: str = "band"
    modes: int = 8
    edges: str | None = None
    sink: str = "mask"
    sink_pod: str = "keep"
    min_query: int | None = None
    max_lag: int | None = None
    lags: str = "back"
    tolerances: tuple[float, ...] = (0.10, 0.05, 0.01)
    intervals: bool = True
    seed: int = 0
    pod: str = "exact"
    power_iterations: int = LEAST_POWER_ITERATIONS

    def __post_init__(self) -> None:
        _one_of("preset", self.preset, PRESETS, optional=True)
        _one_of("window", self.window, WINDOWS)
        _one_of("edges", self.edges, EDGES, optional=True)
        masked_keys(self.sink)
        masked_keys(self.sink_pod, "sink_pod")
        _one_of("lags", self.lags, LAGS)
        _one_of("pod", self.pod, PODS)
        if type(self.power_iterations) is not int or self.power_iterations < LEAST_POWER_ITERATIONS:
            raise UsageError(
                f"power_iterations must be a whole number of at least {LEAST_POWER_ITERATIONS}, got "
                f"{self.power_iterations!r}.",
                "With fewer the decay of a randomized POD is steeper than that of the field.",
            )
        if isinstance(self.select, str):
            _one_of("select", self.select, SELECTS)
        else:
            _positive("select", self.select)
        if self.scales is not None:
            _positive("scales", self.scales)
            if list(self.scales) != sorted(set(self.scales)):
                raise UsageError(f"scales must ascend without repeats, got {list(self.scales)}.")
        for name, least in (("dominant", 1), ("modes", 1), ("min_query", 0), ("max_lag", 2)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise UsageError(f"{name} must be a whole number of at least {least}, got {value!r}.")
        if not isinstance(self.omega0, float) or not 2 <= self.omega0 < math.inf:
            raise UsageError(
                f"omega0 must be at least 2, got {self.omega0!r}.",
                "Below 5 the wavelet has a mean of its own; 6 is usual.",
            )
        if type(self.intervals) is not bool:
            raise UsageError(f"intervals must be True or False, got {self.intervals!r}.")
        if type(self.seed) is not int or self.seed < 0:
            raise UsageError(f"seed must be a whole number of at least 0, got {self.seed!r}.")
        if not self.tolerances or any(not 0 < t < 1 for t in self.tolerances):
            raise UsageError(f"tolerances must lie between 0 and 1, got {list(self.tolerances)}.")
        if self.lags == "ahead" and self.preset != "published":
            raise UsageError(
                "lags='ahead' reads the masked half of a causal field and is there to repeat the published script.",
                "Use it with preset='published' (--preset published), or leave it out.",
            )

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form, for the provenance."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


def masked_keys(sink: str, name: str = "sink") -> int:
    """How many of the first keys are masked: 0 for ``keep``, 1 for ``mask``, K for ``first=K``.

    Raises
    ------
    UsageError
        For anything else.
    """
    if sink in SINKS:
        return int(sink == "mask")
    head, _, number = str(sink).partition("=")
    if head != "first" or not number.isdecimal() or int(number) < 1:
        raise UsageError(f"{name} must be one of {', '.join(SINKS)} or first=K with K of at least 1, got {sink!r}.")
    return int(number)


def make_options(**given: Any) -> Options:
    """Options from keyword arguments, with lists made to tuples and the preset applied.

    Raises
    ------
    UsageError
        Where a value is not one of those allowed.
    """
    for name in ("scales", "tolerances", "select"):
        value = given.get(name)
        if value is not None and not (name == "select" and isinstance(value, str)):
            if isinstance(value, str) or not hasattr(value, "__iter__"):
                raise UsageError(f"{name} must be a list of numbers, got {value!r}.")
            try:
                given[name] = tuple(float(v) for v in value)
            except (TypeError, ValueError):
                raise UsageError(f"{name} must be a list of numbers, got {value!r}.") from None
    for name, value in given.items():  # NumPy's numbers are not JSON
        if isinstance(value, np.integer | np.bool_):
            given[name] = value.item()
    if isinstance(given.get("omega0"), (int, np.floating)):
        given["omega0"] = float(given["omega0"])
    if given.get("preset") == "published":
        given = {**_PUBLISHED, **{k: v for k, v in given.items() if k in _FREE_IN_PUBLISHED}}
    return Options(**given)


def refuse_overridden(given: Mapping[str, Any]) -> None:
    """UsageError for an option, neither default nor the preset's own, that the published preset would change."""
    if given["preset"] != "published":
        return
    for name, fixed in _PUBLISHED.items():
        if isinstance(given[name], str | int | float | None) and given[name] in (fixed, getattr(Options, name)):
            continue
        raise UsageError(
            f"preset='published' fixes {name} to {fixed!r}, got {given[name]!r}.",
            f"Leave it out, or analyse without the preset. Free are: {', '.join(_FREE_IN_PUBLISHED)}.",
        )


#: What the published script does. Only the free ones can be given beside the preset.
_PUBLISHED: dict[str, Any] = {
    "preset": "published",
    "omega0": 5.0,
    "select": "top",
    "window": "lowpass",
    "edges": "replicate",
    "sink": "keep",
    "sink_pod": "keep",
    "min_query": 0,
    "max_lag": None,
}
_FREE_IN_PUBLISHED = (
    "scales", "dominant", "modes", "lags", "tolerances", "intervals", "seed", "pod", "power_iterations",
)  # fmt: skip


def _one_of(name: str, value: Any, allowed: Sequence[str], optional: bool = False) -> None:
    if value is None and optional:
        return
    if value not in allowed:
        raise UsageError(f"{name} must be one of {', '.join(allowed)}, got {value!r}.")


def _positive(name: str, values: Sequence[float]) -> None:
    if not values or any(not 0 < v < math.inf for v in values):
        raise UsageError(f"{name} must be a list of positive numbers (tokens), got {list(values)}.")
