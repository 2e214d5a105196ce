"""How much of a study goes into a page: all of it while there is room, summaries and small maps beyond."""

from __future__ import annotations

from dataclasses import dataclass

#: Bytes that maps, profiles and the text view may take in a page.
MAP_BYTES = 12_000_000
#: Sides of a map, bands, modes and documents of a mode, from all to least.
_STEPS = (
    (256, 99, 8, 5),
    (256, 99, 4, 5),
    (256, 99, 3, 5),
    (128, 99, 4, 5),
    (128, 99, 3, 5),
    (128, 4, 3, 3),
    (128, 2, 2, 3),
    (64, 4, 3, 3),
    (64, 2, 3, 3),
    (64, 2, 2, 2),
    (64, 1, 1, 2),
    (48, 1, 1, 1),
)


@dataclass(frozen=True)
class Shipping:
    """What each layer (and head) sends to the page.

    Parameters
    ----------
    side : int
        Most cells on a side of a map.
    bands : int
        Bands beside the decomposition without a window.
    modes : int
        Modes of each.
    documents : int
        Documents of a mode whose tokens are shown.
    note : str
        What was left out and how to get it; empty where nothing was.
    """

    side: int
    bands: int
    modes: int
    documents: int
    note: str


def plan(views: int, bands: int, modes: int, queries: int, causal: bool) -> Shipping:
    """The most that fits the page.

    Parameters
    ----------
    views : int
        Layers and heads, of all studies.
    bands, modes : int
        Of a study, at most.
    queries : int
        Side of a map in tokens.
    causal : bool
        Half of each map is then empty, and is not sent.
    """
    for side, most_bands, most_modes, documents in _STEPS:
        shipped = min(bands, most_bands), min(modes, most_modes)
        if views * _bytes(min(side, queries), *shipped, min(documents, 5), queries, causal) <= MAP_BYTES:
            break
    return Shipping(side, *shipped, documents, _note(min(side, queries), shipped, (bands, modes), queries))


def _bytes(side: int, bands: int, modes: int, documents: int, queries: int, causal: bool) -> int:
    one_map = side * side * 4 // 3 // (2 if causal else 1)
    profile = 6 * min(queries, 256)
    tokens = documents * 11 * queries
    return (bands + 1) * (modes * (one_map + profile) + min(modes, 3) * tokens) + one_map


def _note(side: int, shipped: tuple[int, int], there: tuple[int, int], queries: int) -> str:
    left = []
    if side < queries:
        left.append(f"maps are shrunk to {side} cells a side, each cell the largest of its block")
    if shipped[0] < there[0]:
        left.append(f"{shipped[0]} of up to {there[0]} bands of a layer are here")
    if shipped[1] < there[1]:
        left.append(f"{shipped[1]} of {there[1]} modes of each band are here")
    if not left:
        return ""
    whole = "; ".join(left)
    return (
        f"To keep this page small {whole}. Everything is in the study: study.layer(3)['modes'] in Python, or "
        "eddyscope figures for files."
    )
