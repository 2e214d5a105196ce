"""Command line of the benchmarks: run, print ratios, keep the last run with the machine's description."""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks import analysis
from benchmarks.machine import CAPTURE_PACKAGES, describe

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Time the analysis against a peer, or capture against reading; write a table and all figures."""
    options = _options()
    if options.what == "capture":
        _capture(options)
    else:
        _analysis(options)
    print(f"Kept in {options.out}.")


def _capture(options: argparse.Namespace) -> None:
    """Run the capture benchmark and write ``capture.json`` and ``capture.md``."""
    from benchmarks import capture

    machine = describe(CAPTURE_PACKAGES)
    timer = time.process_time if options.cpu_time else time.perf_counter
    measured = capture.measure(capture.Setting(), 1 if options.quick else options.repeats, not options.quick, timer)
    record = {"date": datetime.now(UTC).strftime("%Y-%m-%d"), **capture.as_record(measured, machine)}
    _keep(options.out, "capture", record, capture.markdown(measured, machine))


def _analysis(options: argparse.Namespace) -> None:
    """Run the analysis benchmark and write ``analysis.json`` and ``analysis.md``."""
    machine = describe()
    setting = analysis.Setting(options.documents, options.context, options.seed)
    repeats = 1 if options.quick else options.repeats
    slow_repeats = 1 if options.quick else options.slow_repeats
    timer = time.process_time if options.cpu_time else time.perf_counter
    measured = analysis.measure(setting, repeats, slow_repeats, not options.quick, timer)
    _keep(options.out, "analysis", as_record(measured, machine), markdown(measured, machine))


def _keep(folder: Path, name: str, record: dict[str, object], table: str) -> None:
    """Print the table, and write it and the figures."""
    print(table)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / f"{name}.json", json.dumps(record, indent=2) + "\n")
    _write(folder / f"{name}.md", table)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument(
        "what", nargs="?", choices=("analysis", "capture"), default="analysis", help="what to time (analysis)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="rounds of ours and peer in alternation (5)")
    parser.add_argument("--slow-repeats", type=int, default=1, help="repeats of the rows beside the target (1)")
    parser.add_argument("--quick", action="store_true", help="one round, without the slowest row or peak memory")
    parser.add_argument(
        "--cpu-time", action="store_true", help="CPU seconds, all threads added up; for a busy machine, with one thread"
    )
    parser.add_argument("--documents", type=int, default=150, help="snapshots (150)")
    parser.add_argument("--context", type=int, default=256, help="tokens of a snapshot (256)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the synthetic attention (0)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the result (benchmarks/results)")
    options = parser.parse_args()
    if options.documents < 40 or options.context < 64:
        parser.error(
            f"at least 40 documents and a context of 64 are needed, got {options.documents} and {options.context}: "
            "the default solver's row asks for 30 components, and the bands need room"
        )
    return options


def as_record(measured: analysis.Measured, machine: dict[str, object]) -> dict[str, object]:
    """All figures of a run, for the file."""
    setting = measured.setting
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine,
        "clock": _clock(measured),
        "setting": {
            "documents": setting.documents,
            "context": setting.context,
            "scales": [round(float(a), 4) for a in setting.scales],
            "bands": [round(a, 4) for a in setting.bands],
            "seed": setting.seed,
        },
        "seconds": {name: [round(t, 4) for t in times] for name, times in measured.seconds.items()},
        "ratios": {name: round(measured.ratio(measured.total(parts)), 1) for name, parts in analysis.TOTALS.items()},
        "agreement": {name: float(f"{value:.2g}") for name, value in measured.agreement.items()},
    }


def markdown(measured: analysis.Measured, machine: dict[str, object]) -> str:
    """The table of a run, with the machine it was measured on."""
    setting = measured.setting
    rows = [(name, times) for name, times in measured.seconds.items()]
    rows += [(f"**{name}**", measured.total(parts)) for name, parts in analysis.TOTALS.items()]
    lines = [
        f"One layer, {setting.documents} snapshots of {setting.context} x {setting.context}, "
        f"{len(setting.scales)} scales, {len(setting.bands)} bands.",
        "",
        f"| work | {_clock(measured)} (median) | repeats | times ours |",
        "|---|---:|---:|---:|",
        *(f"| {name} | {median(t):.3f} | {len(t)} | {measured.ratio(t):.1f} |" for name, t in rows),
        "",
        f"Machine: {machine['processor']}, {machine['cores']} cores, threads {machine['threads']}, load at the start "
        f"{machine['load_at_start']}; Python {machine['python']}, "
        + ", ".join(f"{name} {number}" for name, number in dict(machine["versions"]).items())  # type: ignore[call-overload]
        + ".",
        "",
        "Largest differences between the numbers of both: "
        + ", ".join(f"{name} {value:.1g}" for name, value in measured.agreement.items())
        + ".",
        "",
    ]
    return "\n".join(lines)


def _clock(measured: analysis.Measured) -> str:
    return "CPU seconds" if measured.timer is time.process_time else "seconds"


def _write(path: Path, text: str) -> None:
    beside = path.with_name(path.name + ".part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


if __name__ == "__main__":
    main()
