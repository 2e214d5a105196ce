"""Documents: windows of equal length, cut from texts as token ids that know their source and their characters."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

from eddyscope.errors import EddyscopeWarning, InputError, UsageError
from eddyscope.sampling import balanced_groups, merge_blocks, place_windows
from eddyscope.streams import Stream, cut_windows, join, tokenize
from eddyscope.texts import PathLike, Texts, read_texts
from eddyscope.token_ids import read_ids
from eddyscope.tokenizers import Tokenizer, as_tokenizer

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Documents:
    """Token windows of equal length and where they come from.

    Parameters
    ----------
    ids : array (document, token), int64
        Token ids, special tokens included.
    special : array (document, token), bool
        Whether the tokenizer added the token. A special token that is spelled out in a text is part of the text.
    starts : array (document,), int64
        Position of the first token that is not special among the tokens of the source (of the joined sources with
        ``pack``); 0 for documents made from ids.
    blocks : array (document,), int64
        Source block of each document: windows of one source that touch or overlap share a block, and so do equal token
        sequences. Groups, halves and folds are made of whole blocks.
    spans : array (document, token, 2), int32, optional
        First character and one past the last of each token in the text of its document; (-1, -1) for special tokens.
        Tokens may share a character.
    texts : tuple of str, optional
        Text of each window, from the first character of its first token to the last character of its last.
    sources : tuple of str, optional
        Name of the source of each document; names joined by ``" + "`` where a packed window holds several.
    mask : array (document, token), bool, optional
        False for padding; None where there is none.
    identity : dict
        What identifies the documents, ready for JSON: tokenizer, files with sha256 and counts, and the options.
    """

    ids: IntArray
    special: BoolArray
    starts: IntArray
    blocks: IntArray
    spans: npt.NDArray[np.int32] | None = None
    texts: tuple[str, ...] | None = None
    sources: tuple[str, ...] | None = None
    mask: BoolArray | None = None
    identity: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count, context = self.ids.shape
        expected: dict[str, tuple[int, ...]] = {
            "special": (count, context),
            "starts": (count,),
            "blocks": (count,),
            "spans": (count, context, 2),
            "mask": (count, context),
        }
        for name, shape in expected.items():
            value = getattr(self, name)
            if value is not None and value.shape != shape:
                raise InputError(f"Documents: {name} has shape {value.shape}, expected {shape}.")
        for name in ("texts", "sources"):
            value = getattr(self, name)
            if value is not None and len(value) != count:
                raise InputError(f"Documents: there are {len(value)} {name} for {count} documents.")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def context(self) -> int:
        """Tokens of each document, special tokens and padding included."""
        return int(self.ids.shape[1])

    def select(self, index: npt.ArrayLike | slice) -> Documents:
        """Some of the documents.

        Parameters
        ----------
        index : slice, integers or booleans
            Which documents, as NumPy indexes one axis.

        Returns
        -------
        Documents
            Blocks keep their labels; ``identity["selection"]`` lists the documents that were kept, counted in the
            documents first read.
        """
        rows = np.arange(len(self))[index if isinstance(index, slice) else np.asarray(index)]
        chosen: dict[str, Any] = {}
        for name in _VALUES:
            value = getattr(self, name)
            if value is not None:
                chosen[name] = value[rows] if isinstance(value, np.ndarray) else tuple(value[r] for r in rows)
        before = self.identity.get("selection", range(len(self)))
        identity = self.identity | {"selection": [before[r] for r in rows]}
        return replace(self, **chosen, identity=identity)

    def groups(self, number: int = 15) -> IntArray:
        """Assign whole source blocks to at most ``number`` groups of about equally many documents.

        Parameters
        ----------
        number : int
            Most groups; fewer where there are fewer blocks.

        Returns
        -------
        array (document,)
            Group of each document, 0, 1, ...; determined by the blocks alone (largest block first, each to the smallest
            group).
        """
        if number < 1:
            raise UsageError(f"number={number}: expected at least 1 group.")
        return balanced_groups(self.blocks, number)

    @classmethod
    def from_ids(
        cls,
        ids: npt.ArrayLike | PathLike,
        *,
        mask: npt.ArrayLike | None = None,
        special: npt.ArrayLike | None = None,
        blocks: npt.ArrayLike | None = None,
        vocabulary_size: int | None = None,
        name: str = "token ids",
    ) -> Documents:
        """Documents from token ids.

        Parameters
        ----------
        ids : array (document, token) of integers, or path of such a ``.npy`` file
            Token ids as the model reads them.
        mask : array (document, token) of bool, optional
            False for padding, where documents of different lengths were padded.
        special : array (document, token) of bool, optional
            Which tokens are special; none by default.
        blocks : array (document,) of integers, optional
            Which documents come from the same stretch of text. By default each stands alone; equal token sequences
            share a block in any case.
        vocabulary_size : int, optional
            Ids must be below it.
        name : str
            Name for the identity; the name of the file for a path.

        Returns
        -------
        Documents
            Without texts, spans and sources.

        Raises
        ------
        InputError
            Not a table of integers, fewer than two tokens, ids outside the vocabulary, a document of padding alone, a
            mask or blocks of another shape.
        """
        table, name = read_ids(ids, name, vocabulary_size)
        real = np.ones(table.shape, dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
        labels = np.arange(len(table)) if blocks is None else np.asarray(blocks, dtype=np.int64)
        if real.shape != table.shape or labels.shape != table.shape[:1]:
            raise InputError(
                f"{name} has shape {table.shape}, its mask {real.shape} and blocks {labels.shape}; expected a mask of "
                f"the same shape and {len(table)} blocks."
            )
        if not real.any(axis=1).all():
            raise InputError(f"Document {int(np.argmin(real.any(axis=1)))} of {name} is padding alone.")
        return cls(
            ids=table,
            special=np.zeros(table.shape, dtype=bool) if special is None else np.asarray(special, dtype=bool),
            starts=np.zeros(len(table), dtype=np.int64),
            blocks=merge_blocks(labels, [row[kept].tobytes() for row, kept in zip(table, real, strict=True)]),
            mask=None if real.all() else real,
            identity={
                "kind": "ids",
                "name": name,
                "sha256": hashlib.sha256(table.tobytes()).hexdigest(),
                "vocabulary_size": vocabulary_size,
                "context": table.shape[1],
                "count": len(table),
            },
        )

    def to_dataset(self) -> xr.Dataset:
        """All of it as a Dataset, to be stored.

        Texts and names are JSON strings: ASCII alone, so that a NUL at the end and any other character come back
        exactly from every store of strings.

        Returns
        -------
        xarray.Dataset
            Dimensions ``document, token, bound``; attribute ``identity`` is JSON.
        """
        variables: dict[str, tuple[tuple[str, ...], Any]] = {}
        for name, dims in _VALUES.items():
            value = getattr(self, name)
            if value is not None:
                strings = not isinstance(value, np.ndarray)
                variables[name] = (dims, np.array([json.dumps(v) for v in value], dtype=object) if strings else value)
        return xr.Dataset(variables, attrs={"identity": json.dumps(self.identity)})

    @classmethod
    def from_dataset(cls, dataset: xr.Dataset) -> Documents:
        """The documents that :meth:`to_dataset` wrote.

        Parameters
        ----------
        dataset : xarray.Dataset
            As written.

        Returns
        -------
        Documents
            Equal in every value.
        """
        values: dict[str, Any] = {name: dataset[name].values for name in _VALUES if name in dataset}
        for name in ("texts", "sources"):
            if name in values:
                values[name] = tuple(json.loads(str(v)) for v in values[name])
        return cls(**values, identity=json.loads(dataset.attrs["identity"]))


# Every value of Documents but the identity, with its dimensions.
_VALUES: dict[str, tuple[str, ...]] = {
    "ids": ("document", "token"),
    "special": ("document", "token"),
    "starts": ("document",),
    "blocks": ("document",),
    "spans": ("document", "token", "bound"),
    "texts": ("document",),
    "sources": ("document",),
    "mask": ("document", "token"),
}


def read_documents(
    text: PathLike | Sequence[PathLike],
    tokenizer: Any,
    *,
    context: int = 256,
    count: int = 150,
    seed: int = 0,
    field: str | None = None,
    encoding: str = "utf-8",
    pack: bool = False,
    overlap: bool = False,
    special: Literal["auto", "none"] = "auto",
) -> Documents:
    """Cut windows of exactly ``context`` tokens from texts.

    Each source is tokenized as a whole, and windows are cut from its tokens: drawn with a seed, without overlap, each
    from one source (:func:`eddyscope.sampling.place_windows` says how). Documents stand in the order of their sources,
    and by position within a source. Text is read exactly as stored, line ends included.

    Parameters
    ----------
    text : path or sequence of paths
        A text file, a folder, a ``.jsonl`` or ``.ndjson`` file, ``"-"`` for standard input, or a list of paths; see
        :func:`eddyscope.texts.read_texts`.
    tokenizer : Hugging Face fast tokenizer, or eddyscope.tokenizers.Tokenizer
        Gives ids and character spans.
    context : int
        Tokens of a document, special tokens included.
    count : int
        Documents wanted. Where the text does not hold so many, there are fewer, and a warning (``few-documents``).
    seed : int
        Seed of the places.
    field : str, optional
        Field of JSON Lines records that holds the text.
    encoding : str
        Encoding of the files.
    pack : bool
        Join the sources (end to end, nothing between them), so that windows may cross from one to the next.
    overlap : bool
        Let windows overlap: every start is equally likely, none is drawn twice.
    special : {"auto", "none"}
        Put the special tokens that the tokenizer adds by itself around each window, or none.

    Returns
    -------
    Documents
        Windows with ids, spans, texts, sources and source blocks.

    Raises
    ------
    UsageError
        An option out of its range.
    InputError
        Text that cannot be read (:func:`eddyscope.texts.read_texts`) or is shorter than one window.
    """
    if count < 1 or context < 2:
        raise UsageError(f"context={context}, count={count}: expected at least 2 tokens and 1 document.")
    if special not in ("auto", "none"):
        raise UsageError(f"special='{special}': expected 'auto' or 'none'.")
    reader = as_tokenizer(tokenizer)
    before, after = (reader.prefix, reader.suffix) if special == "auto" else ((), ())
    size = context - len(before) - len(after)
    if size < 1:
        raise UsageError(f"context={context} has no room for text beside {context - size} special tokens.")

    read = read_texts(text, field=field, encoding=encoding)
    streams = [tokenize(source, reader) for source in read.sources]
    sources = _source_identity(read, streams, reader)
    identity: dict[str, Any] = {
        "kind": "text",
        "tokenizer": reader.name,
        "vocabulary_size": reader.vocabulary_size,
        "special_before": list(before),
        "special_after": list(after),
        "sources": sources,
        "skipped": list(read.skipped),
        "encoding": encoding,
        "context": context,
        "count_asked": count,
        "seed": seed,
        "pack": pack,
        "overlap": overlap,
        "special": special,
        "replaced": sum(source["replaced"] for source in sources),
    }
    lengths = [len(stream.ids) for stream in streams]
    if pack and streams:
        streams, lengths = [join(streams)], [sum(lengths)]
    placed = place_windows(lengths, size, count, np.random.default_rng(seed), overlap)
    identity["count"] = sum(map(len, placed))
    _check_count(identity, lengths)
    return Documents(**cut_windows(streams, placed, size, before, after), identity=identity)


def _source_identity(read: Texts, streams: Sequence[Stream], reader: Tokenizer) -> list[dict[str, Any]]:
    """Identity of each file with its tokens, and those that stand for something outside the vocabulary."""
    files = [identity | {"tokens": 0, "replaced": 0} for identity in read.files]
    for source, stream in zip(read.sources, streams, strict=True):
        files[source.file]["tokens"] += len(stream.ids)
        files[source.file]["replaced"] += reader.count_replaced(source.text, stream.ids)
    return files


def _check_count(identity: dict[str, Any], lengths: Sequence[int]) -> None:
    """Refuse text shorter than one window; warn where there are fewer windows than asked for."""
    asked, got, context = identity["count_asked"], identity["count"], identity["context"]
    around = len(identity["special_before"]) + len(identity["special_after"])
    needs = f"{context - around:,} tokens each" + (f" and {around} special ones" if around else "")
    if got == 0:
        has = f"{max(lengths, default=0):,} tokens"
        if len(lengths) > 1:
            has = f"{sum(lengths):,} tokens in {len(lengths):,} sources, at most {max(lengths):,} in one"
        packs = len(lengths) > 1 and sum(lengths) >= context - around
        raise InputError(
            f"The text is shorter than one window: it has {has}, and windows take {needs}.",
            "Give more text or a smaller context (--context)" + (", or pack=True (--pack)." if packs else "."),
        )
    if got < asked:
        remedy = "a smaller context" if identity["overlap"] else "a smaller context or overlap=True (--overlap)"
        has = f"{sum(lengths):,} tokens in {len(lengths):,} source{'s'[: len(lengths) != 1]}"
        message = f"{got:,} of {asked:,} documents: the text has {has}, and windows take {needs}."
        warnings.warn(EddyscopeWarning(f"{message} Give more text, or {remedy}.", "few-documents"), stacklevel=3)
