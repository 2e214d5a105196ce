"""Statistics on disk: Zarr format 3, written whole or not at all, verified when they are opened.

::

    statistics.zarr/
        zarr.json            format_version, provenance and layers (JSON), treatments of sinks, digests
        groups/...           jackknife group of each document
        layers/NAME/I/...    one group for each layer and head: moments of the field and of its rows
        documents/...        token ids, spans, texts, source blocks, where they are known
        manifest/            size and sha256 of every other file, written last
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import xarray as xr

from eddyscope.ensemble import LayerInfo
from eddyscope.errors import StoreError
from eddyscope.kernels.fieldmoments import FieldMoments
from eddyscope.kernels.lagstats import LagMoments
from eddyscope.kernels.merging import GroupMeans
from eddyscope.lagfield import LagGeometry
from eddyscope.manifest import FolderReader, FolderWriter, Kind, as_json, group_names, reading
from eddyscope.places import folder_beside, replace_folder, writing
from eddyscope.statistics import AttentionStatistics
from eddyscope.study.headstats import HeadStatistics, LagPart
from eddyscope.study.rows import LagAxis
from eddyscope.trust.sinks import SinkSums

STATISTICS_KIND = Kind("eddyscope statistics", "Restore them from a copy, or capture them again.")


def save_statistics(statistics: AttentionStatistics, path: str | Path, force: bool = False) -> Path:
    """Write statistics as Zarr.

    Parameters
    ----------
    statistics : AttentionStatistics
    path : str or Path
        Where to, such as ``"statistics.zarr"``. Parents are made.
    force : bool
        Replace statistics that are there already; they stay until the new ones are complete.

    Returns
    -------
    Path
        Where they are.

    Raises
    ------
    StoreError
        Where something stands in the way (never replaced unless it is statistics and ``force`` is given), or the place
        cannot be written; then nothing is left there.
    """
    target = Path(path).absolute()
    _check_free(target, force)
    with writing(target), folder_beside(target) as beside:
        _write(statistics, beside / "new")
        replace_folder(beside / "new", target)
    return Path(path)


def open_statistics(path: str | Path) -> AttentionStatistics:
    """Read statistics back, exactly as they were saved, after every file was compared with its sha256.

    Raises
    ------
    StoreError
        Where there are none, a newer version wrote them, or a file is missing or has changed (named).
    """
    place = Path(path)
    if not STATISTICS_KIND.is_at(place):
        what = "nothing is there" if not place.exists() else "it is damaged, or something else"
        raise StoreError(f"There are no statistics at '{path}': {what}.", "Save some with statistics.save(path).")
    stored = FolderReader(place, STATISTICS_KIND)
    stored.verify()
    with reading(place, STATISTICS_KIND):
        layers = {}
        for layer in json.loads(stored.root["layers"]):
            heads = {h: _head(stored.read(f"layers/{layer['group']}/{i}")) for i, h in enumerate(layer["heads"])}
            layers[layer["info"]["name"]] = heads
        info = {layer["info"]["name"]: _info(layer["info"]) for layer in json.loads(stored.root["layers"])}
        groups = stored.read("groups")["group"].values
        documents = None
        if stored.root["documents"]:
            from eddyscope.documents import Documents

            documents = Documents.from_dataset(stored.read("documents"))
        return AttentionStatistics(layers, info, groups, documents, json.loads(stored.root["provenance"]))


def is_statistics(path: str | Path) -> bool:
    """Whether a folder is a store of statistics, whole or not."""
    return STATISTICS_KIND.is_at(Path(path))


def _check_free(target: Path, force: bool) -> None:
    with writing(target):
        if not target.exists() or (target.is_dir() and not any(target.iterdir())):
            return
    if not is_statistics(target):
        raise StoreError(
            f"'{target}' exists and holds no statistics, so it is never overwritten.", "Choose another name."
        )
    if not force:
        raise StoreError(
            f"There are statistics at '{target}' already.", "Choose another name, or replace them with force=True."
        )


def _write(statistics: AttentionStatistics, folder: Path) -> None:
    writer = FolderWriter(folder)
    names = group_names(statistics.layers)
    layers = []
    for name, heads in statistics.layers_of.items():
        for index, head in enumerate(heads.values()):
            writer.write(f"layers/{names[name]}/{index}", _dataset(head))
        layers.append({"group": names[name], "heads": list(heads), "info": asdict(statistics.info[name])})
    writer.write("groups", xr.Dataset({"group": ("document", statistics.groups)}))
    if statistics.documents is not None:
        writer.write("documents", statistics.documents.to_dataset())
    attributes = {
        "layers": json.dumps(layers),
        "documents": statistics.documents is not None,
        "provenance": as_json("The provenance of the statistics", statistics.provenance),
    }
    writer.finish(STATISTICS_KIND, attributes)


def _info(stored: dict[str, Any]) -> LayerInfo:
    return LayerInfo(**{**stored, "key_value_map": tuple(stored["key_value_map"])})


def _dataset(head: HeadStatistics) -> xr.Dataset:
    """One head as variables; those of a treatment of sinks end in its position."""
    field, masses, sums = head.field, head.masses, head.sums
    variables: dict[str, Any] = {
        "label": ("group", field.labels),
        "count": ("group", field.counts),
        "field_mean": (("group", "entry"), field.means),
        "field_energy": (("group", "query"), field.energy),
        "mass": (("group", "mass", "query"), masses.means),
        "sink_judged": ("key", sums.judged),
        "sink_hits": ("key", sums.hits),
        "sink_mass": ("key", sums.mass),
        "sink_mass_of_hits": ("key", sums.mass_of_hits),
    }
    parts = []
    for index, (sink, part) in enumerate(head.parts.items()):
        assert part.moments is not None
        axis = part.axis
        parts.append({"sink": sink, "left_out": axis.left_out, "field": axis.field, "none_left": axis.none_left})
        variables |= {
            f"lag_{index}": (f"lag_{index}", axis.lags),
            f"query_{index}": (f"row_{index}", axis.queries),
            f"row_mean_{index}": (("group", f"lag_{index}", f"row_{index}"), part.moments.means),
            f"row_product_{index}": (("group", f"lag_{index}", f"other_lag_{index}"), part.moments.products),
        }
    attributes = {
        "geometry": json.dumps(asdict(head.geometry)),
        "parts": json.dumps(parts),
        "documents": sums.documents,
        "largest_row": head.largest_row,
        "least_weight": head.least_weight,
    }
    return xr.Dataset(variables, attrs=attributes)


def _head(data: xr.Dataset) -> HeadStatistics:
    """The head that :func:`_dataset` laid out."""
    labels, counts = data["label"].values, data["count"].values
    parts = {}
    for index, stored in enumerate(json.loads(data.attrs["parts"])):
        axis = LagAxis(
            data[f"lag_{index}"].values,
            data[f"query_{index}"].values,
            int(stored["left_out"]),
            stored["field"],
            stored["none_left"],
        )
        moments = LagMoments(labels, counts, data[f"row_mean_{index}"].values, data[f"row_product_{index}"].values)
        parts[stored["sink"]] = LagPart(axis, moments)
    return HeadStatistics(
        LagGeometry(**json.loads(data.attrs["geometry"])),
        parts,
        FieldMoments(labels, counts, data["field_mean"].values, data["field_energy"].values),
        GroupMeans(labels, counts, data["mass"].values),
        SinkSums(
            int(data.attrs["documents"]),
            data["sink_judged"].values,
            data["sink_hits"].values,
            data["sink_mass"].values,
            data["sink_mass_of_hits"].values,
        ),
        float(data.attrs["largest_row"]),
        float(data.attrs["least_weight"]),
    )
