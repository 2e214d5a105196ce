"""How time and memory grow with documents, tokens, heads, scales and bands.

Every point is a process of its own: ``python -m benchmarks.growth '{"documents": 150, ...}'`` prints its seconds and
its peak memory. Fields are synthetic.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

import eddyscope as es
from benchmarks.data import synthetic_attention
from benchmarks.keeping import keep, machine_line
from benchmarks.machine import describe
from benchmarks.peaks import alone, peak_mib
from eddyscope.lagfield import LagField
from eddyscope.statistics import collect

#: What each series starts from.
CENTRE: dict[str, int] = {"documents": 150, "tokens": 128, "heads": 1, "scales": 20, "bands": 4}
SERIES: dict[str, tuple[int, ...]] = {
    "documents": (50, 150, 500, 1500),
    "tokens": (128, 256, 512, 1024, 2048),
    "heads": (1, 2, 4, 8),
    "scales": (5, 10, 20, 40, 80),
    "bands": (1, 2, 4, 8),
}
#: Documents of the series along tokens, so that the longest fit in memory.
FEW = 24
STREAMED = (500, 1000, 2000, 5000, 10000)
SHARD = 50


def run(options: argparse.Namespace) -> None:
    """Measure growth with documents, tokens, heads, scales and bands, in fields and in statistics mode."""
    machine = describe(("eddyscope", "numpy", "scipy"))
    repeats = 1 if options.quick else options.repeats
    points: dict[str, list[dict[str, Any]]] = {}
    for name, values in SERIES.items():
        start = CENTRE | ({"documents": FEW} if name == "tokens" else {})
        chosen = values[:2] if options.quick else values
        points[name] = [_point(name, start | {name: value}, repeats, options.cpu_time) for value in chosen]
    streamed = STREAMED[:2] if options.quick else STREAMED
    small = {"tokens": CENTRE["tokens"]}
    points["statistics"] = [_point("streamed", small | {"streamed": n}, repeats, options.cpu_time) for n in streamed]
    record = {
        "machine": machine,
        "clock": "CPU seconds" if options.cpu_time else "seconds",
        "points": points,
        "exponents": {name: exponent(series) for name, series in points.items()},
        "statistics_memory": points["statistics"][-1]["peak_mib"] / points["statistics"][0]["peak_mib"],
    }
    keep(options.out, "growth", record, markdown(record))


def _point(along: str, size: Mapping[str, int], repeats: int, cpu_time: bool) -> dict[str, Any]:
    task = {**size, "repeats": repeats, "cpu": int(cpu_time)}
    return {"value": size[along], **alone("benchmarks.growth", json.dumps(task))}


def exponent(series: list[dict[str, Any]]) -> float:
    """Slope of log seconds over log size, by least squares."""
    size, seconds = ([point[key] for point in series] for key in ("value", "seconds"))
    return float(np.polyfit(np.log(size), np.log(seconds), 1)[0])


def markdown(record: Mapping[str, Any]) -> str:
    """One row a point, with the exponent between neighbours."""
    lines = [
        "Synthetic causal attention of one layer. Each series starts from "
        + ", ".join(f"{value} {name}" for name, value in CENTRE.items())
        + f" (`intervals=False`; along tokens {FEW} documents). In statistics mode documents come {SHARD} at a time; "
        "lag statistics with both treatments of sinks are kept. Memory is the peak of a process of its own.",
        "",
        f"| series | size | {record['clock']} (median) | exponent from the size before | peak memory, MiB |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, series in record["points"].items():
        slopes = ["", *(f"{exponent([a, b]):.2f}" for a, b in pairwise(series))]
        words = "documents in statistics mode" if name == "statistics" else name
        lines += [
            f"| {words} | {p['value']:,} | {p['seconds']:.3f} | {slope} | {p['peak_mib']:.0f} |"
            for p, slope in zip(series, slopes, strict=True)
        ]
    lines += [
        "",
        f"Statistics mode: exponent {record['exponents']['statistics']:.3f} over all sizes (meant: 0.95 to 1.05); peak "
        f"memory of the largest {record['statistics_memory']:.3f} times that of the smallest (meant: at most 1.05).",
        "",
        machine_line(record["machine"]),
        "",
    ]
    return "\n".join(lines)


def _analysis(size: Mapping[str, int], timer: Any) -> float:
    """Seconds of one analysis of fields."""
    tokens = size["tokens"]
    drawn = [synthetic_attention(size["documents"], tokens, seed=head) for head in range(size["heads"])]
    ensemble = es.AttentionEnsemble.from_arrays(np.stack(drawn, axis=1)[:, None], causal=True)
    del drawn
    scales = np.geomspace(2.55, tokens / 2 / (4 * np.sqrt(2)), size["scales"])
    bands = scales[np.linspace(0, len(scales) - 1, size["bands"]).round().astype(int)]
    times = []
    for _ in range(size["repeats"] + 1):
        started = timer()
        es.analyze(ensemble, scales=scales.tolist(), select=bands.tolist(), intervals=False)
        times.append(timer() - started)
    return median(times[1:])


def _statistics(size: Mapping[str, int], timer: Any) -> float:
    """Seconds of the statistics of documents that come in shards; drawing them does not count."""
    pool = es.AttentionEnsemble.from_arrays(synthetic_attention(4 * SHARD, size["tokens"])[:, None], causal=True)[0]
    assert pool.first_key is not None and pool.row_sum is not None
    count = size["streamed"]
    drawing = 0.0

    def shards() -> Iterator[tuple[Mapping[str, LagField], np.ndarray]]:
        nonlocal drawing
        rng = np.random.default_rng(0)
        for start in range(0, count, SHARD):
            began = timer()
            first, second = (slice(at, at + SHARD) for at in rng.integers(0, 3 * SHARD, 2))
            share = rng.uniform(0.2, 0.8, (SHARD, 1, 1)).astype(np.float32)
            values, first_key, row_sum = (
                (share * kept[first] + (1 - share) * kept[second]).astype(kept.dtype)
                for kept in (pool.values, pool.first_key, pool.row_sum)
            )
            mixed = LagField(values, pool.geometry, pool.heads, first_key, row_sum)
            groups = np.arange(start, start + SHARD) * 15 // count
            drawing += timer() - began
            yield {"layer": mixed}, groups

    times = []
    for _ in range(size["repeats"] + 1):
        drawing, started = 0.0, timer()
        collect(shards, {"layer": "self"}, ("mask", "keep"))
        times.append(timer() - started - drawing)
    return median(times[1:])


def _print_point(size: dict[str, int]) -> None:
    timer = time.process_time if size.pop("cpu") else time.perf_counter
    seconds = (_statistics if "streamed" in size else _analysis)(size, timer)
    print(json.dumps({"size": size, "seconds": seconds, "peak_mib": peak_mib()}))


if __name__ == "__main__":
    _print_point(json.loads(sys.argv[1]))
