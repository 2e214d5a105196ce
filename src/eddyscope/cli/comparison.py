"""The printed form of a comparison: which differences hold, layer by layer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eddyscope.comparison.compare import Comparison

#: Columns of the table: measure, heading, digits.
_COLUMNS = {
    "mean_octave": ("mean octave", 2),
    "near_share": ("within 8", 3),
    "fluctuation_level": ("fluct", 3),
    "participation_ratio": ("PR", 3),
    "lag_participation_ratio": ("lag PR", 3),
    "lag_beta_resolved": ("lag beta", 2),
    "sink_mass": ("sink", 4),
}
_LEVEL = 0.05


def print_comparison(comparison: Comparison, out: Path | None) -> None:
    """Print notes, the differences of each layer to the reference and, of a series, when layers move."""
    console = Console(highlight=False, markup=False)
    console.print(Text(f"Reference: {comparison.labels[0]}", style="bold"))
    for note in comparison.notes:
        console.print(f"- {note}", soft_wrap=True)
    if comparison.series is not None:
        console.print()
        console.print(_series(comparison.series))
        console.print(
            "Mean octave: log2(1 + distance) at which the fluctuation sits, on average. moves: the step from which on "
            "the layer differs from the first checkpoint; half, settled: from which on half and nine tenths of the "
            "way to the last one are made.",
            soft_wrap=True,
        )
    else:
        for label in comparison.labels[1:]:
            console.print()
            console.print(Text(f"{label} against {comparison.labels[0]}", style="bold"))
            console.print(_differences(comparison.differences[comparison.differences["subject"] == label]))
        console.print(
            "Differences, PR and lag PR as ratios; * holds after Holm's correction over layers and measures. The 95 % "
            "intervals are in differences.csv (--out), or in Python in compare(...).differences.",
            soft_wrap=True,
        )
    if out is not None:
        console.print(f"\nThe tables and figures are in {out}.", soft_wrap=True)


def _differences(table: pd.DataFrame) -> Table:
    heads = table["head"].nunique() > 1
    shown = Table(box=None, pad_edge=False, header_style="")
    shown.add_column("layer", justify="right")
    if heads:
        shown.add_column("head", justify="right")
    for heading, _ in _COLUMNS.values():
        shown.add_column(heading, justify="right")
    for (layer, head), rows in table.groupby(["layer", "head"], sort=False):
        by_name = {str(row["measure"]): row for _, row in rows.iterrows()}
        cells = [_cell(by_name[name], digits) for name, (_, digits) in _COLUMNS.items()]
        shown.add_row(str(layer), *([str(head)] if heads else []), *cells)
    return shown


def _cell(row: pd.Series[Any], digits: int) -> str:
    value = float(row["difference"])
    if not math.isfinite(value):
        return "-"
    star = "*" if float(row["p_holm"]) < _LEVEL else " "
    return (f"x{value:.{digits}g}" if row["kind"] == "ratio" else f"{value:+.{digits}f}") + star


def _series(table: pd.DataFrame) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="")
    for heading in ("layer", "head", "first", "last", "change", "moves", "half", "settled"):
        shown.add_column(heading, justify="right")
    for _, row in table.iterrows():
        change = f"{row['change']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})"
        steps = [("-" if pd.isna(row[name]) else f"{row[name]:g}") for name in ("moves_at", "half_at", "settled_at")]
        shown.add_row(str(row["layer"]), str(row["head"]), f"{row['first']:.2f}", f"{row['last']:.2f}", change, *steps)
    return shown
