"""Sinks: keys that draw attention from everywhere, wherever they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eddyscope.lagfield import LagGeometry

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

#: A sink draws at least this attention, and this many times what uniform attention gives, ...
MIN_MASS = 0.05
MIN_EXCESS = 5.0
#: ... from at least this share of the queries that are far from it.
FROM_EVERYWHERE = 0.75
#: A place is a sink of the layer where its key is one in at least this share of the documents.
IN_DOCUMENTS = 0.5


@dataclass(frozen=True)
class Sinks:
    """Keys that draw attention from everywhere, in one layer (or head).

    Parameters
    ----------
    share : array, shape (key,)
        Share of the documents in which the key is a sink.
    mass : array, shape (key,)
        Mean attention to the key from far queries, over documents; NaN where there are too few.
    moving : float
        Sinks a document at places that are not sinks in half of the documents (a full stop, say).
    moving_mass : float
        Mean attention from far queries to these, a sink, over the documents that have them; 0 without any.
    """

    share: FloatArray
    mass: FloatArray
    moving: float
    moving_mass: float

    @property
    def places(self) -> tuple[int, ...]:
        """Keys that are sinks in at least half of the documents."""
        return tuple(int(k) for k in np.flatnonzero(self.share >= IN_DOCUMENTS))

    @property
    def beyond_first(self) -> bool:
        """Whether there are sinks that masking the first key leaves in place."""
        return any(place > 0 for place in self.places) or self.moving >= 1.0

    def leading(self) -> int:
        """How many of the first keys are sinks without a gap: the K of ``sink="first=K"``."""
        count = 0
        while count in self.places:
            count += 1
        return count


@dataclass(frozen=True)
class SinkSums:
    """What sinks are found from: sums over documents, which those of other documents can be added to.

    Parameters
    ----------
    documents : int
    judged : bool array, shape (key,)
        Keys with enough far queries.
    hits : int array, shape (key,)
        Documents in which the key is a sink.
    mass : array, shape (key,)
        Attention to the key from far queries, their mean, summed over documents.
    mass_of_hits : array, shape (key,)
        The same over the documents in which the key is a sink.
    """

    documents: int
    judged: BoolArray
    hits: IntArray
    mass: FloatArray
    mass_of_hits: FloatArray

    def merged(self, other: SinkSums) -> SinkSums:
        """Sums over the documents of both."""
        return SinkSums(
            self.documents + other.documents,
            self.judged,
            self.hits + other.hits,
            self.mass + other.mass,
            self.mass_of_hits + other.mass_of_hits,
        )

    def found(self) -> Sinks:
        """The sinks of all documents."""
        share = self.hits / self.documents
        moving = (share < IN_DOCUMENTS) & (self.hits > 0)
        number = int(self.hits[moving].sum())
        return Sinks(
            share,
            np.where(self.judged, self.mass / self.documents, np.nan),
            number / self.documents,
            float(self.mass_of_hits[moving].sum()) / number if number else 0.0,
        )


def sink_sums(values: FloatArray, geometry: LagGeometry) -> SinkSums:
    """Look for keys that draw attention from everywhere, document by document.

    A key is a sink in a document where at least three quarters of the queries that are far from it give it at least
    0.05 and five times what uniform attention would.

    Parameters
    ----------
    values : array, shape (document, entry)
        Packed attention of one head, or of the head mean.
    geometry : LagGeometry

    Notes
    -----
    Far is a sixteenth of the context, at least 4 tokens, so that attention to neighbours does not count; keys with
    fewer far queries than an eighth of the context (at least 4) are not judged. Content decides where moving sinks
    are, so they are reported and not masked.
    """
    far, documents = max(4, geometry.keys // 16), values.shape[0]
    hits = np.zeros((documents, geometry.keys), dtype=np.int32)
    mass = np.zeros((documents, geometry.keys))
    number = np.zeros(geometry.keys, dtype=np.int64)
    query = np.arange(geometry.queries)
    allowed = query + 1 if geometry.causal else np.full(geometry.queries, geometry.keys)
    threshold = np.maximum(MIN_MASS, MIN_EXCESS / allowed).astype(values.dtype)
    for index, lag in enumerate(geometry.lags):
        if abs(int(lag)) < far:
            continue
        first, count = int(geometry.first_query[index]), int(geometry.counts[index])
        at = values[:, geometry.run(int(lag))]
        keys = slice(first - int(lag), first - int(lag) + count)
        hits[:, keys] += at >= threshold[first : first + count]
        mass[:, keys] += at
        number[keys] += 1
    judged = number >= max(4, geometry.queries // 8)
    seen = np.maximum(number, 1)
    is_sink = judged & (hits >= FROM_EVERYWHERE * seen)
    mass /= seen
    return SinkSums(documents, judged, is_sink.sum(axis=0), mass.sum(axis=0), np.where(is_sink, mass, 0.0).sum(axis=0))


def detect_sinks(values: FloatArray, geometry: LagGeometry) -> Sinks:
    """Find keys that draw attention from everywhere; see :func:`sink_sums`."""
    return sink_sums(values, geometry).found()


def describe_sinks(sinks: Sinks) -> str:
    """The sinks in words, for tables and warnings; empty where there are none."""
    parts = []
    if sinks.places:
        shown = ", ".join(f"{k} ({sinks.mass[k]:.0%} of the attention)" for k in sinks.places[:4])
        more = len(sinks.places) - 4
        parts.append(f"key{'s' if len(sinks.places) > 1 else ''} {shown}" + (f" and {more} more" if more > 0 else ""))
    if sinks.moving >= 0.1:
        parts.append(f"{sinks.moving:.1f} a document at changing places ({sinks.moving_mass:.0%} each)")
    return "; ".join(parts)
