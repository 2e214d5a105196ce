"""Folders of Zarr groups that can be verified: the size and sha256 of every file are noted, and compared on reading.

::

    folder/
        zarr.json            content, format_version, attributes of this kind of folder, digests; written last
        GROUP/...            as :mod:`eddyscope.zarrgroup` writes groups
        manifest/            size and sha256 of every other file

Not consolidated; strings are of variable length. Any reader of Zarr can look into it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from eddyscope.errors import StoreError
from eddyscope.schema import FORMAT_VERSION
from eddyscope.zarrgroup import pack_group, read_group

_MANIFEST = "manifest/files/c.0"


@dataclass(frozen=True)
class Kind:
    """A kind of folder.

    Parameters
    ----------
    content : str
        What the root attribute ``content`` says.
    remedy : str
        What to do about a damaged one.
    """

    content: str
    remedy: str

    def is_at(self, place: Path) -> bool:
        """Whether a folder is one of this kind, whole or not."""
        try:
            return bool(_attributes(place).get("content") == self.content)
        except (OSError, ValueError):
            return False


class FolderWriter:
    """Writes groups into a new folder, and at last its manifest and root.

    Parameters
    ----------
    folder : Path
        New, or empty; to be renamed to its place once it is finished.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, tuple[str, int]] = {}

    def write(self, group: str, data: xr.Dataset) -> None:
        """Write a dataset as the group of this name."""
        base = os.fspath(self.folder / group)  # strings, as a study has thousands of files
        content = {f"{base}/{name}": file for name, file in pack_group(data).items()}
        for place in {os.path.dirname(path) for path in content}:
            os.makedirs(place, exist_ok=True)
        for path, file in content.items():
            with open(path, "wb") as opened:
                opened.write(file)
            self._files[group + path[len(base) :]] = (hashlib.sha256(file).hexdigest(), len(file))

    def finish(self, kind: Kind, attributes: Mapping[str, Any]) -> None:
        """Write the manifest and the root attributes (JSON-able)."""
        lines = [f"{digest} {size} {path}" for path, (digest, size) in self._files.items()]
        self.write("manifest", xr.Dataset({"files": ("file", np.array(lines, dtype=object))}))
        root = {
            "content": kind.content,
            "format_version": FORMAT_VERSION,
            "eddyscope": _own_version(),
            **attributes,
            "manifest_sha256": self._files[_MANIFEST][0],
        }
        _write_root(self.folder / "zarr.json", root)


class FolderReader:
    """Reads a folder that :class:`FolderWriter` wrote.

    Parameters
    ----------
    place : Path
    kind : Kind

    Attributes
    ----------
    root : dict
        Root attributes.

    Raises
    ------
    StoreError
        Where a newer version wrote it, or the root attributes have changed.
    """

    def __init__(self, place: Path, kind: Kind) -> None:
        self.place = place
        self.kind = kind
        self.root = self._root()

    def read(self, group: str) -> xr.Dataset:
        """Read one group into memory, after its files were compared with the manifest."""
        with reading(self.place, self.kind):
            for path in self.files:
                if path.startswith(f"{group}/"):
                    self._compare(path)
            return read_group(self.place / group)

    def verify(self, contents: bool = True) -> None:
        """Compare every file with the manifest: its size, and its contents unless ``contents`` is False.

        Raises
        ------
        StoreError
            For the first that is missing or has changed.
        """
        with reading(self.place, self.kind):
            for path in self.files:
                self._compare(path, contents)

    @cached_property
    def files(self) -> dict[str, tuple[str, int]]:
        """Digest and size of every file but the root and the manifest, by its path."""
        self._expect(_MANIFEST, self.root["manifest_sha256"], None)
        found = {}
        for line in read_group(self.place / "manifest")["files"].values:
            digest, size, path = str(line).split(" ", 2)
            found[path] = (digest, int(size))
        return found

    def replace_root(self, root: Mapping[str, Any]) -> None:
        """Write other root attributes, which must name the same manifest, in the place of those there are."""
        beside = self.place / ".zarr.json.partial"
        try:
            _write_root(beside, root)
            beside.replace(self.place / "zarr.json")
        finally:
            beside.unlink(missing_ok=True)
        self.root = self._root()

    def _root(self) -> dict[str, Any]:
        with reading(self.place, self.kind):
            root = _attributes(self.place)
            stored = root.get("format_version")
            if isinstance(stored, int) and stored > FORMAT_VERSION:
                raise StoreError(
                    f"'{self.place}' has format_version {stored}; this version of eddyscope reads up to "
                    f"{FORMAT_VERSION}.",
                    "Upgrade eddyscope.",
                )
            if root.get("sha256") != _digest_of(root):
                raise self._damaged("zarr.json has changed since it was written")
            return root

    def _compare(self, path: str, contents: bool = True) -> None:
        digest, size = self.files[path]
        self._expect(path, digest if contents else None, size)

    def _expect(self, path: str, digest: str | None, size: int | None) -> None:
        try:
            found = (self.place / path).stat().st_size
            if size is not None and found != size:
                raise self._damaged(f"{path} has {found} bytes instead of {size}")
            if digest is not None and hashlib.sha256((self.place / path).read_bytes()).hexdigest() != digest:
                raise self._damaged(f"{path} has changed since it was written")
        except FileNotFoundError:
            raise self._damaged(f"{path} is missing") from None

    def _damaged(self, how: str) -> StoreError:
        return StoreError(f"'{self.place}' is damaged: {how}.", self.kind.remedy)


@contextmanager
def reading(place: Path, kind: Kind) -> Iterator[None]:
    """Turn what goes wrong while a folder is read into a StoreError of one line."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"'{place}' cannot be read: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise StoreError(f"'{place}' is damaged: {type(error).__name__}: {error}.", kind.remedy) from error


def group_names(layers: Iterable[str]) -> dict[str, str]:
    """Name of the Zarr group of each layer: its own where that is a safe file name, else ``layer-INDEX``."""
    safe = re.compile(r"(?!__)[A-Za-z0-9_][A-Za-z0-9_.\-#]{0,199}")
    names = {name: name if safe.fullmatch(name) else f"layer-{index}" for index, name in enumerate(layers)}
    if len({group.lower() for group in names.values()}) < len(names):  # some file systems fold case
        names = {name: f"layer-{index}" for index, name in enumerate(names)}
    return names


def as_json(what: str, value: Mapping[str, Any]) -> str:
    """JSON of a mapping; StoreError that says what it is of where it cannot be written."""
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        raise StoreError(f"{what} cannot be written as JSON: {error}.") from error


def _attributes(place: Path) -> dict[str, Any]:
    content = json.loads((place / "zarr.json").read_text(encoding="utf-8"))
    attributes = content.get("attributes") if isinstance(content, dict) else None
    return attributes if isinstance(attributes, dict) else {}


def _write_root(path: Path, root: Mapping[str, Any]) -> None:
    attributes = {**root, "sha256": _digest_of(root)}
    content = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")


def _digest_of(root: Mapping[str, Any]) -> str:
    """Digest of the root attributes, which no manifest can hold."""
    return hashlib.sha256(json.dumps({k: v for k, v in root.items() if k != "sha256"}).encode()).hexdigest()


def _own_version() -> str:
    try:
        return version("eddyscope")
    except PackageNotFoundError:
        return "not installed"
