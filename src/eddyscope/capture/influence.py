"""Two more passes of the probe, of models seen by hooks: does what was captured matter, and who reads which keys."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from eddyscope.capture.checks import Check, Probe, Seen
from eddyscope.capture.source import HookSource, Inputs, Source

#: Change of the maps of a query head that counts as a change.
CHANGED = 1e-6


def influence_checks(source: Source, seen: Mapping[str, Seen], inputs: Inputs) -> list[Check]:
    """Every layer's attention module moves the outputs: the gradient along the size of what it gives is not zero.

    One pass with gradients through 32 tokens; the model's own gradients are not touched. Layers that cannot be reached
    by hooks, and models that take no gradients, have no such check.
    """
    if not isinstance(source, HookSource):
        return []
    moved = _gradients(source, inputs)
    checks = []
    for name in seen:
        if name in moved:
            value = moved[name]
            note = "gradient of the outputs along the size of the layer's output, over the outputs; not 0"
            checks.append(Check("influence", name, value > 0, value, 0.0, note))
    return checks


def _gradients(source: HookSource, inputs: Inputs) -> dict[str, float]:
    sizes: dict[str, Tensor] = {}

    def scale(name: str) -> Any:
        def hook(module: nn.Module, arguments: Any, output: Any) -> Any:
            first = output[0] if isinstance(output, (tuple, list)) and output else output
            if not isinstance(first, Tensor) or not first.is_floating_point():
                return None
            label = name
            while label in sizes:  # a module that runs more than once
                label = f"{name}#{int(label.partition('#')[2] or 1) + 1}"
            sizes[label] = torch.ones((), dtype=first.dtype, device=first.device, requires_grad=True)
            scaled = first * sizes[label]
            if isinstance(output, list):  # some models join what they get to lists
                return [scaled, *output[1:]]
            return (scaled, *output[1:]) if isinstance(output, tuple) else scaled

        return hook

    handles = [site.module.register_forward_hook(scale(site.name)) for site in source.sites]
    try:
        with source.ready(), torch.inference_mode(False), torch.enable_grad():
            fresh = {name: value.clone() for name, value in inputs.items()}
            outputs = source.outputs(fresh)
            finite = outputs.float()[outputs.isfinite()]
            generator = torch.Generator().manual_seed(0)
            weight = torch.randn(finite.shape, generator=generator).to(finite.device)
            gradients = torch.autograd.grad((finite * weight).sum(), list(sizes.values()), allow_unused=True)
            scale_of = float(finite.detach().norm()) or 1.0
    except (RuntimeError, NotImplementedError):
        return {}  # quantised weights and some kernels of their own take no gradients
    finally:
        for handle in handles:
            handle.remove()
    found = {
        name: 0.0 if gradient is None else float(gradient.abs()) / scale_of
        for name, gradient in zip(sizes, gradients, strict=True)
    }
    # Where outputs are masked by weights that are not finite, so are the gradients, and nothing can be said.
    return {name: value for name, value in found.items() if math.isfinite(value)}


def key_value_checks(source: Source, seen: Mapping[str, Seen], inputs: Inputs) -> list[Check]:
    """Which query heads change when the keys of the first key-value head do: those that the recorded map gives it.

    Of the first layer with fewer key-value heads than query heads whose module has a key projection to look into; its
    class stands for the others.
    """
    found = next(((n, s) for n, s in seen.items() if _grouped(s) is not None), None)
    if found is None or not isinstance(source, HookSource):
        return []
    name, before = found
    projection = _grouped(before)
    assert projection is not None
    heads, groups = before.shape[1], before.site.key_value_heads
    after = Probe(keep=name)
    again = Probe(keep=name)
    with source.ready():
        with source.listening(again):
            source.outputs(inputs)
        with _first_keys_changed(projection, groups), source.listening(after):
            source.outputs(inputs)
    change = (after.kept - again.kept).abs().amax(dim=(0, 2, 3))
    changed = {head for head in range(heads) if float(change[head]) > CHANGED}
    expected = {head for head in range(heads) if head * groups // heads == 0}
    note = f"query heads that change with the keys of key-value head 0 of {groups}: {_listed(changed)}"
    return [Check.at_most("key-value map", name, float(len(changed ^ expected)), 0.0, note)]


def _grouped(seen: Seen) -> nn.Module | None:
    """The key projection of a layer with grouped queries."""
    heads, groups = seen.shape[1], seen.site.key_value_heads
    projection = getattr(seen.site.module, "k_proj", None)
    return projection if 0 < groups < heads and isinstance(projection, nn.Module) else None


@contextmanager
def _first_keys_changed(projection: nn.Module, groups: int) -> Iterator[None]:
    def hook(module: nn.Module, arguments: Any, output: Any) -> Any:
        changed = output.clone()
        width = output.shape[-1] // groups
        # The sign alone: some models (OLMo 2) divide all keys by their common norm, and that must stay as it was.
        changed[..., :width] = -changed[..., :width]
        return changed

    handle = projection.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _listed(heads: set[int]) -> str:
    return ", ".join(str(head) for head in sorted(heads)) or "none"
