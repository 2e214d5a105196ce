"""Where stores of fields are: begun, opened, and never replaced unasked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from eddyscope.documents import Documents
from eddyscope.errors import StoreError
from eddyscope.fieldstore import FIELDS_KIND, FieldStore, StoredLayer
from eddyscope.manifest import FolderWriter, as_json
from eddyscope.places import folder_beside, replace_folder, writing


def create_fields(
    path: str | Path,
    layers: Mapping[str, StoredLayer],
    documents: Documents | None,
    count: int,
    shard: int,
    provenance: Mapping[str, Any],
    *,
    force: bool = False,
) -> FieldStore:
    """Begin a store of fields, without any shard.

    Parameters
    ----------
    path : str or Path
        Where to, such as ``"fields.zarr"``. Parents are made.
    layers : mapping of str to StoredLayer
        In reading order.
    documents : Documents, optional
        All of them.
    count : int
        Number of documents.
    shard : int
        Documents of a shard.
    provenance : mapping
        JSON-able.
    force : bool
        Replace a store of fields that is there already, with all its shards.

    Returns
    -------
    FieldStore

    Raises
    ------
    StoreError
        Where something stands in the way (never replaced unless it is a store of fields and ``force`` is given), or
        the place cannot be written.
    """
    target = Path(path).absolute()
    check_free(target, force)
    with writing(target), folder_beside(target) as beside:
        writer = FolderWriter(beside / "new")
        (beside / "new" / "shards").mkdir(parents=True)
        if documents is not None:
            writer.write("documents", documents.to_dataset())
        else:  # a manifest is never empty
            writer.write("inputs", xr.Dataset({"document": ("document", np.arange(count))}))
        attributes = {
            "layers": json.dumps([layer.as_dict() for layer in layers.values()]),
            "documents": documents is not None,
            "count": count,
            "shard": shard,
            "provenance": as_json("The provenance of the fields", provenance),
        }
        writer.finish(FIELDS_KIND, attributes)
        replace_folder(beside / "new", target)
    return FieldStore(path)


def open_fields(path: str | Path) -> FieldStore:
    """Open a store of fields.

    Parameters
    ----------
    path : str or Path
        A ``.zarr`` folder that ``eddyscope capture`` or :func:`eddyscope.capture_fields` wrote, complete or not.

    Returns
    -------
    FieldStore
        ``open_fields(path).ensemble()`` is what :func:`eddyscope.analyze` takes.

    Raises
    ------
    StoreError
        Where there is none, it was written by a newer version, or its root has changed.
    """
    place = Path(path)
    if not place.exists():
        raise StoreError(f"There is no store of fields at '{path}': nothing is there.")
    if not FIELDS_KIND.is_at(place):
        raise StoreError(
            f"'{path}' is damaged, or not a store of fields.", "Make one with eddyscope capture MODEL --store PATH."
        )
    return FieldStore(place)


def is_fields(path: str | Path) -> bool:
    """Whether a folder is a store of fields, whole or not."""
    return FIELDS_KIND.is_at(Path(path))


def check_free(target: Path, force: bool = False, resume: bool = False) -> None:
    """Refuse a place where something is that must not be replaced.

    Parameters
    ----------
    target : Path
    force, resume : bool
        A store of fields may be there, to be replaced or to be gone on with.

    Raises
    ------
    StoreError
    """
    with writing(target):
        if not target.exists() or (target.is_dir() and not any(target.iterdir())):
            return
    if not is_fields(target):
        raise StoreError(
            f"'{target}' exists and is not a store of fields, so it is never overwritten.", "Choose another name."
        )
    if not force and not resume:
        store = FieldStore(target)
        raise StoreError(
            f"There is a store of fields at '{target}' already, with {len(store.whole)} of {store.shards} shards.",
            "Go on with it with resume=True (--resume), replace it with force=True (--force), or choose another name.",
        )
