"""A plan made real: the GPT without the queries and keys that it no longer needs."""

from __future__ import annotations

import torch
from torch import Tensor

from eddyscope.errors import InputError
from eddyscope.interventions.heads.plan import LayerPlan, Plan, check_fits
from eddyscope.models.gpt import GPT, CausalSelfAttention
from eddyscope.models.shared import SharedAttention, SharedGPT


def rebuild(model: GPT, plan: Plan) -> SharedGPT:
    """Build the model that a plan describes, with the model's weights.

    Parameters
    ----------
    model : GPT
        One of ``eddyscope.models``; left alone. Hugging Face models have no rebuilt form: use
        :func:`eddyscope.heads.apply`.
    plan : Plan
        Made for this model.

    Returns
    -------
    SharedGPT
        In eval mode. Its logits equal those of the model with the plan applied.

    Raises
    ------
    InputError
        Where the plan does not fit, a layer keeps no pattern, or the model has no rebuilt form.
    """
    if type(model) is not GPT:
        raise InputError(
            f"{type(model).__name__} has no rebuilt form; the GPTs in eddyscope.models have.",
            "Use eddyscope.heads.apply(model, plan).",
        )
    check_fits(model, plan)
    weight = model.tokens.weight
    with torch.random.fork_rng(devices=[]):
        made = SharedGPT(model.config, [layer.kept for layer in plan.layers], model.vocabulary)
    made = made.to(weight.device, weight.dtype)
    state = {name: tensor for name, tensor in model.state_dict().items() if ".attention." not in name}
    for index, (old, new, layer) in enumerate(zip(model.attentions(), made.attentions(), plan.layers, strict=True)):
        assert isinstance(new, SharedAttention)
        state |= {f"blocks.{index}.attention.{name}": tensor for name, tensor in _attention(old, new, layer).items()}
    made.load_state_dict(state)
    return made.eval()


def _attention(old: CausalSelfAttention, new: SharedAttention, layer: LayerPlan) -> dict[str, Tensor]:
    """The state of a shared attention, cut from that of the full one."""
    width = old.qkv.weight.shape[1]
    kept = list(layer.kept)
    q, k, v = (part.reshape(old.heads, -1, width) for part in torch.split(old.qkv.weight, width))
    state = {
        "qkv.weight": torch.cat([q[kept].flatten(0, 1), k[kept].flatten(0, 1), v.flatten(0, 1)]),
        "mixing": torch.from_numpy(layer.mixing).to(old.qkv.weight),
        "out.weight": old.out.weight,
        "out.bias": old.out.bias,
    }
    if old.gate is not None and new.gate is not None:
        wanted = new.gate.state_dict()
        for name, tensor in old.gate.state_dict().items():
            # Every entry of a gate belongs to a head: rows of heads come first in each tensor.
            each = tensor.unflatten(0, (old.heads, -1))[kept].flatten(0, 1)
            state[f"gate.{name}"] = each.reshape(wanted[name].shape)
    return state
