"""How many workers, or which scheduler: checked before anything is started."""

from __future__ import annotations

import re
from typing import Any

from eddyscope.errors import MissingDependencyError, UsageError

#: Protocols of Dask by which a scheduler can be reached from another process.
PROTOCOLS = ("tcp", "tls", "ucx", "ws", "wss")
_ADDRESS = re.compile(rf"(?:{'|'.join(PROTOCOLS)})://(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.\-]+):(?P<port>\d{{1,5}})")


def checked(workers: Any, dask: Any) -> None:
    """Refuse what is no number of workers and no address of a scheduler.

    Parameters
    ----------
    workers : int or None
        Processes of a cluster on this machine.
    dask : str, distributed.Client or None
        Address of a scheduler, such as ``tcp://10.0.0.5:8786``, or a client of it.

    Raises
    ------
    UsageError
        Where both are given, or either is none of these.
    MissingDependencyError
        Where Dask is not installed.
    """
    if workers is None and dask is None:
        return
    if workers is not None and dask is not None:
        raise UsageError("workers and dask (--workers, --dask) were both given: a cluster is started or joined.")
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise UsageError(f"workers is {workers!r}, expected a whole number of processes, at least 1.")
    if isinstance(dask, str):
        _expect_address(dask)
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingDependencyError("distributed", "Work on several processes or machines", "cluster") from error
    if dask is not None and not isinstance(dask, (str, Client)):
        raise UsageError(f"dask is {type(dask).__name__}, expected the address of a scheduler, or a Client of it.")


def _expect_address(address: str) -> None:
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"]) < 2**16:
        raise UsageError(
            f"dask is '{address}', expected the address of a scheduler such as tcp://10.0.0.5:8786.",
            "The scheduler prints it when it starts.",
        )
