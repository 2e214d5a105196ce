"""Halves, folds and nested subsets of documents, all made of whole source blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.sampling import balanced_groups

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

#: Random half splits that an estimate is averaged over, each in both directions.
SPLITS = 8
#: Folds of held-out capture.
FOLDS = 5


def half_splits(blocks: IntArray, splits: int = SPLITS, seed: int = 0) -> BoolArray:
    """Random halves made of whole blocks.

    Parameters
    ----------
    blocks : int array, shape (document,)
        Documents of a block stay together.
    splits : int
    seed : int

    Returns
    -------
    bool array, shape (split, document)
        True for the first half. Blocks come in random order, each to the half that is smaller so far, so halves of
        equal blocks are equal and others differ by at most the largest block.
    """
    rng = np.random.default_rng(seed)
    _, block, sizes = np.unique(blocks, return_inverse=True, return_counts=True)
    halves = np.empty((splits, block.size), dtype=bool)
    for split in range(splits):
        first = np.zeros(sizes.size, dtype=bool)
        ahead = 0  # documents that the first half has more than the second
        for index in rng.permutation(sizes.size):
            first[index] = ahead < 0 or (ahead == 0 and rng.random() < 0.5)
            ahead += sizes[index] if first[index] else -sizes[index]
        halves[split] = first[block]
    return halves


def folds(blocks: IntArray, number: int = FOLDS, seed: int = 0) -> IntArray:
    """Fold of each document, shape (document,): whole blocks, about equally many documents, in random order."""
    _, block = np.unique(blocks, return_inverse=True)
    renamed = np.random.default_rng(seed).permutation(int(block.max()) + 1)
    return balanced_groups(renamed[block].astype(np.int64), number)


def nested_subsets(blocks: IntArray, seed: int = 0, fractions: tuple[float, ...] = (0.5, 0.25)) -> list[IntArray]:
    """Subsets of documents, each inside the one before, made of whole blocks.

    Parameters
    ----------
    blocks : int array, shape (document,)
    seed : int
    fractions : tuple of float
        Descending shares of the documents.

    Returns
    -------
    list of int array
        Documents of each subset, ascending: blocks in random order, as many as come nearest to the share.
    """
    _, block, sizes = np.unique(blocks, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(sizes.size)
    held = np.cumsum(sizes[order])
    rank = np.empty(sizes.size, dtype=np.int64)
    rank[order] = np.arange(sizes.size)
    subsets = []
    for fraction in fractions:
        last = int(np.abs(held - fraction * block.size).argmin())
        subsets.append(np.flatnonzero(rank[block] <= last).astype(np.int64))
    return subsets


def distinct_documents(keys: IntArray) -> IntArray:
    """Documents that remain when equal ones count as one.

    Parameters
    ----------
    keys : int array, shape (document,) or (document, token)
        Equal keys (token ids) are equal documents.

    Returns
    -------
    int array, shape (document that remains,)
        The first of each set of equal documents, ascending.
    """
    table = keys.reshape(keys.shape[0], -1)
    _, first = np.unique(table, axis=0, return_index=True)
    return np.sort(first).astype(np.int64)


def equal_snapshots(gram: FloatArray, tolerance: float = 1e-10) -> IntArray:
    """Label of each document, equal where the snapshots are equal, shape (document,); from their Gram.

    Parameters
    ----------
    gram : array, shape (document, document)
    tolerance : float
        Squared distance, as a share of the summed squares, below which two snapshots count as equal.

    Notes
    -----
    For ensembles without token ids. A snapshot takes the label of the first that it equals.
    """
    square = np.diag(gram)
    total = square[:, None] + square[None, :]
    equal = total - 2 * gram <= tolerance * total
    return np.asarray(equal.argmax(axis=1), dtype=np.int64)
