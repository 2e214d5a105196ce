"""Which source reads a model, and in which way: by what was asked for, and by what whole weights would take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eddyscope.capture.options import Options
from eddyscope.capture.source import Source, Wants
from eddyscope.capture.sources import source_for
from eddyscope.capture.ways import suits_blocks
from eddyscope.errors import CaptureError


def chosen_source(model: Any, options: Options, length: int) -> Source:
    """The source that reads a model in the way that the options ask for.

    ``auto`` means hooks; a function where values are needed; and blocks of rows where only a band of lags is kept and
    the whole weights of one layer, for one document in float32, would take more than ``ways.WHOLE_BYTES``.

    Parameters
    ----------
    model : torch.nn.Module
    options : Options
    length : int
        Tokens of the longest document.

    Raises
    ------
    CaptureError
        Where the model cannot be read in that way, with its class.
    """
    wants = Wants(way=options.way, value_norm=options.weight == "value-norm", extract=options.extract)
    source = source_for(model, wants)
    kind = type(source.model).__name__
    if options.way not in ("auto", *source.ways):
        raise CaptureError(
            f"{kind} is read by {source.way}, so way='{options.way}' does not apply to it.", "Leave out the way."
        )
    if wants.value_norm and "function" not in source.ways:
        raise CaptureError(
            f"Value-weighted attention cannot be captured from {kind}: its values are not seen ({source.way}).",
            "Capture the weights alone: weight='attention' (--weight attention).",
        )
    if options.way == "auto" and "blocks" in source.ways:
        heads = source.identity().get("heads")
        if suits_blocks(heads if isinstance(heads, int) else None, length, options.max_lag):
            return source_for(model, replace(wants, way="blocks"))
    return source
