"""The command line: ``eddyscope COMMAND``, one module for each command."""

from __future__ import annotations

import os
import sys

from eddyscope.heap import keep_freed_memory


def main() -> None:
    """Entry point of the command ``eddyscope``."""
    try:
        for stream in (sys.stdout, sys.stderr):
            # Names of layers and texts hold any character; a terminal that cannot show one is no reason to stop.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        keep_freed_memory()
        if not sys.stderr.isatty():
            os.environ.setdefault("TQDM_DISABLE", "1")  # bars of libraries, which a file would keep line by line
        from eddyscope.cli.app import app

        app(prog_name="eddyscope")
    except KeyboardInterrupt:  # before a command had begun
        sys.exit(130)
