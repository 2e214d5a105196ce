"""Grams of lag-windowed snapshots, for all windows from one pass over the packed field.

A window weighs whole lags, so ``K_m = sum_tau w_m(tau)^2 G_tau`` with the Gram of each lag
``G_tau[s, s'] = sum_i u_s(i, tau) u_s'(i, tau) / N``. Each G_tau is formed once, from a view of the packed field,
and added to the Gram of every window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.lagstats import take_out_mean
from eddyscope.lagfield import LagGeometry

FloatArray = NDArray[np.floating[Any]]

#: Lag Grams held at a time, in bytes; each block is folded into the windows' Grams by one matrix product.
_BLOCK_BYTES = 64 << 20


@dataclass(frozen=True)
class FieldPass:
    """What one pass over a packed field gives.

    Parameters
    ----------
    grams : array, shape (window, document, document), float64
        ``K_m[s, s'] = <v_s, v_s'> / N`` with ``v_s = w_m u_s``, of the queries used.
    mean : array, shape (entry,), float64
        Mean field.
    energy : array, shape (entry,), float64
        ``<u^2>`` over documents.
    """

    grams: FloatArray
    mean: FloatArray
    energy: FloatArray


def field_pass(values: FloatArray, geometry: LagGeometry, weights: FloatArray, min_query: int = 0) -> FieldPass:
    """Mean field, fluctuation energy and the Gram matrices of the windowed fluctuation, in one pass.

    Parameters
    ----------
    values : array, shape (document, entry)
        Packed snapshots.
    geometry : LagGeometry
    weights : array, shape (window, lag)
        ``w_m(tau)`` on the lags of the geometry.
    min_query : int
        Queries before it do not enter the Grams.

    Notes
    -----
    Sums in float64, u the deviation from the mean over documents: centring first keeps the small eigenvalues, which
    centring a Gram of raw snapshots would lose to cancellation.
    """
    documents = values.shape[0]
    squared = np.asarray(weights, dtype=np.float64) ** 2
    grams = np.zeros((squared.shape[0], documents * documents))
    mean, energy = np.empty(geometry.size), np.empty(geometry.size)
    block = max(1, min(geometry.lags.size, _BLOCK_BYTES // (8 * documents * documents)))
    lag_grams = np.empty((block, documents, documents))
    for start in range(0, geometry.lags.size, block):
        lags = geometry.lags[start : start + block]
        for index, lag in enumerate(lags):
            run = geometry.run(int(lag))
            fluctuation = values[:, run].astype(np.float64)
            mean[run] = take_out_mean(fluctuation)
            energy[run] = np.einsum("se,se->e", fluctuation, fluctuation) / documents
            kept = geometry.run(int(lag), min_query)
            used = fluctuation[:, kept.start - run.start :]
            np.matmul(used, used.T, out=lag_grams[index])
        grams += squared[:, start : start + block] @ lag_grams[: lags.size].reshape(lags.size, -1)
    return FieldPass(grams.reshape(-1, documents, documents) / documents, mean, energy)
