"""What the peaks of a mode coincide with in the text, against chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from eddyscope.report.pagedata.texts import KINDS, Texts
from eddyscope.report.pagedata.values import FloatArray, array

#: Times that the documents' parts are laid on other documents.
_DRAWS = 1000


@dataclass(frozen=True)
class Coincidence:
    """How much of a mode's coefficient falls on one kind of token.

    Parameters
    ----------
    of : str
        ``keys`` or ``queries``.
    kind : str
        ``word starts``, ``line breaks`` or ``punctuation``.
    share : float
        Of what goes along with the mode, mean over the documents that show it most.
    chance, low, high : float
        The same parts laid on other documents: mean, and the middle 95 %.
    """

    of: str
    kind: str
    share: float
    chance: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """``more``, ``less`` or ``as`` chance gives."""
        return "more" if self.share > self.high else "less" if self.share < self.low else "as"


def coincidences(data: xr.Dataset, prefix: str, at: dict[str, int], mode: int, texts: Texts) -> list[Coincidence]:
    """Shares of one mode on each kind of token, for keys and for queries.

    A document's parts are the positive shares of its coefficient, over their sum. Chance lays them, at the same
    positions, on the tokens of documents drawn at random, so that a preference for positions is in it, but no text.

    Returns
    -------
    list of Coincidence
        Empty where the study holds no text, no such documents, or too few of them.
    """
    found = array(data, f"{prefix}top_document", "top_mode", "place", **at)
    if not texts.readable or mode >= found.shape[0] or texts.documents.ids.shape[0] < 8:
        return []
    documents = found[mode][np.isfinite(found[mode])].astype(int)
    made = []
    for of, name, dim in (("keys", "top_key_share", "key"), ("queries", "top_query_share", "query")):
        parts = np.maximum(array(data, f"{prefix}{name}", "place", dim, **at, top_mode=mode)[: documents.size], 0)
        total = parts.sum(axis=1, keepdims=True)
        if not documents.size or not (total > 0).all() or parts.shape[1] != texts.kinds.shape[1]:
            return []
        made += _against_chance(of, parts / total, documents, texts)
    return made


def _against_chance(of: str, parts: FloatArray, documents: np.ndarray, texts: Texts) -> list[Coincidence]:
    kinds = texts.kinds
    draws = _drawn(kinds.shape[0], documents)
    made = []
    for bit, kind in KINDS.items():
        on = parts @ (kinds & bit > 0).T.astype(np.float64)  # (place, document)
        own = float(on[np.arange(documents.size), documents].mean())
        others = on[np.arange(documents.size), draws].mean(axis=1)
        low, high = np.quantile(others, (0.025, 0.975))
        made.append(Coincidence(of, kind, own, float(others.mean()), float(low), float(high)))
    return made


def _drawn(count: int, documents: np.ndarray) -> np.ndarray:
    """For each draw and place another document than its own, shape (draw, place); always the same."""
    shift = np.random.default_rng(0).integers(1, count, size=(_DRAWS, documents.size))
    return np.asarray((documents + shift) % count)


def sentence(found: list[Coincidence], count: int) -> str:
    """The line under a mode: what its peaks coincide with."""
    if not found:
        return ""
    said = []
    for of in ("keys", "queries"):
        ones = [c for c in found if c.of == of]
        said.append(f"on {of}: " + ", ".join(f"{c.kind} {c.share:.0%} (chance {_span(c)})" for c in ones))
    apart = [f"{c.kind} as {c.of} ({'more' if c.verdict == 'more' else 'less'})" for c in found if c.verdict != "as"]
    verdict = "Beyond chance: " + ", ".join(apart) + "." if apart else "None of this is beyond chance."
    documents = f"the {count} documents" if count > 1 else "the document"
    return f"In {documents} that show this mode most, its energy falls {'; '.join(said)}. {verdict}"


def _span(one: Coincidence) -> str:
    return f"{one.low:.0%} to {one.high:.0%}"
