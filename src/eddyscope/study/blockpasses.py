"""Passes over the documents of one head, a few at a time: what an analysis needs beyond mergeable statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from eddyscope.kernels.coherence import centred_rows
from eddyscope.kernels.fieldmoments import FieldMoments, field_moments
from eddyscope.kernels.gramblocks import PartSums, gram_block
from eddyscope.kernels.lagstats import LagMoments, lag_moments
from eddyscope.kernels.pairs import PairSums
from eddyscope.kernels.pod import Decomposition, modes_of_windows
from eddyscope.lagfield import BoolArray, ComplexArray, FloatArray, IntArray
from eddyscope.study.blockfields import BlockField, GramFiles
from eddyscope.study.headstats import LagPart, lag_part
from eddyscope.study.options import masked_keys
from eddyscope.study.published import published_rows
from eddyscope.study.rows import LagAxis, lag_rows, mask_first_keys, usable_queries
from eddyscope.trust.modes import row_correlation_of

#: Forms the blocks of Grams, without the factor 1/N: called with snapshots, weights, first query, mean field and the
#: documents of each block; gives the numbers of two blocks and their inner products, each pair once.
GramMaker = Callable[["Snapshots", FloatArray, int, FloatArray, Sequence[slice]], Iterable[tuple[int, int, FloatArray]]]
#: Documents that are looked at together, in bytes of their snapshots in float64.
_TOGETHER = 32 << 20
_MOST_TOGETHER = 256


@dataclass(frozen=True)
class Snapshots:
    """What the field POD sees of a head, a few documents at a time.

    Parameters
    ----------
    field : BlockField
    sink : str
        ``sink_pod`` of the options.
    usable : bool array, shape (query,), or None
        Queries whose mass beside the sink is enough in every document; None where nothing is masked.
    """

    field: BlockField
    sink: str
    usable: BoolArray | None

    @classmethod
    def of(cls, field: BlockField, sink: str) -> Snapshots:
        """Snapshots under a treatment of sinks; one pass where something is masked."""
        if not masked_keys(sink):
            return cls(field, sink, None)
        usable = np.ones(field.geometry.queries, dtype=bool)
        for part in slices(field):
            usable &= usable_queries(field.read(part), sink)
        return cls(field, sink, usable)

    def read(self, documents: slice) -> FloatArray:
        """Snapshots of some documents, shape (document, entry)."""
        return mask_first_keys(self.field.read(documents), self.sink, self.usable)[0]


def slices(field: BlockField) -> Iterator[slice]:
    """Documents to be looked at together."""
    step = max(1, min(_MOST_TOGETHER, _TOGETHER // (8 * max(1, field.geometry.size))))
    for start in range(0, field.documents, step):
        yield slice(start, min(start + step, field.documents))


def moments_of(snapshots: Snapshots, groups: IntArray) -> FieldMoments:
    """Mean field and energies by group of what the POD sees."""
    geometry = snapshots.field.geometry
    found: FieldMoments | None = None
    for part in slices(snapshots.field):
        own = field_moments(snapshots.read(part), geometry, groups[part])
        found = own if found is None else found.merged(own, geometry)
    assert found is not None
    return found


def energy_of(snapshots: Snapshots, mean: FloatArray) -> FloatArray:
    """``<u^2>`` over documents of each entry, shape (entry,)."""
    total = np.zeros(mean.size)
    for part in slices(snapshots.field):
        fluctuation = snapshots.read(part) - mean
        total += np.einsum("se,se->e", fluctuation, fluctuation)
    return total / snapshots.field.documents


def lag_part_of(field: BlockField, groups: IntArray, sink: str, kind: str, max_lag: int | None) -> LagPart:
    """Lag statistics under one treatment of sinks."""
    among: IntArray | None = None
    for _ in range(2):  # again where a late document left out queries that were counted before
        found: LagPart | None = None
        for part in slices(field):
            queries = among if found is None else found.axis.queries
            lost = found is not None and found.moments is None
            own = lag_part(field.read(part), groups[part], sink, kind, queries, lost, max_lag)
            found = own if found is None else found.merged(own)
        assert found is not None
        if found.moments is not None:
            return found
        among = found.axis.queries
    raise AssertionError("the second pass leaves out nothing that the first has not")


def published_part_of(field: BlockField, groups: IntArray, lags: str) -> LagPart:
    """Rows of the published preset."""
    axis: LagAxis | None = None
    found: LagMoments | None = None
    for part in slices(field):
        rows = published_rows(field.read(part), lags)
        own = lag_moments(rows.values, groups[part])
        axis, found = rows.axis, own if found is None else found.merged(own)
    assert axis is not None
    return LagPart(axis, found)


def correlation_of(
    field: BlockField, sink: str, axis: LagAxis, mean: FloatArray, modes: FloatArray, documents: IntArray,
    max_lag: int | None,
) -> FloatArray:  # fmt: skip
    """How far the rows of a document say the same along lag modes; see :func:`eddyscope.trust.modes.row_correlation`.

    Parameters
    ----------
    field : BlockField
    sink : str
    axis : LagAxis
        Of the rows that count.
    mean : array, shape (lag, row)
        Mean of the rows over all documents, from which deviations are taken.
    modes : array, shape (mode, lag)
    documents : int array
        Those that count.
    max_lag : int, optional
    """
    count, middle = axis.queries.size, modes @ mean
    products, sums = np.zeros((modes.shape[0], count, count)), np.zeros((modes.shape[0], count))
    for part in slices(field):
        rows = lag_rows(field.read(part), sink, max_lag, among=axis.queries)
        scores = np.tensordot(modes, rows.values, axes=1) - middle[:, None]  # (mode, document, row)
        scores = scores[:, np.isin(np.arange(part.start, part.stop), documents)]
        products += scores.transpose(0, 2, 1) @ scores
        sums += scores.sum(axis=1)
    return row_correlation_of(products - sums[:, :, None] * sums[:, None] / documents.size, documents.size)


def pairs_of(field: BlockField, transform: ComplexArray, mean: FloatArray | None) -> PairSums:
    """Sums for the coherence of the fluctuation about a mean field, or of the raw field."""
    geometry = field.geometry
    sums = PairSums.empty(geometry.queries, geometry.keys)
    for part in slices(field):
        values = field.read(part).values[:, 0]
        sums.add(centred_rows(values, geometry, mean), values.shape[0], transform)
    return sums


def form_grams(
    snapshots: Snapshots,
    weights: FloatArray,
    min_query: int,
    mean: FloatArray,
    files: GramFiles,
    sums: Sequence[PartSums],
    held: int,
    advance: Callable[[int, int], None],
    elsewhere: GramMaker | None = None,
) -> None:
    """Form the Grams of all windows block by block, and sums over parts of them.

    Parameters
    ----------
    snapshots : Snapshots
    weights : array, shape (window, lag)
    min_query : int
    mean : array, shape (entry,)
    files : GramFiles
    sums : sequence of PartSums, one a window
    held : int
        Blocks of documents that are held; the others are read once for each time so many are.
    advance : callable
        Told how many pairs of blocks are done, and how many there are.
    elsewhere : GramMaker, optional
        What forms the blocks in the place of this process.
    """
    tiles = files.tiles
    pairs = len(tiles) * (len(tiles) + 1) // 2
    here: GramMaker = partial(_blocks_here, held)
    for done, (i, j, products) in enumerate((elsewhere or here)(snapshots, weights, min_query, mean, tiles)):
        blocks = products / files.documents
        files.write(i, j, blocks)
        for own, block in zip(sums, blocks, strict=True):
            own.add(block, tiles[i], tiles[j])
        advance(done + 1, pairs)


def _blocks_here(
    held: int, snapshots: Snapshots, weights: FloatArray, min_query: int, mean: FloatArray, tiles: Sequence[slice]
) -> Iterator[tuple[int, int, FloatArray]]:
    geometry = snapshots.field.geometry
    for first in range(0, len(tiles), held):
        here = range(first, min(first + held, len(tiles)))
        mine = {i: snapshots.read(tiles[i]) for i in here}
        for j in range(first, len(tiles)):
            theirs = mine[j] if j in mine else snapshots.read(tiles[j])
            for i in here:
                if i <= j:
                    yield i, j, gram_block(mine[i], theirs, geometry, weights, min_query, mean)


def modes_of(
    snapshots: Snapshots, decompositions: Sequence[Decomposition], weights: FloatArray, count: int, mean: FloatArray
) -> FloatArray:
    """Modes of all windows, shape (window, mode, entry); see :func:`eddyscope.kernels.pod.modes_of_windows`."""
    documents = snapshots.field.documents
    total: FloatArray | None = None
    for part in slices(snapshots.field):
        share = documents / (part.stop - part.start)
        own = [Decomposition(d.eigenvalues * share, d.vectors[part]) for d in decompositions]
        found = modes_of_windows(snapshots.read(part), own, weights, count, mean).astype(np.float64)
        total = found if total is None else total + found
    assert total is not None
    return total.astype(np.float64 if snapshots.field.dtype == np.float64 else np.float32)


def picked(snapshots: Snapshots, documents: Sequence[int]) -> dict[int, FloatArray]:
    """A few snapshots."""
    return {d: snapshots.read(slice(d, d + 1))[0] for d in sorted(set(documents))}
