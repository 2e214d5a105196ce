"""``eddyscope compare``: studies side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eddyscope.cli.guard import command_line
from eddyscope.errors import UsageError

if TYPE_CHECKING:
    from eddyscope.study.study import Study


def compare_command(
    invocation: typer.Context,
    studies: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STUDY...",
            help="Folders of runs, or studies saved as Zarr; the first is the reference. With --group: more groups.",
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            help="Studies of several training seeds of one architecture; more groups may follow.",
            metavar="NAME=STUDY,STUDY,...",
            show_default=False,
        ),
    ] = None,
    over: Annotated[
        str | None,
        typer.Option(
            help="The studies are checkpoints of one training run; their folders end in the step.",
            metavar="step",
            show_default=False,
        ),
    ] = None,
    paired: Annotated[
        bool, typer.Option("--paired", help="Studies of arrays, of which this is not known, read the same documents.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for tables and figures; missing or empty.", metavar="DIR", show_default=False),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the results of an earlier run in the folder.")
    ] = False,
    figures: Annotated[bool, typer.Option(" /--no-figures", help="Leave out the figures.", show_default=False)] = True,
    report: Annotated[
        bool, typer.Option(" /--no-report", help="Leave out the report, report.html.", show_default=False)
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")] = False,
) -> None:
    """Compare studies layer by layer, with intervals paired over the documents that they share.

    Where tokenizers or texts differ they are not paired, and a note says so; distances then stand in characters too.
    With --out: the tables as CSV, figures, and a report of the studies beside each other.

    Example: eddyscope compare base ega-1 --out compared

    Example: eddyscope compare --group base=b0,b1,b2 ega-1=e0,e1,e2 --out seeds

    Example: eddyscope compare --over step step-0 step-100 step-1500 --out series
    """
    from eddyscope.cli.progress import Display
    from eddyscope.comparison.compare import compare

    display = Display(quiet)
    with display.collecting():
        if group:
            named = [*group, *(studies or [])]
            with display.stage("reading", "Reading the studies"):
                groups = {name: [_open(path) for path in paths] for name, paths in _groups(named).items()}
            found = compare(groups=groups, over=over, paired=paired or None)
            shown = {f"{name} {i + 1}": study for name, members in groups.items() for i, study in enumerate(members)}
        else:
            paths = list(studies or [])
            if len(paths) < 2:
                raise UsageError(
                    f"A comparison needs at least two studies, got {len(paths)}.",
                    "Give folders of runs, or groups of them: --group base=a,b,c ega-1=d,e,f.",
                )
            with display.stage("reading", "Reading the studies"):
                opened = [_open(path) for path in paths]
            found = compare(*opened, labels=_labels(paths), over=over, paired=paired or None)
            shown = dict(zip(_labels(paths), opened, strict=True))
        if out is not None:
            from eddyscope.comparison.write import write_comparison

            command = command_line(invocation)
            with display.stage("writing", "Writing tables and figures"):
                write_comparison(
                    found, out, force=force, figures=figures, command=command, studies=shown if report else None
                )
    if not quiet:
        from eddyscope.cli.comparison import print_comparison

        print_comparison(found, out)


def _open(path: str) -> Study:
    from eddyscope.store import open_study

    return open_study(path.strip())


def _groups(texts: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, paths in map(_group, texts):
        if name in found:
            raise UsageError(f"The group '{name}' is given twice.", f"Write all of its studies after one '{name}='.")
        found[name] = paths
    return found


def _group(text: str) -> tuple[str, list[str]]:
    name, equals, paths = text.partition("=")
    members = [path for path in paths.split(",") if path.strip()]
    if not equals or not name.strip() or not members:
        raise UsageError(f"'{text}' is not a group.", "Write NAME=STUDY,STUDY,... such as base=run0,run1,run2.")
    return name.strip(), members


def _labels(paths: list[str]) -> list[str]:
    """Last parts of the paths; as much more of each as tells them apart."""
    parts = [Path(path).absolute().parts for path in paths]
    parts = [p[:-1] if p[-1] == "study.zarr" and len(p) > 2 else p for p in parts]
    for depth in range(1, max(map(len, parts)) + 1):
        labels = ["/".join(p[-depth:]) for p in parts]
        if len(set(labels)) == len(labels):
            return labels
    return paths
