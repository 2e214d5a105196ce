"""POD of the windowed fluctuation beside xeofs and scikit-learn, on the field of ``benchmarks.analysis``."""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import xarray as xr
from sklearn.decomposition import PCA

import eddyscope as es
from benchmarks.analysis import Setting
from benchmarks.data import Array, synthetic_attention
from benchmarks.keeping import keep, machine_line, timer_of
from benchmarks.machine import describe
from benchmarks.rounds import Rounds
from eddyscope.study.bands import Band, band_windows
from eddyscope.study.modes import pod_of_windows

OURS = "eddyscope: POD of 4 windows and none"
XEOFS = "xeofs.single.EOF, weights, default (randomized) solver, 4 windows and none"
SKLEARN = "scikit-learn PCA(svd_solver='full'), 4 windows and none"
MODES = 8
#: Largest relative difference of the leading eigenvalues that is let pass; data are float32, and xeofs approximates.
LIMITS = {SKLEARN: 1e-4, XEOFS: 0.05}


def run(options: argparse.Namespace) -> None:
    """Time the POD of a layer's windows against xeofs and scikit-learn."""
    machine = describe(("eddyscope", "numpy", "xarray", "xeofs", "scikit-learn"))
    setting = Setting(60, 96) if options.quick else Setting()
    field = es.AttentionEnsemble.from_arrays(
        synthetic_attention(setting.documents, setting.context, setting.seed)[:, None], causal=True
    )[0]
    geometry = field.geometry
    # The lag of each band is one wavelength of its scale.
    bands = [Band(a, 2 * np.pi * a / 6, float(round(2 * np.pi * a / 6)), "given") for a in setting.bands]
    windows = np.vstack([band_windows(bands, geometry.lags, 7, "band"), np.ones(geometry.lags.size)])
    values, first_query = field.values[:, 0], setting.context // 8
    used = geometry.query_mask(first_query)
    per_entry = np.repeat(windows, geometry.counts, axis=1)[:, used].astype(np.float32)

    def ours() -> list[Array]:
        return [pod.eigenvalues for pod in pod_of_windows(values, geometry, windows, MODES, first_query)[0]]

    rows = {
        OURS: ours,
        XEOFS: partial(_xeofs, values[:, used], per_entry),
        SKLEARN: partial(_sklearn, values[:, used], per_entry),
    }
    agreement = {
        name: max(
            float(np.max(np.abs(a[:MODES] / b[:MODES] - 1))) for a, b in zip(rows[name](), rows[OURS](), strict=True)
        )
        for name in LIMITS
    }
    for name, difference in agreement.items():
        if not difference <= LIMITS[name]:
            raise SystemExit(f"'{name}' gives other eigenvalues, by {difference:.2g}: nothing was timed.")
    rounds = Rounds(timer_of(options))
    rounds.alternate(rows, 1 if options.quick else options.repeats)
    record = {
        "machine": machine,
        "clock": rounds.clock_words,
        "setting": {"documents": setting.documents, "context": setting.context, "modes": MODES},
        "seconds": rounds.rounded(),
        "ratios": {name: round(rounds.ratio(name, OURS), 1) for name in rows},
        "agreement": agreement,
    }
    table = [
        f"One layer, {setting.documents} snapshots of {setting.context} x {setting.context}, four windows and none, "
        f"{MODES} modes each.",
        "",
        f"| work | {rounds.clock_words} (median) | repeats | times ours |",
        "|---|---:|---:|---:|",
        *(f"| {n} | {median(t):.3f} | {len(t)} | {rounds.ratio(n, OURS):.1f} |" for n, t in rounds.seconds.items()),
        "",
        machine_line(machine),
        "",
        f"The leading {MODES} eigenvalues agree to {agreement[SKLEARN]:.1g} with scikit-learn and to "
        f"{agreement[XEOFS]:.1g} with xeofs, which approximates them.",
        "",
    ]
    keep(options.out, "pod", record, "\n".join(table))


def _xeofs(snapshots: Array, weights: Array) -> list[Array]:
    """Eigenvalues by the ensemble convention (divided by N)."""
    import xeofs

    places = {"entry": np.arange(snapshots.shape[1])}
    data = xr.DataArray(snapshots, {"document": np.arange(len(snapshots)), **places}, ("document", "entry"))
    found = []
    for weight in weights:
        model: Any = xeofs.single.EOF(n_modes=MODES, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(data, dim="document", weights=xr.DataArray(weight, places, ("entry",)))
        found.append(model.explained_variance().values * (len(snapshots) - 1) / len(snapshots))
    return found


def _sklearn(snapshots: Array, weights: Array) -> list[Array]:
    centred = snapshots - snapshots.mean(axis=0)
    count = len(snapshots)
    return [
        PCA(svd_solver="full").fit(centred * weight).explained_variance_ * (count - 1) / count for weight in weights
    ]
