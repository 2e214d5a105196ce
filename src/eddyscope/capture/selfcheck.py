"""The self-checks of a capture alone: a short capture that no failed check ends, and its records as a table."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eddyscope.capture.glance import random_ids
from eddyscope.capture.options import Options
from eddyscope.capture.probing import CHECK_TOKENS
from eddyscope.capture.run import run
from eddyscope.capture.sources import source_for
from eddyscope.documents import Documents
from eddyscope.ensemble import AttentionEnsemble
from eddyscope.errors import CaptureError, EddyscopeWarning

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("check", "layer", "passed", "value", "tolerance", "note")


def checked(
    model: Any,
    documents: Any = None,
    *,
    layers: Sequence[int | str] | None = None,
    device: str | None = None,
) -> AttentionEnsemble:
    """Capture with every check and go on whatever they give; ``provenance["checks"]`` holds the results.

    Parameters and errors are those of :func:`eddyscope.capture.check`.
    """
    given = {"layers": layers, "device": device, "drop_bad": True, "allow_failed_checks": True}
    options = Options.of(given)
    with warnings.catch_warnings():
        # That a check failed is the result here, nothing to warn of.
        warnings.filterwarnings("ignore", message="The capture went on although", category=EddyscopeWarning)
        return run(model, random_documents(model) if documents is None else documents, options)


def random_documents(model: Any) -> Documents:
    """One document of random token ids of the model's vocabulary, the same in every call.

    Ids that the config names (padding, end of text, an image's place) are left out, as they may stand for more than a
    token.

    Raises
    ------
    CaptureError
        Where the model does not say how many token ids it knows.
    """
    source = source_for(model)
    if source.vocabulary is None:
        raise CaptureError(
            f"{type(source.model).__name__} does not say how many token ids it knows, so none can be chosen for it.",
            "Give documents to read: check(model, documents).",
        )
    length = min(CHECK_TOKENS, source.context or CHECK_TOKENS)
    return Documents.from_ids(random_ids(source.model, source.vocabulary, (1, length)))


def check_table(ensemble: AttentionEnsemble) -> pd.DataFrame:
    """The checks that a capture recorded, one row each, in the order in which they were made."""
    import pandas as pd

    return pd.DataFrame(ensemble.provenance["checks"], columns=list(COLUMNS))
