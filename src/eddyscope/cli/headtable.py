"""The printed form of a plan of heads."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eddyscope.interventions.heads.study import HeadStudy
from eddyscope.report.heads import rank_correlation

_COST = {
    "parameters": "parameters",
    "kv_cache_bytes_per_token": "key-value cache, bytes a token",
    "attention_flops_per_token": "attention arithmetic a token, FLOP",
    "tokens_per_second": "tokens a second",
    "peak_memory_bytes": "memory of a forward pass, bytes",
}


def print_heads(found: HeadStudy, out: Path) -> None:
    """Print what each layer keeps, what that costs and what it saves."""
    console = Console(highlight=False, markup=False)
    plan, loss = found.plan, found.plan.loss
    kept = f"{plan.patterns} of {plan.heads} heads keep a pattern of their own"
    console.print(Text(f"{kept}; the others use mixes ({plan.criterion})"))
    console.print(_layers(found))
    console.print(
        f"\n{loss['measure'].capitalize()} on {loss['documents']} unseen documents: {loss['before']:.4f} before, "
        f"{loss['after']:.4f} after; rise {loss['rise']:.4f}{_bounds(loss['interval'])} {loss['unit']}.",
        soft_wrap=True,
    )
    for name, other in loss["compared"].items():
        console.print(f"{name.capitalize()}: rise {other['rise']:.4f}{_bounds(other['interval'])}.", soft_wrap=True)
    console.print(_cost(found))
    console.print(f"Timed: {plan.cost['timed']}, context {plan.cost['context']}.", soft_wrap=True)
    if found.curve is not None:
        console.print(f"\nRise of the loss over the number of patterns kept, {loss['unit']}")
        console.print(_curve(found.curve))
    if found.alone is not None and found.effective_ranks is not None:
        for column, words in (("half", "half of its patterns"), ("one", "one pattern")):
            rho, p = rank_correlation(found.effective_ranks, found.alone[column])
            console.print(
                f"H* against the rise where a layer alone keeps {words}: rank correlation {rho:+.2f} (p {p:.2g}, "
                f"{len(found.alone)} layers).",
                soft_wrap=True,
            )
    console.print(f"\nThe results are in {out}: start with heads.json.", soft_wrap=True)


def _bounds(interval: list[float] | None) -> str:
    return "" if interval is None else f" ({interval[0]:.4f} to {interval[1]:.4f})"


def _layers(found: HeadStudy) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="")
    for heading in ("layer", "heads", "kept", "effective patterns (95 %)", "raw", "which"):
        shown.add_column(heading, justify="left" if heading in ("layer", "which") else "right")
    for row in found.table().to_dict("records"):
        low, high = row["effective_patterns_low"], row["effective_patterns_high"]
        bounds = f" ({low:.1f} to {high:.1f})" if low == low else ""
        shown.add_row(
            str(row["layer"]),
            str(row["heads"]),
            str(row["patterns_kept"]),
            f"{row['effective_patterns']:.1f}{bounds}",
            f"{row['effective_patterns_raw']:.1f}",
            str(row["heads_kept"]),
        )
    return shown


def _cost(found: HeadStudy) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="")
    for heading in ("", "before", "after"):
        shown.add_column(heading, justify="right" if heading else "left")
    for name, words in _COST.items():
        pair = found.plan.cost[name]
        shown.add_row(words, f"{pair['before']:,.0f}", f"{pair['after']:,.0f}")
    return shown


def _curve(curve: pd.DataFrame) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="")
    wide = curve.pivot_table(index=["lost", "chosen_by"], columns="patterns", values="rise", sort=False)
    wide = wide[sorted(wide.columns, reverse=True)]
    shown.add_column("the others")
    shown.add_column("chosen by", overflow="fold")  # the one column that may take more than a line
    for patterns in wide.columns:
        shown.add_column(str(patterns), justify="right", no_wrap=True)
    for row in wide.reset_index().itertuples(index=False):
        lost, chosen, *rises = row
        shown.add_row(str(lost), str(chosen), *(f"{rise:.3f}" for rise in rises))
    return shown
