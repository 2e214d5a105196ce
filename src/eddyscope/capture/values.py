"""Value-weighted attention: how long the value of each key is once it is in the residual stream.

A head adds ``sum_j A(i, j) W v(j)`` to the residual stream of query ``i``, where ``W`` is its slice of the output
projection. ``|W v(j)|`` says how much weight on key ``j`` can do: attention sinks often have large weights and short
values (Kobayashi et al. 2020, "Attention is not only a weight", EMNLP).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from eddyscope.errors import CaptureError

#: Where an attention module keeps its output projection, by attribute; ``dense`` in the module beside it for BERT.
ON_MODULE = ("o_proj", "out_proj", "c_proj", "dense", "Wo", "wo", "out_lin", "o", "out", "proj")
BESIDE_MODULE = ("output.dense", "out_proj", "dense")


class Projection:
    """The output projection of an attention module, head by head.

    Parameters
    ----------
    module : torch.nn.Module
        The linear map from the joined heads to the residual stream.
    heads : int
        Number of query heads.

    Notes
    -----
    With ``W = Q R`` (QR decomposition) ``|W v| = |R v|``: the norm costs a product with a square matrix of the size of
    a head, and none of its digits.
    """

    def __init__(self, module: nn.Module, heads: int) -> None:
        self.module = module
        weight = _weight(module).detach().float()  # (width, head * feature)
        slices = weight.reshape(weight.shape[0], heads, -1).transpose(0, 1)  # (head, width, feature)
        self.factors: Tensor = torch.linalg.qr(slices, mode="r").R  # (head, feature, feature)

    def norms(self, value: Tensor) -> Tensor:
        """Norm of each value in the residual stream.

        Parameters
        ----------
        value : Tensor, shape (document, key-value head, key, feature)

        Returns
        -------
        Tensor, shape (document, head, key), float32
        """
        heads = self.factors.shape[0]
        values = value.float()
        if values.shape[1] != heads:
            values = values.repeat_interleave(heads // values.shape[1], dim=1)
        lengths: Tensor = torch.linalg.vector_norm(torch.matmul(values, self.factors.transpose(-2, -1)), dim=-1)
        return lengths


class Projections:
    """The output projections of a model's attention modules, found as they are needed and checked once.

    Checked is that what a module's heads give is what its projection is fed with: a gate or a norm in between would
    change what a value is worth.

    Parameters
    ----------
    model : torch.nn.Module
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._names = {id(module): name for name, module in model.named_modules()}
        self._found: dict[int, Projection] = {}
        self._unchecked: dict[int, tuple[nn.Module, RemovableHandle]] = {}
        self._expected: dict[int, Tensor] = {}

    def norms(self, module: nn.Module, heads: int, value: Tensor) -> Tensor:
        """Norm of each value of an attention module in the residual stream, see :meth:`Projection.norms`.

        Raises
        ------
        CaptureError
            Where its output projection is not known.
        """
        key = id(module)
        if key not in self._found:
            name = self._names.get(key)
            if name is None:
                raise unknown_projection(module)
            found = find_projection(self._model, name, module, heads, value.shape[-1])
            self._found[key] = found
            self._unchecked[key] = (module, found.module.register_forward_pre_hook(self._checking(module)))
        return self._found[key].norms(value)

    def attended(self, module: nn.Module, output: Tensor) -> None:
        """Take the output of a module's heads, shape (document, query, head, feature), for the check."""
        if id(module) in self._unchecked:
            self._expected[id(module)] = output

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Take off, on leaving, what was put on the model for the check.

        Raises
        ------
        CaptureError
            Where a projection was not fed with the output of its heads.
        """
        try:
            yield
            if self._expected:  # the module ran, and what its heads gave went somewhere else
                raise unknown_projection(self._unchecked[next(iter(self._expected))][0])
        finally:
            for key, (_, handle) in self._unchecked.items():
                handle.remove()
                del self._found[key]
            self._unchecked.clear()
            self._expected.clear()

    def _checking(self, module: nn.Module) -> Any:
        def check(projection: nn.Module, arguments: tuple[Any, ...]) -> None:
            output = self._expected.pop(id(module), None)
            if output is None:
                return
            given = arguments[0] if arguments else None
            if not isinstance(given, Tensor) or not torch.equal(given.flatten(), output.flatten()):
                raise unknown_projection(module)
            _, handle = self._unchecked.pop(id(module))
            handle.remove()

        return check


def find_projection(model: nn.Module, name: str, module: nn.Module, heads: int, feature: int) -> Projection:
    """The output projection of an attention module.

    Parameters
    ----------
    model : torch.nn.Module
    name : str
        Qualified name of the attention module in the model.
    module : torch.nn.Module
    heads : int
        Number of query heads.
    feature : int
        Length of a value.

    Raises
    ------
    CaptureError
        Where none of the names that such projections go by holds a linear map of the right size.
    """
    parent = model.get_submodule(name.rpartition(".")[0])
    for owner, names in ((module, ON_MODULE), (parent, BESIDE_MODULE)):
        for attribute in names:
            found = _submodule(owner, attribute)
            if found is not None and _weight_shape(found) == heads * feature:
                return Projection(found, heads)
    raise unknown_projection(module)


def unknown_projection(module: nn.Module) -> CaptureError:
    """The error for an attention module whose output projection is not known."""
    return CaptureError(
        f"Value-weighted attention cannot be captured from {type(module).__name__}: its output projection is not "
        "known, or something comes between the heads and it.",
        "Capture the weights alone: weight='attention' (--weight attention).",
    )


def _submodule(owner: nn.Module, path: str) -> nn.Module | None:
    for part in path.split("."):
        found = getattr(owner, part, None)
        if not isinstance(found, nn.Module):
            return None
        owner = found
    return owner


def _is_conv1d(module: nn.Module) -> bool:
    """The linear layer of GPT-2, whose weight is (in, out)."""
    return type(module).__name__ == "Conv1D"


def _weight_shape(module: nn.Module) -> int | None:
    """Number of inputs of a linear map, None for anything else."""
    if isinstance(module, nn.Linear):
        return module.in_features
    return int(_weight(module).shape[1]) if _is_conv1d(module) else None


def _weight(module: nn.Module) -> Tensor:
    """Weight of a linear map, shape (out, in)."""
    weight: Any = module.weight
    assert isinstance(weight, Tensor)
    return weight.T if _is_conv1d(module) else weight
