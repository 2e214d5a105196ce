"""Time one layer's analysis against the peer, in alternation, and check that both give the same numbers."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

import eddyscope as es
from benchmarks import checks, peer
from benchmarks.data import Array, synthetic_attention
from benchmarks.keeping import keep, machine_line, positive, timer_of
from benchmarks.machine import describe
from benchmarks.rounds import Rounds

OURS = "eddyscope.analyze"
OURS_PACKING = "eddyscope: packing and analyze"
OURS_INTERVALS = "eddyscope.analyze, intervals=True"
PREPARE = "peer: sink masked, rows by distance (NumPy)"
FFT_ALL = "peer: pywt.cwt(method='fft'), all rows in one call"
FFT_DOCUMENT = "peer: pywt.cwt(method='fft'), a call for each document"
CONV = "peer: pywt.cwt(method='conv'), a call for each document"
FULL = "peer: PCA(svd_solver='full'), 4 windows and none"
DEFAULT = "peer: PCA(n_components=30), default solver, 4 windows and none"
COHERENCE = "peer: coherence of one scale (NumPy)"
LAG = "peer: lag PCA (NumPy)"

#: The peer as a whole: what is added up. The first is the one that targets are stated against.
TOTALS = {
    "peer in all, rows in one call": (PREPARE, FFT_ALL, FULL, COHERENCE, LAG),
    "peer in all, a call for each document": (PREPARE, FFT_DOCUMENT, FULL, COHERENCE, LAG),
    "peer in all, a call for each document, default solver": (PREPARE, FFT_DOCUMENT, DEFAULT, COHERENCE, LAG),
}


@dataclass(frozen=True)
class Setting:
    """Size of the work: 20 scales over the default range, 4 bands at four of them."""

    documents: int = 150
    context: int = 256
    seed: int = 0

    @property
    def half(self) -> int:
        """Number of distances of the full rows."""
        return self.context // 2

    @property
    def scales(self) -> Array:
        """20 scales, log-spaced from the smallest that is free of Nyquist to the largest that is free of edges."""
        return np.geomspace(2.55, self.half / (4 * np.sqrt(2)), 20)

    @property
    def bands(self) -> list[float]:
        """Scales of the four bands."""
        return [float(a) for a in self.scales[[2, 7, 12, 17]]]


@dataclass
class Measured(Rounds):
    """Seconds of every repeat of every row, the totals of each round, and the agreement of the numbers."""

    agreement: dict[str, float] = field(default_factory=dict)

    def total(self, parts: tuple[str, ...]) -> list[float]:
        """Sum of the parts in each round; a part that was timed less often counts with its median."""
        rounds = len(self.seconds[OURS])
        complete = [
            self.seconds[p] if len(self.seconds[p]) == rounds else [median(self.seconds[p])] * rounds for p in parts
        ]
        return [sum(times) for times in zip(*complete, strict=True)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Size of the work."""
    parser.add_argument("--slow-repeats", type=positive, default=1, help="repeats of the rows beside the target (1)")
    parser.add_argument("--documents", type=positive, default=150, help="snapshots (150)")
    parser.add_argument("--context", type=positive, default=256, help="tokens of a snapshot (256)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the synthetic attention (0)")


def run(options: argparse.Namespace) -> None:
    """Time the analysis of a layer against the peer."""
    if options.documents < 40 or options.context < 64:
        raise SystemExit(
            f"At least 40 documents and a context of 64 are needed, got {options.documents} and {options.context}: "
            "the default solver's row asks for 30 components, and the bands need room."
        )
    machine = describe()
    setting = Setting(options.documents, options.context, options.seed)
    repeats, slow = (1, 1) if options.quick else (options.repeats, options.slow_repeats)
    measured = measure(setting, repeats, slow, not options.quick, timer_of(options))
    keep(options.out, "analysis", as_record(measured, setting, machine), markdown(measured, setting, machine))


def measure(setting: Setting, repeats: int, slow_repeats: int, conv: bool, timer: Callable[[], float]) -> Measured:
    """Alternate ours and the peer ``repeats`` times; rows beside the target ``slow_repeats`` times.

    The ensemble is packed before the clock starts, as capture would hand it over; a row of its own includes it.
    """
    attention = synthetic_attention(setting.documents, setting.context, setting.seed)
    measured = Measured(timer)
    ensemble = _pack(attention)
    study = _analyze(ensemble, setting)  # warms up, and chooses the windows that the peer is given
    layer = study.layer(0)
    windows = [np.asarray(w) for w in layer["window"].values] + [None]
    first_query = setting.context // 8
    rows = peer.lag_rows(peer.mask_sink(attention))
    theirs: dict[str, Any] = {}
    for turn in range(repeats):
        measured.clock(OURS, lambda: _analyze(ensemble, setting))
        measured.clock(PREPARE, lambda: peer.lag_rows(peer.mask_sink(attention)))
        measured.clock(OURS_PACKING, lambda: _analyze(_pack(attention), setting))
        measured.clock(FFT_DOCUMENT, lambda: peer.scalogram(rows, setting.scales, batch=1))
        measured.clock(FFT_ALL, lambda: peer.scalogram(rows, setting.scales))
        theirs["pca"] = measured.clock(FULL, lambda: peer.windowed_pca(attention, windows, first_query))
        measured.clock(COHERENCE, lambda: peer.coherence(attention, setting.bands[0]))
        theirs["lag"] = measured.clock(LAG, lambda: peer.lag_pca(rows, setting.half))
        if turn < slow_repeats:
            measured.clock(OURS_INTERVALS, lambda: _analyze(ensemble, setting, intervals=True))
            measured.clock(DEFAULT, lambda: peer.windowed_pca(attention, windows, first_query, "auto", 30))
            if conv:
                measured.clock(CONV, lambda: peer.scalogram(rows, setting.scales, "conv", batch=1))
    # Numbers are compared by Eddyscope's own conventions, where those of the timed rows are cheaper.
    theirs["coherence"] = peer.coherence(attention, setting.bands[0], padding=4)
    some = slice(0, min(10, setting.documents))
    theirs["scalogram"] = peer.comparable_scalogram(rows[some], setting.scales, setting.half)
    scalogram = _analyze(_pack(attention[some]), setting).layer(0)["scalogram"]
    measured.agreement = checks.agreement(layer, scalogram, theirs)
    return measured


def _pack(attention: Array) -> es.AttentionEnsemble:
    return es.AttentionEnsemble.from_arrays(attention[:, None], causal=True)


def _analyze(ensemble: es.AttentionEnsemble, setting: Setting, intervals: bool = False) -> es.Study:
    return es.analyze(
        ensemble,
        scales=setting.scales.tolist(),
        select=setting.bands,
        window="band",
        intervals=intervals,
        seed=setting.seed,
    )


def as_record(measured: Measured, setting: Setting, machine: dict[str, object]) -> dict[str, object]:
    """All figures of a run, for the file."""
    return {
        "machine": machine,
        "clock": measured.clock_words,
        "setting": {
            "documents": setting.documents,
            "context": setting.context,
            "scales": [round(float(a), 4) for a in setting.scales],
            "bands": [round(a, 4) for a in setting.bands],
            "seed": setting.seed,
        },
        "seconds": measured.rounded(),
        "ratios": {name: round(measured.ratio(measured.total(parts), OURS), 1) for name, parts in TOTALS.items()},
        "agreement": {name: float(f"{value:.2g}") for name, value in measured.agreement.items()},
    }


def markdown(measured: Measured, setting: Setting, machine: dict[str, object]) -> str:
    """The table of a run, with the machine it was measured on."""
    rows = list(measured.seconds.items())
    rows += [(f"**{name}**", measured.total(parts)) for name, parts in TOTALS.items()]
    lines = [
        f"One layer, {setting.documents} snapshots of {setting.context} x {setting.context}, "
        f"{len(setting.scales)} scales, {len(setting.bands)} bands.",
        "",
        f"| work | {measured.clock_words} (median) | repeats | times ours |",
        "|---|---:|---:|---:|",
        *(f"| {name} | {median(t):.3f} | {len(t)} | {measured.ratio(t, OURS):.1f} |" for name, t in rows),
        "",
        machine_line(machine),
        "",
        "Largest differences between the numbers of both: "
        + ", ".join(f"{name} {value:.1g}" for name, value in measured.agreement.items())
        + ".",
        "",
    ]
    return "\n".join(lines)
