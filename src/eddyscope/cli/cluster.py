"""Options of commands that share their work among processes or machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eddyscope.cli.guard import is_debug
from eddyscope.errors import UsageError

if TYPE_CHECKING:
    from eddyscope.cli.progress import Display

CLUSTER = "Cluster"


@dataclass(frozen=True)
class Sharing:
    """Who does the work."""

    workers: int | None
    dask: str | None

    def __bool__(self) -> bool:
        """Whether others than this process do."""
        return self.workers is not None or self.dask is not None


def sharing_options(
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes on this machine that share the work, one thread each (extra cluster).",
            metavar="NUMBER",
            show_default="this process alone",
            min=1,
            rich_help_panel=CLUSTER,
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            help="Address of the scheduler of a Dask cluster whose workers share the work, such as "
            "tcp://10.0.0.5:8786.",
            metavar="ADDRESS",
            show_default=False,
            rich_help_panel=CLUSTER,
        ),
    ] = None,
) -> Sharing:
    """Who does the work; refuses what is no address before a model is loaded."""
    sharing = Sharing(workers, dask)
    if sharing:
        from eddyscope.cluster.address import checked

        try:
            checked(workers, dask)
        except UsageError as error:
            raise UsageError(error.message.replace("dask is", "--dask is"), error.remedy) from None
    return sharing


@contextmanager
def shared(sharing: Sharing, display: Display, invocation: typer.Context) -> Iterator[dict[str, Any]]:
    """The cluster for as long as a command needs it, as an argument of what shares its work."""
    if not sharing:
        yield {}
        return
    from eddyscope.cluster.engine import connected

    what = f"Starting {sharing.workers} workers" if sharing.dask is None else f"Joining {sharing.dask}"
    with ExitStack() as stack:
        with display.stage("starting", what):
            engine = stack.enter_context(connected(sharing.workers, sharing.dask, loud=is_debug(invocation)))
        yield {"dask": engine.client}
