"""The untrained twin of a model: the same architecture with fresh weights."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from eddyscope.errors import InputError
from eddyscope.models.bundle import untrained
from eddyscope.models.gpt import GPT


def untrained_twin(model: Any, seed: int = 0) -> nn.Module:
    """A model of the same class and config whose weights were drawn afresh and never trained.

    Parameters
    ----------
    model : torch.nn.Module
        A Hugging Face model, or one of the GPTs in ``eddyscope.models``. It is left alone.
    seed : int
        Seed of the weights. Equal seeds give equal weights, whatever torch's global seed, which is left alone too.

    Returns
    -------
    torch.nn.Module
        In eval mode, with the device and floating-point type of the model. Weights come from the initialisation that
        the class itself prescribes; those that a config switches off at training (dropout) play no part in eval mode.

    Raises
    ------
    InputError
        Where the class cannot be built from its config alone.
    """
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    weight = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    if isinstance(model, GPT):
        return untrained(model.config, seed, model.vocabulary).to(weight.device)
    config = copy.deepcopy(model.config)
    if getattr(config, "quantization_config", None) is not None:  # the twin is never packed: nothing to unpack
        del config.quantization_config
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            twin: nn.Module = type(model)(config)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"No untrained twin of {type(model).__name__} can be built from its config: {reason}",
            "Leave twin out of the null models (--null shuffled).",
        ) from error
    return twin.to(device=weight.device, dtype=weight.dtype).eval()
