"""A study on disk: Zarr format 3, written whole or not at all, verified when it is opened.

::

    study.zarr/
        zarr.json            format_version, provenance (JSON), names of the layers, digests
        layers/NAME/...      one group for each layer: maps packed by lag, everything else as in ``study.data``
        documents/...        token ids, spans, texts, source blocks, where the study has documents
        manifest/            size and sha256 of every other file, written last

Not consolidated; strings are of variable length. Any reader of Zarr can look into it.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from zarr.codecs import BloscCodec
from zarr.storage import MemoryStore

from eddyscope.errors import StoreError
from eddyscope.places import folder_beside, replace_folder, writing
from eddyscope.schema import FORMAT_VERSION
from eddyscope.study.study import Study

#: Name of the store in the folder of a run.
STUDY = "study.zarr"
#: What the root attribute ``content`` says.
CONTENT = "eddyscope study"

#: Largest chunk, in bytes; along these dimensions, in this order, larger arrays are cut.
_CHUNK = 64 << 20
_CUT = ("head", "band", "mode")
#: Arrays below this size are stored as they are: compressing them would make them larger.
_COMPRESSED = 4096
_DAMAGED = "Restore it from a copy, or run the analysis again."


def save_study(study: Study, path: str | Path, force: bool = False) -> Path:
    """Write a study as Zarr.

    Parameters
    ----------
    study : Study
    path : str or Path
        Where to, such as ``"study.zarr"``. Parents are made.
    force : bool
        Replace a study that is there already; it stays until the new one is complete.

    Returns
    -------
    Path
        Where it is.

    Raises
    ------
    StoreError
        Where something stands in the way (never replaced unless it is a study and ``force`` is given), or the place
        cannot be written; then nothing is left there.
    """
    target = Path(path).absolute()
    _check_free(target, force)
    with writing(target), folder_beside(target) as beside:
        write_study(study, beside / "new")
        replace_folder(beside / "new", target)
    return Path(path)


def open_study(path: str | Path) -> Study:
    """Read a study back, exactly as it was saved.

    Everything is read into memory, after every file was compared with its sha256.

    Parameters
    ----------
    path : str or Path
        A ``.zarr`` folder that :func:`save_study` wrote, or the output folder of ``eddyscope run`` that holds one.

    Returns
    -------
    Study

    Raises
    ------
    StoreError
        Where there is no study, it was written by a newer version, or a file of it is missing or has changed (named).
    """
    place = _find(Path(path))
    with _reading(place):
        root = _root_attributes(place)
        _verify(place, root)
        top = _read_group(place, "layers")
        layers = {name: _read_group(place, f"layers/{group}") for group, name in root["layers"].items()}
        tree = xr.DataTree.from_dict({"/": top, **{f"/{name}": data for name, data in layers.items()}})
        documents = None
        if root["documents"]:
            from eddyscope.documents import Documents

            documents = Documents.from_dataset(_read_group(place, "documents"))
        return Study(tree, json.loads(root["provenance"]), documents)


def is_study(path: Path) -> bool:
    """Whether a folder is a store that :func:`save_study` wrote, whole or not."""
    try:
        return bool(_attributes(path).get("content") == CONTENT)
    except (OSError, ValueError):
        return False


def write_study(study: Study, folder: Path) -> None:
    """Write the store into a new folder; see :func:`save_study`, which makes this all or nothing."""
    files: dict[str, tuple[str, int]] = {}
    groups = _group_names(study.layers)
    with _quiet():
        _write(folder, "layers", _packed(study.data.to_dataset(inherit=False)), files)
        for name, group in groups.items():
            _write(folder, f"layers/{group}", _packed(study.packed(name)), files)
        if study.documents is not None:
            _write(folder, "documents", _packed(study.documents.to_dataset()), files)
        _write(folder, "manifest", _packed(_manifest(files)), files)
    root = {
        "content": CONTENT,
        "format_version": FORMAT_VERSION,
        "eddyscope": _own_version(),
        "layers": {group: name for name, group in groups.items()},
        "documents": study.documents is not None,
        "provenance": _json(study.provenance),
        "manifest_sha256": files["manifest/files/c/0"][0],
    }
    root["sha256"] = _digest_of(root)
    content = {"zarr_format": 3, "node_type": "group", "attributes": root}
    _put(folder / "zarr.json", json.dumps(content, indent=2).encode())


# --- writing --------------------------------------------------------------------------------------------------------


def _check_free(target: Path, force: bool) -> None:
    with writing(target):
        if not target.exists() or (target.is_dir() and not any(target.iterdir())):
            return
    if not is_study(target):
        raise StoreError(f"'{target}' exists and is not a study, so it is never overwritten.", "Choose another name.")
    if not force:
        raise StoreError(
            f"There is a study at '{target}' already.", "Choose another name, or replace it with force=True."
        )


def _group_names(layers: tuple[str, ...]) -> dict[str, str]:
    """Name of the Zarr group of each layer: its own where that is a safe file name, else ``layer-INDEX``."""
    safe = re.compile(r"(?!__)[A-Za-z0-9_][A-Za-z0-9_.\-#]{0,199}")
    names = {name: name if safe.fullmatch(name) else f"layer-{index}" for index, name in enumerate(layers)}
    if len({group.lower() for group in names.values()}) < len(names):  # some file systems fold case
        names = {name: f"layer-{index}" for index, name in enumerate(layers)}
    return names


def _packed(data: xr.Dataset) -> dict[str, bytes]:
    """Files of a Zarr group that holds a dataset, by their path in the group."""
    held: dict[str, Any] = {}
    coordinates = [str(name) for name in data.coords if name not in data.dims]
    # "coordinates" as xarray reads it; "variables" keeps their order, which a folder does not.
    attributes = _plain(data.attrs) | {
        "coordinates": " ".join(coordinates),
        "variables": list(map(str, data.variables)),
    }
    group = zarr.create_group(MemoryStore(held), zarr_format=3, attributes=attributes)
    for name, variable in data.variables.items():
        values = variable.values
        text = values.dtype.kind in "OUT"
        if text and not all(isinstance(value, str) for value in values.flat):
            raise StoreError(f"Variable '{name}' holds objects that are not strings, which a study cannot store.")
        array = group.create_array(
            str(name),
            shape=values.shape,
            dtype=str if text else values.dtype,
            chunks=_chunks(variable),
            compressors=BloscCodec(cname="zstd", clevel=3) if not text and values.nbytes >= _COMPRESSED else None,
            dimension_names=[str(dim) for dim in variable.dims],
            attributes=_plain(variable.attrs),
            config={"write_empty_chunks": True},  # so that every value is on disk and in the manifest
        )
        if values.size:
            array[...] = values
    return {path: buffer.to_bytes() for path, buffer in held.items()}


def _chunks(variable: xr.Variable) -> tuple[int, ...]:
    sizes = {dim: max(1, size) for dim, size in variable.sizes.items()}
    for dim in _CUT:
        if int(np.prod(list(sizes.values()))) * variable.dtype.itemsize > _CHUNK and dim in sizes:
            sizes[dim] = 1
    return tuple(sizes.values())


def _plain(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(k): v.item() if isinstance(v, np.generic) else v for k, v in attributes.items()}


def _write(folder: Path, group: str, content: dict[str, bytes], files: dict[str, tuple[str, int]]) -> None:
    for name, data in content.items():
        _put(folder / group / name, data)
        files[f"{group}/{name}"] = (hashlib.sha256(data).hexdigest(), len(data))


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _manifest(files: Mapping[str, tuple[str, int]]) -> xr.Dataset:
    lines = [f"{digest} {size} {path}" for path, (digest, size) in files.items()]
    return xr.Dataset({"files": ("file", np.array(lines, dtype=object))})


def _json(provenance: Mapping[str, Any]) -> str:
    try:
        return json.dumps(provenance)
    except (TypeError, ValueError) as error:
        raise StoreError(f"The study's provenance cannot be written as JSON: {error}.") from error


def _digest_of(root: Mapping[str, Any]) -> str:
    """Digest of the root attributes, which no manifest can hold."""
    return hashlib.sha256(json.dumps({k: v for k, v in root.items() if k != "sha256"}).encode()).hexdigest()


def _own_version() -> str:
    try:
        return version("eddyscope")
    except PackageNotFoundError:
        return "not installed"


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep to ourselves that the specification of Zarr 3 has no final word on strings yet."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s).*Zarr (V3|format 3).*spec.*")
        yield


# --- reading --------------------------------------------------------------------------------------------------------


def _find(path: Path) -> Path:
    """The store itself, or the one in the folder of a run."""
    for place in (path, path / STUDY):
        if is_study(place):
            return place
    if not path.exists():
        raise StoreError(f"There is no study at '{path}': nothing is there.")
    if (path / STUDY).exists() or path.suffix == ".zarr":
        raise StoreError(f"'{path}' is damaged, or not a study: zarr.json cannot be read.", _DAMAGED)
    raise StoreError(f"There is no study at '{path}'.", f"Give a folder that holds {STUDY}, or a study saved as Zarr.")


@contextmanager
def _reading(place: Path) -> Iterator[None]:
    try:
        with _quiet():
            yield
    except OSError as error:
        raise StoreError(f"'{place}' cannot be read: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise StoreError(f"'{place}' is damaged: {type(error).__name__}: {error}.", _DAMAGED) from error


def _attributes(place: Path) -> dict[str, Any]:
    content = json.loads((place / "zarr.json").read_text(encoding="utf-8"))
    attributes = content.get("attributes") if isinstance(content, dict) else None
    return attributes if isinstance(attributes, dict) else {}


def _root_attributes(place: Path) -> dict[str, Any]:
    root = _attributes(place)
    stored = root.get("format_version")
    if isinstance(stored, int) and stored > FORMAT_VERSION:
        raise StoreError(
            f"'{place}' has format_version {stored}; this version of eddyscope reads up to {FORMAT_VERSION}.",
            "Upgrade eddyscope.",
        )
    if root.get("sha256") != _digest_of(root):
        raise StoreError(f"'{place}' is damaged: zarr.json has changed since it was written.", _DAMAGED)
    return root


def _verify(place: Path, root: Mapping[str, Any]) -> None:
    """Compare every file with the manifest."""
    manifest = "manifest/files/c/0"
    _compare(place, manifest, root["manifest_sha256"], None)
    group = zarr.open_group(str(place), mode="r", zarr_format=3)
    lines = np.asarray(group["manifest/files"][...]).astype(object)  # type: ignore[index]
    for line in lines:
        digest, size, path = str(line).split(" ", 2)
        _compare(place, path, digest, int(size))


def _compare(place: Path, path: str, digest: str, size: int | None) -> None:
    try:
        data = (place / path).read_bytes()
    except FileNotFoundError:
        raise StoreError(f"'{place}' is damaged: {path} is missing.", _DAMAGED) from None
    if size is not None and len(data) != size:
        raise StoreError(f"'{place}' is damaged: {path} has {len(data)} bytes instead of {size}.", _DAMAGED)
    if hashlib.sha256(data).hexdigest() != digest:
        raise StoreError(f"'{place}' is damaged: {path} has changed since it was written.", _DAMAGED)


def _read_group(place: Path, group: str) -> xr.Dataset:
    """A dataset from a group, its variables in the order of writing."""
    opened = zarr.open_group(str(place / group), mode="r", zarr_format=3)
    attributes: dict[str, Any] = dict(opened.attrs)
    coordinates = str(attributes.pop("coordinates", "")).split()
    variables = {name: _read_variable(opened[name]) for name in attributes.pop("variables")}
    return xr.Dataset(
        {n: v for n, v in variables.items() if n not in coordinates and v.dims != (n,)},
        coords={n: v for n, v in variables.items() if n in coordinates or v.dims == (n,)},
        attrs=attributes,
    )


def _read_variable(array: Any) -> xr.Variable:
    values = np.asarray(array[...])
    if values.dtype.kind in "TU":  # strings of NumPy; results hold Python's
        values = values.astype(object)
    return xr.Variable(array.metadata.dimension_names or (), values, dict(array.attrs))
