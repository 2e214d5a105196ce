"""Where windows lie in their sources, and which of them belong together.

Functions of numbers only: lengths, starts and labels in, arrays out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

IntArray = npt.NDArray[np.int64]


def place_windows(
    lengths: Sequence[int], size: int, count: int, rng: np.random.Generator, overlap: bool = False
) -> list[IntArray]:
    """Draw windows of equal size from sources of given lengths.

    Without overlap, a source of T tokens has ``T // size`` slots. Slots are drawn without replacement, which says how
    many windows each source gives; within a source all placements of that many windows without overlap are equally
    likely (the gaps between them are random, so that windows seldom touch where text is plentiful). With overlap, all
    starts in all sources are equally likely, each drawn at most once.

    Parameters
    ----------
    lengths : sequence of int
        Tokens of each source.
    size : int
        Tokens of a window.
    count : int
        Windows wanted; fewer come back where the sources do not hold so many.
    rng : numpy.random.Generator
        Source of randomness.
    overlap : bool
        Whether windows may overlap.

    Returns
    -------
    list of array
        First tokens of the windows of each source, ascending.
    """
    tokens = np.asarray(lengths, dtype=np.int64)
    if overlap:
        ends = np.cumsum(np.maximum(tokens - size + 1, 0))
        total = int(ends[-1]) if len(ends) else 0
        drawn = np.sort(rng.choice(total, min(count, total), replace=False))
        source = np.searchsorted(ends, drawn, side="right")
        first = ends - np.maximum(tokens - size + 1, 0)
        return [(drawn - first[source])[source == s] for s in range(len(tokens))]
    slots = tokens // size
    if count < slots.sum():
        slots = rng.multivariate_hypergeometric(slots, count)
    return [_spread(int(t), size, int(n), rng) for t, n in zip(tokens, slots, strict=True)]


def _spread(length: int, size: int, count: int, rng: np.random.Generator) -> IntArray:
    """Starts of ``count`` windows without overlap, every placement equally likely."""
    # Shrink each window to one token: placements are then the subsets of the tokens that are left.
    chosen = np.sort(rng.choice(length - count * (size - 1), count, replace=False)) if count else np.zeros(0)
    return chosen.astype(np.int64) + np.arange(count) * (size - 1)


def touching_runs(source: IntArray, starts: IntArray, size: int) -> IntArray:
    """Label windows so that those of a source that touch or overlap, also through others, share a label.

    Parameters
    ----------
    source : array (document,)
        Source of each window.
    starts : array (document,)
        First token of each window in its source.
    size : int
        Tokens of a window.

    Returns
    -------
    array (document,)
        Labels.
    """
    order = np.lexsort((starts, source))
    apart = (np.diff(source[order]) != 0) | (np.diff(starts[order]) > size)
    labels = np.zeros(len(order), dtype=np.int64)
    labels[order[1:]] = np.cumsum(apart)
    return labels


def merge_blocks(labels: IntArray, sequences: Sequence[bytes]) -> IntArray:
    """Join labels that share an equal token sequence.

    Parameters
    ----------
    labels : array (document,)
        What already belongs together.
    sequences : sequence of bytes
        The tokens of each document.

    Returns
    -------
    array (document,)
        Blocks 0, 1, ... in order of their first document: documents with equal labels or equal sequences share a block,
        also through others.
    """
    _, node = np.unique(labels, return_inverse=True)
    first: dict[bytes, int] = {}
    same = np.array([first.setdefault(s, len(first)) for s in sequences], dtype=np.int64)
    # A graph of labels and sequences in which each document is an edge.
    size = len(labels) + len(first)
    graph = coo_array((np.ones(len(labels)), (node, len(labels) + same)), shape=(size, size))
    component = connected_components(graph, directed=False)[1][node]
    _, index, inverse = np.unique(component, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(index))[inverse].astype(np.int64)


def balanced_groups(blocks: IntArray, number: int) -> IntArray:
    """Assign whole blocks to at most ``number`` groups of about equally many documents.

    The largest block goes first, each to the group that has the fewest documents so far; ties go to the lower block and
    the lower group, so that the result is determined by the blocks.

    Parameters
    ----------
    blocks : array (document,)
        Block of each document.
    number : int
        Most groups.

    Returns
    -------
    array (document,)
        Groups 0, 1, ...; as many as there are blocks where that is fewer than ``number``.
    """
    _, block, sizes = np.unique(blocks, return_inverse=True, return_counts=True)
    load = np.zeros(min(number, len(sizes)), dtype=np.int64)
    group_of = np.zeros(len(sizes), dtype=np.int64)
    for b in np.argsort(-sizes, kind="stable"):
        group_of[b] = np.argmin(load)
        load[group_of[b]] += sizes[b]
    return group_of[block]
