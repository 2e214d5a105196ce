"""The peer: what a careful user would write with PyWavelets, scikit-learn and NumPy, with no help from Eddyscope.

All arrays stay in float32, work is batched where the library lets it, and nothing is computed twice: the total
scalogram is that of the fluctuation plus that of the mean, and one centred field serves all windows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pywt
import scipy.fft
from sklearn.decomposition import PCA

from benchmarks.data import Array

OMEGA0 = 6.0
#: PyWavelets' name for exp(i omega0 t) exp(-t^2 / 2): bandwidth 2, centre frequency omega0 / (2 pi) cycles a sample.
MORLET = f"cmor2.0-{OMEGA0 / (2 * np.pi):.17g}"
#: |W|^2 of the unit-energy Morlet over that of PyWavelets' normalisation.
ENERGY_FACTOR = 2 * np.sqrt(np.pi)


def mask_sink(attention: Array) -> Array:
    """Remove the first key and renormalise; a query left with less than 0.05 in any document is set to 0 in all."""
    masked = attention.copy()
    masked[..., 0] = 0
    mass = masked.sum(axis=-1, keepdims=True)
    masked /= np.where(mass > 0, mass, 1)
    masked[:, (mass[..., 0] < 0.05).any(axis=0)] = 0
    return masked


def lag_rows(attention: Array) -> Array:
    """Rows by distance: ``rows[s, i, d] = attention[s, i, i - d]``, 0 where the row has ended."""
    context = attention.shape[-1]
    key = np.arange(context)[:, None] - np.arange(context)[None, :]
    rows = np.take_along_axis(attention, np.maximum(key, 0)[None], axis=-1)
    return np.where(key >= 0, rows, np.float32(0))


def scalogram(rows: Array, scales: Array, method: str = "fft", batch: int | None = None) -> Array:
    """Energy of total, mean and fluctuation, shape (part, scale, lag): the mean of |W|^2 over documents and rows.

    ``batch`` is the number of documents in one call of :func:`pywt.cwt`; None takes all rows in one call.
    """
    mean = rows.mean(axis=0)
    fluctuation = rows - mean
    documents, queries, lags = rows.shape
    step = batch or documents
    energy = np.zeros((3, len(scales), lags))
    for start in range(0, documents, step):
        part = fluctuation[start : start + step].reshape(-1, lags)
        energy[2] += _energy(part, scales, method)
    energy[2] /= documents * queries
    energy[1] = _energy(mean, scales, method) / queries
    energy[0] = energy[1] + energy[2]
    return np.asarray(energy * ENERGY_FACTOR)


def _energy(rows: Array, scales: Sequence[float] | Array, method: str, precision: int = 12) -> Array:
    """Sum of |W|^2 over rows, shape (scale, lag)."""
    transform, _ = pywt.cwt(rows, scales, MORLET, method=method, axis=-1, precision=precision)
    return np.asarray((transform.real**2 + transform.imag**2).sum(axis=1))


def windowed_pca(
    attention: Array,
    windows: Sequence[Array | None],
    first_query: int,
    solver: str = "full",
    components: int | None = None,
) -> list[tuple[Array, Array]]:
    """Eigenvalues (divided by N, not N - 1) and modes of each windowed ensemble; a window of None leaves all lags.

    A window is a weight for each distance, shape (lag,). Only causal entries of queries from ``first_query`` on.
    """
    query, key = np.tril_indices(attention.shape[-1])
    kept = query >= first_query
    query, key = query[kept], key[kept]
    snapshots = attention[:, query, key]
    snapshots -= snapshots.mean(axis=0)
    count = len(snapshots)
    results = []
    for window in windows:
        sample = snapshots if window is None else snapshots * window[query - key].astype(np.float32)
        pca = PCA(n_components=components, svd_solver=solver, random_state=0).fit(sample)
        results.append((pca.explained_variance_ * (count - 1) / count, pca.components_))
    return results


def coherence(attention: Array, scale: float, padding: int = 2) -> Array:
    """Coherence of the fluctuation at one scale, shape (query, key), NaN for keys the query may not see."""
    fluctuation = attention - attention.mean(axis=0)
    context = attention.shape[-1]
    length = padding * context
    frequency = scipy.fft.fftfreq(length)
    filter_ = np.exp(-((2 * np.pi * frequency * scale - OMEGA0) ** 2) / 2) * (frequency > 0)
    filter_ = (np.pi**-0.25 * np.sqrt(2 * np.pi * scale) * filter_).astype(np.float32)
    spectrum = scipy.fft.fft(fluctuation, length, axis=-1)
    spectrum *= filter_
    transform = scipy.fft.ifft(spectrum, axis=-1, overwrite_x=True)[..., :context]
    own = np.einsum("sii->si", transform)
    cross = np.einsum("si,sij->ij", own, transform.conj()) / len(attention)
    power = (transform.real**2 + transform.imag**2).mean(axis=0)
    own_power = (own.real**2 + own.imag**2).mean(axis=0)
    visible = np.tri(context, dtype=bool)
    norm = np.sqrt(own_power[:, None] * power)
    coherent: Array = np.full_like(norm, np.nan)
    np.divide(np.abs(cross), norm, out=coherent, where=visible & (norm > 0))
    return coherent


def lag_pca(rows: Array, half: int) -> tuple[Array, Array]:
    """Eigenvalues and lag profiles of the fluctuation, each (document, full row) a sample: i >= half, d < half."""
    full = rows[:, half:, :half]
    sample = (full - full.mean(axis=0)).reshape(-1, half)
    covariance = sample.T @ sample / len(sample)
    values, vectors = np.linalg.eigh(covariance)
    return values[::-1], vectors[:, ::-1]


def comparable_scalogram(rows: Array, scales: Array, half: int) -> Array:
    """Fluctuation energy of the full rows by PyWavelets, by Eddyscope's conventions, shape (scale, lag); not timed.

    Rows are reflected about distance 0. PyWavelets averages its wavelet over each sample and places it up to a sample
    off, by an amount that depends on the scale; the rows are filtered beforehand to undo both.
    """
    full = (rows - rows.mean(axis=0))[:, half:, :half].astype(np.float64)
    reflected = np.concatenate([full[..., :0:-1], full], axis=-1).reshape(-1, 2 * half - 1)
    margin, length = 2 * half, 8 * half
    padded = np.pad(reflected, ((0, 0), (margin, length - margin - reflected.shape[1])))
    frequency = scipy.fft.fftfreq(length)
    spectrum = scipy.fft.fft(padded, axis=-1)
    energy = np.empty((len(scales), half))
    for index, scale in enumerate(scales):
        samples = int(16 * scale) + 1  # PyWavelets cuts its wavelet off at 8 scales to either side
        shift = (samples - 2) // 2 - samples + 1.5 + 8 * scale
        undone = scipy.fft.ifft(spectrum * np.exp(-2j * np.pi * frequency * shift) / np.sinc(frequency), axis=-1).real
        energy[index] = _energy(undone, [scale], "fft", precision=16)[0, margin + half - 1 : margin + 2 * half - 1]
    return np.asarray(energy * ENERGY_FACTOR / len(reflected))
