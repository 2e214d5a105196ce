"""The same kernels for NumPy arrays and for those of other libraries, on their device.

Kernels are written to the Python array API standard, in the namespace of the array that they are given: NumPy, torch
tensors on any device that has float64, or any other namespace whose arrays can be changed in place. Annotations name
NumPy arrays, the usual case. What NumPy does in less time by means of its own (products into memory that is there,
sums without an array of the products) stands here, beside the same in the standard's terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, to_device
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
ComplexArray = NDArray[np.complexfloating[Any, Any]]

#: NumPy 2 is a namespace of the standard itself.
_COMPLETE = hasattr(np, "astype") and hasattr(np, "matrix_transpose")


def is_numpy(array: Any) -> bool:
    """Whether it is a NumPy array, for which there are quicker ways."""
    return isinstance(array, np.ndarray)


def namespace(array: Any) -> Any:
    """The array API namespace of an array."""
    return np if _COMPLETE and is_numpy(array) else array_namespace(array)


def like(constant: Any, array: Any) -> Any:
    """A NumPy array in the namespace and on the device of another array, of its own dtype; others as they are."""
    if is_numpy(array) or not isinstance(constant, np.ndarray):
        return constant
    xp = namespace(array)
    fresh = np.array(constant, order="C")  # a reversed view of one number counts as contiguous, which torch refuses
    return xp.asarray(fresh, dtype=getattr(xp, constant.dtype.name), device=device(array))


def on_host(array: Any) -> NDArray[Any]:
    """The numbers of any array as a NumPy array; no copy where it is one."""
    if isinstance(array, np.ndarray):
        return array
    xp = namespace(array)
    moved = array.cpu() if hasattr(array, "cpu") else to_device(array, device(xp.empty(0)))
    return np.asarray(moved.numpy() if hasattr(moved, "numpy") else np.from_dlpack(moved))


def zeros(shape: tuple[int, ...], array: Any) -> Any:
    """Float64 zeros in the namespace and on the device of an array."""
    if is_numpy(array):
        return np.zeros(shape)
    xp = namespace(array)
    return xp.zeros(shape, dtype=xp.float64, device=device(array))


def doubled(array: Any, copy: bool = False) -> Any:
    """The array in float64; ``copy``: always of its own."""
    xp = namespace(array)
    return xp.astype(array, xp.float64, copy=copy)


def working(array: Any) -> Any:
    """The dtype in which data are kept and multiplied where no sum needs more: float64, or else float32."""
    xp = namespace(array)
    return xp.float64 if array.dtype == xp.float64 else xp.float32


def products_over_first(one: Any, other: Any) -> Any:
    """``sum_s one[s, ...] other[s, ...]``; one may lack the last axis of the other."""
    if is_numpy(one):
        return np.einsum("s...i,s...i->...i" if one.ndim == other.ndim else "s...,s...k->...k", one, other)
    if one.ndim < other.ndim:
        one = one[..., None]
    return namespace(one).sum(one * other, axis=0)


def products_over_last(one: Any, other: Any) -> Any:
    """``sum_i one[..., i] other[..., i]``."""
    if is_numpy(one):
        return np.einsum("...i,...i->...", one, other)
    return namespace(one).sum(one * other, axis=-1)


def product(one: Any, other: Any, memory: FloatArray | None) -> Any:
    """Matrix product, in memory that is there already where it is of use."""
    if memory is None or not is_numpy(one):
        return one @ other
    shape = (one.shape[0], other.shape[1])
    return np.matmul(one, other, out=memory[: shape[0] * shape[1]].reshape(shape))


def complex_of(real: Any, imaginary: Any) -> Any:
    """``real + i imaginary``, complex128."""
    if is_numpy(real):
        return real + 1j * imaginary
    xp = namespace(real)
    unit = like(np.array(1j), real)
    return xp.astype(real, xp.complex128) + unit * xp.astype(imaginary, xp.complex128)


def divided(one: Any, other: Any, otherwise: float) -> Any:
    """``one / other`` where other is above zero, else a number."""
    xp = namespace(one)
    positive = other > 0
    ones = xp.ones_like(other)
    return xp.where(positive, one / xp.where(positive, other, ones), otherwise * ones)
