"""How much of the memory that was freed glibc keeps for what comes next."""

from __future__ import annotations

import ctypes
import os
import sys

#: Parameters of ``mallopt`` (malloc.h) by number: M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, in bytes. Here glibc itself
#: would arrive once blocks of 32 MB had been freed.
_KEPT = {-3: 32 << 20, -1: 64 << 20}
#: Environment by which a user decides.
_DECIDED = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory(*, override: bool = False) -> None:
    """Keep freed blocks of up to 32 MB in this process.

    The attention of a layer comes and goes with every batch. By default glibc gives much of it back to the system,
    which then maps and clears the same pages again for the next layer. It is for programs to call and not for a
    library: it holds for the whole process, and cannot be undone. Without glibc nothing happens.

    Parameters
    ----------
    override : bool
        Do so also where the environment says how much is kept.
    """
    if sys.platform != "linux" or (not override and any(name in os.environ for name in _DECIDED)):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, size in _KEPT.items():
            mallopt(parameter, size)
