"""Token streams: sources as tokens with their characters, and the windows cut from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyscope.errors import InputError
from eddyscope.sampling import merge_blocks, touching_runs
from eddyscope.texts import Source
from eddyscope.tokenizers import Tokenizer

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Stream:
    """The tokens of a source, or of several joined ones.

    Parameters
    ----------
    names : tuple of str
        Names of the sources.
    text : str
        The text.
    ids : array (token,)
        Token ids, without special tokens.
    spans : array (token, 2)
        First character of each token in the text, and one past its last.
    owner : array (token,)
        Index into ``names`` of the source that each token is from.
    """

    names: tuple[str, ...]
    text: str
    ids: IntArray
    spans: IntArray
    owner: IntArray


def tokenize(source: Source, tokenizer: Tokenizer) -> Stream:
    """Tokenize a whole source.

    Parameters
    ----------
    source : Source
        Name and text.
    tokenizer : Tokenizer
        Gives ids and spans.

    Returns
    -------
    Stream
        Its tokens. A token that stands for no character is put where the token before it ends.

    Raises
    ------
    InputError
        Ids and spans that do not fit each other, the text or the vocabulary.
    """
    ids, spans = (np.array(a, dtype=np.int64) for a in tokenizer.encode(source.text))
    spans = spans.reshape(-1, 2)
    inside = (spans[:, 0] >= 0) & (spans[:, 0] <= spans[:, 1]) & (spans[:, 1] <= len(source.text))
    known = (ids >= 0) & (ids < tokenizer.vocabulary_size)
    if ids.shape != spans.shape[:1] or not inside.all() or not known.all():
        raise InputError(
            f"Tokenizer '{tokenizer.name}' gave {len(ids)} ids and {len(spans)} spans for {source.name}, "
            f"{np.count_nonzero(~inside)} spans outside the text and {np.count_nonzero(~known)} ids outside the "
            f"vocabulary of {tokenizer.vocabulary_size}."
        )
    for token in np.flatnonzero(spans[:, 0] == spans[:, 1]):
        spans[token] = spans[token - 1, 1] if token else 0
    return Stream((source.name,), source.text, ids, spans, np.zeros(len(ids), dtype=np.int64))


def join(streams: Sequence[Stream]) -> Stream:
    """Join streams end to end, with nothing between them.

    Parameters
    ----------
    streams : sequence of Stream
        At least one.

    Returns
    -------
    Stream
        One stream that knows the source of each token.
    """
    character = np.cumsum([0, *(len(s.text) for s in streams)])
    name = np.cumsum([0, *(len(s.names) for s in streams)])
    return Stream(
        names=tuple(n for s in streams for n in s.names),
        text="".join(s.text for s in streams),
        ids=np.concatenate([s.ids for s in streams]),
        spans=np.concatenate([s.spans + c for s, c in zip(streams, character, strict=False)]),
        owner=np.concatenate([s.owner + n for s, n in zip(streams, name, strict=False)]),
    )


def cut_windows(
    streams: Sequence[Stream],
    placed: Sequence[IntArray],
    size: int,
    before: Sequence[int] = (),
    after: Sequence[int] = (),
) -> dict[str, Any]:
    """Cut windows and put special tokens around them.

    Parameters
    ----------
    streams : sequence of Stream
        What to cut from.
    placed : sequence of arrays
        First tokens of the windows of each stream.
    size : int
        Tokens of a window, special tokens apart.
    before, after : sequence of int
        Ids of the special tokens.

    Returns
    -------
    dict
        The values of :class:`eddyscope.documents.Documents`, by name.
    """
    # Streams of equal text count as one source: windows of a text that was copied may overlap just the same.
    first: dict[str, int] = {}
    label = [first.setdefault(s.text, index) for index, s in enumerate(streams)]
    windows = [(index, int(start)) for index, starts in enumerate(placed) for start in starts]
    count, context, head = len(windows), len(before) + size + len(after), len(before)
    ids = np.empty((count, context), dtype=np.int64)
    ids[:, :head], ids[:, head + size :] = before, after
    special = np.ones((count, context), dtype=bool)
    special[:, head : head + size] = False
    spans = np.full((count, context, 2), -1, dtype=np.int32)
    texts, sources = [], []
    for row, (index, start) in enumerate(windows):
        stream, cut = streams[index], slice(start, start + size)
        first_character, end = int(stream.spans[cut, 0].min()), int(stream.spans[cut, 1].max())
        ids[row, head : head + size] = stream.ids[cut]
        spans[row, head : head + size] = stream.spans[cut] - first_character
        texts.append(stream.text[first_character:end])
        sources.append(" + ".join(stream.names[owner] for owner in np.unique(stream.owner[cut])))
    starts = np.array([start for _, start in windows], dtype=np.int64)
    runs = touching_runs(np.array([label[index] for index, _ in windows], dtype=np.int64), starts, size)
    return {
        "ids": ids,
        "special": special,
        "spans": spans,
        "texts": tuple(texts),
        "sources": tuple(sources),
        "starts": starts,
        "blocks": merge_blocks(runs, [row.tobytes() for row in ids]),
    }
