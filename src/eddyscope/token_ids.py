"""Token ids that come as an array or a file, checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyscope.errors import InputError

IntArray = npt.NDArray[np.int64]


def read_ids(
    ids: npt.ArrayLike | str | os.PathLike[str], name: str, vocabulary_size: int | None
) -> tuple[IntArray, str]:
    """Read token ids from an array or a ``.npy`` file.

    Parameters
    ----------
    ids : array (document, token) of integers, or path
        The token ids.
    name : str
        What to call an array in errors; a file goes by its own name.
    vocabulary_size : int or None
        Ids must be below it.

    Returns
    -------
    ids : array (document, token), int64
        The token ids.
    name : str
        Name of the file, or the name that was given.

    Raises
    ------
    InputError
        A file that is no array, not a table of integers, fewer than two tokens, ids outside the vocabulary.
    """
    if isinstance(ids, str | os.PathLike):
        name = Path(ids).name
        ids = _load_npy(Path(ids))
    return _as_ids(ids, name, vocabulary_size), name


def _load_npy(path: Path) -> npt.NDArray[Any]:
    """The array of a ``.npy`` file; never unpickles."""
    try:
        loaded = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise InputError(f"There is no file '{path}'.") from error
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            f"{path.name} cannot be read as an array: {error}.", "Save token ids with numpy.save."
        ) from error
    if not isinstance(loaded, np.ndarray):
        raise InputError(f"{path.name} holds several arrays.", "Save the token ids alone with numpy.save.")
    return loaded


def _as_ids(ids: npt.ArrayLike, name: str, vocabulary_size: int | None) -> IntArray:
    """Token ids as a table of int64, checked."""
    try:
        given = np.asarray(ids)
    except ValueError as error:  # rows of different lengths
        raise InputError(
            f"{name} cannot be made an array (document, token): documents have different lengths.",
            "Pad them to one length and pass mask, False for padding.",
        ) from error
    if given.ndim != 2 or given.dtype.kind not in "iu" or len(given) < 1 or given.shape[1] < 2:
        raise InputError(
            f"{name} has shape {given.shape} and type {given.dtype}; expected integers (document, token) with at least "
            "1 document and 2 tokens."
        )
    table = np.ascontiguousarray(given, dtype=np.int64)
    bad = (table < 0) | (table >= (np.iinfo(np.int64).max if vocabulary_size is None else vocabulary_size))
    if bad.any():
        document, token = np.argwhere(bad)[0]
        limit = "not negative" if vocabulary_size is None else f"0 to {vocabulary_size - 1}"
        raise InputError(
            f"{name} has {np.count_nonzero(bad)} ids outside the vocabulary: {table[document, token]} at document "
            f"{document}, token {token}; expected {limit}."
        )
    return table
