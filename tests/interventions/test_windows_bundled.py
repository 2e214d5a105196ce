"""The bundled standard model: how little of the cache it needs for a rise of 0.02 nats."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import eddyscope as es
from eddyscope.cli.model import resolve_model

pytestmark = pytest.mark.slow


def test_two_hundredths_of_a_nat_leave_less_than_a_third_of_the_cache(tmp_path: Path) -> None:
    """The text is the last tenth of the corpus, which the model was not trained on."""
    corpus = Path(os.environ.get("EDDYSCOPE_DATA", "")) / "tinyshakespeare.txt"
    if not corpus.is_file():
        pytest.skip("EDDYSCOPE_DATA does not name a folder with tinyshakespeare.txt")
    text = corpus.read_text(encoding="utf-8")
    (tmp_path / "unseen.txt").write_text(text[int(0.9 * len(text)) :], encoding="utf-8")
    loaded = resolve_model("base")
    documents = es.read_documents(tmp_path / "unseen.txt", loaded.tokenizer, context=256, count=100, seed=0)
    plan = es.windows.find(loaded.model, documents, max_loss_rise=0.02).plan
    assert plan.measured["loss"]["rise"] <= 0.02
    assert plan.measured["cost"]["cache_share"] <= 0.30
    assert plan.layers[0].window == 256  # its energy is flat, and all of it is needed
    assert all(layer.window <= 64 for layer in plan.layers[1:])
