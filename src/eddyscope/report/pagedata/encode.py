"""Numbers as text of few digits, maps as 8-bit codes: what a browser needs to draw, and little more."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]

#: Code of an entry that is not there; the values take 1 to 255.
MISSING = 0
_FIRST, _LAST, _ZERO = 1, 255, 128


def number(value: Any, digits: int = 4) -> float | int | str | None:
    """A number of few significant digits; None where there is none, ``"inf"`` where there is no end."""
    value = float(value)
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    short = float(f"{value:.{digits}g}")
    return int(short) if short == int(short) and abs(short) < 1e15 else short


def numbers(values: Any, digits: int = 4) -> list[Any]:
    """The same for arrays, as nested lists."""
    array = np.asarray(values, dtype=np.float64)
    return [number(v, digits) if array.ndim == 1 else numbers(v, digits) for v in array]


def pooled(dense: FloatArray, most: int) -> FloatArray:
    """Shrink a (query, key) map to at most ``most`` cells a side, each the entry of largest modulus of its block.

    The largest and not the mean, so that a pattern at a single distance stays as strong as it is. A cell is NaN where
    its whole block is.
    """
    return _pool(_pool(dense, most, 0), most, 1)


def _pool(dense: FloatArray, most: int, axis: int) -> FloatArray:
    size = dense.shape[axis]
    step = -(-size // most)
    if step <= 1:
        return dense
    moved = np.moveaxis(dense, axis, 0)
    padded = np.concatenate([moved, np.full((-size % step, *moved.shape[1:]), np.nan, dtype=moved.dtype)])
    blocks = padded.reshape(-1, step, *moved.shape[1:])
    size_of = np.where(np.isnan(blocks), -1.0, np.abs(blocks))
    picked = np.take_along_axis(blocks, size_of.argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.moveaxis(picked, 0, axis)


def signed_codes(values: FloatArray, limit: float) -> npt.NDArray[np.uint8]:
    """Codes by the signed root of the values over ``limit``: 1 is -limit, 128 zero, 255 limit."""
    scaled = np.zeros_like(values) if not limit > 0 else np.clip(values / limit, -1, 1)
    return _codes(_ZERO + (_LAST - _ZERO) * np.sign(scaled) * np.sqrt(np.abs(scaled)))


def linear_codes(values: FloatArray, low: float, high: float) -> npt.NDArray[np.uint8]:
    """Codes in equal steps: 1 is ``low``, 255 ``high``."""
    span = high - low if high > low else 1.0
    return _codes(_FIRST + (_LAST - _FIRST) * np.clip((values - low) / span, 0, 1))


def _codes(values: FloatArray) -> npt.NDArray[np.uint8]:
    rounded = np.clip(np.round(values), _FIRST, _LAST)
    return np.where(np.isnan(values), MISSING, np.nan_to_num(rounded)).astype(np.uint8)


def text_of(codes: npt.NDArray[np.uint8], *, lower: bool = False) -> str:
    """Codes row by row in base 64; of a causal map (``lower``) the lower triangle alone."""
    kept = codes[np.tril_indices(codes.shape[0])] if lower else codes
    return base64.b64encode(np.ascontiguousarray(kept).tobytes()).decode("ascii")


def few_ranks(count: int, most: int = 64) -> npt.NDArray[np.int64]:
    """Positions of ranks to draw: all of the first 30, then evenly in the logarithm."""
    if count <= most:
        return np.arange(count)
    late = np.geomspace(31, count, most - 30).round().astype(np.int64) - 1
    return np.unique(np.concatenate([np.arange(30), late]))
