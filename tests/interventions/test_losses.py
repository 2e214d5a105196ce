"""Losses of documents: known answers, pairing, intervals over source blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tiny_models import tiny
from torch.nn import functional as F

from eddyscope.documents import Documents
from eddyscope.errors import InputError
from eddyscope.interventions.editing import edited
from eddyscope.interventions.layers import attention_layers
from eddyscope.interventions.losses import (
    EMBEDDING,
    LOSS,
    Yardstick,
    cosine_similarity,
    document_losses,
    embeddings,
    mean_interval,
    measure_of,
    paired_rise,
)
from eddyscope.models import GPTConfig, untrained


def documents(count: int = 24, context: int = 16, special: bool = False) -> Documents:
    ids = np.random.default_rng(3).integers(3, 64, size=(count, context))
    marks = np.zeros(ids.shape, dtype=bool)
    marks[:, -1] = special
    return Documents.from_ids(ids, special=marks)


def test_a_model_without_preference_loses_the_logarithm_of_its_vocabulary() -> None:
    model = untrained(GPTConfig(layers=1, heads=2, width=16, context=16, vocab_size=64))
    with torch.no_grad():
        model.tokens.weight.zero_()
    np.testing.assert_allclose(document_losses(model, documents()), math.log(64), rtol=1e-6)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_losses_equal_those_of_the_models_own_head(family: str) -> None:
    model, read = tiny(family), documents(4)
    ids = torch.from_numpy(read.ids)
    with torch.no_grad():
        expected = [float(model(input_ids=row[None], labels=row[None]).loss) for row in ids]
    for batch in (None, 3):
        np.testing.assert_allclose(document_losses(model, read, batch=batch), expected, rtol=1e-5)


def test_special_tokens_are_not_predicted() -> None:
    model, read = tiny("gpt2"), documents(3, special=True)
    ids = torch.from_numpy(read.ids)
    with torch.no_grad():
        logits = model(input_ids=ids).logits
    expected = [float(F.cross_entropy(each[:-2], row[1:-1])) for each, row in zip(logits, ids, strict=True)]
    np.testing.assert_allclose(document_losses(model, read), expected, rtol=1e-5)


def test_embeddings_of_an_encoder_are_the_mean_of_its_last_states() -> None:
    model, read = tiny("bert"), documents(4)
    assert measure_of(model) == EMBEDDING
    with torch.no_grad():
        expected = model(input_ids=torch.from_numpy(read.ids)).last_hidden_state.mean(1).numpy()
    found = embeddings(model, read)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(cosine_similarity(found, found), 1.0)
    with pytest.raises(InputError, match="BertModel does not predict next tokens"):
        document_losses(model, read)


@pytest.mark.parametrize(("family", "measure"), [("gpt2", LOSS), ("roberta", EMBEDDING), ("bert-decoder", LOSS)])
def test_the_measure_follows_from_what_the_model_predicts(family: str, measure: str) -> None:
    assert measure_of(tiny(family)) == measure


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_nothing_changed_is_no_rise_and_attention_lost_is_one(family: str) -> None:
    model = tiny(family)
    yardstick = Yardstick(model, documents())
    same = yardstick.rise(yardstick.now())
    assert abs(float(same.estimate)) < 1e-9
    with edited(model, {layer.name: lambda weights, layer: weights * 0 for layer in attention_layers(model)}):
        lost = yardstick.now()
    changed = yardstick.rise(lost)
    assert abs(float(changed.estimate)) > 1e-3
    assert float(changed.low) < float(changed.estimate) < float(changed.high)


def test_pairing_takes_out_what_documents_do_to_both() -> None:
    rng, read = np.random.default_rng(0), documents(60)
    before = rng.normal(2.0, 1.0, 60)
    after = before + 0.1 + rng.normal(0, 0.01, 60)
    paired, alone = paired_rise(before, after, read), mean_interval(after, read)
    assert float(paired.high - paired.low) < 0.05 * float(alone.high - alone.low)
    assert float(paired.low) < 0.1 < float(paired.high)


def test_the_interval_counts_source_blocks_not_documents() -> None:
    values = np.repeat(np.random.default_rng(0).normal(size=20), 4)
    ids = np.random.default_rng(1).integers(3, 64, size=(80, 6))
    grouped = Documents.from_ids(ids, blocks=np.repeat(np.arange(20), 4))
    apart = Documents.from_ids(ids)
    assert mean_interval(values, grouped).error > 1.5 * mean_interval(values, apart).error
    few = Documents.from_ids(ids, blocks=np.repeat(np.arange(5), 16))
    assert np.isnan(mean_interval(values, few).low)


def test_padded_documents_are_refused() -> None:
    mask = np.ones((2, 16), dtype=bool)
    mask[0, 10:] = False
    read = Documents.from_ids(documents(2).ids, mask=mask)
    with pytest.raises(InputError, match="padded"):
        document_losses(tiny("gpt2"), read)
