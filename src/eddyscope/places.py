"""Places on disk: written beside and renamed, so that a reader sees all or nothing; errors in one line."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eddyscope.errors import StoreError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system says while something is written into a StoreError of one line."""
    if "\0" in str(path):
        raise StoreError(f"{str(path)!r} cannot be written: no name has NUL in it.", "Choose another name.")
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            raise StoreError(
                f"No space is left on the disk while writing '{path}' ({reason}).",
                "Free some space or choose another place; nothing half-written was left.",
            ) from error
        if error.errno in _FORBIDDEN:
            raise StoreError(
                f"'{path}' cannot be written: {reason}.", "Choose a place that you may write to."
            ) from error
        raise StoreError(f"'{path}' cannot be written: {reason}.") from error


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """A new, hidden, empty folder in the parent of ``path``, removed on leaving if it is still there.

    The parent is made where it is missing, and removed again if nothing came of it.
    """
    made = _make_parents(path.parent)
    beside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
    try:
        beside.chmod(0o777 & ~_umask())  # mkdtemp makes it readable by its owner alone
        yield beside
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        for parent in made:
            try:
                parent.rmdir()
            except OSError:  # in use: the folder was written
                break


def replace_folder(new: Path, target: Path) -> None:
    """Rename a finished folder to its place; what was there is removed only once the new one stands."""
    if not target.exists():
        new.rename(target)
        return
    old = new.with_suffix(".old")
    target.rename(old)
    try:
        new.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _make_parents(folder: Path) -> list[Path]:
    """Make a folder and its parents; returns those that were made, deepest first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for parent in reversed(missing):
        parent.mkdir(exist_ok=True)
    return missing


def _umask() -> int:
    """The process's umask, which can be read only by setting it."""
    current = os.umask(0o022)
    os.umask(current)
    return current
