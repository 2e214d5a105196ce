"""What a tokenizer must give: token ids and the characters that each token stands for.

Hugging Face tokenizers are adapted by :func:`as_tokenizer` without importing transformers; a character vocabulary is a
:class:`CharTokenizer`; any other object with the attributes of :class:`Tokenizer` works as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from eddyscope.errors import InputError

IntArray = npt.NDArray[np.int64]


@runtime_checkable
class Tokenizer(Protocol):
    """Anything that gives token ids and character spans.

    Attributes
    ----------
    name : str
        Recorded with the results.
    vocabulary_size : int
        Ids are 0 to ``vocabulary_size - 1``.
    prefix, suffix : tuple of int
        Ids of the special tokens that the tokenizer puts before and after a text by itself; empty if none.
    """

    name: str
    vocabulary_size: int
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]

    def encode(self, text: str) -> tuple[IntArray, IntArray]:
        """Token ids (token,) and character spans (token, 2), ends exclusive, without special tokens.

        Tokens stand in the order of the text. Several tokens may share a character (byte-level BPE) and characters
        may belong to no token (white space in BERT).
        """
        ...

    def count_replaced(self, text: str, ids: IntArray) -> int:
        """How many of the tokens stand for something that the vocabulary does not have."""
        ...


class CharTokenizer:
    """One token per character; the id is the index in a list of characters.

    Parameters
    ----------
    vocabulary : str or sequence of str
        The characters, each once.
    fallback : str, optional
        The character of the vocabulary that replaces those it does not have. None refuses them.
    name : str
        Recorded with the results.

    Examples
    --------
    >>> ids, spans = CharTokenizer("abc ", fallback=" ").encode("cab!")
    >>> ids.tolist(), spans.tolist()
    ([2, 0, 1, 3], [[0, 1], [1, 2], [2, 3], [3, 4]])
    """

    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()

    def __init__(self, vocabulary: Sequence[str], fallback: str | None = None, name: str = "characters") -> None:
        characters = list(vocabulary)
        if not characters or any(len(c) != 1 for c in characters) or len(set(characters)) < len(characters):
            raise InputError(
                f"A character vocabulary must hold single characters, each once; got {len(characters)} entries, "
                f"{len(set(characters))} distinct, the longest of {max(map(len, characters), default=0)} characters."
            )
        if fallback is not None and fallback not in characters:
            raise InputError(f"The fallback {fallback!r} is not in the vocabulary.")
        self.vocabulary = tuple(characters)
        self.fallback = fallback
        self.name = name
        self.vocabulary_size = len(characters)
        codes = _codes("".join(characters))
        self._order = np.argsort(codes)
        self._sorted = codes[self._order]

    @classmethod
    def of_model(cls, vocabulary: Sequence[str], name: str = "characters") -> CharTokenizer:
        """As a model of eddyscope encodes: a character that it lacks is read as a space, or as its first character."""
        return cls(vocabulary, fallback=" " if " " in vocabulary else vocabulary[0], name=name)

    def _look_up(self, text: str) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Id of each character and whether the vocabulary has it."""
        codes = _codes(text)
        place = np.minimum(np.searchsorted(self._sorted, codes), len(self._sorted) - 1)
        return self._order[place].astype(np.int64), self._sorted[place] == codes

    def encode(self, text: str) -> tuple[IntArray, IntArray]:
        """Ids (character,) and spans (character, 2); see :class:`Tokenizer`.

        Raises
        ------
        InputError
            A character that is not in the vocabulary, where there is no fallback.
        """
        ids, known = self._look_up(text)
        if not known.all():
            if self.fallback is None:
                first = int(np.argmin(known))
                raise InputError(
                    f"{np.count_nonzero(~known)} characters are not in the vocabulary of {self.vocabulary_size}, the "
                    f"first is {text[first]!r} at {first}.",
                    "Pass a fallback character.",
                )
            ids[~known] = self.vocabulary.index(self.fallback)
        position = np.arange(len(ids), dtype=np.int64)
        return ids, np.stack([position, position + 1], axis=-1)

    def count_replaced(self, text: str, ids: IntArray) -> int:
        """Characters of the text that the vocabulary does not have."""
        return int(np.count_nonzero(~self._look_up(text)[1]))


class _HuggingFace:
    """A Hugging Face fast tokenizer as a :class:`Tokenizer`."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.name = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
        if not tokenizer.is_fast:
            # Spans by decoding token by token would be guesses wherever a tokenizer normalises its text.
            raise InputError(
                f"Tokenizer '{self.name}' ({type(tokenizer).__name__}) is a slow one, which gives no character spans.",
                "Load the fast one, or pass an object with the attributes of eddyscope.tokenizers.Tokenizer.",
            )
        self.vocabulary_size = len(tokenizer)  # with the tokens that were added to the base vocabulary
        self.prefix, self.suffix = self._special_tokens()

    def _call(self, text: str, special: bool = False) -> Any:
        # All options are explicit, since a tokenizer's own file may set truncation and padding. verbose=False: no
        # warning that the text is longer than the model reads, since it is cut into windows afterwards.
        return self._tokenizer(
            text,
            add_special_tokens=special,
            truncation=False,
            padding=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )

    def _special_tokens(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Ids put before and after a text, from the difference between encoding with and without them."""
        for probe in ("a", "the", "0", "."):
            bare = list(self._call(probe)["input_ids"])
            full = list(self._call(probe, special=True)["input_ids"])
            for before in range(len(full) - len(bare) + 1 if bare else 0):
                after = before + len(bare)
                if full[before:after] == bare:
                    return tuple(map(int, full[:before])), tuple(map(int, full[after:]))
        raise InputError(f"Cannot tell which special tokens tokenizer '{self.name}' puts around a text.")

    def encode(self, text: str) -> tuple[IntArray, IntArray]:
        """Ids and spans of the whole text, however long; see :class:`Tokenizer`."""
        encoded = self._call(text)
        ids = np.asarray(encoded["input_ids"], dtype=np.int64)
        return ids, np.asarray(encoded["offset_mapping"], dtype=np.int64).reshape(-1, 2)

    def count_replaced(self, text: str, ids: IntArray) -> int:
        """Unknown tokens."""
        unknown = self._tokenizer.unk_token_id
        return 0 if unknown is None else int(np.count_nonzero(ids == unknown))


class _Tiktoken:
    """An encoding of tiktoken as a :class:`Tokenizer`, without special tokens."""

    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()

    def __init__(self, encoding: Any) -> None:
        self._encoding = encoding
        self.name = f"tiktoken {encoding.name}"
        self.vocabulary_size = int(encoding.n_vocab)

    def encode(self, text: str) -> tuple[IntArray, IntArray]:
        """Ids and spans; a character that is cut into several tokens belongs to all of them."""
        # Lone surrogates become one replacement character each, as the encoding itself does.
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        ids = np.asarray(self._encoding.encode_ordinary(whole), dtype=np.int64)
        sizes = [len(self._encoding.decode_single_token_bytes(int(index))) for index in ids]
        stops = np.cumsum(sizes, dtype=np.int64)
        coded = np.frombuffer(whole.encode("utf-8"), dtype=np.uint8)
        character = np.cumsum((coded & 0xC0) != 0x80) - 1  # bytes 10xxxxxx go on with a character
        starts = stops - np.asarray(sizes, dtype=np.int64)
        if not ids.size:
            return ids, np.empty((0, 2), dtype=np.int64)
        return ids, np.stack([character[starts], character[stops - 1] + 1], axis=-1).astype(np.int64)

    def count_replaced(self, text: str, ids: IntArray) -> int:
        """None: bytes stand for everything."""
        return 0


def as_tokenizer(tokenizer: Any) -> Tokenizer:
    """Adapt a tokenizer.

    Parameters
    ----------
    tokenizer : Tokenizer, Hugging Face fast tokenizer or encoding of tiktoken
        What to adapt. Those of libraries are recognised by what they can do.

    Returns
    -------
    Tokenizer
        The object itself if it already is one.

    Raises
    ------
    InputError
        A slow tokenizer, or an object that is no tokenizer.
    """
    if callable(tokenizer) and hasattr(tokenizer, "is_fast"):
        return _HuggingFace(tokenizer)
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    if hasattr(tokenizer, "encode_ordinary") and hasattr(tokenizer, "decode_single_token_bytes"):
        return _Tiktoken(tokenizer)
    raise InputError(
        f"{type(tokenizer).__name__} is not a tokenizer that gives ids and character spans.",
        "Pass a Hugging Face fast tokenizer or an object with the attributes of eddyscope.tokenizers.Tokenizer.",
    )


def _codes(text: str) -> IntArray:
    """Code point of each character; surrogates pass, since a lone one is a character that a vocabulary lacks."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
