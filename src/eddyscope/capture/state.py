"""Context managers that change a model for the time of a capture and leave it as it was found."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from eddyscope.errors import CaptureError, UsageError


def weights_sha256(model: nn.Module) -> str:
    """Hash of all weights and buffers of a model, as float32, in the order of their names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


@contextmanager
def evaluated(model: nn.Module) -> Iterator[None]:
    """Eval mode and inference mode; afterwards each module has its own mode back."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.inference_mode():
            yield
    finally:
        # Module by module, as parts of a model may have been in different modes.
        for module, mode in modes:
            module.training = mode


@contextmanager
def moved(model: nn.Module, device: str | None) -> Iterator[None]:
    """The model on another device, and back where it came from."""
    parameter = next(model.parameters(), None)
    if device is None or parameter is None or str(parameter.device) == device:
        yield
        return
    before = {p.device for p in model.parameters()}
    if len(before) > 1:
        raise CaptureError(
            f"The model is spread over {len(before)} devices, so it cannot be moved to '{device}'.",
            "Leave out the device to capture it where it is.",
        )
    try:
        move(model, device)
    except UsageError:
        model.to(parameter.device)
        raise
    try:
        yield
    finally:
        model.to(before.pop())


def move(model: Any, device: str) -> Any:
    """The model on a device; UsageError where torch has no such device here, or it keeps no weights."""
    place = named_device(device)
    try:
        return model.to(place)
    except (RuntimeError, AssertionError) as error:
        raise _no_place(device, str(error)) from error


def named_device(device: str) -> torch.device:
    """The device of this name; UsageError where there is none, or it keeps no weights."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise _no_place(device, str(error)) from error
    if found.type == "meta":  # from which nothing comes back
        raise _no_place(device, "it keeps no weights")
    return found


def _no_place(device: str, reason: str) -> UsageError:
    first = reason.strip().splitlines()[0].rstrip(".")
    return UsageError(
        f"The model cannot be moved to device '{device}': {first}.",
        "Leave device (--device) out to stay on the processor, or name one that torch has here.",
    )
