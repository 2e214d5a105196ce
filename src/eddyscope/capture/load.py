"""Load models by name, from folders and from the hub, without running code that comes with them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import torch

from eddyscope.capture.checkpoint import is_checkpoint, load_checkpoint
from eddyscope.capture.state import move
from eddyscope.errors import CaptureError, InputError, UsageError

_DTYPES = ("float32", "float16", "bfloat16", "float64", "auto")
#: Left on the names of weights by torch.compile and by data-parallel wrappers.
_WRAPPERS = r"^(?:_orig_mod\.|module\.)+"
_PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt")


def load(name: str, *, gguf_file: str | None, device: str | None, dtype: str, trust_pickle: bool) -> tuple[Any, Any]:
    """Load a model and its tokenizer; see :func:`eddyscope.capture.load_model`."""
    if dtype not in _DTYPES:
        raise UsageError(f"dtype is {dtype!r}, expected one of {', '.join(_DTYPES)}.")
    if is_checkpoint(name):
        return _checkpoint(name, gguf_file, device, dtype, trust_pickle)
    place = locate(name)
    if isinstance(place, str) and Path(place).exists():
        place = _or_explain(name, name, lambda: _from_hub(name, gguf_file))
    options: dict[str, Any] = {"trust_remote_code": False}
    if gguf_file is not None:
        options["gguf_file"] = gguf_file
        _expect_file(place, gguf_file)
    elif isinstance(place, Path):
        _expect_weights(place, trust_pickle)
    from transformers import AutoConfig

    config = _or_explain(name, place, lambda: AutoConfig.from_pretrained(str(place), **options))
    kind = _auto_class(config, gguf_file is not None)
    weights = dict(options)
    if gguf_file is None and not trust_pickle:
        weights["use_safetensors"] = True
    if isinstance(place, Path) and _is_wrapped(place):
        weights["key_mapping"] = {_WRAPPERS: ""}
    model, report = _or_explain(
        name,
        place,
        lambda: kind.from_pretrained(
            str(place),
            dtype=dtype if dtype == "auto" else getattr(torch, dtype),
            attn_implementation=_eager_where_possible(kind, config),
            output_loading_info=True,
            **weights,
        ),
    )
    _expect_whole(name, model, config, report)
    if device is not None:
        model = move(model, device)
    return model.eval(), _tokenizer(str(place), options)


def load_own(name: str, *, gguf_file: str | None, device: str | None, dtype: str) -> tuple[Any, Any]:
    """Load a model of eddyscope, bundled or trained, and the tokenizer of its characters."""
    from eddyscope import models
    from eddyscope.tokenizers import CharTokenizer

    if gguf_file is not None or dtype != "float32":
        raise UsageError(
            f"'{name}' is a model of eddyscope, to which gguf_file (--gguf-file) and dtype (--dtype) do not apply."
        )
    model = models.load(name)
    if device is not None:
        model = move(model, device)
    if model.vocabulary is None:
        return model, None
    return model, CharTokenizer.of_model(model.vocabulary, f"characters of {Path(name).name}")


def skeleton(name: str, *, gguf_file: str | None, dtype: str) -> tuple[Any, Any]:
    """A model without its weights (on the device ``meta``), from its config alone, and its tokenizer.

    Parameters
    ----------
    name, gguf_file, dtype
        As for :func:`load`.

    Raises
    ------
    CaptureError, InputError, UsageError
        As for :func:`load`, where the config cannot be found or read.
    """
    if dtype not in _DTYPES:
        raise UsageError(f"dtype is {dtype!r}, expected one of {', '.join(_DTYPES)}.")
    place = locate(name)
    options: dict[str, Any] = {"trust_remote_code": False}
    if gguf_file is not None:
        options["gguf_file"] = gguf_file
        _expect_file(place, gguf_file)
    elif isinstance(place, Path) and not (place / "config.json").is_file():
        _expect_weights(place, trust_pickle=True)
    from transformers import AutoConfig

    config = _or_explain(name, place, lambda: AutoConfig.from_pretrained(str(place), **options))
    kind = _auto_class(config, gguf_file is not None)
    stored = getattr(config, "dtype", None) or torch.float32
    wanted = stored if dtype == "auto" else getattr(torch, dtype)

    def make() -> Any:
        with torch.device("meta"):
            return kind.from_config(config, dtype=wanted, attn_implementation=_eager_where_possible(kind, config))

    return _or_explain(name, place, make).eval(), _tokenizer(str(place), options)


def _checkpoint(name: str, gguf_file: str | None, device: str | None, dtype: str, trust: bool) -> tuple[Any, Any]:
    """A file of nanoGPT."""
    if gguf_file is not None:
        raise UsageError(f"'{name}' is a checkpoint, to which gguf_file (--gguf-file) does not apply.")
    model, tokenizer = load_checkpoint(name, dtype=dtype, trust_pickle=trust)
    return (model if device is None else move(model, device)), tokenizer


def locate(name: str) -> str | Path:
    """A folder, or a hub id.

    Raises
    ------
    InputError
        Where the name can only be a folder and there is none.
    """
    separators = [s for s in (os.sep, os.altsep, "/") if s]
    if not any(s in name for s in separators):
        return name
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise InputError(
            f"'{name}' is a file, expected the folder of a model.",
            "For a GGUF file give its folder, and its name with gguf_file (--gguf-file); a checkpoint of nanoGPT ends "
            "in .pt.",
        )
    owner, _, rest = name.partition("/")
    if not owner or owner.startswith((".", "~")) or not rest or "/" in rest:
        raise InputError(f"There is no folder '{name}'.", "A model is a folder, or a hub id such as 'owner/name'.")
    return name


def _from_hub(name: str, gguf_file: str | None) -> Path:
    """Folder of a hub id in the cache; for an id that is also the name of a folder here, which would be taken first."""
    from huggingface_hub import snapshot_download

    wanted = [gguf_file] if gguf_file else ["*.safetensors"]
    return Path(snapshot_download(name, allow_patterns=["*.json", "*.txt", "*.model", *wanted]))


def _is_wrapped(folder: Path) -> bool:
    """True where the names of the weights carry the prefix of a wrapper."""
    from safetensors import SafetensorError, safe_open

    for path in sorted(folder.glob("*.safetensors"))[:1]:
        try:
            with safe_open(path, framework="pt") as file:
                return any(re.match(_WRAPPERS, key) for key in file.keys())  # noqa: SIM118 (not a dict)
        except SafetensorError:
            return False  # loading it will say what is wrong with it
    return False


def _expect_file(place: str | Path, gguf_file: str) -> None:
    if isinstance(place, Path) and not (place / gguf_file).is_file():
        there = sorted(p.name for p in place.glob("*.gguf"))
        raise InputError(
            f"There is no file '{gguf_file}' in '{place}'.",
            f"GGUF files there: {', '.join(there) if there else 'none'}.",
        )


def _expect_weights(folder: Path, trust_pickle: bool) -> None:
    """A folder must hold a config, and weights in a form that cannot run code."""
    if not (folder / "config.json").is_file():
        found = sorted(p.name for p in folder.glob("*.gguf"))
        remedy = f"For '{found[0]}' use gguf_file (--gguf-file)." if found else "Is it the folder of a model?"
        raise InputError(f"There is no config.json in '{folder}'.", remedy)
    pickles = [p.name for pattern in _PICKLES for p in folder.glob(pattern)]
    if pickles and not trust_pickle and not list(folder.glob("*.safetensors")):
        raise CaptureError(
            f"The weights in '{folder}' are a pickle ({pickles[0]}), which can run code when it is loaded.",
            "Convert them to safetensors, or, if you trust where they come from, pass trust_pickle=True "
            "(--trust-pickle).",
        )


def _auto_class(config: Any, gguf: bool) -> Any:
    """AutoModelForCausalLM where the checkpoint is a causal language model, else AutoModel."""
    from transformers import AutoModel, AutoModelForCausalLM
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    stated = getattr(config, "architectures", None) or []
    if stated:
        causal = any(name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values() for name in stated)
    else:
        kind = getattr(config, "model_type", "")
        causal = kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if getattr(config, "is_encoder_decoder", False):
        causal = False
    return AutoModelForCausalLM if causal or gguf else AutoModel


def _eager_where_possible(kind: Any, config: Any) -> str | None:
    """Eager for every class: all have it, and capture needs no switch then."""
    return "eager" if type(config) in kind._model_mapping else None


def _expect_whole(name: str, model: Any, config: Any, report: dict[str, Any]) -> None:
    """The checkpoint fills the model exactly: nothing left at random, nothing left over that belongs to it."""
    missing = sorted(k for k in report.get("missing_keys", ()) if "pooler" not in k)
    mismatched = sorted(str(k) for k in report.get("mismatched_keys", ()))
    prefix = f"{getattr(model, 'base_model_prefix', '')}."
    # A bare model read from a checkpoint with a head leaves the head's weights over; its own must not be.
    headed = type(model).__name__ not in (getattr(config, "architectures", None) or [type(model).__name__])
    extra = sorted(k for k in report.get("unexpected_keys", ()) if not headed or k.startswith(prefix))
    problems = [
        f"{len(keys)} {word} (first '{keys[0]}')"
        for word, keys in (("missing", missing), ("of another shape", mismatched), ("left over", extra))
        if keys
    ]
    if problems:
        raise CaptureError(
            f"The weights of '{name}' do not fit {type(model).__name__}: {', '.join(problems)}.",
            "A model that is partly random would be analysed otherwise; check that config and weights belong together.",
        )


def _tokenizer(place: str, options: dict[str, Any]) -> Any:
    """The tokenizer beside the model, or None: token ids can be read without one."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(place, **options)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError):
        return None
    # Where the files are missing, transformers makes an empty tokenizer that reads every word as unknown.
    return tokenizer if set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens) else None


def _or_explain(name: str, place: str | Path, action: Any) -> Any:
    """Run a step of loading; what it raises becomes one line that names the model."""
    from safetensors import SafetensorError

    try:
        return action()
    except SafetensorError as error:
        raise CaptureError(
            f"Model '{name}' cannot be loaded: its safetensors file is damaged ({error}).",
            "It may be cut; copy or download it again.",
        ) from error
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, AttributeError, AssertionError) as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise CaptureError(
            f"Model '{name}' cannot be loaded: {reason.rstrip('.')}.",
            "Are all files of the model there?" if isinstance(place, Path) else _hub_remedy(name),
        ) from error


def _hub_remedy(name: str) -> str:
    """What to do about a name that the hub does not know."""
    looked_up = "A name without a path is looked up on the hub (or in its cache, when offline)"
    if name and Path(name).is_dir():
        return f"{looked_up}; for the folder '{name}' that is here, write './{name}'."
    from eddyscope.models.config import names

    bundled = ", ".join(names()) or "none"
    return f"{looked_up}; a folder is written with a separator, such as './folder'. Bundled models are {bundled}."
