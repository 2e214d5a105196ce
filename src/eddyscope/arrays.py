"""Attention arrays on disk: ``.npy``, ``.npz``, Zarr, safetensors and files of tensors, read without ever running code.

What the arrays must look like is the business of :meth:`eddyscope.AttentionEnsemble.from_arrays`; here they are only
read and named.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyscope.errors import InputError, MissingDependencyError

Array = npt.NDArray[Any]

_KINDS = ".npy, .npz, .safetensors, .pt, or a Zarr folder"
#: Opening one can run whatever code is in it.
_PICKLES = (".bin", ".ckpt", ".pkl", ".pickle", ".joblib")
#: What torch.save writes; of these torch can read the tensors alone.
_TENSORS = (".pt", ".pth")
_BLOCK = 1 << 20


def read_arrays(path: str | Path) -> Array | dict[str, Array]:
    """Read attention from a file, for :meth:`eddyscope.AttentionEnsemble.from_arrays`.

    Parameters
    ----------
    path : str or Path
        A ``.npy`` file; a ``.npz``, ``.safetensors`` or ``.pt`` file or a Zarr group with one array for each layer, or
        with one array of all layers; a Zarr array.

    Returns
    -------
    array or dict
        An array as it is stored (a ``.npy`` file is mapped, not read). Several arrays as a mapping from layer name:
        in the order of a ``.npz`` or ``.pt`` file, else in the natural order of the names (2 before 10), since the
        other formats keep none. ``/`` in a name becomes ``.``. One array of three dimensions (documents, L, L) is one
        layer; one array of four or five is taken as all layers, whatever its name.

    Raises
    ------
    InputError
        Where there is no such file, it is not one of these kinds, it cannot be read, or it is a pickle.
    MissingDependencyError
        Where safetensors or torch is needed and not installed.
    """
    place = Path(path)
    if not place.exists():
        raise InputError(f"There is no file or folder '{path}'.", f"Expected attention as {_KINDS}.")
    if place.is_dir():
        return _named(_read_zarr(place))
    suffix = place.suffix.lower()
    if suffix in _PICKLES or _begins(place, b"\x80"):
        raise _pickle(place)
    if suffix == ".npy":
        return _read_npy(place)
    if suffix == ".npz":
        return _named(_read_npz(place))
    if suffix == ".safetensors":
        return _named(_read_safetensors(place))
    if suffix in _TENSORS:
        return _named(_read_tensors(place))
    raise InputError(f"'{place.name}' is not a kind of file that holds attention.", f"Expected {_KINDS}.")


def identify(path: str | Path) -> dict[str, Any]:
    """Name, size and sha256 of a file or of all files of a folder, for the provenance."""
    place = Path(path)
    files = sorted(p for p in place.rglob("*") if p.is_file()) if place.is_dir() else [place]
    digest = hashlib.sha256()
    for file in files:
        if place.is_dir():
            digest.update(f"{file.relative_to(place).as_posix()}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as opened:
            while block := opened.read(_BLOCK):
                digest.update(block)
    return {"name": place.name, "bytes": sum(f.stat().st_size for f in files), "sha256": digest.hexdigest()}


def _begins(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as opened:
            return opened.read(len(magic)) == magic
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror}.") from error


def _pickle(path: Path) -> InputError:
    return InputError(
        f"'{path.name}' is a pickle, which can run code when it is opened, so it is never read.",
        "Where you trust its source, open it yourself and save the array with numpy.save or "
        "safetensors.numpy.save_file.",
    )


def _unreadable(path: Path, reason: object) -> InputError:
    first = (str(reason).strip() or type(reason).__name__).splitlines()[0].rstrip(".")
    return InputError(f"'{path.name}' cannot be read: {first}.", "It may be cut or of another format; save it again.")


def _read_npy(path: Path) -> Array:
    if not _begins(path, b"\x93NUMPY"):
        raise _unreadable(path, "it does not begin as a NumPy array does")
    try:
        return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError, TypeError) as error:
        if "Python objects" in str(error):
            raise _pickle(path) from error
        raise _unreadable(path, error) from error


def _read_npz(path: Path) -> dict[str, Array]:
    if not zipfile.is_zipfile(path):
        raise _unreadable(path, "it is not a whole archive of NumPy arrays")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as opened:
            return {name: opened[name] for name in opened.files}
    except (OSError, ValueError, EOFError, KeyError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        if "Object arrays" in str(error):
            raise _pickle(path) from error
        raise _unreadable(path, error) from error


def _read_safetensors(path: Path) -> dict[str, Array]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise MissingDependencyError("safetensors", "Reading a .safetensors file", "hf") from error
    arrays = {}
    try:
        with safe_open(path, framework="numpy") as opened:
            for name in _natural(opened.keys()):
                stored = opened.get_slice(name).get_dtype()
                if stored == "BF16":  # NumPy has no such type
                    raise InputError(
                        f"Tensor '{name}' of '{path.name}' is bfloat16, which NumPy cannot hold.",
                        "Save it in float32.",
                    )
                arrays[name] = opened.get_tensor(name)
    except (OSError, SafetensorError, TypeError, ValueError) as error:
        raise _unreadable(path, error) from error
    return arrays


def _read_tensors(path: Path) -> dict[str, Array]:
    try:
        from eddyscope.capture.tensors import read_tensors
    except ImportError as error:
        raise MissingDependencyError("torch", "Reading a .pt file", "hf") from error
    try:
        return read_tensors(path)
    except pickle.UnpicklingError as error:
        raise _pickle(path) from error


def _read_zarr(path: Path) -> dict[str, Array]:
    """All arrays of a Zarr group, or the one array."""
    import zarr

    from eddyscope.fieldplace import is_fields
    from eddyscope.store import CONTENT, STUDY

    if is_fields(path):
        raise InputError(
            f"'{path}' holds captured fields, not arrays.",
            "Take them with eddyscope.open_fields(path).ensemble(), or analyse them with: eddyscope analyze PATH",
        )
    if (path / STUDY).exists():
        raise _study(path)
    if not any((path / name).is_file() for name in ("zarr.json", ".zarray", ".zgroup")):
        raise InputError(f"'{path}' is a folder, but not a Zarr one.", f"Expected attention as {_KINDS}.")
    try:
        opened = zarr.open(str(path), mode="r")
        if opened.attrs.get("content") == CONTENT:
            raise _study(path)
        if isinstance(opened, zarr.Array):
            return {path.stem: np.asarray(opened[...])}
        arrays = {name: item for name, item in opened.members(max_depth=None) if isinstance(item, zarr.Array)}
        return {name: np.asarray(arrays[name][...]) for name in _natural(arrays)}
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise _unreadable(path, error) from error


def _study(path: Path) -> InputError:
    return InputError(f"'{path}' is a study of eddyscope, not attention.", f"Look at it with: eddyscope show {path}")


def _natural(names: Iterable[str]) -> list[str]:
    """Names in natural order: numbers in them by value."""
    return sorted(names, key=lambda name: [(not p.isdecimal(), int(p) if p.isdecimal() else p) for p in _parts(name)])


def _parts(name: str) -> list[str]:
    return [part for part in re.split(r"(\d+)", name) if part]


def _named(arrays: dict[str, Array]) -> Array | dict[str, Array]:
    """One array of all layers as it is, others by layer name."""
    if len(arrays) == 1:
        (only,) = arrays.values()
        if only.ndim != 3:
            return only
    renamed = {name.replace("/", "."): array for name, array in arrays.items()}
    if len(renamed) < len(arrays):
        raise InputError(
            f"Two of the {len(arrays)} layers have the same name once '/' is read as '.'.", "Rename one of them."
        )
    return renamed
