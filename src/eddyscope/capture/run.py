"""The capture itself: open a session, read all documents, assemble."""

from __future__ import annotations

from typing import Any

from eddyscope.capture.options import Options
from eddyscope.capture.session import Progress, opened
from eddyscope.ensemble import AttentionEnsemble


def run(model: Any, documents: Any, options: Options, progress: Progress | None = None) -> AttentionEnsemble:
    """Capture a model; see :func:`eddyscope.capture.capture`."""
    with opened(model, documents, options) as session:
        fields, kept = session.fields(progress=progress)
    return session.ensemble(fields, kept)
