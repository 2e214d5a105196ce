"""Heads at a glance: every head of the model is described, also where only the head mean is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import eager_attentions, tiny

from eddyscope import AttentionEnsemble, analyze, models
from eddyscope.capture import capture
from eddyscope.capture.glance import Induction
from eddyscope.capture.source import Rows, Site
from eddyscope.documents import Documents
from eddyscope.errors import InputError

MEASURES = ["median_lag", "near_share", "far_share", "previous_token_share", "sink_share", "induction_score", "entropy"]


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_the_table_says_what_the_arrays_of_all_heads_say(family: str, documents: Documents) -> None:
    model = tiny(family)
    table = analyze(capture(model, documents), intervals=False).heads_table()
    assert list(table.columns) == ["layer", "head", *MEASURES]
    attention = eager_attentions(model, documents.ids).swapaxes(0, 1)
    expected = analyze(AttentionEnsemble.from_arrays(attention, causal=family == "llama"), intervals=False)
    given = expected.heads_table()
    assert len(table) == attention.shape[1] * attention.shape[2]
    for name in MEASURES:
        if name != "induction_score":
            np.testing.assert_allclose(table[name], given[name], atol=2e-6)
    assert given["induction_score"].isna().all()
    assert table["induction_score"].isna().all() == (family == "bert")


def test_the_table_is_the_same_whatever_is_kept_of_the_fields(documents: Documents) -> None:
    tables = [
        analyze(capture(tiny("llama"), documents, heads=heads, batch=batch), intervals=False).heads_table()
        for heads, batch in (("mean", None), ("each", 2))
    ]
    assert np.allclose(tables[0][MEASURES], tables[1][MEASURES], atol=2e-6)


def test_only_the_first_documents_are_looked_at() -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 20, size=(20, 24))
    model = models.untrained(models.GPTConfig("base", vocab_size=20, width=16, layers=2, heads=2, context=24), seed=1)
    whole, few = (capture(model, Documents.from_ids(ids[:count])).provenance["heads"] for count in (20, 16))
    assert whole == few


def test_a_study_of_head_means_given_as_arrays_has_no_table() -> None:
    attention = np.tril(np.ones((4, 1, 16, 16)))
    attention /= attention.sum(-1, keepdims=True)
    study = analyze(AttentionEnsemble.from_arrays(attention), intervals=False)
    with pytest.raises(InputError, match="nothing of single heads"):
        study.heads_table()


def test_an_induction_head_has_a_score_of_one_and_blocks_add_up() -> None:
    length = 8
    site = Site("layer", torch.nn.Identity())
    head = torch.zeros(1, 2, 2 * length, 2 * length)
    for query in range(length, 2 * length):
        head[0, 0, query, query - length + 1] = 1  # what followed last time
        head[0, 1, query, query - 1] = 1  # the previous token
    whole, blocks = Induction(length), Induction(length)
    whole("layer", site, Rows(head))
    for first in range(0, 2 * length, 4):
        blocks("layer", site, Rows(head[:, :, first : first + 4], first, 2 * length))
    for found in (whole, blocks):
        score = found.score("layer")
        assert score is not None
        np.testing.assert_allclose(score, [1, 0])
    assert whole.score("other") is None


def test_a_model_left_as_it_was_and_the_same_numbers_again(documents: Documents) -> None:
    model: Any = tiny("llama")
    first, second = (capture(model, documents).provenance["heads"] for _ in range(2))
    assert first == second
    assert not model.training
