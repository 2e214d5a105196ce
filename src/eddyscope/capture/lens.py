"""Models of TransformerLens, by what they can do: ``run_with_hooks`` with a hook on every ``hook_pattern``.

Nothing of the library is imported, so objects of older versions work too.
"""

from __future__ import annotations

import hashlib
import json
from operator import attrgetter
from typing import Any, cast

from torch import Tensor, nn

from eddyscope.capture.source import Inputs, Rows, Site, ToldSource, Wants, is_attention
from eddyscope.errors import CaptureError

_PATTERN = ".hook_pattern"


def is_lens(model: nn.Module) -> bool:
    """Whether a model runs with hooks on named points."""
    return callable(getattr(model, "run_with_hooks", None)) and hasattr(model, "hook_dict") and hasattr(model, "cfg")


class LensSource(ToldSource):
    """A model of TransformerLens: ``TransformerBridge``, or ``HookedTransformer`` of older versions.

    Parameters
    ----------
    model : torch.nn.Module
        With ``run_with_hooks``, ``hook_dict`` and ``cfg``. Layers go by the name of the hook's module, such as
        ``blocks.0.attn``.

    Raises
    ------
    CaptureError
        Where it has no hook on attention patterns.
    """

    name = "transformerlens"
    way = "run_with_hooks on hook_pattern"

    def __init__(self, model: nn.Module, wants: Wants = Wants()) -> None:
        self.model = model
        self.config: Any = model.cfg
        self._lens = cast(Any, model)
        self._hooks = _patterns(model)
        if not self._hooks:
            count = len(self._lens.hook_dict)
            raise CaptureError(
                f"{type(model).__name__} has no hook on attention patterns among its {count} hooks.",
                "Expected names such as 'blocks.0.attn.hook_pattern'.",
            )
        causal = getattr(self.config, "attention_dir", None) == "causal"
        heads = _number(self.config, "n_heads")
        self._sites = {hook: _site(model, hook, causal, heads, self.config) for hook in self._hooks}
        self.sites = tuple(self._sites.values())
        self.unreadable = {}

    def read(self, inputs: Inputs) -> None:
        """Let the model read, without its unembedding."""
        self._run(inputs, None)

    def outputs(self, inputs: Inputs) -> Tensor:
        """Logits."""
        logits: Tensor = self._run(inputs, "logits")
        return logits

    def _run(self, inputs: Inputs, wanted: str | None) -> Any:
        beside = {name: value for name, value in inputs.items() if name != "input_ids"}
        receive = self._receive
        if receive is None:
            return self._lens(inputs["input_ids"], return_type=wanted, **beside)

        def see(value: Tensor, hook: Any) -> None:
            site = by_hook[hook.name]
            receive(site.name, site, Rows(value) if is_attention(value) else value)

        by_hook = self._sites | {getattr(self._lens.hook_dict[h], "name", h): s for h, s in self._sites.items()}
        hooks = [(name, see) for name in self._hooks]
        return self._lens.run_with_hooks(inputs["input_ids"], fwd_hooks=hooks, return_type=wanted, **beside)

    @property
    def vocabulary(self) -> int | None:
        """Number of token ids."""
        return _number(self.config, "d_vocab") or None

    @property
    def context(self) -> int | None:
        """Longest sequence, in tokens."""
        return _number(self.config, "n_ctx") or None

    def identity(self) -> dict[str, Any]:
        """Name, sizes and a hash of the config."""
        plain = {k: v for k, v in vars(self.config).items() if isinstance(v, (str, int, float, bool, type(None)))}
        text = json.dumps({k: v for k, v in plain.items() if k not in ("device", "model_name")}, sort_keys=True)
        heads = _number(self.config, "n_heads")
        return {
            "class": type(self.model).__name__,
            "name": str(getattr(self.config, "model_name", "") or ""),
            "model_type": "transformerlens",
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "dtype": str(self.dtype).removeprefix("torch."),
            "layers": _number(self.config, "n_layers"),
            "heads": heads,
            "key_value_heads": _number(self.config, "n_key_value_heads") or heads,
            "context": self.context,
            "vocabulary": self.vocabulary,
            "implementation": "TransformerLens",
            "config_sha256": hashlib.sha256(text.encode()).hexdigest(),
        }


def _patterns(model: Any) -> list[str]:
    """Names of the hooks on attention patterns, in the order of the model; of several names of one hook the first."""
    found: dict[int, str] = {}
    for name, point in model.hook_dict.items():
        if name.endswith(_PATTERN):
            found.setdefault(id(point), name)
    return list(found.values())


def _site(model: nn.Module, hook: str, causal: bool, heads: int, config: Any) -> Site:
    name = hook.removesuffix(_PATTERN)
    try:
        module = attrgetter(name)(model)
    except AttributeError:
        module = model.hook_dict[hook]  # type: ignore[index]
    cross = "cross" in name
    return Site(
        name=name,
        module=module,
        kind="cross" if cross else "self",
        causal=True if causal and not cross else None,
        heads=heads,
        key_value_heads=_number(config, "n_key_value_heads"),
    )


def _number(config: Any, name: str) -> int:
    """A whole number of the config, 0 where it has none."""
    value = getattr(config, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
