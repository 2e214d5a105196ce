"""Where a model came from, so that another process can load it too."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary


@dataclass(frozen=True)
class Origin:
    """What loads a model.

    Parameters
    ----------
    name : str
        As :func:`eddyscope.load_model` or :func:`eddyscope.models.load` takes it; a folder by its absolute path.
    own : bool
        A model of eddyscope rather than one of Hugging Face or nanoGPT.
    gguf_file, dtype, trust_pickle
        See :func:`eddyscope.load_model`.
    fingerprint : str
        Of the weights as they were loaded, see :func:`eddyscope.capture.shards.fingerprint`.
    """

    name: str
    own: bool = False
    gguf_file: str | None = None
    dtype: str = "float32"
    trust_pickle: bool = False
    fingerprint: str = ""

    def load(self) -> Any:
        """Load the model, on the processor."""
        if self.own:
            from eddyscope.models import load

            return load(self.name)
        from eddyscope.capture import load_model

        given = {"gguf_file": self.gguf_file, "dtype": self.dtype, "trust_pickle": self.trust_pickle}
        return load_model(self.name, **given)[0]  # type: ignore[arg-type]


#: Models that were loaded by name; none is kept alive by it.
_ORIGINS: WeakKeyDictionary[Any, Origin] = WeakKeyDictionary()


def remember(model: Any, origin: Origin) -> None:
    """Note where a model was loaded from, with the fingerprint of its weights."""
    from eddyscope.capture.shards import fingerprint

    place = Path(origin.name).expanduser()
    is_place = not _bundled(origin) and (origin.own or has_separator(origin.name)) and place.exists()
    name = str(place.absolute()) if is_place else origin.name
    _ORIGINS[model] = replace(origin, name=name, fingerprint=fingerprint(model))


def origin_of(model: Any) -> Origin | None:
    """Where a model was loaded from; None where that is not known, or its weights have changed since."""
    from eddyscope.capture.shards import fingerprint

    origin = _ORIGINS.get(model)
    return origin if origin is not None and origin.fingerprint == fingerprint(model) else None


def is_own(name: str) -> bool:
    """Whether a name stands for a model of eddyscope: a bundled one, or a folder that ``eddyscope train`` wrote."""
    from eddyscope.models.config import names

    return name in names() or is_own_folder(name)


def is_own_folder(name: str) -> bool:
    """Whether this is a folder that ``eddyscope train`` wrote, by its config."""
    if not has_separator(name):
        return False
    try:
        content = json.loads((Path(name) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and "format_version" in content and isinstance(content.get("config"), dict)


def has_separator(name: str) -> bool:
    """Whether a name is written as a path."""
    return any(separator in name for separator in (os.sep, os.altsep, "/") if separator)


def _bundled(origin: Origin) -> bool:
    from eddyscope.models.config import names

    return origin.own and origin.name in names()
