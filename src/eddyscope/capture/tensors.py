"""Files of tensors (``torch.save``), read as tensors and plain containers alone: code in them is not run."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eddyscope.errors import InputError


def read_tensors(path: Path) -> dict[str, Any]:
    """A tensor, or a mapping of names to tensors, as arrays; bfloat16, which NumPy lacks, stays a tensor.

    Raises
    ------
    InputError
        Where it holds something else.
    pickle.UnpicklingError
        Where it holds more than tensors and plain containers.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise
    except (RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InputError(
            f"'{path.name}' cannot be read: {reason}.", "It may be cut or of another format; save it again."
        ) from error
    given = {path.stem: content} if isinstance(content, Tensor) else content
    if not isinstance(given, Mapping) or not all(isinstance(value, Tensor) for value in given.values()) or not given:
        raise InputError(
            f"'{path.name}' holds a {type(content).__name__}, expected a tensor, or a dict of tensors by layer.",
            "A checkpoint of a model is no attention: capture the model.",
        )
    return {str(name): _array(value) for name, value in given.items()}


def _array(tensor: Tensor) -> Any:
    # Whoever takes it must know of the low precision: rows of bfloat16 do not sum to 1 as those of float32 do.
    return tensor.detach() if tensor.dtype == torch.bfloat16 else tensor.detach().numpy()
