"""Peak memory of a process of its own: what a test process held before must not count."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def peak_bytes() -> int:
    """The most memory that this process held at once, in bytes.

    On Linux from `VmHWM`: `ru_maxrss` of a new process begins with the peak of the process that started it.
    """
    if os.path.exists("/proc/self/status"):
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def run_alone(script: str, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own that may import this module and the helpers beside the tests."""
    here = Path(__file__).parent
    paths = [here, here / "capture", *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=check,
        # What is freed goes back at once above this size: what glibc keeps of it varies by 5 % between runs.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "MALLOC_MMAP_THRESHOLD_": str(4 << 20)},
    )
