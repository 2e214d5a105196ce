"""Time one layer's analysis against the peer, in alternation, and check that both give the same numbers."""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

import numpy as np

import eddyscope as es
from benchmarks import checks, peer
from benchmarks.data import Array, synthetic_attention

Result = TypeVar("Result")

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
class Measured:
    """Seconds of every repeat of every row, the totals of each round, and the agreement of the numbers."""

    setting: Setting
    timer: Callable[[], float] = time.perf_counter
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    agreement: dict[str, float] = field(default_factory=dict)

    def clock(self, name: str, work: Callable[[], Result]) -> Result:
        """Run and time; garbage of the row before is collected first."""
        gc.collect()
        start = self.timer()
        result = work()
        self.seconds[name].append(self.timer() - start)
        return result

    def total(self, parts: tuple[str, ...]) -> list[float]:
        """Sum of the parts in each round; a part that was timed less often counts with its median."""
        rounds = len(self.seconds[OURS])
        complete = [
            self.seconds[p] if len(self.seconds[p]) == rounds else [median(self.seconds[p])] * rounds for p in parts
        ]
        return [sum(times) for times in zip(*complete, strict=True)]

    def ratio(self, seconds: list[float]) -> float:
        """Median over rounds of ``seconds`` over ours."""
        ours = self.seconds[OURS]
        if len(seconds) != len(ours):
            return median(seconds) / median(ours)
        return median(theirs / mine for theirs, mine in zip(seconds, ours, strict=True))


def measure(
    setting: Setting, repeats: int, slow_repeats: int, conv: bool, timer: Callable[[], float] = time.perf_counter
) -> Measured:
    """Alternate ours and the peer ``repeats`` times; rows beside the target ``slow_repeats`` times.

    The ensemble is packed before the clock starts, as capture would hand it over; a row of its own includes it.
    """
    attention = synthetic_attention(setting.documents, setting.context, setting.seed)
    measured = Measured(setting, timer)
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
