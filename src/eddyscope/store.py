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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from eddyscope.errors import StoreError
from eddyscope.places import folder_beside, replace_folder, writing
from eddyscope.schema import FORMAT_VERSION
from eddyscope.study.study import Study
from eddyscope.zarrgroup import pack_group, read_group

#: Name of the store in the folder of a run.
STUDY = "study.zarr"
#: What the root attribute ``content`` says.
CONTENT = "eddyscope study"

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
        top = read_group(place / "layers")
        layers = {name: read_group(place / "layers" / group) for group, name in root["layers"].items()}
        tree = xr.DataTree.from_dict({"/": top, **{f"/{name}": data for name, data in layers.items()}})
        documents = None
        if root["documents"]:
            from eddyscope.documents import Documents

            documents = Documents.from_dataset(read_group(place / "documents"))
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
    _write(folder, "layers", pack_group(study.data.to_dataset(inherit=False)), files)
    for name, group in groups.items():
        _write(folder, f"layers/{group}", pack_group(study.packed(name)), files)
    if study.documents is not None:
        _write(folder, "documents", pack_group(study.documents.to_dataset()), files)
    _write(folder, "manifest", pack_group(_manifest(files)), files)
    root = {
        "content": CONTENT,
        "format_version": FORMAT_VERSION,
        "eddyscope": _own_version(),
        "layers": {group: name for name, group in groups.items()},
        "documents": study.documents is not None,
        "provenance": _json(study.provenance),
        "manifest_sha256": files["manifest/files/c.0"][0],
    }
    root["sha256"] = _digest_of(root)
    content = {"zarr_format": 3, "node_type": "group", "attributes": root}
    (folder / "zarr.json").write_text(json.dumps(content, indent=2), encoding="utf-8")


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


def _write(folder: Path, group: str, content: dict[str, bytes], files: dict[str, tuple[str, int]]) -> None:
    for place in {(folder / group / name).parent for name in content}:
        place.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        (folder / group / name).write_bytes(data)
        files[f"{group}/{name}"] = (hashlib.sha256(data).hexdigest(), len(data))


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
    manifest = "manifest/files/c.0"
    _compare(place, manifest, root["manifest_sha256"], None)
    for line in read_group(place / "manifest")["files"].values:
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
