"""Which source reads which model: a table, one row per kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from eddyscope.capture.asked import AskedSource, can_be_asked
from eddyscope.capture.extract import ExtractorSource
from eddyscope.capture.hf import HuggingFaceSource, stated_sites
from eddyscope.capture.lens import LensSource, is_lens
from eddyscope.capture.source import Source, Wants
from eddyscope.errors import CaptureError, InputError


def _is_hugging_face(model: nn.Module, wants: Wants) -> bool:
    # Also true of a user's own subclass; by what it has, so that transformers need not be imported for other models.
    return hasattr(model, "config") and hasattr(model, "_can_record_outputs")


def _states_its_attention(model: nn.Module, wants: Wants) -> bool:
    return _is_hugging_face(model, wants) and next(stated_sites(model), None) is not None


def _can_be_asked(model: nn.Module, wants: Wants) -> bool:
    return _is_hugging_face(model, wants) and can_be_asked(model)


def _is_own_gpt(model: nn.Module, wants: Wants) -> bool:
    return any(kind.__module__ == "eddyscope.models.gpt" for kind in type(model).__mro__)


def _is_nanogpt(model: nn.Module, wants: Wants) -> bool:
    return type(model).__module__ == "eddyscope.models.nanogpt"


def _make_nanogpt(model: nn.Module, wants: Wants) -> Source:
    from eddyscope.capture.nanogpt import NanoGPTSource
    from eddyscope.models.nanogpt import NanoGPT

    assert isinstance(model, NanoGPT)
    return NanoGPTSource(model, wants)


def _make_own_gpt(model: nn.Module, wants: Wants) -> Source:
    from eddyscope.capture.gpt import GPTSource
    from eddyscope.models.gpt import GPT

    assert isinstance(model, GPT)
    return GPTSource(model, wants)


def _has_extractor(model: nn.Module, wants: Wants) -> bool:
    return wants.extract is not None


def _is_lens(model: nn.Module, wants: Wants) -> bool:
    return is_lens(model)


#: Question and answer, in the order in which they are asked.
SOURCES: tuple[tuple[Callable[[nn.Module, Wants], bool], Callable[[nn.Module, Wants], Source]], ...] = (
    (_has_extractor, ExtractorSource),
    (_is_own_gpt, _make_own_gpt),
    (_is_nanogpt, _make_nanogpt),
    (_is_lens, LensSource),  # before Hugging Face, whose model it may hold and resemble
    (_states_its_attention, HuggingFaceSource),
    (_can_be_asked, AskedSource),
    (_is_hugging_face, HuggingFaceSource),  # which refuses it by class
)


def source_for(model: Any, wants: Wants = Wants()) -> Source:
    """The source that reads a model.

    Raises
    ------
    InputError
        Where it is not a model.
    CaptureError
        Where it is a model that no source knows, or that shows no attention.
    """
    _refuse_attention(model)
    # A compiled model runs without its hooks; what was compiled is the same model.
    model = getattr(model, "_orig_mod", model)
    if not isinstance(model, nn.Module):
        raise InputError(
            f"The model is a {type(model).__name__}, expected a torch.nn.Module.",
            "Load one with eddyscope.load_model(name).",
        )
    for knows, make in SOURCES:
        if knows(model, wants):
            return make(model, wants)
    raise CaptureError(
        f"{type(model).__name__} is not a kind of model that can be captured; models of Hugging Face and "
        "TransformerLens, checkpoints of nanoGPT and the GPTs in eddyscope.models are.",
        "Give a function that gets its attention out, capture(model, documents, extract=function), or pass its "
        "attention as arrays: AttentionEnsemble.from_arrays(A).",
    )


def _refuse_attention(model: Any) -> None:
    """Attention, or outputs that hold it, given in the place of the model."""
    if getattr(model, "attentions", None) is not None and not isinstance(model, nn.Module):
        raise InputError(
            f"Got the outputs of a model ({type(model).__name__}) in the place of the model.",
            "Outputs of generate(output_attentions=True) are ragged, one entry per generated token: generate the text "
            "first, then capture the model on it with capture(model, documents).",
        )
    if isinstance(model, (list, tuple, dict, Tensor)) or (hasattr(model, "dtype") and hasattr(model, "ndim")):
        raise InputError(
            f"Got a {type(model).__name__} in the place of the model.",
            "Attention that is there already is taken by AttentionEnsemble.from_arrays(A), with A of shape "
            "(documents, layers, L, L) or (documents, layers, heads, L, L).",
        )
