"""``eddyscope check``: whether a model's attention is read right, before anything is measured."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eddyscope.cli.guard import is_debug
from eddyscope.cli.shared import ModelName, layer_list, model_options, takes

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from eddyscope.ensemble import AttentionEnsemble


@takes(loading=model_options)
def check_command(
    invocation: typer.Context,
    model: ModelName,
    layers: Annotated[
        str | None,
        typer.Option(help="Layers to capture, by position or name, such as 0,3,5.", metavar="LIST", show_default="all"),
    ] = None,
    *,
    loading: dict[str, Any],
) -> None:
    """Let a model read a few random tokens, and check that its attention is read as the model computes it.

    Prints how many layers passed each check; the exit status is 1 where one did not.

    Example: eddyscope check ./model
    """
    from eddyscope.cli.progress import Display, quiet_libraries

    display = Display(quiet=False)
    with display.collecting():
        with quiet_libraries(loud=is_debug(invocation)), display.stage("loading", f"Loading {model}"):
            from eddyscope.cli.model import resolve_model

            loaded = resolve_model(model, **loading)
        from eddyscope.capture.selfcheck import check_table, checked

        wanted = layer_list(layers)
        with display.stage("checking", "Checking"):
            ensemble = checked(loaded.model, layers=None if wanted is None else tuple(wanted), device=loading["device"])
    table = check_table(ensemble)
    print_checks(table, ensemble, model)
    if not table["passed"].all():
        sys.stdout.flush()
        raise typer.Exit(1)


def print_checks(table: pd.DataFrame, ensemble: AttentionEnsemble, name: str) -> None:
    """Print what was read, one line for each check, and every layer that failed one."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    _print_rows(console, [("model", f"{name} ({ensemble.provenance['model']['class']})"), *_facts(ensemble)])
    _print_table(console, table)
    if (table["check"] == "looks ahead").any():
        value = table.loc[table["check"] == "looks ahead", "value"].max()
        console.print(
            "\nLooks ahead, as known of this kind of model, which is no failure: attention of earlier tokens moves by "
            f"up to {value:.2g} when later tokens change."
        )
    failed = table[~table["passed"].astype(bool)]
    if failed.empty:
        console.print("\nAll checks passed.")
        return
    console.print("\nFailed", style="bold red")
    for _, row in failed.iterrows():
        where = "" if row["layer"] is None else f" in layer {row['layer']}"
        note = f" ({row['note']})" if row["note"] else ""
        text = f"{row['check']}{where}: {row['value']:.3g}, tolerance {row['tolerance']:.3g}{note}"
        console.print(text, soft_wrap=True)  # a line each, to be searched


def _facts(ensemble: AttentionEnsemble) -> Iterator[tuple[str, str]]:
    """What is known of the model and of how it was read, one line each."""
    provenance, layers = ensemble.provenance, list(ensemble.info.values())
    text = provenance["options"]["layers"]
    kinds = ["causal" if ensemble[layer.name].causal else "two-sided" for layer in layers]
    yield "source", f"{provenance['source']}, {provenance['way']}"
    yield "layers", f"{len(layers)}{'' if text is None else ' captured'}: {_counted(kinds)}"
    yield "heads", _counted(layer.query_heads for layer in layers)
    yield "key-value heads", _counted(layer.key_value_heads for layer in layers)
    yield "windows", _counted("none" if layer.window is None else f"{layer.window} tokens" for layer in layers)
    unread = provenance["layers_without_attention"]
    if unread:
        yield "no attention", f"{len(unread)} layers: {_counted(unread.values())}"


def _counted(values: Iterable[object]) -> str:
    """The value that all layers share, or each value with the number of its layers."""
    counts = Counter(str(value) for value in values)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{value} in {count} {'layer' if count == 1 else 'layers'}" for value, count in counts.items())


def _print_rows(console: Console, rows: Iterable[tuple[str, str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(Text(name), Text(text))
    console.print(grid)


def _print_table(console: Console, table: pd.DataFrame) -> None:
    """One line for each check, with the worst value; what is checked again of all documents has a line of its own."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    made.add_column("check", no_wrap=True)
    made.add_column("passed", no_wrap=True)
    for name in ("largest", "tolerance"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("", overflow="fold")
    again = table["note"].str.contains("all documents")
    for _, rows in table.groupby([table["check"], again], sort=False):
        made.add_row(*map(Text, _line(rows)))
    console.print()
    console.print(made)


def _line(rows: pd.DataFrame) -> tuple[str, str, str, str, str]:
    check, passed = str(rows["check"].iloc[0]), int(rows["passed"].sum())
    unit = "" if rows["layer"].isna().all() else " layers" if len(rows) > 1 else " layer"
    of = f"{passed} of {len(rows)}{unit}" if unit else "yes" if passed else "no"
    note = rows["note"].iloc[0] if rows["note"].nunique() == 1 else ""
    if check == "shape":  # numbers of heads, not a deviation and its bound
        return check, of, "", "", note
    worst = f"{rows['value'].max(skipna=False):.2g}"
    if check == "looks ahead":  # said below in words
        return check, "noted", worst, "", ""
    return check, of, worst, f"{rows['tolerance'].max():.2g}", note
