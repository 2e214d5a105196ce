"""Hugging Face models: forward hooks on the attention modules, under the eager implementation.

Since transformers 5 an attention module returns its weights whether or not they were asked for, and the layer drops
them. Which modules do, and where in their output, is what the model classes themselves state for
``output_attentions=True`` (``_can_record_outputs``); the same table is read here, with the same matching rules.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from eddyscope.capture.hfinputs import arguments, completed, notes_on
from eddyscope.capture.implementations import configs_of, implementations_of, put_back
from eddyscope.capture.source import HookSource, Inputs, Receiver, Site, Wants
from eddyscope.capture.state import evaluated
from eddyscope.capture.values import Projections
from eddyscope.capture.ways import WAYS, chosen_way, heard, implementation
from eddyscope.errors import CaptureError

#: Implementations that give the same attention as eager without showing it; anything else was registered by the user.
_FUSED = ("sdpa", "flash_attention", "flex_attention", "paged|")

#: Parts of a layer that mix no tokens.
_FEED_FORWARD = ("FF", "MLP", "Mlp", "FeedForward")

#: Entries of a config that do not change what the model computes from its weights.
_VOLATILE = ("_name_or_path", "name_or_path", "transformers_version", "torch_dtype", "dtype", "output_attentions")


class HuggingFaceSource(HookSource):
    """A model of the transformers library.

    Parameters
    ----------
    model : transformers.PreTrainedModel

    Raises
    ------
    CaptureError
        Where no module of the model shows attention weights, with the classes that stand in their place.
    """

    name = "huggingface"
    ways: tuple[str, ...] = ("hooks", "function", "blocks")

    def __init__(self, model: nn.Module, wants: Wants = Wants()) -> None:
        super().__init__()
        self.model = model
        config: Any = model.config
        self.config = config
        self.sites = self.find_sites()
        if not self.sites:
            raise refusal(model)
        self.unreadable = _unreadable(model, self.sites)
        self.keeps_own = _is_custom(config._attn_implementation)
        own = f"'{config._attn_implementation}'" if self.keeps_own else "eager"
        self.by = chosen_way(wants)
        if self.keeps_own and self.by != "hooks":
            raise CaptureError(
                f"The model's attention function {own} is registered by you, and way='{self.by}' would replace it.",
                "Capture it with way='hooks' (--way hooks), or set its implementation to 'eager' first.",
            )
        self.way = f"forward hooks under {own}" if self.by == "hooks" else WAYS[self.by]
        self._projections = Projections(model) if wants.value_norm else None
        self._reader = _shortest_reader(model, self.sites)
        self.notes = notes_on(model)

    def find_sites(self) -> tuple[Site, ...]:
        """Every module that shows attention, in the order of definition."""
        return tuple(stated_sites(self.model))

    def asked(self) -> dict[str, Any]:
        """What the forward functions are told beside the inputs."""
        return {}

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Eval mode, no gradients, eager attention; a registered attention function of the user's own is kept."""
        with evaluated(self.model), without_asking(self.model):
            if self.keeps_own:
                yield
            else:
                with _under(self.model, "eager" if self.by == "hooks" else implementation(self.by)):
                    yield

    @contextmanager
    def listening(self, receive: Receiver) -> Iterator[None]:
        """Hook every site, or listen to the attention function; on leaving, nobody listens."""
        if self.by == "hooks":
            with super().listening(receive):
                yield
        else:
            with heard(self.sites, receive, self._calls, self._projections):
                yield

    def completed(self, inputs: Inputs) -> Inputs:
        """Inputs in the model's precision; of an encoder-decoder, the decoder's tokens too."""
        return completed(self.model, inputs, self.dtype)

    def read(self, inputs: Inputs) -> None:
        """Let the model read, without its language-model head where that can be left out."""
        self.new_pass()
        self._reader(**arguments(self._reader, self.completed(inputs)), **self.asked())

    def read_in_full(self) -> None:
        """Read through the whole model from now on."""
        self._reader = self.model

    def outputs(self, inputs: Inputs) -> Tensor:
        """Logits, or the last hidden states of a model without a head."""
        self.new_pass()
        output = self.model(**arguments(self.model, self.completed(inputs)), **self.asked())
        for key in ("logits", "last_hidden_state"):
            value = getattr(output, key, None)
            if isinstance(value, Tensor):
                return value
        first = output[0]
        assert isinstance(first, Tensor)
        return first

    @property
    def vocabulary(self) -> int | None:
        """Rows of the input embedding."""
        try:
            table = self.model.get_input_embeddings()  # type: ignore[operator]
        except (NotImplementedError, AttributeError):
            return None
        return int(table.weight.shape[0]) if isinstance(table, nn.Embedding) else None

    @property
    def context(self) -> int | None:
        """``max_position_embeddings`` of the config."""
        return context_of(self.config)

    def identity(self) -> dict[str, Any]:
        """Class, name, size, heads, type and a hash of the config."""
        config = _text_config(self.config)
        contents = {k: v for k, v in self.config.to_dict().items() if k not in _VOLATILE}
        text = json.dumps(contents, sort_keys=True, default=str)
        return {
            "class": type(self.model).__name__,
            "name": str(getattr(self.config, "_name_or_path", "") or ""),
            "model_type": getattr(self.config, "model_type", ""),
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "dtype": str(self.dtype).removeprefix("torch."),
            "layers": getattr(config, "num_hidden_layers", None),
            "heads": getattr(config, "num_attention_heads", None),
            "key_value_heads": getattr(config, "num_key_value_heads", None),
            "context": self.context,
            "vocabulary": self.vocabulary,
            "implementation": self.config._attn_implementation,
            "config_sha256": hashlib.sha256(text.encode()).hexdigest(),
        }


def context_of(config: Any) -> int | None:
    """Most tokens that the config says the model was made for; None where it does not."""
    limit = getattr(_text_config(config), "max_position_embeddings", None)
    return int(limit) if isinstance(limit, int) and limit > 0 else None


def _text_config(config: Any) -> Any:
    """The part of a config that describes the text model."""
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _is_custom(implementation: str | None) -> bool:
    """True for an attention function that a user registered; kernels from the hub carry a slash."""
    name = implementation or "eager"
    return name != "eager" and "/" not in name and not name.startswith(_FUSED)


def _shortest_reader(model: nn.Module, sites: tuple[Site, ...]) -> nn.Module:
    """The part of the model that holds every attention module: usually all but the language-model head."""
    base = getattr(model, "base_model", model)
    inside = {id(module) for module in base.modules()}
    main = getattr(model, "main_input_name", "input_ids")
    # The base of some vision models is a part that starts behind their embedding.
    whole = main in inspect.signature(base.forward).parameters
    return base if whole and all(id(site.module) in inside for site in sites) else model


@contextmanager
def _under(model: nn.Module, wanted: str) -> Iterator[None]:
    """Another attention implementation in the model and all its parts; those that they had are put back."""
    before = implementations_of(model)
    try:
        if any(implementation != wanted for _, implementation in before):
            if not model._can_set_attn_implementation():  # type: ignore[operator]
                raise refusal(model) if wanted == "eager" else _no_such_way(model)
            model.set_attn_implementation(wanted)  # type: ignore[operator]
        yield
    finally:
        put_back(before)


def _no_such_way(model: nn.Module) -> CaptureError:
    """The error for a model whose attention cannot be set."""
    return CaptureError(
        f"{type(model).__name__} does not take part in the attention interface of transformers, so its attention can "
        "not be computed by a function or in blocks, and its values are not seen.",
        "Capture its weights with way='hooks' (--way hooks).",
    )


@contextmanager
def without_asking(model: nn.Module) -> Iterator[None]:
    """No ``output_attentions`` in any config: asked for, every layer's weights would be kept until the end."""
    before = [
        (config, config._output_attentions) for config in configs_of(model) if hasattr(config, "_output_attentions")
    ]
    try:
        for config, _ in before:
            config._output_attentions = False
        yield
    finally:
        for config, asked in before:
            config._output_attentions = asked


def stated_sites(model: nn.Module) -> Iterator[Site]:
    """Every module that the model's classes name as showing attention, in the order of definition."""
    yield from _walk(model, "", _recorders(model), model)


def _recorders(model: nn.Module) -> list[tuple[str, Any]]:
    """What a model class states for ``output_attentions``: pairs of kind and recorder (or module class)."""
    stated = getattr(model, "_can_record_outputs", None) or {}
    tasks = []
    for key, recorders in stated.items():
        if key.endswith("attentions"):
            kind = "cross" if "cross" in key else "self"
            tasks += [(kind, r) for r in (recorders if isinstance(recorders, list) else [recorders])]
    return tasks


def _walk(module: nn.Module, name: str, tasks: list[tuple[str, Any]], model: nn.Module) -> Iterator[Site]:
    for child_name, child in module.named_children():
        # A model inside the model states for itself what its parts show.
        inner = _recorders(child) if hasattr(child, "_can_record_outputs") else tasks
        yield from _walk(child, f"{name}.{child_name}", inner, model)
    for kind, recorder in tasks:
        index = _recorded_index(module, name, recorder)
        if index is not None:
            yield make_site(module, name.lstrip("."), index, kind, model)
            return


def _recorded_index(module: nn.Module, name: str, recorder: Any) -> int | None:
    """Position of the weights in the module's output, or None where the recorder does not mean this module."""
    if isinstance(recorder, type):
        return 1 if isinstance(module, recorder) else None
    if isinstance(recorder, str):
        return 1 if name.endswith(recorder) else None
    by_class = recorder.target_class is not None and isinstance(module, recorder.target_class)
    by_name = recorder.class_name is not None and name.endswith(recorder.class_name)
    inside = recorder.layer_name is None or f".{recorder.layer_name.strip('.')}." in f"{name}."
    return int(recorder.index) if (by_class or by_name) and inside else None


def make_site(module: nn.Module, name: str, index: int, kind: str, model: nn.Module) -> Site:
    """A site, with what module and config say of it."""
    near = (module, *module.children())  # T5 states its own for a module one level above
    config = _text_config(getattr(module, "config", None) or model.config)
    return Site(
        name=name,
        module=module,
        index=index,
        kind=kind,
        causal=_stated_causality(near, config),
        window=None if kind == "cross" else _stated_window(module, config),
        heads=_stated_heads(near),
        key_value_heads=_key_value_heads(near, config),
        own_sink=any(isinstance(getattr(m, "sinks", None), Tensor) for m in near),
    )


def _stated_causality(near: tuple[nn.Module, ...], config: Any) -> bool | None:
    for attribute in ("is_causal", "is_decoder"):
        for module in near:
            value = getattr(module, attribute, None)
            if isinstance(value, bool):
                return value
    value = getattr(config, "is_decoder", None)
    return True if value is True else None


def _stated_heads(near: tuple[nn.Module, ...]) -> int:
    for module in near:
        for attribute in ("num_attention_heads", "num_heads", "n_heads", "n_head"):
            value = getattr(module, attribute, None)
            if isinstance(value, int) and value > 0:
                return value
    return 0


def _stated_window(module: nn.Module, config: Any) -> int | None:
    """The sliding window of a layer: by the config's list of layer types, the module, or the config, in this order."""
    types, index = getattr(config, "layer_types", None), getattr(module, "layer_idx", None)
    general = getattr(config, "sliding_window", None)
    if isinstance(types, (list, tuple)) and isinstance(index, int) and index < len(types):
        return general if types[index] == "sliding_attention" else None
    window = getattr(module, "sliding_window", general)
    return window if isinstance(window, int) and window > 0 else None


def _key_value_heads(near: tuple[nn.Module, ...], config: Any) -> int:
    for owner in (*near, config):
        for attribute in ("num_key_value_heads", "kv_heads"):
            value = getattr(owner, attribute, None)
            if isinstance(value, int) and value > 0:
                return value
    return 0


def _unreadable(model: nn.Module, sites: tuple[Site, ...]) -> dict[str, str]:
    """Layers of the model's main stack in which no site lies, with the class of what they have instead."""
    stacks = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.ModuleList) and len(m) > 1]
    missing: dict[str, str] = {}
    for stack_name, stack in stacks:
        held = [any(s.name.startswith(f"{stack_name}.{i}.") for s in sites) for i in range(len(stack))]
        if any(held):
            for i, layer in enumerate(stack):
                if not held[i] and not type(layer).__name__.endswith(_FEED_FORWARD):
                    missing[f"{stack_name}.{i}"] = ", ".join(_mixers(layer)) or type(layer).__name__
    return missing


def _mixers(module: nn.Module) -> list[str]:
    """Class names of what mixes tokens in a module, each once."""
    words = ("attention", "attn", "mixer", "deltanet", "conv", "lru", "recurrent", "ssm")
    names = [type(m).__name__ for m in module.modules() if any(w in type(m).__name__.lower() for w in words)]
    plain = ("Norm", "Mlp", "MLP", "DecoderLayer", "Conv1d", "Conv1D", "Conv2d")
    return list(dict.fromkeys(n for n in names if not n.endswith(plain)))


def refusal(model: nn.Module) -> CaptureError:
    """The error for a model that shows no attention."""
    found = _mixers(model)
    shown = ", ".join(found[:4]) if found else "none that mixes tokens by attention"
    return CaptureError(
        f"No attention can be read from {type(model).__name__}: its classes ({shown}) show no softmax map, as they do "
        "not take part in the attention interface of transformers.",
        "Where the model can give attention some other way, pass it as arrays: AttentionEnsemble.from_arrays(A).",
    )
