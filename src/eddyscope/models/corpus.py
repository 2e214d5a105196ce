"""The character corpus of the study, TinyShakespeare: found, or fetched and checked."""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from eddyscope.errors import InputError

NAME = "tinyshakespeare"
FILE_NAME = "tinyshakespeare.txt"
ADDRESS = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
FOLDER_VARIABLE = "EDDYSCOPE_DATA"
TRAINING_SHARE = 0.9
TIMEOUT = 20.0  # seconds


@dataclass(frozen=True)
class Corpus:
    """A text, split into training (the first 90 %) and validation by convention.

    Parameters
    ----------
    name : str
        ``tinyshakespeare`` or the name of the file.
    text : str
        All of it.
    source : str
        Where it came from.
    """

    name: str
    text: str
    source: str

    @property
    def border(self) -> int:
        """Index of the first validation character."""
        return int(len(self.text) * TRAINING_SHARE)

    @property
    def training(self) -> str:
        """The first 90 % of the characters."""
        return self.text[: self.border]

    @property
    def validation(self) -> str:
        """The last 10 % of the characters."""
        return self.text[self.border :]

    @property
    def vocabulary(self) -> list[str]:
        """The distinct characters of the whole text, sorted."""
        return sorted(set(self.text))

    @property
    def sha256(self) -> str:
        """Checksum of the text in UTF-8."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def cache_folder() -> Path:
    """Return the user's cache folder of Eddyscope: ``$XDG_CACHE_HOME/eddyscope`` or ``~/.cache/eddyscope``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "eddyscope"


def find_corpus(path: str | Path | None = None, *, download: bool = True) -> Corpus:
    """Return TinyShakespeare, or the text at an explicit path.

    Looked up in this order: ``path``; the folder named by the environment variable ``EDDYSCOPE_DATA``; the user's
    cache; a download from its public address, kept in the cache. All but an explicit path are checked against the
    published sha256.

    Parameters
    ----------
    path : str or Path, optional
        A UTF-8 text file, used as it is. ``tinyshakespeare`` means no path.
    download : bool
        Whether the network may be asked.

    Raises
    ------
    InputError
        Where the text cannot be had, naming the places looked at, or where a checksum differs.
    """
    if path is not None and str(path) != NAME:
        return _read_explicit(Path(path))
    tried = []
    folder = os.environ.get(FOLDER_VARIABLE)
    candidates = [Path(folder) / FILE_NAME] if folder else []
    for candidate in [*candidates, cache_folder() / FILE_NAME]:
        if candidate.is_file():
            return Corpus(NAME, _checked(candidate.read_bytes(), str(candidate)), str(candidate))
        tried.append(str(candidate))
    if not folder:
        tried.insert(0, f"{FOLDER_VARIABLE} (not set)")
    if not download:
        raise _missing(tried, "downloading was not allowed")
    return _download(tried)


def _read_explicit(path: Path) -> Corpus:
    """Read a text file given by the user."""
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise InputError(
            f"The corpus '{path}' cannot be read ({error.strerror}).",
            f"Give the path of a text file, or '{NAME}'.",
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"The corpus '{path}' is not UTF-8 text (byte {error.start}).", "Convert it to UTF-8 first."
        ) from error
    if not text:
        raise InputError(f"The corpus '{path}' is empty; expected text.", "Give another file.")
    return Corpus(path.name, text, str(path))


def _checked(data: bytes, source: str) -> str:
    """Return the text of the published corpus, or raise if it is another."""
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256:
        raise InputError(
            f"'{source}' is not the published {NAME}: its sha256 is {found}, expected {SHA256}.",
            "Remove it, or give the path of the text explicitly.",
        )
    return data.decode("ascii")


def _download(tried: list[str]) -> Corpus:
    """Fetch the corpus from its public address into the cache."""
    try:
        with urllib.request.urlopen(ADDRESS, timeout=TIMEOUT) as response:
            data: bytes = response.read()
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise _missing(tried, f"the download from {ADDRESS} failed ({reason})") from error
    text = _checked(data, ADDRESS)
    target = cache_folder() / FILE_NAME
    beside = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(data)
        beside.replace(target)
    except OSError:
        beside.unlink(missing_ok=True)  # a cache that cannot be written only costs the next download
    return Corpus(NAME, text, ADDRESS)


def _missing(tried: list[str], reason: str) -> InputError:
    """Return the error of a corpus that is nowhere."""
    return InputError(
        f"The corpus {NAME} was not found: looked at {', '.join(tried)}, and {reason}.",
        f"Put {FILE_NAME} (sha256 {SHA256[:12]}...) into a folder and set {FOLDER_VARIABLE} to it, "
        "or give the path of a text file.",
    )
