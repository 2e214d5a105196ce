"""Hugging Face models that do not state where their attention can be seen, but give it when asked for it.

They are asked layer by layer: the model reads under ``output_attentions=True``, a forward hook on each attention module
takes the weights out of what the module gives, and leaves None in their place where the model bears that, so that no
layer's weights outlive the layer. Which modules these are is found by letting the model read a few made-up tokens: a
site is the innermost module that gives the very tensor which the model's outputs hold in the end.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from eddyscope.capture.hf import HuggingFaceSource, make_site, refusal, without_asking
from eddyscope.capture.hfinputs import arguments, completed
from eddyscope.capture.implementations import implementations_of, put_back
from eddyscope.capture.source import Inputs, Receiver, Rows, Site, Wants, is_attention
from eddyscope.capture.state import evaluated
from eddyscope.errors import CaptureError, EddyscopeError

#: Tokens that the model is given to find its attention.
TOKENS = 16
#: The first of them: small ids often have a meaning of their own.
FIRST_TOKEN = 5
#: Rows of what is taken for attention sum to 1 within this; scores before the softmax are far from it.
ROW_TOLERANCE = 0.05


def can_be_asked(model: nn.Module) -> bool:
    """Whether the model's forward takes ``output_attentions``."""
    return "output_attentions" in _taken(model)


class AskedSource(HuggingFaceSource):
    """A model of the transformers library that is asked for its attention.

    Parameters
    ----------
    model : transformers.PreTrainedModel
    wants : Wants
        The way is hooks; no other can be had.

    Raises
    ------
    CaptureError
        Where none of its modules gives attention that can be read, with what it gives.
    """

    ways = ("hooks",)

    def __init__(self, model: nn.Module, wants: Wants = Wants()) -> None:
        self._asking = False
        super().__init__(model, wants)
        self.way = "forward hooks, asked for with output_attentions"
        exact = self.found.others
        self.unreadable = {n: t for n, t in self.unreadable.items() if not any(o.startswith(f"{n}.") for o in exact)}
        self.unreadable |= exact
        if not can_be_asked(self._reader):
            self._reader = model

    def find_sites(self) -> tuple[Site, ...]:
        """Sites that were found by asking, in the order in which they run."""
        self.found = find_by_asking(self.model)
        return self.found.sites

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Eval mode, no gradients, eager attention where the class has a choice."""
        with evaluated(self.model), without_asking(self.model), _eager_where_possible(self.model):
            yield

    @contextmanager
    def listening(self, receive: Receiver) -> Iterator[None]:
        """Ask for the weights, and hook every site."""
        calls = self._calls

        def see(site: Site, output: Any) -> Any:
            calls[site.name] += 1
            name = site.name if calls[site.name] == 1 else f"{site.name}#{calls[site.name]}"
            shown = _at(output, site.index)
            receive(name, site, Rows(shown) if is_attention(shown) else shown)
            return _without(output, site.index) if self.found.spare and isinstance(shown, Tensor) else None

        handles = []
        try:
            self._asking = True
            for site in self.sites:
                handles.append(site.module.register_forward_hook(lambda m, a, o, site=site: see(site, o)))
            yield
        finally:
            self._asking = False
            for handle in handles:
                handle.remove()

    def asked(self) -> dict[str, Any]:
        """What the forward functions are told beside the inputs."""
        return {"output_attentions": True} if self._asking else {}


@dataclass(frozen=True)
class Found:
    """Where a model gives its attention.

    Parameters
    ----------
    sites : tuple of Site
    spare : bool
        The model does without the weights once a site has given them.
    others : dict of str to str
        Modules that give something else as their attention, and what.
    """

    sites: tuple[Site, ...]
    spare: bool
    others: dict[str, str]


def find_by_asking(model: nn.Module) -> Found:
    """Let the model read made-up inputs, and see which modules give what its outputs hold.

    Raises
    ------
    CaptureError
        Where none gives attention, with the classes and what they give.
    """
    with evaluated(model), without_asking(model), _eager_where_possible(model):
        try:
            inputs = made_up(model)
            given, outputs = _watched(model, inputs)
        except (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError, EddyscopeError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            raise CaptureError(
                f"No attention can be read from {type(model).__name__}: where its classes ({_kinds(model)}) give it is "
                f"found by letting it read {TOKENS} made-up tokens, which failed: {reason}.",
                "Where it can give attention some other way, pass it as arrays: AttentionEnsemble.from_arrays(A).",
            ) from error
        wanted = [(key, value) for key in outputs if key.endswith("attentions") for value in outputs[key] or ()]
        sites: dict[str, Site] = {}
        others: dict[str, str] = {}
        for key, value in wanted:
            name, module, index = given.get(id(value), (key, model, 0))
            problem = _problem(value) if value is None or id(value) in given else f"{_shape(value)}, made by no module"
            if problem:
                others[name] = f"{type(module).__name__} gives {problem}"
            else:
                sites.setdefault(name, make_site(module, name, index, "cross" if "cross" in key else "self", model))
        if not sites:
            raise _not_found(model, [text.partition(" gives ")[2] for text in others.values()])
        order = {name: position for position, (name, _, _) in enumerate(given.values())}
        found = tuple(sorted(sites.values(), key=lambda site: order[site.name]))
        return Found(found, _does_without(model, inputs, found), others)


def _problem(value: Any) -> str:
    """Why something cannot be the attention of one document; empty where it can."""
    if not isinstance(value, Tensor) or not is_attention(value) or value.shape[0] != 1:
        return _shape(value)
    sums = value.float().sum(-1)
    return "" if float((sums - 1).abs().max()) < ROW_TOLERANCE else f"{_shape(value)} with rows that do not sum to 1"


def _shape(value: Any) -> str:
    if value is None:
        return "none"
    return f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"


def made_up(model: nn.Module) -> Inputs:
    """A document that any model of this kind can read: a few tokens, or an image of noise."""
    device = next(model.parameters()).device
    config: Any = model.config
    if getattr(model, "main_input_name", "input_ids") == "pixel_values":
        size = getattr(config, "image_size", 32)
        sides = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
        noise = torch.randn((1, getattr(config, "num_channels", 3), *sides), generator=torch.Generator().manual_seed(0))
        inputs = {"pixel_values": noise.to(device)}
    else:
        ids = torch.arange(FIRST_TOKEN, FIRST_TOKEN + TOKENS, device=device)[None] % _vocabulary(model)
        inputs = {"input_ids": ids}
    dtype = next(p.dtype for p in model.parameters() if p.is_floating_point())
    return completed(model, inputs, dtype)


def _vocabulary(model: nn.Module) -> int:
    try:
        return int(model.get_input_embeddings().weight.shape[0])  # type: ignore[operator]
    except (NotImplementedError, AttributeError):
        return FIRST_TOKEN + TOKENS


def _watched(model: nn.Module, inputs: Inputs) -> tuple[dict[int, tuple[str, nn.Module, int]], Any]:
    """Which module gave each tensor first, by the tensor's id; and the model's outputs."""
    given: dict[int, tuple[str, nn.Module, int]] = {}
    kept: list[Any] = []  # an id is good for as long as its tensor lives

    def watch(name: str, module: nn.Module) -> Any:
        def see(module: nn.Module, arguments: Any, output: Any) -> None:
            if isinstance(output, (tuple, list)):
                for index, value in enumerate(output):
                    if isinstance(value, Tensor) and value.ndim > 2:
                        given.setdefault(id(value), (name, module, index))
                        kept.append(value)

        return module.register_forward_hook(see)

    handles = [watch(name, module) for name, module in model.named_modules() if name]
    try:
        outputs = _run(model, inputs, output_attentions=True)
    finally:
        for handle in handles:
            handle.remove()
    return given, outputs


def _run(model: nn.Module, inputs: Inputs, **asked: Any) -> Any:
    named = {"return_dict": True} if "return_dict" in _taken(model) else {}
    return model(**arguments(model, inputs), **named, **asked)


def _does_without(model: nn.Module, inputs: Inputs, sites: tuple[Site, ...]) -> bool:
    """Whether the model runs, and gives the same, with None in the place of the weights."""
    handles = []
    try:
        before = _run(model, inputs)
        for site in sites:
            handles.append(site.module.register_forward_hook(lambda m, a, o, site=site: _without(o, site.index)))
        after = _run(model, inputs, output_attentions=True)
    except Exception:
        return False
    finally:
        for handle in handles:
            handle.remove()
    key = "logits" if "logits" in before else next(iter(before))
    return isinstance(before[key], Tensor) and torch.allclose(before[key], after[key], atol=1e-4, equal_nan=True)


def _not_found(model: nn.Module, given: list[str]) -> CaptureError:
    """The error for a model that gives none, or something else."""
    if not given:
        return refusal(model)
    asked = f"No attention can be read from {type(model).__name__}: asked for it, its classes ({_kinds(model)}) give"
    if set(given) == {"none"}:
        return CaptureError(
            f"{asked} none, as they were chosen for another implementation when the model was made.",
            "Load it with attn_implementation='eager'.",
        )
    return CaptureError(
        f"{asked} {', '.join(dict.fromkeys(given))} for {TOKENS} tokens, expected (documents, heads, queries, keys) "
        "from the attention module itself.",
        "Where its attention can be brought to this form, pass it as arrays: AttentionEnsemble.from_arrays(A).",
    )


def _kinds(model: nn.Module) -> str:
    """Names of the attention classes in a model."""
    names = [type(m).__name__ for m in model.modules() if "attention" in type(m).__name__.lower()]
    return ", ".join(list(dict.fromkeys(names))[:4]) or type(model).__name__


@contextmanager
def _eager_where_possible(model: nn.Module) -> Iterator[None]:
    """Eager attention where the class can switch; others show their weights as they are, or are refused."""
    before = implementations_of(model)
    try:
        if any(name != "eager" for _, name in before) and model._can_set_attn_implementation():  # type: ignore[operator]
            model.set_attn_implementation("eager")  # type: ignore[operator]
        for config, _ in before:
            # Of classes that cannot switch some ask the config each time, for their mask too (Falcon).
            config._attn_implementation_internal = "eager"
        yield
    finally:
        put_back(before)


def _taken(module: nn.Module) -> Any:
    return inspect.signature(module.forward).parameters


def _at(output: Any, index: int) -> Any:
    inside = isinstance(output, (tuple, list)) and -len(output) <= index < len(output)
    return output[index] if inside else None


def _without(output: Any, index: int) -> Any:
    """The same output with None in the place of the weights; None (as it is) where it has no such place."""
    if not isinstance(output, (tuple, list)) or not -len(output) <= index < len(output):
        return None
    rest = (None if i == index % len(output) else value for i, value in enumerate(output))
    return list(rest) if isinstance(output, list) else tuple(rest)
