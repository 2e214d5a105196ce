r"""Reading text exactly as it is stored: files, folders, JSON Lines, standard input.

Text is decoded from the bytes of the file and not changed in any way: line ends stay as they are ("\r\n" is two
characters), a byte order mark stays, and so do NUL and combining characters. A character position in a source is
therefore a position in the decoded file.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eddyscope.errors import InputError, UsageError

PathLike = str | os.PathLike[str]

STANDARD_INPUT = "-"
JSONL_SUFFIXES = (".jsonl", ".ndjson")

# Control characters that ordinary text does not hold: all but tab, line feed, vertical tab, form feed, carriage return
# and escape (terminal logs). Random or compressed bytes have about 10 % of them, text with a stray NUL far below 5 %.
CONTROL_CHARACTERS = [chr(c) for c in (*range(9), *range(14, 27), *range(28, 32), 127)]
BINARY_SHARE = 0.05


@dataclass(frozen=True)
class Source:
    """A text that windows are cut from: a file, or one record of a JSON Lines file.

    Parameters
    ----------
    name : str
        Name of the file; a record has its line number behind it, ``"book.jsonl:12"``.
    text : str
        The text, unchanged.
    file : int
        Index of its file in :attr:`Texts.files`.
    """

    name: str
    text: str
    file: int


@dataclass(frozen=True)
class Texts:
    """All that was read.

    Parameters
    ----------
    sources : tuple of Source
        The texts, in order of reading.
    files : tuple of dict
        Identity of each file: ``name, sha256, bytes, characters`` and, for JSON Lines, ``field, records``.
    skipped : tuple of str
        Empty and binary files of a folder, which were left out.
    """

    sources: tuple[Source, ...]
    files: tuple[dict[str, Any], ...]
    skipped: tuple[str, ...] = ()


class _BinaryError(InputError):
    """A file is not text; in a folder such a file is left out."""


@dataclass(frozen=True)
class _File:
    """A file to read: where it is, what to call it, and whether it was found in a folder."""

    path: Path
    name: str
    found: bool = False


def read_texts(text: PathLike | Sequence[PathLike], *, field: str | None = None, encoding: str = "utf-8") -> Texts:
    """Read the texts of a file, a folder, JSON Lines, standard input, or a list of such paths.

    Parameters
    ----------
    text : path or sequence of paths
        A text file; a folder (all text files below it, sorted by path; hidden, empty and binary ones are left out); a
        file ending in ``.jsonl`` or ``.ndjson`` (one source per record); ``"-"`` for standard input. A file that is
        named twice is read once.
    field : str, optional
        The field of each JSON Lines record that holds its text. If given, standard input is JSON Lines too.
    encoding : str
        Encoding of the bytes.

    Returns
    -------
    Texts
        Texts, identities of the files, names of files that were left out.

    Raises
    ------
    InputError
        A path that does not exist, an empty or binary file, bytes that cannot be decoded, a line that is not JSON, a
        record without the field.
    UsageError
        JSON Lines without ``field``, ``field`` without JSON Lines, an unknown encoding.
    """
    sources: list[Source] = []
    identities: list[dict[str, Any]] = []
    skipped: list[str] = []
    for file in _files([text] if isinstance(text, str | os.PathLike) else list(text)):
        data = _read_bytes(file)
        try:
            content = _decode(data, file.name, encoding)
        except _BinaryError:
            if not file.found:
                raise
            skipped.append(file.name)
            continue
        identity = {"name": file.name, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        if _is_jsonl(file, field):
            records = list(_records(content, file.name, field))
            sources += [Source(f"{file.name}:{line}", record, len(identities)) for line, record in records]
            identity |= {"field": field, "records": len(records), "characters": sum(len(r) for _, r in records)}
        else:
            sources.append(Source(file.name, content, len(identities)))
            identity |= {"characters": len(content)}
        identities.append(identity)
    if not identities:
        raise InputError(
            f"There is no text file in {text} ({len(skipped)} empty or binary files were left out).",
            "Give a text file, or a folder that holds some.",
        )
    if field is not None and not any("field" in identity for identity in identities):
        raise UsageError(
            f"field='{field}' is given, but no file ends in {' or '.join(JSONL_SUFFIXES)}.",
            "Leave field (--field) out, or give a JSON Lines file.",
        )
    return Texts(tuple(sources), tuple(identities), tuple(skipped))


def _files(paths: Sequence[PathLike]) -> list[_File]:
    """Files to read, each once; a short name where it is unique, the path as given otherwise."""
    files: dict[Path, _File] = {}
    for given in paths:
        path = Path(given)
        if os.fspath(given) == STANDARD_INPUT:
            files.setdefault(path, _File(path, STANDARD_INPUT))
        elif _exists(path) and path.is_dir():
            base = path.resolve().name
            for member in _members(path):
                name = (base / member.relative_to(path)).as_posix()
                files.setdefault(member.resolve(), _File(member, name, found=True))
        else:
            files.setdefault(path.resolve(), _File(path, path.name))
    uses = Counter(file.name for file in files.values())
    return [f if uses[f.name] == 1 else _File(f.path, f.path.as_posix(), f.found) for f in files.values()]


def _exists(path: Path) -> bool:
    """Whether there is such a path; an error where there is none."""
    try:
        if path.exists():
            return True
    except (OSError, ValueError):  # a text given in place of its path: too long, or with a NUL
        pass
    # A path is named whole; a text that was given in its place is not.
    shown = str(path) if len(str(path)) <= 400 else str(path)[:77] + "..."
    raise InputError(
        f"There is no file or folder {shown!r}.", "Give the path of a text file or a folder, or - for standard input."
    )


def _members(folder: Path) -> list[Path]:
    """All files below a folder, sorted by path; hidden files and folders are left out, links to folders too."""
    members: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        members += [Path(place, name) for name in names if not name.startswith(".")]
    return sorted(member for member in members if member.is_file())


def _read_bytes(file: _File) -> bytes:
    if file.name == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    if file.path.suffix == ".npy" and not file.found:
        raise InputError(
            f"{file.name} holds an array, not text.", "For token ids use eddyscope.Documents.from_ids(path)."
        )
    try:
        return file.path.read_bytes()
    except OSError as error:
        raise InputError(f"{file.name} cannot be read: {error.strerror}.") from error


def _decode(data: bytes, name: str, encoding: str) -> str:
    """The text of a file; refuses an empty or binary one, and bytes of another encoding."""
    if not data:
        if name == STANDARD_INPUT:
            raise _BinaryError("Standard input is empty.", "Pipe a text into it, or give a file.")
        raise _BinaryError(f"{name} is empty (0 bytes).", "Give a file with text in it.")
    undecodable = None
    try:
        content = data.decode(encoding)
    except LookupError as error:
        raise UsageError(f"Unknown encoding '{encoding}'.", "Examples: utf-8, latin-1, utf-16.") from error
    except UnicodeError as error:
        undecodable = getattr(error, "start", 0)
        content = data.decode("latin-1")  # every byte a character: for the share of control characters
    other = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
    remedy = f"If it is text, pass its encoding, for example encoding='{other}' (--encoding {other})."
    share = sum(content.count(c) for c in CONTROL_CHARACTERS) / len(content)
    if share > BINARY_SHARE:
        raise _BinaryError(f"{name} looks binary: {share:.0%} of it is control characters.", remedy)
    if undecodable is not None:
        raise InputError(f"{name} cannot be decoded as {encoding} at byte {undecodable}.", remedy)
    return content


def _is_jsonl(file: _File, field: str | None) -> bool:
    if file.name == STANDARD_INPUT:
        return field is not None
    return file.path.suffix.lower() in JSONL_SUFFIXES


def _records(content: str, name: str, field: str | None) -> Iterator[tuple[int, str]]:
    """Line number (from 1) and text of each record; blank lines and empty texts are left out."""
    # Not splitlines(): JSON strings may hold U+2028 and other characters that it takes for line ends.
    for number, line in enumerate(content.removeprefix("\ufeff").split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", error)
            raise InputError(f"{where} is not JSON: {reason}.", "Each line must hold one JSON object.") from error
        if not isinstance(record, dict):
            raise InputError(f"{where} is a JSON {type(record).__name__}.", "Each line must hold one JSON object.")
        text = _field_of(record, where, field)
        if text:
            yield number, text


def _field_of(record: dict[str, Any], where: str, field: str | None) -> str:
    available = ", ".join(record) or "none"
    if field is None:
        raise UsageError(
            f"JSON Lines needs the name of the field that holds the text; {where} has the fields: {available}.",
            "Pass field='NAME' (--field NAME).",
        )
    if field not in record:
        raise InputError(f"{where} has no field '{field}'; it has: {available}.")
    text = record[field]
    if not isinstance(text, str):
        raise InputError(f"{where}: field '{field}' is of type {type(text).__name__}, expected a string.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{where}: half of a surrogate pair at character {error.start} is not text.") from error
    return text
