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

import json
from pathlib import Path

import xarray as xr

from eddyscope.errors import StoreError
from eddyscope.fieldplace import is_fields
from eddyscope.manifest import FolderReader, FolderWriter, Kind, as_json, group_names, reading
from eddyscope.places import folder_beside, replace_folder, writing
from eddyscope.study.study import Study
from eddyscope.zarrgroup import read_group

#: Name of the store in the folder of a run.
STUDY = "study.zarr"
#: What the root attribute ``content`` says.
CONTENT = "eddyscope study"

_STUDIES = Kind(CONTENT, "Restore it from a copy, or run the analysis again.")


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
    stored = FolderReader(place, _STUDIES)
    stored.verify()
    with reading(place, _STUDIES):
        top = read_group(place / "layers")
        layers = {name: read_group(place / "layers" / group) for group, name in stored.root["layers"].items()}
        tree = xr.DataTree.from_dict({"/": top, **{f"/{name}": data for name, data in layers.items()}})
        documents = None
        if stored.root["documents"]:
            from eddyscope.documents import Documents

            documents = Documents.from_dataset(read_group(place / "documents"))
        return Study(tree, json.loads(stored.root["provenance"]), documents)


def is_study(path: Path) -> bool:
    """Whether a folder is a store that :func:`save_study` wrote, whole or not."""
    return _STUDIES.is_at(path)


def write_study(study: Study, folder: Path) -> None:
    """Write the store into a new folder; see :func:`save_study`, which makes this all or nothing."""
    writer = FolderWriter(folder)
    groups = group_names(study.layers)
    writer.write("layers", study.data.to_dataset(inherit=False))
    for name, group in groups.items():
        writer.write(f"layers/{group}", study.packed(name))
    if study.documents is not None:
        writer.write("documents", study.documents.to_dataset())
    attributes = {
        "layers": {group: name for name, group in groups.items()},
        "documents": study.documents is not None,
        "provenance": as_json("The study's provenance", study.provenance),
    }
    writer.finish(_STUDIES, attributes)


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


def _find(path: Path) -> Path:
    """The store itself, or the one in the folder of a run."""
    for place in (path, path / STUDY):
        if is_study(place):
            return place
    if not path.exists():
        raise StoreError(f"There is no study at '{path}': nothing is there.")
    if is_fields(path):
        raise StoreError(
            f"'{path}' holds captured fields, not a study.", f"Make one with: eddyscope analyze {path} --out DIR"
        )
    if (path / STUDY).exists() or path.suffix == ".zarr":
        raise StoreError(f"'{path}' is damaged, or not a study: zarr.json cannot be read.", _STUDIES.remedy)
    raise StoreError(f"There is no study at '{path}'.", f"Give a folder that holds {STUDY}, or a study saved as Zarr.")
