"""Fields larger than memory: peak memory and time of analyses in blocks, against spectra that are known.

``python -m benchmarks memory`` writes two stores of synthetic fields and analyses each in a process of its own:
5,000 documents of 256 tokens, field POD for four bands; 20,000 documents of 64 tokens, leading 200 eigenvalues and
the exact total energy. Both within 2 GB. Each case is kept as soon as it is measured; ``--documents 20000`` takes one
alone, and ``--tokens 256`` beside it makes its documents as long as those of the other.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import eddyscope as es
from benchmarks.keeping import keep, machine_line, positive
from benchmarks.machine import describe
from benchmarks.peaks import alone, peak_mib
from eddyscope.ensemble import LayerInfo
from eddyscope.fieldplace import create_fields
from eddyscope.fieldstore import StoredLayer
from eddyscope.lagfield import LagField, LagGeometry

Array = NDArray[np.floating[Any]]

#: Patterns of a synthetic field, more than are asked for.
RANK = 300
#: Standard deviation of an entry, of which white noise has a small part.
SPREAD, NOISE = 4e-4, 4e-8
SHARD = 64
BUDGET = "2GB"


@dataclass(frozen=True)
class Case:
    """One store and what is asked of it."""

    name: str
    documents: int
    tokens: int
    scales: tuple[float, ...]
    intervals: bool


CASES = (
    Case("field POD for four bands", 5000, 256, (4.0, 8.0, 16.0, 32.0), True),
    Case("leading 200 eigenvalues and total energy", 20000, 64, (8.0,), False),
)
#: The same on a few documents, to see that it works.
QUICK = (
    Case("field POD for four bands", 4200, 32, (2.6, 3.0, 3.5, 4.0), True),
    Case("leading 200 eigenvalues and total energy", 4500, 32, (3.0,), False),
)


def known_spectrum(tokens: int) -> Array:
    """Eigenvalues that the patterns of a store give it: a power law of exponent 1, shape (rank,)."""
    size = LagGeometry(tokens, tokens, True).size
    shares = np.arange(1, RANK + 1) ** -1.0
    return np.asarray(SPREAD**2 * size * shares / shares.sum())


def write_store(path: Path, documents: int, tokens: int, seed: int = 0) -> float:
    """Write a store whose fluctuation has :func:`known_spectrum` over all queries, but for a little noise.

    Exactly uncorrelated coefficients times orthonormal patterns whose rows sum to zero, added to uniform attention.

    Returns
    -------
    float
        Sum of all eigenvalues of what was written, taken while it is.
    """
    geometry, rng = LagGeometry(tokens, tokens, True), np.random.default_rng(seed)
    coefficients = rng.standard_normal((documents, RANK))
    coefficients -= coefficients.mean(axis=0)
    coefficients = np.linalg.qr(coefficients)[0] * np.sqrt(documents)
    patterns = rng.standard_normal((geometry.size, RANK))
    held = np.bincount(geometry.entry_query, minlength=tokens)
    for pattern in patterns.T:
        pattern -= (np.bincount(geometry.entry_query, pattern, tokens) / held)[geometry.entry_query]
    patterns = np.linalg.qr(patterns)[0].T * np.sqrt(known_spectrum(tokens))[:, None]
    uniform = 1.0 / held[geometry.entry_query]
    layer = {"synthetic": StoredLayer(LayerInfo("synthetic", 0), geometry, ("mean",))}
    store = create_fields(path, layer, None, documents, SHARD, {"source": "synthetic"})
    total, sums = 0.0, np.zeros(geometry.size)
    for shard in range(store.shards):
        chosen = store.documents_of(shard)
        fluctuation = coefficients[chosen] @ patterns + NOISE * rng.standard_normal((chosen.size, geometry.size))
        values = (uniform + fluctuation).astype(np.float32)
        store.write_shard(shard, {"synthetic": LagField(values[:, None], geometry)}, chosen)
        apart = values - uniform
        total += float((apart**2).sum())
        sums += apart.sum(axis=0)
    return total / documents - float((sums**2).sum()) / documents**2


def analyse(path: Path, scales: tuple[float, ...], intervals: bool) -> dict[str, Any]:
    """Analyse a store within the budget; seconds, peak memory, and what was found without a window."""
    began, cpu = time.perf_counter(), time.process_time()
    before = peak_mib()
    study = es.analyze(
        es.open_fields(path),
        select=scales,
        min_query=0,
        intervals=intervals,
        memory_budget=BUDGET,
        scratch=path.parent,
    )
    data = study.packed(0)
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "peak_mib": peak_mib(),
        "before_mib": before,
        "bands": int(data.sizes["band"]),
        "eigenvalues": data["field_eigenvalues"].values[: data.attrs["leading_eigenvalues"]].tolist(),
        "total_energy": float(data["field_total_energy"]),
        "effective_rank": [None if np.isnan(rank) else float(rank) for rank in data["field_effective_rank"].values],
        "effective_rank_status": [str(s) for s in data["field_effective_rank_status"].values],
        "largest_residual": float(data.attrs["largest_residual"]),
    }


def measure(case: Case, folder: Path) -> dict[str, Any]:
    """One case, in two processes of their own: what is written is not in the memory of what reads."""
    path = folder / f"fields-{case.documents}.zarr"
    task = {**asdict(case), "path": str(path)}
    energy = alone("benchmarks.memory", json.dumps(task | {"what": "write"}))
    found = alone("benchmarks.memory", json.dumps(task | {"what": "analyse"}))
    eigenvalues, expected = np.array(found.pop("eigenvalues")), known_spectrum(case.tokens)
    return {
        **asdict(case),
        **found,
        "leading": int(eigenvalues.size),
        "eigenvalues_apart": float((np.abs(eigenvalues - expected[: eigenvalues.size]) / expected[0]).max()),
        "energy_apart": abs(found["total_energy"] - energy) / energy,
        "field_bytes": case.documents * LagGeometry(case.tokens, case.tokens, True).size * 4,
    }


def run(options: argparse.Namespace) -> None:
    """Measure peak memory and time of analyses of stores that are larger than their budget allows."""
    machine = describe(("eddyscope", "numpy", "scipy", "zarr"))
    cases: tuple[Case, ...] = QUICK if options.quick else CASES
    if options.documents not in (None, *(case.documents for case in cases)):
        known = " or ".join(str(case.documents) for case in cases)
        raise SystemExit(f"There is no case of {options.documents} documents; expected {known}.")
    if options.tokens is not None:
        cases = tuple(replace(case, tokens=options.tokens) for case in cases)
    found = {} if options.documents is None else kept(options.out)
    for case in cases:
        if options.documents not in (None, case.documents):
            continue
        with tempfile.TemporaryDirectory(dir=options.scratch) as made:
            found[case.documents, case.tokens] = measure(case, Path(made))
        rows = [found[key] for key in sorted(found)]
        keep(options.out, "memory", {"machine": machine, "budget": BUDGET, "cases": rows}, markdown(rows, machine))


def kept(folder: Path) -> dict[tuple[int, int], dict[str, Any]]:
    """Cases of an earlier run, by their documents and tokens."""
    place = folder / "memory.json"
    rows = json.loads(place.read_text(encoding="utf-8"))["cases"] if place.exists() else []
    return {(row["documents"], row["tokens"]): row for row in rows}


def markdown(found: list[dict[str, Any]], machine: Mapping[str, Any]) -> str:
    """One row a case."""
    lines = [
        f"Synthetic fields of one layer in a store, analysed with `--memory-budget {BUDGET}`. "
        "*Peak* is the most memory that the whole process held; differences are from the spectrum that the fields were "
        "made with, as a share of the first eigenvalue, and from the energy that was summed as they were written.",
        "",
        "| work | documents | tokens | intervals | fields | peak | seconds | CPU seconds | eigenvalues differ "
        "| energy differs |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|",
        *(
            f"| {row['name']} | {row['documents']:,} | {row['tokens']} | {'yes' if row['intervals'] else 'no'} | "
            f"{row['field_bytes'] / 1e9:.2f} GB | "
            f"{row['peak_mib'] * 2**20 / 1e9:.2f} GB | {row['seconds']:.0f} | {row['cpu_seconds']:.0f} | "
            f"{row['eigenvalues_apart']:.1g} | {row['energy_apart']:.1g} |"
            for row in found
        ),
        "",
        machine_line(dict(machine)),
        "",
    ]
    return "\n".join(lines)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What to do beside the common options."""
    parser.add_argument("--documents", type=positive, default=None, help="the case with so many, beside what is kept")
    parser.add_argument("--tokens", type=positive, default=None, help="length of documents in place of the case's own")
    parser.add_argument("--scratch", type=Path, default=None, help="where stores are written (the temporary folder)")


def _half_of_a_case(task: Mapping[str, Any]) -> None:
    """In a process of its own: write a store, or analyse it."""
    path = Path(task["path"])
    if task["what"] == "write":
        print(json.dumps(write_store(path, task["documents"], task["tokens"])))
    else:
        print(json.dumps(analyse(path, tuple(task["scales"]), task["intervals"])))


if __name__ == "__main__":
    _half_of_a_case(json.loads(sys.argv[1]))
