"""A mask that is made for a block of query rows when they are computed, and never for all of them at once."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor

from eddyscope.errors import CaptureError


class RowMask:
    """What ``transformers`` would make a mask from, kept until rows of it are needed.

    A model hands its mask on to its attention layers without looking at it, as it does with the block masks of
    flex attention. A model that does look is refused.

    Parameters
    ----------
    arguments : dict
        The arguments of a function in ``AttentionMaskInterface``: the function of document, head, query and key that
        says what is seen (causal, sliding window, chunks ...), the padding, sizes and offsets.
    """

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._arguments = arguments

    def rows(self, first: int, stop: int) -> Tensor | None:
        """What eager attention adds to the scores of queries ``first`` to ``stop``; None where nothing is masked.

        Shape (document, 1, query, key): 0 where a key is seen, the lowest number of the type where it is not.
        """
        from transformers.masking_utils import eager_mask

        if "cache_position" in self._arguments:  # what transformers 5.3 says in the place of sizes
            rows = {"cache_position": self._arguments["cache_position"][first:stop]}
        else:
            rows = {"q_length": stop - first, "q_offset": self._arguments.get("q_offset", 0) + first}
        made: Tensor | None = eager_mask(**(self._arguments | rows))
        return made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse(f"its '{name}'")

    def __getitem__(self, index: Any) -> Any:
        self._refuse("a part of it")

    def _refuse(self, part: str) -> NoReturn:
        config = type(self._arguments.get("config")).__name__
        raise CaptureError(
            f"The model ({config}) looks into its attention mask ({part}), which attention in blocks of rows never "
            "makes as a whole.",
            "Capture it with way='hooks' or way='function' (--way hooks, --way function).",
        )


def row_mask(**arguments: Any) -> RowMask:
    """Mask function of attention in blocks, for ``AttentionMaskInterface``."""
    return RowMask(arguments)


def mask_rows(mask: Any, first: int, stop: int) -> Tensor | None:
    """Rows of whatever mask an attention layer was given.

    Parameters
    ----------
    mask : RowMask, Tensor or None
        A tensor (made by the model itself) is added to the scores; one of booleans says what is seen.
    """
    if mask is None:
        return None
    if isinstance(mask, RowMask):
        return mask.rows(first, stop)
    if isinstance(mask, Tensor) and mask.ndim == 4:
        part = mask if mask.shape[2] == 1 else mask[:, :, first:stop]
        if part.dtype == torch.bool:
            raise CaptureError(
                "The model gives its attention a mask of booleans, which eager attention would add to the scores.",
                "Capture it with way='hooks' (--way hooks).",
            )
        return part
    shape = f"shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
    raise CaptureError(
        f"The mask of an attention layer is of {shape}, expected (documents, 1 or heads, queries, keys).",
        "Capture it with way='hooks' (--way hooks).",
    )
