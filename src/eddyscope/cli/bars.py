"""Small bar charts for the terminal: where each layer's fluctuation lies, and how much there is of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import xarray as xr
from rich.console import Console
from rich.text import Text

from eddyscope.study.study import Study
from eddyscope.study.summary import octave_labels

#: Columns of a terminal that is narrow, or of a file.
_COLUMNS = 80
_NAME = 8
#: Eighths of a block, and what stands for them where the terminal has no such signs.
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_PLAIN = "#"


def print_bars(console: Console, study: Study, names: Mapping[str, str]) -> None:
    """Print one row a layer; of single heads the mean.

    Parameters
    ----------
    console : rich Console
        Signs other than ASCII and colours only where it is a terminal that shows them.
    study : Study
    names : mapping of str to str
        Short name of each layer.
    """
    blocks = console.is_terminal and console.encoding.lower().startswith("utf")
    layers = {name: study.packed(name) for name in study.layers}
    shares = {name: _shares(data) for name, data in layers.items()}
    labels = max((_labels(data) for data in layers.values()), key=len, default=[])
    if labels and any(np.isfinite(share).any() for share in shares.values()):
        _print_shares(console, {names[name]: share for name, share in shares.items()}, labels, blocks)
    levels = {names[name]: _mean(data, "fluctuation_level") for name, data in layers.items()}
    if any(math.isfinite(level) for level in levels.values()):
        console.print("\nShare of the squared attention that differs from document to document", style="bold")
        for name, level in levels.items():
            _print_row(console, name, [(bar(level, 40, blocks), 40)], f" {_percent(level)}")


def bar(share: float, width: int, blocks: bool) -> str:
    """A bar for a share of 0 to 1, ``width`` signs at 1; what is there but too short to see is one dot."""
    if not math.isfinite(share):
        return "-"
    if not blocks:
        whole = round(share * width)
        return _PLAIN * whole if whole else "." if share > 0 else ""
    eighths = round(share * width * 8)
    if not eighths:
        return _EIGHTHS[1] if share > 0 else ""
    return _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _print_shares(console: Console, shares: Mapping[str, np.ndarray], labels: list[str], blocks: bool) -> None:
    width = max(3, min(12, (min(console.width, _COLUMNS) - _NAME) // len(labels) - 1))
    few = labels if max(map(len, labels)) <= width else [label.split("-")[0] for label in labels]
    console.print("\nShare of the fluctuation at each distance, tokens (full width: all of it)", style="bold")
    _print_row(console, "", [(label[:width], width) for label in few], "")
    for name, share in shares.items():
        padded = [*share, *[float("nan")] * (len(labels) - len(share))]
        _print_row(console, name, [(bar(float(s), width, blocks), width) for s in padded], "")


def _print_row(console: Console, name: str, cells: list[tuple[str, int]], after: str) -> None:
    line = Text(f"{name[:_NAME]:<{_NAME}}")
    for cell, width in cells:
        line.append(f"{cell:<{width}} ", style="blue" if cell[:1] in (*_EIGHTHS[1:], _PLAIN) else "")
    line.append(after.strip())
    line.rstrip()
    console.print(line, soft_wrap=True)


def _labels(data: xr.Dataset) -> list[str]:
    return octave_labels(data) if "octave_last" in data.variables else []


def _shares(data: xr.Dataset) -> np.ndarray:
    """Share by octave: both sides of a two-sided layer together, the mean over heads."""
    if "octave_share" not in data:
        return np.zeros(0)
    share = data["octave_share"]
    if "side" in share.dims:
        share = share.sum("side", skipna=False)
    if "head" in share.dims:
        share = share.mean("head")
    return np.asarray(share.values)


def _mean(data: xr.Dataset, name: str) -> float:
    return float(data[name].mean()) if name in data else float("nan")


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if math.isfinite(share) else ""
