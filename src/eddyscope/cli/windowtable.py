"""The printed form of windows that were found."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eddyscope.interventions.windows.find import Windows
from eddyscope.interventions.windows.plan import WindowPlan

#: Most windows of the curve that are printed.
_COLUMNS = 9


def print_windows(found: Windows, out: Path, modes: pd.DataFrame | None = None) -> None:
    """Print the curve with the windows of the plan, and what each plan costs and saves."""
    console = Console(highlight=False, markup=False)
    if len(found.curve) and found.curve["head"].nunique() == 1:
        console.print(Text(f"Rise of the loss when one layer sees only the last w tokens, {_unit(found.plan)}"))
        console.print(_curve(found.curve, found.plan))
        console.print()
    console.print(_plans(found.plans))
    if modes is not None:
        console.print()
        console.print(_modes(modes))
    for note in found.notes:
        console.print(f"- {note}", soft_wrap=True)
    console.print(f"\nThe results are in {out}: start with windows.json.", soft_wrap=True)


def _unit(plan: WindowPlan) -> str:
    return str(plan.measured["unit"])


def _curve(curve: pd.DataFrame, plan: WindowPlan) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="")
    windows = sorted(curve["window"].unique())
    windows = windows[:: max(1, -(-len(windows) // _COLUMNS))]
    shown.add_column("layer", justify="right")
    for window in windows:
        shown.add_column(f"w {window}", justify="right")
    shown.add_column("window", justify="right")
    for layer, own in curve.groupby("layer"):
        rises = own.set_index("window")["rise"]
        cells = [f"{rises[w]:.3f}".replace("-0.000", "0.000") for w in windows]
        shown.add_row(str(layer), *cells, str(plan.layers[int(str(layer))].window))
    return shown


def _plans(plans: tuple[WindowPlan, ...]) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="")
    for heading in ("allowed", "rise on unseen documents", "cache left", "attention arithmetic left"):
        shown.add_column(heading, justify="right")
    for plan in plans:
        loss, cost = plan.measured["loss"], plan.measured["cost"]
        bounds = "" if loss["interval"] is None else f" ({loss['interval'][0]:.4f} to {loss['interval'][1]:.4f})"
        cache = "-" if cost["cache_share"] is None else f"{100 * cost['cache_share']:.1f} %"
        shown.add_row(
            f"{plan.measured['max_loss_rise']:g}",
            f"{loss['rise']:.4f}{bounds}",
            cache,
            f"{100 * cost['flops_share']:.1f} %",
        )
    return shown


def _modes(modes: pd.DataFrame) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="")
    for heading in ("layer", "band", "mode", "energy share", "rise without it", "as much at random", "difference"):
        shown.add_column(heading, justify="right")
    for _, row in modes.iterrows():
        bounds = "" if pd.isna(row["beyond_low"]) else f" ({row['beyond_low']:.4f} to {row['beyond_high']:.4f})"
        shown.add_row(
            str(row["layer"]),
            str(row["band"]),
            str(row["mode"]) if row["mode"] else "all",
            f"{row['share']:.3f}",
            f"{row['rise']:.4f}",
            f"{row['random_rise']:.4f}",
            f"{row['beyond']:.4f}{bounds}",
        )
    return shown
