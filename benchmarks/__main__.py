"""Command line of the benchmarks: ``python -m benchmarks [NAME] [OPTIONS]``; all of them where no name is given."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from benchmarks.keeping import add_common, placed

#: In the order in which they run; each is a module with ``run(options)``, and ``add_options(parser)`` if it has more.
#: Those that stand for a command come last, as they keep freed memory like it, which holds for the process.
NAMES = ("analysis", "pod", "capture", "growth", "memory", "heads", "whole", "cluster", "costs")


def main() -> None:
    """Measure, print tables of ratios, and keep the last run of each with the machine's description."""
    given = sys.argv[1:]
    name = given.pop(0) if given and not given[0].startswith("-") else "all"
    if name not in (*NAMES, "all"):
        raise SystemExit(f"There is no benchmark '{name}'; expected one of {', '.join(NAMES)}, or all.")
    if name == "all" and {"-h", "--help"} & set(given):
        raise SystemExit(f"{__doc__}\nNAME is one of {', '.join(NAMES)}; --help after a name shows its options.")
    for chosen in NAMES if name == "all" else (name,):
        module = import_module(f"benchmarks.{chosen}")
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks {chosen}", description=module.run.__doc__)
        add_common(parser, getattr(module, "REPEATS", 5))
        if hasattr(module, "add_options"):
            module.add_options(parser)
        module.run(placed(parser.parse_args(given)))


if __name__ == "__main__":
    main()
