"""Every architecture of the table by every way: the attention that hooks see, or a refusal that names the class."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import transformers
from architectures import ARCHITECTURES, DOCUMENTS, documents_for, make

from eddyscope.capture import blockwise, capture
from eddyscope.ensemble import AttentionEnsemble
from eddyscope.errors import CaptureError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

CAPTURED = [name for name, row in ARCHITECTURES.items() if not row.refused]


def captured(model: Any, documents: Any, **options: Any) -> AttentionEnsemble | str:
    """The ensemble, or why there is none."""
    try:
        return capture(model, documents, **options)
    except CaptureError as error:
        return str(error)


@pytest.mark.parametrize("options", [{"way": "function"}, {"way": "blocks"}, {"weight": "value-norm"}], ids=str)
@pytest.mark.parametrize("name", CAPTURED)
def test_a_way_gives_what_hooks_see_or_names_the_class(
    name: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ARCHITECTURES[name]
    if not hasattr(transformers, row.model):
        pytest.skip(f"transformers {transformers.__version__} has no {row.model}")
    monkeypatch.setattr(blockwise, "BLOCK_BYTES_CPU", 5000)
    model = make(row)
    documents = documents_for(model)
    given: dict[str, Any] = {"heads": "each", "batch": DOCUMENTS}
    found = captured(model, documents, **given, **options)
    if isinstance(found, str):
        classes = {type(module).__name__ for module in (*model.modules(), model.config)}
        assert classes & set(re.findall(r"\w+", found)), found
        return
    expected = capture(model, documents, **given, checks=False)
    assert found.layers == expected.layers
    for layer in expected.layers:
        if "way" in options:
            np.testing.assert_allclose(found[layer].values, expected[layer].values, atol=1e-5)
        else:  # where there is weight there is value, and nowhere else
            assert np.isfinite(found[layer].values).all()
            np.testing.assert_array_equal(found[layer].values[expected[layer].values == 0], 0)


@pytest.mark.parametrize("options", [{"way": "function"}, {"way": "blocks"}, {"weight": "value-norm"}], ids=str)
def test_most_architectures_can_be_captured_in_every_way(options: dict[str, str]) -> None:
    several = ("llama", "qwen3", "mixtral", "gemma3_text", "gpt_neox", "bert", "bart", "vit", "whisper", "deepseek_v3")
    for name in several:
        model = make(ARCHITECTURES[name])
        capture(model, documents_for(model), batch=DOCUMENTS, **options)
