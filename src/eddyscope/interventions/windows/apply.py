"""A plan of windows on a model: put on, and taken off again."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from eddyscope.interventions.editing import AppliedEdits, Edit
from eddyscope.interventions.layers import AttentionLayer
from eddyscope.interventions.windows.plan import WindowPlan, load
from eddyscope.interventions.windows.removal import Removals, without


def apply(model: Any, plan: WindowPlan | str | Path) -> AppliedEdits:
    """Give each layer its window; the model then computes as if it could not see further.

    Parameters
    ----------
    model : torch.nn.Module
        The model that the plan was made for. Attention is computed whole and cut: this shows what the windows do to the
        outputs, and saves neither time nor memory.
    plan : WindowPlan, or path
        From :func:`find` or :func:`load`; or where it was written.

    Returns
    -------
    AppliedEdits
        ``remove()`` leaves the model as it was; so does the end of a ``with`` block.

    Raises
    ------
    InputError
        Where the plan does not fit the model.
    StoreError
        Where there is no plan at the path.

    Notes
    -----
    Key 0 is the first column of the weights: with padding on the left it is padding, and with a cache that was cut it
    is another token. With a whole cache, generation is windowed too.

    Examples
    --------
    >>> import torch
    >>> import eddyscope as es
    >>> model = es.models.untrained(es.models.GPTConfig(layers=1, heads=2, width=8, context=4, vocab_size=3))
    >>> size = {"id": "tiny", "class": "GPT", "layers": 1, "heads": 2, "kv_heads": 2}
    >>> one = es.windows.LayerWindow("blocks.0.attention", 1)
    >>> plan = es.windows.WindowPlan(size, context=4, sink="drop", layers=(one,))
    >>> ids = torch.tensor([[0, 1, 2, 1], [2, 2, 2, 1]])
    >>> with es.windows.apply(model, plan):
    ...     logits = model(ids)
    >>> bool(torch.equal(logits[0, 3], logits[1, 3]))  # each sees the last token alone
    True
    """
    plan = plan if isinstance(plan, WindowPlan) else load(plan)
    layers, removals = plan.check(model), plan.removals()
    edits: dict[str, Edit] = {
        layer.name: partial(_windowed, removals=removals[layer.index], sink=plan.sink)
        for layer in layers
        if any(removal is not None for removal in removals[layer.index])
    }
    return AppliedEdits(model, edits)


def _windowed(weights: Tensor, layer: AttentionLayer, *, removals: Removals, sink: str) -> Tensor:
    return without(weights, layer, removals, sink)
