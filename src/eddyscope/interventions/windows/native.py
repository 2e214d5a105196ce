"""Sliding windows that a model's own architecture can have, from a plan: a config, to be saved beside the weights."""

from __future__ import annotations

import copy
from typing import Any

from eddyscope.errors import InputError
from eddyscope.interventions.windows.plan import WindowPlan

_SLIDING, _FULL = "sliding_attention", "full_attention"


def config(model: Any, plan: WindowPlan) -> Any:
    """The model's config with sliding windows.

    Architectures with sliding windows have one length for all of their windowed layers, and a list that says which
    layers have it (``layer_types``; Qwen2, Qwen3, Gemma 2 and 3, SmolLM3 and others) or none (Mistral). The length is
    the one that keeps fewest keys and takes from no layer more than the plan does: layers with a longer window stay
    full.

    Parameters
    ----------
    model : transformers model
        The one that the plan is for. It is not changed.
    plan : WindowPlan
        With ``sink="drop"``: sliding windows of an architecture let go of the first key.

    Returns
    -------
    transformers.PretrainedConfig
        ``type(model).from_pretrained(folder, config=...)`` then has the windows by itself, in generation too.

    Raises
    ------
    InputError
        Where the architecture has no sliding windows, or the plan keeps the first key or has a window for each head,
        or no layer can be windowed; with the reason.
    """
    plan.check(model)
    own: Any = getattr(model, "config", None)
    reason = _unsupported(own, plan)
    if reason:
        raise InputError(f"The windows cannot be written to the config of {type(model).__name__}: {reason}.", _REMEDY)
    windows = [layer.window for layer in plan.layers]
    made = copy.deepcopy(own)
    length = _length(windows, plan.context, each=hasattr(own, "layer_types"))
    if length >= plan.context:
        raise InputError(
            f"The windows cannot be written to the config of {type(model).__name__}: every choice of layers leaves the "
            "whole context visible.",
            _REMEDY,
        )
    made.sliding_window = length
    if hasattr(made, "use_sliding_window"):
        made.use_sliding_window = True
    if hasattr(made, "layer_types"):
        made.layer_types = [_SLIDING if window <= length else _FULL for window in windows]
    return made


_REMEDY = "es.windows.apply puts them on the model as it runs."


def _unsupported(own: Any, plan: WindowPlan) -> str:
    """Why a config cannot have the plan's windows; empty where it can."""
    if own is None or not hasattr(own, "sliding_window") or not hasattr(own, "to_dict"):
        return "its architecture has no sliding windows"
    if hasattr(own, "layer_types") and len(own.layer_types or ()) != len(plan.layers):
        return "its layers do not each have a type of their own"
    if hasattr(own, "layer_types") and set(own.layer_types) - {_SLIDING, _FULL}:
        return "some of its layers have attention of another kind"
    if plan.sink != "drop":
        return "they keep the first key visible, and its sliding windows let go of it (find them with --sink drop)"
    if any(layer.heads is not None for layer in plan.layers):
        return "each head has its own, and its sliding windows are of layers"
    return ""


def _length(windows: list[int], context: int, *, each: bool) -> int:
    """Length of the sliding window with fewest keys in all; the longest where every layer must have it."""
    if not each:
        return max(windows)
    kept = {length: sum(length if w <= length else context for w in windows) for length in set(windows)}
    return min(kept, key=lambda length: (kept[length], length))
