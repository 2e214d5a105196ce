"""The documents that show a mode most: how much each query and each key takes part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from eddyscope.report.pagedata.encode import number, signed_codes, text_of
from eddyscope.report.pagedata.values import array


@dataclass(frozen=True)
class TopData:
    """One document of a mode.

    Parameters
    ----------
    document : int
        Its number.
    queries, keys, pairs : str
        Shares of the coefficient by query, by key, and of each query's strongest pair, in codes of the signed root.
    query_limit, key_limit, pair_limit : float
        What the last codes stand for.
    partner : list of int or None
        Key of each query's strongest pair.
    """

    document: int
    queries: str
    query_limit: float | int | str | None
    keys: str
    key_limit: float | int | str | None
    pairs: str
    pair_limit: float | int | str | None
    partner: list[Any]


def top_data(data: xr.Dataset, prefix: str, at: dict[str, int], mode: int, most: int) -> list[TopData]:
    """Documents of one mode, the one of largest coefficient first; none where the study does not hold them."""
    found = array(data, f"{prefix}top_document", "top_mode", "place", **at)
    if mode >= found.shape[0]:
        return []
    made = []
    for place in range(min(most, found.shape[1])):
        if not np.isfinite(found[mode, place]):
            break
        where = {**at, "top_mode": mode, "place": place}
        queries, query_limit = _codes(data, f"{prefix}top_query_share", "query", where)
        keys, key_limit = _codes(data, f"{prefix}top_key_share", "key", where)
        pairs, pair_limit = _codes(data, f"{prefix}top_pair_share", "query", where)
        partner = array(data, f"{prefix}top_key", "query", **where)
        made.append(
            TopData(
                document=int(found[mode, place]),
                queries=queries,
                query_limit=query_limit,
                keys=keys,
                key_limit=key_limit,
                pairs=pairs,
                pair_limit=pair_limit,
                partner=[int(k) if np.isfinite(k) else -1 for k in partner],
            )
        )
    return made


def _codes(data: xr.Dataset, name: str, dim: str, where: dict[str, int]) -> tuple[str, Any]:
    shares = array(data, name, dim, **where)
    limit = float(np.nanmax(np.abs(shares), initial=0.0))
    return text_of(signed_codes(shares, limit)), number(limit)
