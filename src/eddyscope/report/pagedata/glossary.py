"""Terms of art, each explained where it first appears."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

#: What each term means, in words that need no other term of this list.
TERMS = {
    "fluctuation": "the part of the attention that changes from document to document; the rest is the same whatever is "
    "read",
    "lag": "distance from the query back to the key, in tokens; positive looks back",
    "octave": "a range of distances, each about twice as wide as the one before",
    "density": "an octave's share over its part of all distances: 1 is flat",
    "mode": "a pattern over queries and keys that recurs from document to document; the first recurs most",
    "energy": "mean square over documents",
    "coefficient": "how strongly one document shows a mode, with a sign",
    "eigenvalue": "energy of a mode, mean over documents",
    "band": "a range of lags that is analysed by itself",
    "scalogram": "what is there at each distance and wavelength, from a wavelet transform",
    "cone of influence": "where the wavelet stays clear of the ends of the lag axis",
    "dominant wavelength": "a wavelength along the distance that stands out by more than its own scatter",
    "decay exponent": "β: how steeply the strength of the patterns falls from one to the next, as rank^-β",
    "effective rank": "H*: fewest modes that miss at most a given share of the fluctuation",
    "effective dimension": "participation ratio: how many equally strong modes would be as spread out",
    "resolved": "two halves of the documents agree on it",
    "null model": "the same analysis where there is nothing to find, such as a model with untrained weights",
    "coherence": "how steadily, over documents, attention at a key keeps step with attention at the query's own "
    "position: 1 always, 0 never",
    "sink": "a key that draws attention from everywhere, whatever it says; mostly the first token",
    "fluctuation level": "share of the squared attention that changes from document to document",
    "participation": "share of a document's coefficient that a token gives as query or as key",
    "lag profile": "mean of a mode over queries, at each lag",
}

_MARK = re.compile(r"\[\[([^\]|]+)(?:\|([^\]]+))?\]\]")


class Glossary:
    """Writes text whose terms are marked, and explains each the first time.

    Texts must be written in the order in which they are read.
    """

    def __init__(self) -> None:
        self.explained: list[str] = []

    def __call__(self, text: str) -> Markup:
        """Text with ``[[term]]`` or ``[[term|as written]]`` as safe HTML."""
        made, end = Markup(""), 0
        for found in _MARK.finditer(text):
            made += escape(text[end : found.start()]) + self._term(found[1], found[2] or found[1])
            end = found.end()
        return made + escape(text[end:])

    def _term(self, term: str, written: str) -> Markup:
        meaning = TERMS[term]
        anchor = "term-" + term.replace(" ", "-")
        if term in self.explained:
            return Markup('<a class="term" href="#{}" title="{}">{}</a>').format(anchor, meaning, written)
        self.explained.append(term)
        return Markup('<dfn id="{}">{}</dfn> <span class="meaning">({})</span>').format(anchor, written, meaning)
