"""Every architecture of the table is captured as the model's own attention, or refused by class and reason."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest
import transformers
from architectures import ARCHITECTURES, outcome


def _installed(name: str) -> None:
    row = ARCHITECTURES[name]
    if not hasattr(transformers, row.model):
        pytest.skip(f"transformers {transformers.__version__} has no {row.model}")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture_equals_output_attentions_or_is_refused_by_class(name: str) -> None:
    _installed(name)
    row, found = ARCHITECTURES[name], outcome(name)
    if row.refused:
        assert re.search(row.refused, found.refusal), found.refusal or "was captured"
        assert row.model in found.refusal
    else:
        assert found.refusal == ""
        assert found.unequal == ()
        assert found.captured > 0
        assert found.left == row.without


def test_layers_that_are_left_out_are_named_with_what_they_give() -> None:
    for name in ("swin", "longt5", "funnel"):
        assert any(" queries and " in text or "gives shape" in text for text in outcome(name).others.values())


def test_there_are_enough_of_every_kind() -> None:
    captured = Counter(row.group for row in ARCHITECTURES.values() if not row.refused)
    assert sum(captured.values()) >= 100
    assert min(captured.values()) >= 5


def test_the_table_in_the_docs_is_up_to_date() -> None:
    """Run ``python docs/make_architectures.py`` where this fails."""
    docs = Path(__file__).parents[2] / "docs"
    written = (docs / "architectures.md").read_text(encoding="utf-8")
    if f"transformers {transformers.__version__} " not in written:
        pytest.skip("the page is of another version of transformers")
    spec = importlib.util.spec_from_file_location("make_architectures", docs / "make_architectures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.page() == written
