"""What every worker that was started here does first."""

from __future__ import annotations

import signal
from typing import Any

from eddyscope.heap import keep_freed_memory


def dask_setup(worker: Any) -> None:
    """Leave an interrupt to the caller, which ends its workers; a terminal sends it to all processes at once.

    Dask has its workers give back all that they free (``MALLOC_TRIM_THRESHOLD_``); here the same blocks are wanted
    again and again.
    """
    keep_freed_memory(override=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
