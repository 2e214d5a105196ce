"""Grams of lag-windowed snapshots, for all windows from one pass over the packed field.

A window weighs whole lags, so ``K_m = sum_tau w_m(tau)^2 G_tau`` with the Gram of each lag
``G_tau[s, s'] = sum_i u_s(i, tau) u_s'(i, tau) / N``. Each G_tau is formed once, from a view of the packed field,
and added to the Gram of every window. Where that would cost more (a single window, very many documents), the windowed
snapshots of some lags are formed instead and their Gram added; see :func:`eddyscope.kernels.costs.lag_grams_pay`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.kernels.costs import lag_grams_pay
from eddyscope.kernels.lagstats import take_out_mean
from eddyscope.kernels.namespace import doubled, like, namespace, on_host, products_over_first, zeros
from eddyscope.kernels.products import add_product, fill_up
from eddyscope.lagfield import LagGeometry

FloatArray = NDArray[np.floating[Any]]

#: Most that the lag Grams held at a time may take, in bytes; each block of lags is folded by one matrix product.
_BLOCK_BYTES = 512 << 20
#: Lags folded together: enough that the windows' Grams are not moved too often, few enough for the cache.
_LAGS_TOGETHER = 16
#: Numbers of each Gram that are folded at a time, so that the product is not another set of Grams.
_NUMBERS_TOGETHER = 1 << 16
#: Entries whose windowed snapshots are multiplied together, so that a Gram is not moved for every lag.
_ENTRIES_TOGETHER = 1024


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
        Packed snapshots; the results are arrays of the same namespace, on the same device.
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
    weights = on_host(weights).astype(np.float64, copy=False)
    together = max(1, min(_LAGS_TOGETHER, geometry.lags.size, _BLOCK_BYTES // (8 * documents**2)))
    by_lag = lag_grams_pay(documents, geometry.size, geometry.lags.size, weights.shape[0], together)
    gathered: _LagGrams | _Windowed = _LagGrams(values, weights**2, together) if by_lag else _Windowed(values, weights)
    mean, energy = zeros((geometry.size,), values), zeros((geometry.size,), values)
    for index, (run, fluctuation) in enumerate(_by_lag(values, geometry, mean, energy)):
        kept = geometry.run(int(geometry.lags[index]), min_query)
        gathered.add(index, fluctuation[:, kept.start - run.start :])
    grams = fill_up(gathered.total())
    grams /= documents
    return FieldPass(grams, mean, energy)


def mean_and_energy(values: FloatArray, geometry: LagGeometry) -> tuple[FloatArray, FloatArray]:
    """Mean field and energy of the fluctuation alone, each of shape (entry,), float64."""
    mean, energy = zeros((geometry.size,), values), zeros((geometry.size,), values)
    for _ in _by_lag(values, geometry, mean, energy):
        pass
    return mean, energy


def _by_lag(
    values: FloatArray, geometry: LagGeometry, mean: FloatArray, energy: FloatArray
) -> Iterator[tuple[slice, FloatArray]]:
    """Slice and fluctuation (float64) of the entries of each lag, ascending; fills in mean and energy."""
    for lag in geometry.lags:
        run = geometry.run(int(lag))
        fluctuation = doubled(values[:, run], copy=True)  # one lag at a time: that much stays in the cache
        mean[run] = take_out_mean(fluctuation)
        energy[run] = products_over_first(fluctuation, fluctuation) / values.shape[0]
        yield run, fluctuation


class _LagGrams:
    """Lower triangles of the windows' Grams, from the Grams of some lags at a time."""

    def __init__(self, values: FloatArray, squared: FloatArray, together: int) -> None:
        documents = values.shape[0]
        self._squared, self._together, self._held = like(squared, values), together, 0
        self._lag_grams = zeros((together, documents, documents), values)
        self._grams: FloatArray = zeros((squared.shape[0], documents, documents), values)

    def add(self, index: int, fluctuation: FloatArray) -> None:
        """Take the fluctuation of the next lag, which is ``index``."""
        add_product(fluctuation, self._lag_grams[self._held, ...], keep=False)
        self._held += 1
        if self._held == self._together:
            self._fold(index + 1)

    def total(self) -> FloatArray:
        """Grams of all windows, shape (window, document, document); only the lower triangle counts."""
        if self._held:
            self._fold(self._squared.shape[1])
        return self._grams

    def _fold(self, stop: int) -> None:
        xp = namespace(self._grams)
        weights = self._squared[:, stop - self._held : stop]
        held = xp.reshape(self._lag_grams[: self._held, ...], (self._held, -1))
        grams = xp.reshape(self._grams, (self._grams.shape[0], -1))  # a view
        for start in range(0, held.shape[1], _NUMBERS_TOGETHER):
            part = slice(start, min(start + _NUMBERS_TOGETHER, held.shape[1]))
            grams[:, part] += weights @ held[:, part]
        self._held = 0


class _Windowed:
    """The same from the windowed snapshots of some lags at a time."""

    def __init__(self, values: FloatArray, weights: FloatArray) -> None:
        self._weights = weights
        self._grams: FloatArray = zeros((weights.shape[0], values.shape[0], values.shape[0]), values)
        self._held: list[FloatArray] = []
        self._lags: list[int] = []

    def add(self, index: int, fluctuation: FloatArray) -> None:
        """Take the fluctuation of the next lag, which is ``index``."""
        self._held.append(fluctuation)
        self._lags.append(index)
        if sum(part.shape[1] for part in self._held) >= _ENTRIES_TOGETHER:
            self._fold()

    def total(self) -> FloatArray:
        """Grams of all windows, shape (window, document, document); only the lower triangle counts."""
        self._fold()
        return self._grams

    def _fold(self) -> None:
        for window, weights in enumerate(self._weights):
            weighted = [part * float(weights[lag]) for lag, part in zip(self._lags, self._held, strict=True)]
            if weighted:
                joined = namespace(self._grams).concat(weighted, axis=1)
                add_product(joined, self._grams[window, ...])
        self._held, self._lags = [], []
