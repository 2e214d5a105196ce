"""The documents as tokens to show, and where words, lines and sentences begin and end in them."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from eddyscope.documents import Documents

BoolArray = npt.NDArray[np.bool_]

#: Characters that end a sentence, and those that may close it.
_ENDS = ".!?…。！？؟۔"
_CLOSING = "\"'’”»)]"
#: Characters that belong to a word when they stand inside it.
_WITHIN = "'’-_"


@dataclass(frozen=True)
class TokenText:
    """One document, token by token.

    Parameters
    ----------
    number : int
    source : str
        Name of what it was cut from.
    tokens : list of str
        What each token adds to the text: empty where it adds nothing (a byte of a character that is there already).
    gaps : dict of str
        Text between tokens, by the number of the token that follows.
    kinds : list of int
        Sum of 1 (a word starts), 2 (line break), 4 (punctuation), 8 (a word ends), 16 (a sentence ends), 32 (special).
    """

    number: int
    source: str
    tokens: list[str]
    gaps: dict[str, str]
    kinds: list[int]


WORD_START, LINE_BREAK, PUNCTUATION, WORD_END, SENTENCE_END, SPECIAL = 1, 2, 4, 8, 16, 32
#: Kinds of tokens whose part in a mode is set against chance, in words.
KINDS = {WORD_START: "word starts", LINE_BREAK: "line breaks", PUNCTUATION: "punctuation"}


class Texts:
    """All documents of a study, read when they are asked for.

    Parameters
    ----------
    documents : Documents
    """

    def __init__(self, documents: Documents) -> None:
        self.documents = documents

    @property
    def readable(self) -> bool:
        """Whether there are texts, and not token ids alone."""
        return self.documents.texts is not None and self.documents.spans is not None

    def token_text(self, number: int) -> TokenText:
        """One document."""
        documents = self.documents
        source = "" if documents.sources is None else documents.sources[number]
        if not self.readable:
            ids = [f"#{token}" for token in documents.ids[number]]
            special = [SPECIAL if s else 0 for s in documents.special[number]]
            return TokenText(number, source, ids, {}, special)
        assert documents.texts is not None and documents.spans is not None
        text, tokens, gaps, end = documents.texts[number], [], {}, 0
        for index, (first, last) in enumerate(documents.spans[number].tolist()):
            if first < 0:
                tokens.append("")
                continue
            if first > end:
                gaps[str(index)] = text[end:first]
            tokens.append(text[max(first, end) : last])
            end = max(end, last)
        return TokenText(number, source, tokens, gaps, [int(k) for k in self.kinds[number]])

    @cached_property
    def kinds(self) -> npt.NDArray[np.uint8]:
        """Kinds of every token, shape (document, token)."""
        documents = self.documents
        assert documents.texts is not None and documents.spans is not None
        made = np.zeros(documents.ids.shape, dtype=np.uint8)
        for number, (text, spans) in enumerate(zip(documents.texts, documents.spans, strict=True)):
            marks = character_kinds(text)
            for index, (first, last) in enumerate(spans.tolist()):
                made[number, index] = SPECIAL if first < 0 else np.bitwise_or.reduce(marks[first:last], initial=0)
        return made


def character_kinds(text: str) -> npt.NDArray[np.uint8]:
    """Kinds of every character; a word that the text's beginning cuts has no start."""
    made = np.zeros(len(text), dtype=np.uint8)
    inside = [_is_inside(text, i) for i in range(len(text))]
    for index, character in enumerate(text):
        if inside[index]:
            if index > 0 and not inside[index - 1]:
                made[index] |= WORD_START
            if index + 1 < len(text) and not inside[index + 1]:
                made[index] |= WORD_END
        elif character in "\n\r\x0b\x0c\x85\u2028\u2029":
            made[index] |= LINE_BREAK
        elif unicodedata.category(character)[0] == "P":
            made[index] |= PUNCTUATION
            if character in _ENDS and _ends_here(text, index):
                made[index] |= SENTENCE_END
    return made


def _is_inside(text: str, index: int) -> bool:
    character = text[index]
    if character.isalnum() or unicodedata.category(character)[0] == "M":
        return True
    return (
        character in _WITHIN and 0 < index < len(text) - 1 and text[index - 1].isalnum() and text[index + 1].isalnum()
    )


def _ends_here(text: str, index: int) -> bool:
    after = text[index + 1 :].lstrip(_CLOSING + _ENDS)[:1]
    return not after or after.isspace() or text[index] in "。！？"
