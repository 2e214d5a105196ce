"""What every worker that was started here does first."""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Leave an interrupt to the caller, which ends its workers; a terminal sends it to all processes at once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
