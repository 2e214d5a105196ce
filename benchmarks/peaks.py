"""Peak memory of a piece of work, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def begin_anew() -> None:
    """Let the peak of this process begin at what it holds now (Linux)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_mib() -> float:
    """The most memory that this process has held, in MiB (Linux); unlike ``ru_maxrss`` not that of its parent too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def alone(module: str, *arguments: object) -> Any:
    """What ``python -m MODULE ARGUMENTS`` prints as its last line, as JSON.

    Raises
    ------
    SystemExit
        Where it fails, with what it said.
    """
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"'{' '.join(command[1:])}' failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
