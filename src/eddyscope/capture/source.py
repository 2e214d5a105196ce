"""What capture needs of a model, whatever library it comes from: a source.

A source knows where the attention of one kind of model can be seen, how to make the model ready and leave it as it was,
and how to let it read token ids. Everything after that (reduction, checks, batches) is the same for all sources.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from eddyscope.capture.state import evaluated


@dataclass(frozen=True)
class Site:
    """A place where attention weights can be seen: the output of one module.

    Parameters
    ----------
    name : str
        Qualified name of the module.
    module : torch.nn.Module
    index : int
        Position of the weights in the module's output tuple.
    kind : str
        ``"self"`` or ``"cross"``.
    causal : bool, optional
        What the module or the config says; None where neither says anything.
    window : int, optional
        Sliding window in tokens, as the config states it: causal layers see lags below it, two-sided ones distances up
        to it.
    heads : int
        Query heads that the module states; 0 where it states none.
    key_value_heads : int
        0 where unknown (then taken equal to the query heads).
    own_sink : bool
        The softmax has a column that is not a token, so rows may sum to less than 1.
    looks_ahead : bool
        Known to let attention depend on later tokens although its mask is causal.
    """

    name: str
    module: nn.Module
    index: int = 1
    kind: str = "self"
    causal: bool | None = None
    window: int | None = None
    heads: int = 0
    key_value_heads: int = 0
    own_sink: bool = False
    looks_ahead: bool = False


#: What a model's forward takes for some documents; the first axis of each tensor is the document.
Inputs = dict[str, Tensor]


@dataclass(frozen=True)
class Rows:
    """Some rows of the attention of one layer: the whole map, or a block of queries.

    Parameters
    ----------
    weights : Tensor, shape (document, head, query, key)
        After the softmax. Not to be kept: the memory of a block is used again for the next.
    first : int
        Query of the first row; a layer's blocks come in ascending order.
    total : int, optional
        Queries of the whole map, where these rows are a block of it.
    value_norm : Tensor, shape (document, head, key), optional
        Norm of the value of each key, projected into the residual stream by its head.
    """

    weights: Tensor
    first: int = 0
    total: int | None = None
    value_norm: Tensor | None = None


#: Called with the name of a layer, its site, and rows of its attention; or what it gave where that is no attention.
Receiver = Callable[[str, Site, Any], None]


@dataclass(frozen=True)
class Wants:
    """What a capture wants of a source.

    Parameters
    ----------
    way : {"auto", "hooks", "function", "blocks"}
        How the attention is to be seen.
    value_norm : bool
        ``Rows.value_norm`` is needed.
    extract : callable, optional
        The user's own extractor, for modules that no source knows.
    """

    way: str = "auto"
    value_norm: bool = False
    extract: Callable[..., Any] | None = None


class Source(ABC):
    """One kind of model.

    Subclasses set ``name`` (of the library), ``way`` (how the weights are seen), ``sites`` and ``unreadable`` (class
    name of every layer that has no attention map, by its qualified name).
    """

    name: str
    way: str
    #: Ways that can be asked for.
    ways: tuple[str, ...] = ("hooks",)
    #: The way among them that is taken.
    by: str = "hooks"
    model: nn.Module
    sites: tuple[Site, ...]
    unreadable: dict[str, str]
    #: What to know of the axes of the maps, in sentences; kept in the provenance.
    notes: tuple[str, ...] = ()

    def completed(self, inputs: Inputs) -> Inputs:
        """Return the inputs with all that the model needs beside them; done twice, it changes nothing more."""
        return inputs

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Make the model show its weights; on leaving, everything is as it was. Here: eval mode and no gradients."""
        with evaluated(self.model):
            yield

    @abstractmethod
    def read(self, inputs: Inputs) -> None:
        """Let the model read documents, at the least cost that shows all attention."""

    @abstractmethod
    def outputs(self, inputs: Inputs) -> Tensor | None:
        """Return the model's logits, or its last hidden states where it has none; shape (document, token, feature).

        None where they are not known, so that they cannot be compared.
        """

    @abstractmethod
    def listening(self, receive: Receiver) -> AbstractContextManager[None]:
        """Call ``receive`` with the attention of each layer while the model reads."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return what identifies the model, JSON-able."""

    @property
    @abstractmethod
    def vocabulary(self) -> int | None:
        """Number of token ids that the model knows, where it says."""

    @property
    @abstractmethod
    def context(self) -> int | None:
        """Largest number of tokens that the model was made for, where it says."""

    def read_in_full(self) -> None:  # noqa: B027
        """Read through the whole model from now on, where ``read`` took a short cut; nothing where it did not."""

    @property
    def device(self) -> torch.device:
        """Where the inputs go: the device of the model's first parameter."""
        return next(self.model.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Floating-point type of the model's parameters."""
        return next((p.dtype for p in self.model.parameters() if p.is_floating_point()), torch.float32)


class HookSource(Source):
    """A source whose weights are seen by forward hooks on modules; the model takes token ids and gives logits.

    A module that is called more than once in a forward pass (weights shared between layers) gives one layer per call,
    named ``name``, ``name#2``, ``name#3`` and so on.
    """

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()

    @contextmanager
    def listening(self, receive: Receiver) -> Iterator[None]:
        """Hook every site; the hooks are removed on leaving."""
        handles = []
        try:
            for site in self.sites:
                handles.append(site.module.register_forward_hook(self._hook(site, receive)))
            yield
        finally:
            for handle in handles:
                handle.remove()

    def read(self, inputs: Inputs) -> None:
        """Let the model read."""
        self.outputs(inputs)

    def outputs(self, inputs: Inputs) -> Tensor:
        """Logits."""
        self.new_pass()
        logits: Tensor = self.model(inputs["input_ids"])
        return logits

    def new_pass(self) -> None:
        """Begin to count the calls of each module anew; to be called before each forward pass."""
        self._calls.clear()

    def _hook(self, site: Site, receive: Receiver) -> Callable[[nn.Module, Any, Any], None]:
        def see(module: nn.Module, arguments: Any, output: Any) -> None:
            self._calls[site.name] += 1
            count = self._calls[site.name]
            inside = isinstance(output, (tuple, list)) and -len(output) <= site.index < len(output)
            shown = output[site.index] if inside else None
            name = site.name if count == 1 else f"{site.name}#{count}"
            receive(name, site, Rows(shown) if isinstance(shown, Tensor) and is_attention(shown) else shown)

        return see


class ToldSource(Source):
    """A source that is given the weights while the model reads, and passes them on to whoever listens."""

    _receive: Receiver | None = None

    @contextmanager
    def listening(self, receive: Receiver) -> Iterator[None]:
        """Pass on what is given from now on."""
        try:
            self._receive = receive
            yield
        finally:
            self._receive = None


def is_attention(value: Any) -> bool:
    """Whether a value can be attention weights of shape (document, head, query, key)."""
    return isinstance(value, Tensor) and value.ndim == 4 and value.is_floating_point()
