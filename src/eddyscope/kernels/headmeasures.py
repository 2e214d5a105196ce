"""What one head does, at a glance: from a few rows of its attention, not from its fluctuation.

The rows are late queries of some documents, so that keys lie at all distances. Shares of distance are shares of the
mass beside the first key, since a head that rests on the first key (a sink) would otherwise look far-sighted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

FloatArray = NDArray[np.floating[Any]]

#: Measures in the order in which tables show them.
MEASURES = (
    "median_lag", "near_share", "far_share", "previous_token_share", "sink_share", "induction_score", "entropy",
)  # fmt: skip
#: Those that need a distance between query and key.
ALONG_THE_LAG = MEASURES[:4]
#: Documents that are looked at, the first ones, and most rows of each.
DOCUMENTS, ROWS = 16, 64
#: Distances below this are near, in tokens; the same bound as that of the lag energy budget.
NEAR = 8
#: Mass beside the first key below which a head has no distances worth the name.
LEAST_MASS = 1e-3


@dataclass
class HeadSums:
    """Sums over rows of attention, for each head; add those of any documents and blocks of queries.

    Parameters
    ----------
    keys : int
    by_lag : array, shape (head, queries + keys - 1)
        Mass beside the first key at each lag, ``-(keys - 1)`` to ``queries - 1``.
    first_key, entropy : array, shape (head,)
        Mass on the first key; entropy of the row in nats.
    previous : array, shape (head,)
        Mass on the key before the query.
    rows : int
    """

    keys: int
    by_lag: FloatArray
    first_key: FloatArray
    entropy: FloatArray
    previous: FloatArray
    rows: int = 0

    @classmethod
    def empty(cls, heads: int, queries: int, keys: int) -> HeadSums:
        """Sums over no rows."""
        first_key, entropy, previous = np.zeros((3, heads))
        return cls(keys, np.zeros((heads, queries + keys - 1)), first_key, entropy, previous)

    def add(self, head: int, maps: FloatArray, first: int) -> None:
        """Add rows of one head.

        Parameters
        ----------
        head : int
        maps : array, shape (document, query, key)
        first : int
            Query of the first row.
        """
        total = maps.sum(axis=0, dtype=np.float64)
        self.first_key[head] += total[:, 0].sum()
        self.entropy[head] += entr(maps).sum(dtype=np.float64)
        queries, keys = total.shape
        own = np.arange(queries)
        before = own + first - 1
        here = (before >= 0) & (before < keys)
        self.previous[head] += total[own[here], before[here]].sum()
        total[:, 0] = 0
        # Rows of one lag lie on one column once every row is shifted by its query (the last row not at all).
        shifted = np.zeros((queries, keys + queries))
        shifted[:, :keys] = total[::-1]
        by_column = shifted.ravel()[: queries * (keys + queries - 1)].reshape(queries, -1).sum(axis=0)
        lags = first + queries - 1 - np.arange(keys + queries - 1)
        self.by_lag[head, lags + keys - 1] += by_column

    def measures(self, far: int) -> dict[str, FloatArray]:
        """Measures of each head.

        Parameters
        ----------
        far : int
            Distances of so many tokens and more are far.

        Returns
        -------
        dict of array, shape (head,)
            ``median_lag`` (tokens), ``near_share``, ``far_share`` (of the mass beside the first key),
            ``previous_token_share``, ``sink_share`` (of all mass), ``entropy`` (nats, mean over rows). NaN where there
            is no row, and for distances where nearly all mass rests on the first key.
        """
        rows = np.nan if self.rows == 0 else float(self.rows)
        distance = np.abs(np.arange(self.by_lag.shape[1]) - (self.keys - 1))
        mass = np.stack([np.bincount(distance, weights=lag) for lag in self.by_lag])
        beside = mass.sum(axis=1, keepdims=True)
        share = np.divide(mass, beside, out=np.full_like(mass, np.nan), where=beside > LEAST_MASS * rows)
        reached = np.cumsum(share, axis=1) >= 0.5
        median = np.where(np.isnan(share[:, 0]), np.nan, reached.argmax(axis=1))
        return {
            "median_lag": median,
            "near_share": share[:, :NEAR].sum(axis=1),
            "far_share": share[:, far:].sum(axis=1),
            "previous_token_share": self.previous / rows,
            "sink_share": self.first_key / rows,
            "entropy": self.entropy / rows,
        }


def looked_at(queries: int, causal: bool) -> tuple[int, int]:
    """First query whose row is looked at, and one past the last: the last rows, for two-sided attention the middle."""
    count = min(ROWS, max(1, queries // 2))
    stop = queries if causal else (queries + count) // 2
    return stop - count, stop


def far_from(length: int, causal: bool) -> int:
    """Distance from which keys are far: half of the full range of lags of so many tokens."""
    return max(1, length // (4 if causal else 8))
