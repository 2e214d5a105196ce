"""What the forward function of a Hugging Face model takes: the documents, and what has to be said beside them."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from eddyscope.capture.source import Inputs
from eddyscope.errors import InputError


def completed(model: nn.Module, inputs: Inputs, dtype: torch.dtype) -> Inputs:
    """Inputs in the model's precision; of an encoder-decoder, the decoder's tokens too.

    Raises
    ------
    InputError
        Where the model does not take these inputs, or has nothing for its decoder to read.
    """
    _expect_known(model, inputs)
    made = {name: value.to(dtype) if value.is_floating_point() else value for name, value in inputs.items()}
    # By what its forward takes: the config says the same of an encoder that was taken out of such a model.
    if "decoder_input_ids" in inspect.signature(model.forward).parameters and not _has_decoder_inputs(made):
        made["decoder_input_ids"] = _shifted(model, made)
    return made


def _expect_known(model: nn.Module, inputs: Inputs) -> None:
    """Refuse inputs by names that the model does not have: what is misspelled would be passed over silently."""
    own = _named(model)
    main = getattr(model, "main_input_name", "input_ids")
    unknown = [name for name in inputs if name not in own]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(model.forward).parameters.values())
    if unknown and open_ended and main in inputs:  # which hands on what one of its parts may take
        parts = {type(module): module for module in model.modules()}.values()
        known = set().union(*map(_named, parts))
        unknown = [name for name in unknown if name not in known]
    if unknown:
        raise InputError(
            f"{type(model).__name__} takes no '{unknown[0]}', which the documents have.",
            f"Its main input is '{main}'; others are {', '.join([n for n in own if n != main][:6])}.",
        )


def _named(module: nn.Module) -> list[str]:
    """Names of the arguments of a module's forward."""
    taken = inspect.signature(module.forward).parameters.values()
    return [p.name for p in taken if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def _has_decoder_inputs(inputs: Inputs) -> bool:
    return any(name.startswith("decoder_input") for name in inputs)


def _shifted(model: nn.Module, inputs: Inputs) -> Tensor:
    """The encoder's tokens, shifted to the right, for the decoder; as in training on a copy of the text."""
    if "input_ids" not in inputs:
        raise InputError(
            f"The decoder of {type(model).__name__} needs tokens to read, and the documents have {', '.join(inputs)}.",
            "Add 'decoder_input_ids', shape (documents, tokens), to the documents.",
        )
    ids = inputs["input_ids"]
    return torch.cat([torch.full_like(ids[:, :1], _start_token(model)), ids[:, :-1]], dim=1)


def _start_token(model: nn.Module) -> int:
    """The token that a decoder begins with: as the config says, or the one that begins or pads a text."""
    config: Any = model.config
    for owner in (config, getattr(config, "decoder", None), getattr(config, "text_config", None)):
        for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
            value = getattr(owner, name, None)
            if isinstance(value, int):
                return value
    return 0


def notes_on(model: nn.Module) -> tuple[str, ...]:
    """What to know of the axes of the maps."""
    notes = []
    taken = inspect.signature(model.forward).parameters
    if "decoder_input_ids" in taken:
        notes.append(
            "Where the documents have no decoder_input_ids, the decoder reads the encoder's tokens shifted right by "
            f"one, after token {_start_token(model)}."
        )
    if "pixel_values" in taken:
        notes.append(
            "Images are read as a 1-D sequence of patches, row by row from the top left, after the class token and "
            "other tokens of the model's own; a lag is a distance in this sequence, not in the image."
        )
    return tuple(notes)


def arguments(module: nn.Module, inputs: Inputs) -> dict[str, Any]:
    """The inputs and what else this forward function takes: no cache, no padding, nothing asked for."""
    accepted = inspect.signature(module.forward).parameters
    offered: dict[str, Any] = {"use_cache": False}
    for ids, mask in (("input_ids", "attention_mask"), ("decoder_input_ids", "decoder_attention_mask")):
        # Given although it is all ones: some models otherwise take the padding token, wherever it occurs, as padding.
        if ids in inputs:
            offered[mask] = torch.ones_like(inputs[ids])
    return inputs | {key: value for key, value in offered.items() if key in accepted and key not in inputs}
