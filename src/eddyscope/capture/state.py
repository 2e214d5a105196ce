"""Context managers that change a model for the time of a capture and leave it as it was found."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from eddyscope.errors import CaptureError


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
    if device is None or parameter is None or parameter.device == torch.device(device):
        yield
        return
    before = {p.device for p in model.parameters()}
    if len(before) > 1:
        raise CaptureError(
            f"The model is spread over {len(before)} devices, so it cannot be moved to '{device}'.",
            "Leave out the device to capture it where it is.",
        )
    try:
        model.to(device)
    except (RuntimeError, AssertionError) as error:
        model.to(parameter.device)
        reason = str(error).splitlines()[0]
        raise CaptureError(f"The model cannot be moved to device '{device}': {reason}") from error
    try:
        yield
    finally:
        model.to(before.pop())
