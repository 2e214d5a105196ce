"""How the documents of an ensemble hang together: groups, blocks, and those that count once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eddyscope.ensemble import AttentionEnsemble
from eddyscope.lagfield import FloatArray, IntArray
from eddyscope.sampling import balanced_groups
from eddyscope.trust.jackknife import GROUPS, MIN_GROUPS
from eddyscope.trust.partitions import distinct_documents, equal_snapshots
from eddyscope.trust.scores import subgram

if TYPE_CHECKING:
    from eddyscope.documents import Documents

#: Entries of each layer that are compared to find equal snapshots.
_COMPARED = 512


@dataclass(frozen=True)
class Sample:
    """What resampling has to know of the documents.

    Parameters
    ----------
    blocks : int array, shape (document,)
        Documents of a block stay together in halves and folds.
    groups : int array, shape (document,), or None
        Groups of the jackknife, made of whole blocks; None where there are fewer than 8, or where nothing is to be
        resampled.
    distinct : int array, shape (document that counts,)
        One of each set of equal documents.
    """

    blocks: IntArray
    groups: IntArray | None
    distinct: IntArray

    @property
    def repeated(self) -> bool:
        """Whether some documents are equal."""
        return self.distinct.size < self.blocks.size

    def gram(self, gram: FloatArray) -> FloatArray:
        """Gram of the documents that count."""
        return subgram(gram, self.distinct) if self.repeated else gram

    def of_distinct(self, labels: IntArray) -> IntArray:
        """Labels (blocks or groups) of the documents that count."""
        return labels[self.distinct] if self.repeated else labels


def plain_sample(documents: int, groups: IntArray | None = None) -> Sample:
    """Documents of which nothing is known: each a block of its own."""
    everyone = np.arange(documents, dtype=np.int64)
    return Sample(everyone, groups, everyone)


def sample_of(ensemble: AttentionEnsemble, intervals: bool = True) -> Sample:
    """Groups and blocks of an ensemble's documents.

    Parameters
    ----------
    ensemble : AttentionEnsemble
    intervals : bool
        False leaves the groups out.

    Notes
    -----
    Windows of the same source that touch, and equal windows, are one block. Without documents each distinct snapshot
    is a block, and neighbours share a group; snapshots count as equal where all layers are.
    """
    return sample_from(_known(ensemble), intervals)


def _known(ensemble: AttentionEnsemble) -> Documents | IntArray:
    if ensemble.documents is not None:
        return ensemble.documents
    return equal_labels(compared(field.values) for field in ensemble.fields.values())


def sample_from(known: Documents | IntArray, intervals: bool = True) -> Sample:
    """The same from the documents, or from labels that are equal where snapshots are, shape (document,)."""
    if not isinstance(known, np.ndarray):
        blocks = np.asarray(known.blocks, dtype=np.int64)
        ids = known.ids
        if known.mask is not None:
            ids = np.where(known.mask, ids, -1)
        distinct = distinct_documents(ids)
        groups = balanced_groups(blocks, GROUPS)
    else:
        blocks = known
        distinct, rank = np.unique(blocks, return_inverse=True)
        groups = np.asarray(rank, dtype=np.int64) * min(GROUPS, distinct.size) // distinct.size
    if not intervals or np.unique(groups).size < MIN_GROUPS:
        return Sample(blocks, None, distinct)
    return Sample(blocks, groups, distinct)


def compared(values: FloatArray) -> FloatArray:
    """Some entries of the snapshots of a layer, shape (document, entry), by which equal ones are found."""
    flat = values.reshape(values.shape[0], -1)
    return np.asarray(flat[:, :: max(1, flat.shape[1] // _COMPARED)], dtype=np.float64)


def equal_labels(layers: Iterable[FloatArray]) -> IntArray:
    """First document that each equals, from :func:`compared` of every layer, each layer brought to one scale."""
    gram: FloatArray = np.zeros((1, 1))
    for part in layers:
        size = float((part**2).sum())
        gram = gram + part @ part.T / (size if size > 0 else 1.0)
    return equal_snapshots(gram)
