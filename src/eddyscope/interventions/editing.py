"""Edit the attention weights of chosen layers of a model, reversibly.

An edit is a function ``edit(weights, layer) -> weights`` of the weights after the softmax, shape (batch, head, query,
key); the layer's output is then computed from the edited weights and the layer's own values. Several edits of one layer
apply in the order in which they were made. While a cache is in use the queries are the last of the keys:
``key - query`` is how many came before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from torch import Tensor

from eddyscope.errors import CaptureError, InputError
from eddyscope.interventions.layers import AttentionLayer, attention_layers
from eddyscope.models.gpt import GPT, CausalSelfAttention

Edit = Callable[[Tensor, AttentionLayer], Tensor]


class AppliedEdits:
    """Edits that stay on a model until they are removed; also a context manager that removes them at its end.

    Parameters
    ----------
    model : torch.nn.Module
        A Hugging Face model, or one of the GPTs in ``eddyscope.models``.
    edits : mapping of str to callable
        The edit of each layer, by qualified name.

    Raises
    ------
    InputError
        For a name that is no attention layer of the model.
    CaptureError
        Where the attention of the model cannot be edited.
    """

    def __init__(self, model: Any, edits: Mapping[str, Edit]) -> None:
        model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
        layers = {layer.name: layer for layer in attention_layers(model)}
        unknown = [name for name in edits if name not in layers]
        if unknown:
            raise InputError(
                f"'{unknown[0]}' is not an attention layer of {type(model).__name__}.",
                f"Its layers are {', '.join(layers)}.",
            )
        self._undo = ExitStack()  # of plain calls, so that dropping this object does not undo anything
        with ExitStack() as undo:
            bound = {layers[name]: partial(_checked, edit, layers[name]) for name, edit in edits.items()}
            if isinstance(model, GPT):
                _put_on_gpt(bound, undo)
            elif bound:
                from eddyscope.interventions.hf import put_on_hugging_face

                put_on_hugging_face(model, bound, undo)
            self._undo = undo.pop_all()

    def remove(self) -> None:
        """Leave the model as it was; further calls do nothing."""
        self._undo.close()

    def __enter__(self) -> AppliedEdits:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


@contextmanager
def edited(model: Any, edits: Mapping[str, Edit]) -> Iterator[None]:
    """Edit the attention of chosen layers for the time of a block.

    Parameters
    ----------
    model : torch.nn.Module
        A Hugging Face model, or one of the GPTs in ``eddyscope.models``. Afterwards it is bit for bit as before.
    edits : mapping of str to callable
        The edit of each layer, by qualified name: ``edit(weights, layer)`` returns weights of the same shape.

    Raises
    ------
    InputError, CaptureError
        As :class:`AppliedEdits`; and while the model reads, where an edit changes the shape of the weights.

    Examples
    --------
    >>> import torch
    >>> from eddyscope import models
    >>> model = models.untrained(models.GPTConfig(layers=1, heads=2, width=8, context=4, vocab_size=3))
    >>> ids = torch.tensor([[0, 1, 2, 1]])
    >>> with edited(model, {"blocks.0.attention": lambda weights, layer: weights * 0}):
    ...     changed = model(ids)
    >>> bool((changed - model(ids)).abs().max() > 0)
    True
    """
    with AppliedEdits(model, edits):
        yield


def _checked(edit: Edit, layer: AttentionLayer, weights: Tensor) -> Tensor:
    """Apply an edit; the shape must stay."""
    found = edit(weights, layer)
    if found.shape != weights.shape:
        raise CaptureError(
            f"The edit of layer '{layer.name}' gave weights of shape {tuple(found.shape)}, expected "
            f"{tuple(weights.shape)} (batch, head, query, key)."
        )
    return found


def _put_on_gpt(edits: Mapping[AttentionLayer, Callable[[Tensor], Tensor]], undo: ExitStack) -> None:
    """Put edits on the modules of a GPT."""
    for layer, edit in edits.items():
        assert isinstance(layer.module, CausalSelfAttention)
        layer.module.edits.append(edit)
        undo.callback(_take_off_gpt, layer.module, edit)


def _take_off_gpt(module: CausalSelfAttention, edit: Callable[[Tensor], Tensor]) -> None:
    module.edits = [other for other in module.edits if other is not edit]
