"""Fields on disk: Zarr format 3 in shards of documents, each written whole or not at all, and verified when it is read.

::

    fields.zarr/
        zarr.json            format_version, layers, number of documents, documents of a shard, provenance, digests
        documents/...        token ids, spans, texts, source blocks of all documents
        manifest/            size and sha256 of the files of documents/
        shards/00000/        documents 0 to S - 1
            zarr.json        format_version, number of the shard, what its capture said, digests
            kept/...         which of its documents are there (those with NaN or Inf may have been left out)
            layers/NAME/...  values (document, head, entry) packed by lag; first_key, row_sum (document, head, query)
            manifest/        size and sha256 of every other file of the shard, written last
        shards/00001/ ...

A shard stands under its name only once it is whole. Shards do not depend on each other, so that several processes may
write into one store, and a shard that is written twice is the same.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from eddyscope.documents import Documents
from eddyscope.ensemble import AttentionEnsemble, LayerInfo
from eddyscope.errors import InputError, StoreError
from eddyscope.lagfield import IntArray, LagField, LagGeometry
from eddyscope.manifest import FolderReader, FolderWriter, Kind, as_json, group_names, reading
from eddyscope.places import folder_beside, replace_folder, writing

FIELDS_KIND = Kind("eddyscope fields", "Restore it from a copy, or capture it again.")
SHARD_KIND = Kind(
    "eddyscope fields, shard", "Capture it again with resume=True (--resume), which replaces damaged shards alone."
)


@dataclass(frozen=True)
class StoredLayer:
    """What a store knows of a layer without reading its fields.

    Parameters
    ----------
    info : LayerInfo
    geometry : LagGeometry
    heads : tuple of str
        Labels of the heads that are kept.
    """

    info: LayerInfo
    geometry: LagGeometry
    heads: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        g = self.geometry
        shape = {"queries": g.queries, "keys": g.keys, "causal": g.causal, "max_lag": g.max_lag}
        return {**asdict(self.info), "geometry": shape, "heads": list(self.heads)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> StoredLayer:
        """The layer that :meth:`as_dict` wrote."""
        info = {name: value for name, value in stored.items() if name not in ("geometry", "heads")}
        info["key_value_map"] = tuple(info["key_value_map"])
        return cls(LayerInfo(**info), LagGeometry(**stored["geometry"]), tuple(stored["heads"]))


class FieldStore:
    """Fields of a capture on disk, whole or in part.

    Made by :func:`~eddyscope.fieldplace.create_fields` and :func:`~eddyscope.fieldplace.open_fields`.

    Attributes
    ----------
    path : Path
    count : int
        Documents that are to be captured.
    size : int
        Documents of a shard; the last may have fewer.
    layers : dict of str to StoredLayer
        In reading order.
    provenance : dict
        As the capture began; :meth:`ensemble` adds what each shard says.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._folder = FolderReader(self.path, FIELDS_KIND)
        with reading(self.path, FIELDS_KIND):
            root = self._folder.root
            self.count, self.size = int(root["count"]), int(root["shard"])
            self.layers = {stored["name"]: StoredLayer.from_dict(stored) for stored in json.loads(root["layers"])}
            self.provenance: dict[str, Any] = json.loads(root["provenance"])
            self._groups = group_names(self.layers)
        self._readers: dict[int, FolderReader] = {}

    def __reduce__(self) -> tuple[type[FieldStore], tuple[Path]]:
        """Travels to another process as its place."""
        return FieldStore, (self.path.absolute(),)

    def __repr__(self) -> str:
        return (
            f"<FieldStore '{self.path}': {len(self.layers)} layers, {self.count} documents, "
            f"{len(self.whole)} of {self.shards} shards>"
        )

    @property
    def shards(self) -> int:
        """Number of shards of the whole store."""
        return -(-self.count // self.size)

    @property
    def whole(self) -> list[int]:
        """Shards that are there."""
        return [number for number in range(self.shards) if SHARD_KIND.is_at(self._place(number))]

    @property
    def missing(self) -> list[int]:
        """Shards that are not there yet."""
        there = set(self.whole)
        return [number for number in range(self.shards) if number not in there]

    def documents_of(self, shard: int) -> IntArray:
        """Documents that a shard holds, shape (document,)."""
        if not 0 <= shard < self.shards:
            raise InputError(f"Shard {shard} is not in '{self.path}', which has shards 0 to {self.shards - 1}.")
        return np.arange(shard * self.size, min((shard + 1) * self.size, self.count), dtype=np.int64)

    @cached_property
    def documents(self) -> Documents | None:
        """What the model reads: all documents, also those that were left out later."""
        if not self._folder.root["documents"]:
            return None
        return Documents.from_dataset(self._folder.read("documents"))

    def write_shard(
        self, shard: int, fields: Mapping[str, LagField], kept: IntArray, record: Mapping[str, Any] | None = None
    ) -> None:
        """Write one shard; it stands in its place only once it is whole, and replaces one that was there.

        Parameters
        ----------
        shard : int
        fields : mapping of str to LagField
            Of every layer, of the documents in ``kept``.
        kept : int array, shape (document,)
            Documents of the shard that were kept.
        record : mapping, optional
            What else is to be known of its capture, JSON-able; ``checks`` and ``seconds`` become part of the
            provenance.

        Raises
        ------
        StoreError
            Where the place cannot be written; then nothing of the shard is left.
        """
        self._expect(shard, fields, kept)
        target = self._place(shard)
        with writing(self.path), folder_beside(target) as beside:
            writer = FolderWriter(beside / "new")
            writer.write("kept", xr.Dataset({"document": ("document", np.asarray(kept, dtype=np.int64))}))
            for name, field in fields.items():
                writer.write(f"layers/{self._groups[name]}", _dataset(field))
            attributes = {
                "shard": shard,
                "capture": self.capture,
                "documents": len(kept),
                "record": as_json("The record of a shard", dict(record or {})),
            }
            writer.finish(SHARD_KIND, attributes)
            replace_folder(beside / "new", target)
        self._readers.pop(shard, None)

    def read_shard(self, shard: int, layers: Sequence[str] | None = None) -> tuple[dict[str, LagField], IntArray]:
        """Read one shard into memory, after every file that is read was compared with its sha256.

        Parameters
        ----------
        shard : int
        layers : sequence of str, optional
            Names of the layers to read; all by default.

        Returns
        -------
        fields : dict of str to LagField
        kept : int array, shape (document,)
            The documents that they are of.

        Raises
        ------
        StoreError
            Where the shard is not there, is another one or of another capture, or a file of it is missing or has
            changed (named).
        InputError
            Where there is no such shard or layer.
        """
        folder = self._open(shard)
        fields = {name: self._field(folder, name) for name in (self.layers if layers is None else layers)}
        return fields, np.asarray(folder.read("kept")["document"].values, dtype=np.int64)

    def iterate(self, layers: Sequence[str] | None = None) -> Iterator[tuple[dict[str, LagField], IntArray]]:
        """All shards, one after the other in memory, as :meth:`read_shard` gives them."""
        self.expect_complete()
        for shard in range(self.shards):
            yield self.read_shard(shard, layers)

    def read_layer(self, layer: str) -> LagField:
        """The field of one layer over all documents, in memory."""
        self.expect_complete()
        stored = self._stored(layer)
        g, kept = stored.geometry, self.counts()
        made: LagField | None = None
        start = 0
        for shard, count in enumerate(kept):
            part = self._field(self._open(shard), layer)
            if made is None:
                made = _empty(part, sum(kept), g)
            for name in ("values", "first_key", "row_sum"):
                getattr(made, name)[start : start + count] = getattr(part, name)
            start += count
        assert made is not None
        return made

    def counts(self) -> list[int]:
        """Documents that each shard holds."""
        return [int(self._open(shard).root["documents"]) for shard in range(self.shards)]

    def verify(self, contents: bool = True) -> dict[int, StoreError]:
        """Compare every file of every shard that is there with what was noted when it was written.

        Parameters
        ----------
        contents : bool
            Compare contents; False compares sizes alone, which finds files that are missing or were cut.

        Returns
        -------
        dict of int to StoreError
            Damaged shards, and what is wrong with the first such file of each.
        """
        self._folder.verify(contents)
        self._readers.clear()
        damaged: dict[int, StoreError] = {}
        for shard in self.whole:
            try:
                self._open(shard).verify(contents)
            except StoreError as error:
                damaged[shard] = error
        return damaged

    def expect_complete(self) -> None:
        """Refuse a store of which shards are missing."""
        missing = self.missing
        if missing:
            raise StoreError(
                f"'{self.path}' is not complete: it has {self.shards - len(missing)} of {self.shards} shards.",
                "Go on with its capture: resume=True (--resume).",
            )

    def ensemble(self, layers: Sequence[str | int] | None = None) -> AttentionEnsemble:
        """The ensemble of all documents, whose fields are read from disk when they are asked for, one at a time.

        Parameters
        ----------
        layers : sequence of str or int, optional
            By name, or position in reading order; all by default.

        Returns
        -------
        AttentionEnsemble
            As :func:`eddyscope.capture` would give it. Its memory is that of one layer's field over all documents.

        Raises
        ------
        StoreError
            Where shards are missing, or files are missing or cut. Contents are compared when a layer is read.
        """
        self.expect_complete()
        for error in self.verify(contents=False).values():
            raise error
        kept = self.kept()
        if kept.size == 0:
            raise StoreError(f"All {self.count} documents of '{self.path}' were left out, nothing is left to analyse.")
        fields = StoredFields(self, tuple(self.layers), int(kept.size))
        documents = self.documents if self.documents is None or kept.size == self.count else self.documents.select(kept)
        info = {name: layer.info for name, layer in self.layers.items()}
        ensemble = AttentionEnsemble(fields, info, documents, self._provenance(kept))
        return ensemble if layers is None else ensemble.select_layers(layers)

    def kept(self) -> IntArray:
        """Documents that the shards hold, shape (document,): all but those that were left out."""
        parts = [self._open(shard).read("kept")["document"].values for shard in self.whole]
        return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, dtype=np.int64)

    def finish(self, provenance: Mapping[str, Any]) -> None:
        """Add to the provenance what is known once every document has been read."""
        self.provenance = {**self.provenance, **provenance}
        stored = as_json("The provenance of the fields", self.provenance)
        with writing(self.path):
            self._folder.replace_root({**self._folder.root, "provenance": stored})

    def remove_shard(self, shard: int) -> None:
        """Take a shard out of the store."""
        self._readers.pop(shard, None)
        with writing(self.path):
            shutil.rmtree(self._place(shard))

    def clear_partial(self) -> None:
        """Remove what a process that was killed left half-written."""
        for place in self.path.glob("shards/.*.partial"):
            shutil.rmtree(place, ignore_errors=True)

    def _place(self, shard: int) -> Path:
        return self.path / "shards" / f"{shard:05d}"

    def _open(self, shard: int) -> FolderReader:
        if shard not in self._readers:
            self.documents_of(shard)
            place = self._place(shard)
            if not place.exists():
                raise StoreError(f"'{self.path}' has no shard {shard}.", SHARD_KIND.remedy)
            folder = FolderReader(place, SHARD_KIND)
            if folder.root.get("shard") != shard:
                raise StoreError(f"'{place}' is damaged: it holds shard {folder.root.get('shard')}.", SHARD_KIND.remedy)
            if folder.root.get("capture") != self.capture:
                raise StoreError(f"'{place}' is damaged: it is of another capture.", SHARD_KIND.remedy)
            self._readers[shard] = folder
        return self._readers[shard]

    @cached_property
    def capture(self) -> str:
        """Digest of what the store was begun with, by which a shard of another one is known."""
        begun = {name: self.provenance.get(name) for name in ("model", "way", "text", "options", "fingerprint")}
        layers = [layer.as_dict() for layer in self.layers.values()]
        return hashlib.sha256(json.dumps([self.count, self.size, layers, begun]).encode()).hexdigest()

    def _stored(self, layer: str) -> StoredLayer:
        if layer not in self.layers:
            raise InputError(f"Layer {layer!r} is not in '{self.path}'.", f"It has {', '.join(self.layers)}.")
        return self.layers[layer]

    def _field(self, folder: FolderReader, layer: str) -> LagField:
        stored = self._stored(layer)
        data = folder.read(f"layers/{self._groups[layer]}")
        with reading(folder.place, SHARD_KIND):
            values, first_key, row_sum = (data[name].values for name in ("values", "first_key", "row_sum"))
            return LagField(values, stored.geometry, stored.heads, first_key, row_sum)

    def _expect(self, shard: int, fields: Mapping[str, LagField], kept: IntArray) -> None:
        """The fields are those of this shard."""
        if not set(kept.tolist()) <= set(self.documents_of(shard).tolist()):
            raise InputError(f"Documents {kept.min()} to {kept.max()} do not belong to shard {shard}.")
        if set(fields) != set(self.layers):
            raise InputError(f"Shard {shard} has layers {', '.join(fields)}, expected {', '.join(self.layers)}.")
        for name, field in fields.items():
            stored = self.layers[name]
            if field.documents != len(kept) or field.geometry != stored.geometry or field.heads != stored.heads:
                raise InputError(f"The field of layer '{name}' does not fit the store: {field!r}.")

    def _provenance(self, kept: IntArray) -> dict[str, Any]:
        records = [json.loads(self._open(shard).root["record"]) for shard in range(self.shards)]
        checks = [*self.provenance.get("checks", []), *merged_checks(record.get("checks", []) for record in records)]
        return {
            **self.provenance,
            "checks": checks,
            "failed_checks": [_label(check) for check in checks if not check["passed"]],
            "documents_dropped": sorted(set(range(self.count)) - set(kept.tolist())),
            "seconds": round(sum(float(record.get("seconds", 0.0)) for record in records), 3),
        }


class StoredFields(Mapping[str, LagField]):
    """Fields of a store by layer, read when they are asked for; the last one is kept.

    Attributes
    ----------
    counts : dict of str to int
        Documents of each layer.
    labels : dict of str to tuple of str
        Heads of each layer.
    """

    def __init__(self, store: FieldStore, names: tuple[str, ...], count: int) -> None:
        self.store = store
        self.counts = dict.fromkeys(names, count)
        self.labels = {name: store.layers[name].heads for name in names}
        self._last: tuple[str, LagField] | None = None

    def __reduce__(self) -> tuple[type[StoredFields], tuple[FieldStore, tuple[str, ...], int]]:
        """Travels to another process as the place of the store, without what was read."""
        return StoredFields, (self.store, tuple(self.counts), next(iter(self.counts.values())))

    def __getitem__(self, layer: str) -> LagField:
        if layer not in self.counts:
            raise KeyError(layer)
        if self._last is None or self._last[0] != layer:
            self._last = None  # before the next is read, so that never two are held
            self._last = (layer, self.store.read_layer(layer))
        return self._last[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self.counts)

    def __len__(self) -> int:
        return len(self.counts)

    def select(self, names: Iterable[str]) -> StoredFields:
        """The fields of some layers, not read either."""
        return StoredFields(self.store, tuple(names), next(iter(self.counts.values())))


def merged_checks(shards: Iterable[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The checks of all shards as one check of all documents each: the largest value, passed where all passed."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for checks in shards:
        for check in checks:
            key = (check["check"], check["layer"], check["note"])
            known = found.setdefault(key, dict(check))
            known["passed"] = known["passed"] and check["passed"]
            known["value"] = float(np.maximum(known["value"], check["value"]))  # NaN where any is
    return list(found.values())


def _label(check: Mapping[str, Any]) -> str:
    return str(check["check"]) if check["layer"] is None else f"{check['check']} in layer '{check['layer']}'"


def _dataset(field: LagField) -> xr.Dataset:
    return xr.Dataset(
        {
            "values": (("document", "head", "entry"), field.values),
            "first_key": (("document", "head", "query"), field.first_key),
            "row_sum": (("document", "head", "query"), field.row_sum),
        }
    )


def _empty(like: LagField, count: int, geometry: LagGeometry) -> LagField:
    """A field of so many documents, to be filled."""
    assert like.first_key is not None and like.row_sum is not None
    arrays = [np.empty((count, *a.shape[1:]), dtype=a.dtype) for a in (like.values, like.first_key, like.row_sum)]
    return LagField(arrays[0], geometry, like.heads, arrays[1], arrays[2])
