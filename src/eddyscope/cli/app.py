"""The commands, registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from eddyscope import __version__
from eddyscope.cli.analyze import analyze_command
from eddyscope.cli.capture import capture_command
from eddyscope.cli.check import check_command
from eddyscope.cli.compare import compare_command
from eddyscope.cli.demo import demo_command
from eddyscope.cli.figures import figures_command
from eddyscope.cli.guard import guarded
from eddyscope.cli.heads import heads_command
from eddyscope.cli.info import info_command
from eddyscope.cli.plan import plan_command
from eddyscope.cli.report import report_command
from eddyscope.cli.reproduce import reproduce_command
from eddyscope.cli.run import run_command
from eddyscope.cli.sample import sample_command
from eddyscope.cli.show import show_command
from eddyscope.cli.train import train_command
from eddyscope.cli.windows import windows_command

COMMANDS: dict[str, Callable[..., None]] = {
    "run": run_command,
    "capture": capture_command,
    "analyze": analyze_command,
    "show": show_command,
    "report": report_command,
    "figures": figures_command,
    "compare": compare_command,
    "reproduce": reproduce_command,
    "plan": plan_command,
    "heads": heads_command,
    "windows": windows_command,
    "check": check_command,
    "demo": demo_command,
    "train": train_command,
    "sample": sample_command,
    "info": info_command,
}


class _Group(TyperGroup):
    """Keeps the command line, for the record of a run."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["eddyscope.arguments"] = list(args)
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_Group, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"eddyscope {__version__}")
        raise typer.Exit


@app.callback()
def eddyscope(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Listen to a transformer's attention: at which distances each layer works, which patterns recur, how complex.

    Example: eddyscope run ./model --text book.txt --out study
    """


for _name, _command in COMMANDS.items():
    app.command(_name)(guarded(_command))
