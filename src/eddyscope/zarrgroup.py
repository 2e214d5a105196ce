"""One dataset as one Zarr group, exactly: types, order, attributes, strings.

xarray can write Zarr itself, but strings come back from it with another type, and studies have thousands of small
variables, which this writes several times as fast. xarray can read what is written here.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import xarray as xr
import zarr.api.asynchronous as zarr
from numcodecs import Blosc, VLenUTF8
from numpy.typing import NDArray
from zarr.codecs import BloscCodec
from zarr.storage import MemoryStore

from eddyscope.errors import StoreError

#: Largest chunk, in bytes; larger arrays are cut along these dimensions, in this order.
_CHUNK = 64 << 20
_CUT = ("head", "band", "mode")
#: What the codec can compress at once is below 2 GiB; what is still larger is cut along its entries.
_LARGEST = 1 << 30
#: Arrays below this size are stored as they are: compressing them would make them larger.
_COMPRESSED = 4096
#: Bits of one place together: half of the time for single precision that bytes of one place take, a third for half
#: precision, and files that are no larger.
_CODEC = BloscCodec(cname="zstd", clevel=3, shuffle="bitshuffle")
#: The same where a chunk is packed here.
_BLOSC = Blosc(cname="zstd", clevel=3, shuffle=Blosc.BITSHUFFLE)

_Result = TypeVar("_Result")


def pack_group(data: xr.Dataset) -> dict[str, bytes]:
    """Files of a Zarr group that holds a dataset.

    Parameters
    ----------
    data : xarray.Dataset
        Of numbers, booleans and strings; strings come back as Python strings in arrays of objects.

    Returns
    -------
    dict
        Content of each file by its path in the group.

    Raises
    ------
    StoreError
        Where a variable holds other objects.
    """
    for name, variable in data.variables.items():
        if variable.dtype.kind == "O" and not all(isinstance(value, str) for value in variable.values.flat):
            raise StoreError(f"Variable '{name}' holds objects that are not strings, which cannot be stored.")
    return _finished(_pack(data))


def read_group(folder: Path) -> xr.Dataset:
    """The dataset whose files :func:`pack_group` gave, read from a folder into memory."""
    return _finished(_read(folder))


async def _pack(data: xr.Dataset) -> dict[str, bytes]:
    held: dict[str, Any] = {}
    store = MemoryStore(held)
    attributes = _plain(data.attrs) | {
        # as xarray reads it
        "coordinates": " ".join(str(name) for name in data.coords if name not in data.dims),
        # their order, which a folder does not keep
        "variables": [str(name) for name in data.variables],
    }
    await zarr.create_group(store=store, zarr_format=3, attributes=attributes)
    for name, variable in data.variables.items():
        if not _in_one_chunk(variable):
            await _write(store, str(name), variable)
    files = {path: buffer.to_bytes() for path, buffer in held.items()}
    return files | await _single_files(data)


async def _write(store: MemoryStore, name: str, variable: xr.Variable) -> None:
    """Write one variable through zarr."""
    array = await _create(store, name, variable)
    if variable.size:
        await array.setitem(..., variable.values)


async def _create(store: MemoryStore, name: str, variable: xr.Variable) -> Any:
    """The array of one variable, with its metadata and no values."""
    values = variable.values
    return await zarr.create_array(
        store,
        name=name,
        shape=values.shape,
        dtype=str if _is_text(values) else values.dtype,
        chunks=_chunks(variable),
        compressors=_CODEC if _is_compressed(values) else None,
        chunk_key_encoding={"name": "default", "separator": "."},  # fewer folders than "/"
        dimension_names=[str(dim) for dim in variable.dims],
        attributes=_plain(variable.attrs),
        zarr_format=3,
        config={"write_empty_chunks": True},  # so that every value is on disk and can be verified
    )


async def _single_files(data: xr.Dataset) -> dict[str, bytes]:
    """Files of the variables that are stored in one chunk.

    A study has thousands of them, and zarr takes a millisecond for each. What is the same for all of one type is taken
    from zarr, once.
    """
    files: dict[str, bytes] = {}
    templates: dict[tuple[Any, bool], dict[str, Any]] = {}
    for name, variable in data.variables.items():
        if not _in_one_chunk(variable):
            continue
        values = variable.values
        kind = (str if _is_text(values) else values.dtype, _is_compressed(values))
        if kind not in templates:
            held: dict[str, Any] = {}
            await _create(MemoryStore(held), "one", variable)
            templates[kind] = json.loads(held["one/zarr.json"].to_bytes())
            templates[kind].pop("dimension_names", None)
        shape: dict[str, Any] = {
            "shape": list(values.shape),
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": _whole(variable)}},
            "attributes": _plain(variable.attrs),
        }
        if variable.dims:
            shape["dimension_names"] = [str(dim) for dim in variable.dims]
        files[f"{name}/zarr.json"] = json.dumps(templates[kind] | shape).encode()
        if values.size:
            files[f"{name}/{'.'.join(['c', *'0' * values.ndim])}"] = _chunk_bytes(values)
    return files


def _is_text(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "OUT"


def _is_compressed(values: NDArray[Any]) -> bool:
    return not _is_text(values) and values.nbytes >= _COMPRESSED


def _in_one_chunk(variable: xr.Variable) -> bool:
    return variable.nbytes <= _CHUNK or list(_chunks(variable)) == _whole(variable)


def _whole(variable: xr.Variable) -> list[int]:
    """The shape of the one chunk that holds all."""
    return [max(1, size) for size in variable.shape]


def _chunk_bytes(values: NDArray[Any]) -> bytes:
    """The chunk that holds a whole array: strings as numcodecs' vlen-utf8, numbers little-endian, large ones packed."""
    if _is_text(values):
        return bytes(VLenUTF8().encode(values.astype(object).reshape(-1)))
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return bytes(_BLOSC.encode(little)) if _is_compressed(values) else little.tobytes()


async def _read(folder: Path) -> xr.Dataset:
    group = await zarr.open_group(store=str(folder), mode="r", zarr_format=3)
    attributes: dict[str, Any] = dict(group.attrs)
    coordinates = attributes.pop("coordinates").split()
    variables: dict[str, xr.Variable] = {}
    for name in attributes.pop("variables"):
        array: Any = await group.getitem(name)
        values = np.asarray(await array.getitem(...))
        if values.dtype.kind in "TU":  # strings of NumPy; results hold Python's
            values = values.astype(object)
        variables[name] = xr.Variable(array.metadata.dimension_names or (), values, dict(array.attrs))
    return xr.Dataset(
        {n: v for n, v in variables.items() if n not in coordinates and v.dims != (n,)},
        coords={n: v for n, v in variables.items() if n in coordinates or v.dims == (n,)},
        attrs=attributes,
    )


def _finished(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run to the end in a thread of its own: the caller's may be running a loop already, as notebooks do."""
    with _quiet(), ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()


def _chunks(variable: xr.Variable) -> tuple[int, ...]:
    sizes = {dim: max(1, size) for dim, size in variable.sizes.items()}
    for dim in _CUT:
        if int(np.prod(list(sizes.values()))) * variable.dtype.itemsize > _CHUNK and dim in sizes:
            sizes[dim] = 1
    rest = int(np.prod(list(sizes.values()))) // sizes.get("entry", 1)
    if rest * sizes.get("entry", 1) * variable.dtype.itemsize > _LARGEST and "entry" in sizes:
        sizes["entry"] = max(1, _LARGEST // (rest * variable.dtype.itemsize))
    return tuple(sizes.values())


def _plain(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(k): v.item() if isinstance(v, np.generic) else v for k, v in attributes.items()}


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep to ourselves that the specification of Zarr 3 has no last word on strings yet."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s).*Zarr (V3|format 3).*spec.*")
        yield
