"""One head of one layer, read a few documents at a time: from memory, or from scratch files of a layer of a store."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from eddyscope.errors import StoreError
from eddyscope.kernels.gramblocks import TILE
from eddyscope.lagfield import FloatArray, LagField, LagGeometry
from eddyscope.places import writing
from eddyscope.plans import size as in_words

#: What of a field is in scratch files, in the order of :class:`LagField`.
_ARRAYS = ("values", "first_key", "row_sum")
#: How the names of scratch folders begin.
_SCRATCH = ".eddyscope-scratch-"


class BlockField(Protocol):
    """The field of one head, of which some documents can be read."""

    @property
    def geometry(self) -> LagGeometry:
        """Of the field."""

    @property
    def documents(self) -> int:
        """Number of documents."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""

    def read(self, documents: slice) -> LagField:
        """The field of some documents that follow each other."""


@dataclass(frozen=True)
class HeldField:
    """A field in memory.

    Parameters
    ----------
    field : LagField
        One head.
    """

    field: LagField

    @property
    def geometry(self) -> LagGeometry:
        """Of the field."""
        return self.field.geometry

    @property
    def documents(self) -> int:
        """Number of documents."""
        return self.field.documents

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self.field.values.dtype

    def read(self, documents: slice) -> LagField:
        """Views of some documents."""
        return self.field.select_documents(documents)


@dataclass
class ScratchField:
    """A field in scratch files: numbers as they are, one file an array, read with offsets and never mapped.

    A mapped file would count as memory of the process, whatever the budget.

    Parameters
    ----------
    folder : Path
        Exists.
    geometry : LagGeometry
    label : str
        Of the head.
    """

    folder: Path
    geometry: LagGeometry
    label: str
    documents: int = 0
    _types: dict[str, np.dtype[Any]] = field(default_factory=dict)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self._types["values"]

    def append(self, part: LagField) -> None:
        """Write the documents that follow."""
        with writing(self.folder):
            for name in _ARRAYS:
                array = getattr(part, name)
                self._types[name] = array.dtype
                with (self.folder / name).open("ab") as file:
                    np.ascontiguousarray(array).tofile(file)
        self.documents += part.documents

    def read(self, documents: slice) -> LagField:
        """Some documents, read from the files."""
        start, stop, _ = documents.indices(self.documents)
        found = []
        for name in _ARRAYS:
            width, kind = self._width(name), self._types[name]
            flat = np.fromfile(self.folder / name, kind, (stop - start) * width, offset=start * width * kind.itemsize)
            found.append(flat.reshape(stop - start, 1, width))
        return LagField(found[0], self.geometry, (self.label,), found[1], found[2])

    def _width(self, name: str) -> int:
        return self.geometry.size if name == "values" else self.geometry.queries


class GramFiles:
    """Grams of all windows on disk, in blocks: the diagonal and what is above it.

    Parameters
    ----------
    folder : Path
        Exists.
    documents, windows : int
    """

    def __init__(self, folder: Path, documents: int, windows: int) -> None:
        self.documents, self.windows = documents, windows
        self._paths = [folder / f"gram-{window}" for window in range(windows)]
        self._tiles = [slice(a, min(a + TILE, documents)) for a in range(0, documents, TILE)]
        self._offsets: dict[tuple[int, int], int] = {}
        self._end = 0

    @property
    def tiles(self) -> list[slice]:
        """Documents of each block along one side."""
        return self._tiles

    @staticmethod
    def bytes_of(documents: int, windows: int) -> int:
        """What they take on disk, at most."""
        tiles = -(-documents // TILE)
        return windows * 8 * TILE**2 * tiles * (tiles + 1) // 2

    def write(self, i: int, j: int, blocks: FloatArray) -> None:
        """Blocks of all windows, shape (window, document of i, document of j), i at most j; each pair once."""
        with writing(self._paths[0]):
            for path, block in zip(self._paths, blocks, strict=True):
                with path.open("ab") as file:
                    np.ascontiguousarray(block, dtype=np.float64).tofile(file)
        self._offsets[i, j] = self._end
        self._end += 8 * blocks[0].size

    def blocks(self, window: int) -> Iterator[tuple[slice, slice, FloatArray]]:
        """All blocks of a window in the order in which they lie on disk, with their documents."""
        for (i, j), offset in self._offsets.items():
            rows, columns = self._tiles[i], self._tiles[j]
            shape = (rows.stop - rows.start, columns.stop - columns.start)
            block = np.fromfile(self._paths[window], np.float64, shape[0] * shape[1], offset=offset)
            yield rows, columns, block.reshape(shape)

    def whole(self, window: int) -> FloatArray:
        """The Gram of a window in memory, shape (document, document)."""
        gram = np.empty((self.documents, self.documents))
        for rows, columns, block in self.blocks(window):
            gram[rows, columns] = block
            gram[columns, rows] = block.T
        return gram

    def apply(self, window: int, vectors: FloatArray) -> FloatArray:
        """``K V`` of a window, reading its blocks once; vectors of shape (document, vector)."""
        found = np.zeros_like(vectors)
        for rows, columns, block in self.blocks(window):
            found[rows] += block @ vectors[columns]
            if rows != columns:
                found[columns] += block.T @ vectors[rows]
        return found


@contextmanager
def scratch_folder(place: Path | None, run: str = "") -> Iterator[Path]:
    """A folder for files that are removed on leaving, whatever happened.

    Parameters
    ----------
    place : Path, optional
        Where to make it; the folder for temporary files by default.
    run : str
        What :func:`clear_scratch` knows it by, where the process may be killed.
    """
    try:
        made = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{run}", dir=place))
    except OSError as error:
        raise StoreError(
            f"No scratch folder could be made in '{place or tempfile.gettempdir()}': {error.strerror or error}.",
            "Name a folder that can be written with scratch= (--scratch).",
        ) from error
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def clear_scratch(place: Path | None, run: str) -> None:
    """Remove what workers that were killed left of a run."""
    for left in Path(place or tempfile.gettempdir()).glob(f"{_SCRATCH}{run}*"):
        shutil.rmtree(left, ignore_errors=True)


def expect_space(folder: Path, needed: int) -> None:
    """Refuse work whose scratch files would not fit on the disk.

    Raises
    ------
    StoreError
    """
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StoreError(
            f"The analysis in blocks needs {in_words(needed)} of scratch space in '{folder.parent}', where "
            f"{in_words(free)} are free.",
            "Free some space, or name another folder with scratch= (--scratch).",
        )
