"""Eddyscope: an instrument for listening to a transformer's attention."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Not among the lazy names: importing the package eddyscope.capture later would put a module in the function's place.
from eddyscope.capture import capture, capture_fields, load_model, plan
from eddyscope.errors import EddyscopeError, EddyscopeWarning

if TYPE_CHECKING:
    from eddyscope import heads, models, windows
    from eddyscope.comparison.compare import Comparison, compare
    from eddyscope.documents import Documents, read_documents
    from eddyscope.ensemble import AttentionEnsemble, LayerInfo
    from eddyscope.fieldplace import open_fields
    from eddyscope.lagfield import LagField, LagGeometry
    from eddyscope.reproduction.run import reproduce
    from eddyscope.statistics import AttentionStatistics
    from eddyscope.statstore import open_statistics
    from eddyscope.store import open_study
    from eddyscope.study.analyze import analyze
    from eddyscope.study.coherence import coherence
    from eddyscope.study.reconstruct import reconstruct
    from eddyscope.study.study import Study

__version__ = "0.1.0"

# Imported on first use, so that the command line answers --help at once, and nothing here needs torch.
_LAZY = {
    "AttentionEnsemble": "eddyscope.ensemble",
    "AttentionStatistics": "eddyscope.statistics",
    "Comparison": "eddyscope.comparison.compare",
    "Documents": "eddyscope.documents",
    "LagField": "eddyscope.lagfield",
    "LagGeometry": "eddyscope.lagfield",
    "LayerInfo": "eddyscope.ensemble",
    "Study": "eddyscope.study.study",
    "analyze": "eddyscope.study.analyze",
    "coherence": "eddyscope.study.coherence",
    "compare": "eddyscope.comparison.compare",
    "open_fields": "eddyscope.fieldplace",
    "open_statistics": "eddyscope.statstore",
    "open_study": "eddyscope.store",
    "read_documents": "eddyscope.documents",
    "reconstruct": "eddyscope.study.reconstruct",
    "reproduce": "eddyscope.reproduction.run",
}

__all__ = [
    "AttentionEnsemble",
    "AttentionStatistics",
    "Comparison",
    "Documents",
    "EddyscopeError",
    "EddyscopeWarning",
    "LagField",
    "LagGeometry",
    "LayerInfo",
    "Study",
    "analyze",
    "capture",
    "capture_fields",
    "coherence",
    "compare",
    "heads",
    "load_model",
    "models",
    "open_fields",
    "open_statistics",
    "open_study",
    "plan",
    "read_documents",
    "reconstruct",
    "reproduce",
    "windows",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for."""
    if name in ("heads", "models", "windows"):
        return import_module(f"eddyscope.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'eddyscope' has no attribute '{name}'")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
