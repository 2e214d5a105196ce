"""Randomized POD, on request alone: approximate eigenpairs of all windows in a few passes, checked on a sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from eddyscope.kernels.gramblocks import PartSums, gram_block
from eddyscope.kernels.pod import RANK_TOLERANCE, Decomposition
from eddyscope.kernels.sketch import sketched_pairs
from eddyscope.lagfield import FloatArray
from eddyscope.study.blockpasses import Snapshots, slices
from eddyscope.study.leadingtrust import Parts
from eddyscope.study.measures import LEADING
from eddyscope.study.options import Options

#: Documents on which the sketch is compared with the exact eigenvalues.
_CHECKED = 1000


def sketched_pods(
    snapshots: Snapshots,
    weights: FloatArray,
    min_query: int,
    mean: FloatArray,
    parts: Parts,
    options: Options,
    advance: Callable[[int, int], None],
) -> tuple[list[Decomposition], list[PartSums]]:
    """Leading eigenpairs and sums over parts of all windows, without any Gram.

    Energies and sums of rows are exact; sums of squares of the Gram, which the participation ratio needs, are NaN.
    """
    documents = snapshots.field.documents
    geometry = snapshots.field.geometry
    used = geometry.query_mask(min_query)
    squared = np.where(used, weights[:, geometry.entry_lag - geometry.lags[0]] ** 2, 0.0)

    def apply(vectors: Sequence[FloatArray]) -> list[FloatArray]:
        return products(snapshots, squared, mean, vectors)

    count = max(1, min(LEADING, documents - 1))  # one document has one eigenvalue, which is zero
    found = sketched_pairs(
        apply,
        len(weights),
        documents,
        count,
        power_iterations=options.power_iterations,
        seed=options.seed,
        progress=advance,
    )
    members = parts.members.astype(np.float64)
    rows, diagonal = apply([members] * len(weights)), _energies(snapshots, squared, mean)
    unknown = np.full(parts.members.shape[1], np.nan)
    sums = [PartSums(parts.members, own, row, unknown) for own, row in zip(diagonal, rows, strict=True)]
    return [_decomposition(*pair) for pair in found], sums


def _decomposition(values: FloatArray, vectors: FloatArray) -> Decomposition:
    floor = RANK_TOLERANCE * float(values[0]) * vectors.shape[0]
    return Decomposition(np.where(values > floor, values, 0.0), vectors)


def products(
    snapshots: Snapshots, squared: FloatArray, mean: FloatArray, vectors: Sequence[FloatArray]
) -> list[FloatArray]:
    """``K V`` of every window straight from the fields, ``U W^2 U' V / N``, in two passes.

    ``4 N D`` operations a vector and window (D entries), where a Gram takes ``N^2 D`` for all windows once and
    ``2 N^2`` a vector: this is cheaper where fewer than about N/4 vectors in all are needed.

    Parameters
    ----------
    snapshots : Snapshots
    squared : array, shape (window, entry)
        Squared weight of each entry, zero for those that are left out.
    mean : array, shape (entry,)
    vectors : sequence of array, shape (document, vector), one a window
    """
    documents = snapshots.field.documents
    patterns = [np.zeros((mean.size, own.shape[1])) for own in vectors]
    for part in slices(snapshots.field):
        fluctuation = snapshots.read(part) - mean
        for pattern, own in zip(patterns, vectors, strict=True):
            pattern += fluctuation.T @ own[part]
    for pattern, weight in zip(patterns, squared, strict=True):
        pattern *= weight[:, None]
    found = [np.empty_like(own) for own in vectors]
    for part in slices(snapshots.field):
        fluctuation = snapshots.read(part) - mean
        for own, pattern in zip(found, patterns, strict=True):
            own[part] = fluctuation @ pattern
    return [own / documents for own in found]


def _energies(snapshots: Snapshots, squared: FloatArray, mean: FloatArray) -> FloatArray:
    """``K[s, s]`` of every window, shape (window, document)."""
    documents = snapshots.field.documents
    found = np.empty((squared.shape[0], documents))
    for part in slices(snapshots.field):
        found[:, part] = squared @ ((snapshots.read(part) - mean) ** 2).T
    return found / documents


def difference_on_sample(
    snapshots: Snapshots, weights: FloatArray, min_query: int, options: Options
) -> tuple[float, int]:
    """Largest relative difference between sketched and exact eigenvalues of some documents, over ranks and windows.

    Returns
    -------
    difference : float
        Of the leading 200 (fewer where the sample has fewer), each relative to the exact eigenvalue.
    documents : int
        1,000 of them, or all, drawn with the seed.
    """
    documents = snapshots.field.documents
    chosen = np.sort(np.random.default_rng(options.seed).permutation(documents)[:_CHECKED])
    values = np.concatenate([snapshots.read(slice(int(d), int(d) + 1)) for d in chosen])
    mean = values.mean(axis=0, dtype=np.float64)
    grams = gram_block(values, values, snapshots.field.geometry, weights, min_query, mean) / chosen.size
    count = min(LEADING, chosen.size - 1)
    sketches = sketched_pairs(
        lambda vectors: [gram @ own for gram, own in zip(grams, vectors, strict=True)],
        len(grams),
        chosen.size,
        count,
        power_iterations=options.power_iterations,
        seed=options.seed,
    )
    largest = 0.0
    for gram, (found, _) in zip(grams, sketches, strict=True):
        exact = np.linalg.eigvalsh(gram)[::-1][:count]
        there = exact > RANK_TOLERANCE * float(exact.max(initial=0.0)) * chosen.size
        apart = np.abs(found[: exact.size] - exact)[there] / exact[there]
        largest = max(largest, float(apart.max(initial=0.0)))
    return largest, int(chosen.size)
