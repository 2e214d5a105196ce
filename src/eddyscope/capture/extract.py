"""Any PyTorch module, with a function of the user's that gets its attention out.

The function is called with the model and its inputs, and returns a mapping from the name of a layer to its weights::

    def weights(model, inputs):
        return {"layer0": model.attention(inputs["input_ids"])}  # (document, head, query, key)

    capture(model, documents, extract=weights)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from eddyscope.capture.source import Inputs, Rows, Site, ToldSource, Wants
from eddyscope.capture.state import weights_sha256
from eddyscope.errors import CaptureError

_EXPECTED = (
    "An extractor takes (model, inputs) and returns a mapping from layer name to weights of shape "
    "(documents, heads, queries, keys)."
)


class ExtractorSource(ToldSource):
    """A module whose attention a function gets out.

    Parameters
    ----------
    model : torch.nn.Module
    wants : Wants
        With ``extract``, called as ``extract(model, inputs)`` in eval mode without gradients. ``inputs`` are those of
        some documents on the model's device: ``{"input_ids": (document, token)}``, or what the documents' dicts have.
        Weights are tensors or arrays. A layer that has the name of a module is said to be of its class; one whose maps
        are not square is cross attention.
    """

    name = "extractor"

    def __init__(self, model: nn.Module, wants: Wants) -> None:
        assert wants.extract is not None
        self.model = model
        self._extract: Callable[..., Any] = wants.extract
        self._sites: dict[str, Site] = {}
        self.way = f"extractor {_name_of(wants.extract)}"
        self.unreadable = {}

    @property
    def sites(self) -> tuple[Site, ...]:  # type: ignore[override]
        """Layers that the function has given so far."""
        return tuple(self._sites.values())

    def read(self, inputs: Inputs) -> None:
        """Call the function.

        Raises
        ------
        CaptureError
            Where it gives no mapping, or something other than weights; names the layer.
        """
        made = self._extract(self.model, dict(inputs))
        if not isinstance(made, Mapping) or not made:
            what = "an empty mapping" if isinstance(made, Mapping) else f"a {type(made).__name__}"
            raise CaptureError(f"The {self.way} returned {what}.", _EXPECTED)
        if len({str(name) for name in made}) < len(made):
            raise CaptureError(f"The {self.way} gave two layers of one name among {list(made)[:4]}.", _EXPECTED)
        documents = next(iter(inputs.values())).shape[0]
        for name, given in made.items():
            weights = _weights(str(name), given, documents, self.way)
            if self._receive is not None:
                self._receive(str(name), self._site(str(name), weights), Rows(weights))

    def outputs(self, inputs: Inputs) -> Tensor | None:
        """Call the function; what the model itself gives is not known, so it is not compared."""
        self.read(inputs)
        return None

    def _site(self, name: str, weights: Tensor) -> Site:
        if name not in self._sites:
            module = dict(self.model.named_modules()).get(name, self.model)
            kind = "self" if weights.shape[2] == weights.shape[3] else "cross"
            self._sites[name] = Site(name, module, kind=kind)
        return self._sites[name]

    @property
    def vocabulary(self) -> int | None:
        """Not known."""
        return None

    @property
    def context(self) -> int | None:
        """Not known."""
        return None

    @property
    def device(self) -> torch.device:
        """That of the model's first parameter or buffer."""
        tensor = next(self.model.parameters(), next(self.model.buffers(), None))
        return torch.device("cpu") if tensor is None else tensor.device

    def identity(self) -> dict[str, Any]:
        """Class, size, hash of the weights, and the name of the function."""
        return {
            "class": type(self.model).__name__,
            "name": type(self.model).__name__,
            "model_type": "module",
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "dtype": str(self.dtype).removeprefix("torch."),
            "implementation": self.way,
            "weights_sha256": weights_sha256(self.model),
        }


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def _weights(name: str, given: Any, documents: int, way: str) -> Tensor:
    """What was given for a layer, as a tensor; CaptureError where it is no attention of these documents."""
    if hasattr(given, "__array__") and not isinstance(given, Tensor):
        given = torch.as_tensor(given)
    if not isinstance(given, Tensor) or not given.is_floating_point():
        what = f"a tensor of {given.dtype}" if isinstance(given, Tensor) else f"a {type(given).__name__}"
        raise CaptureError(f"The {way} gave {what} for layer '{name}'.", _EXPECTED)
    if given.ndim != 4 or given.shape[0] != documents:
        raise CaptureError(
            f"The {way} gave shape {tuple(given.shape)} for layer '{name}' and {documents} documents.", _EXPECTED
        )
    return given
