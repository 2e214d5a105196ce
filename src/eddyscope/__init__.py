"""Eddyscope: an instrument for listening to a transformer's attention."""

from __future__ import annotations

from eddyscope.ensemble import AttentionEnsemble, LayerInfo
from eddyscope.errors import EddyscopeError, EddyscopeWarning
from eddyscope.lagfield import LagField, LagGeometry
from eddyscope.study.analyze import analyze
from eddyscope.study.coherence import coherence
from eddyscope.study.study import Study

__version__ = "0.1.0"

__all__ = [
    "AttentionEnsemble",
    "EddyscopeError",
    "EddyscopeWarning",
    "LagField",
    "LagGeometry",
    "LayerInfo",
    "Study",
    "analyze",
    "coherence",
]
