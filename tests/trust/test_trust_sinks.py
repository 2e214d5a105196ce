"""Sinks are found wherever they are, and masking the first key removes the first."""

from __future__ import annotations

import numpy as np
import pytest

from eddyscope.lagfield import LagField
from eddyscope.study.rows import lag_rows
from eddyscope.trust.sinks import describe_sinks, detect_sinks

LENGTH, DOCUMENTS = 64, 40


def attention(seed=0, strength=0.5):
    """Causal attention that looks back with a recency bias and fluctuates."""
    rng = np.random.default_rng(seed)
    distance = np.subtract.outer(np.arange(LENGTH), np.arange(LENGTH))
    logits = -distance / 20 + strength * rng.normal(size=(DOCUMENTS, LENGTH, LENGTH))
    weights = np.where(distance >= 0, np.exp(logits), 0.0)
    return weights / weights.sum(axis=-1, keepdims=True)


def with_sink(weights, key, mass):
    """Part of the mass of every query moved to one key (of each document)."""
    out = weights.copy()
    for s, k in enumerate(np.broadcast_to(key, DOCUMENTS)):
        rows = slice(k, LENGTH)
        out[s, rows] *= 1 - mass
        out[s, rows, k] += mass
    return out


def sinks_of(weights, causal=True):
    field = LagField.from_dense(weights, causal=causal)
    return detect_sinks(field.values[:, 0], field.geometry)


def test_ordinary_attention_has_no_sinks():
    found = sinks_of(attention())
    assert found.places == ()
    assert found.moving == 0
    assert found.leading() == 0
    assert describe_sinks(found) == ""


def test_uniform_attention_of_a_short_context_has_no_sinks():
    uniform = np.tril(np.ones((1, 16, 16)))
    assert sinks_of(uniform / uniform.sum(-1, keepdims=True)).places == ()


def test_a_sink_on_the_first_key_is_found_with_its_mass():
    found = sinks_of(with_sink(attention(), 0, 0.6))
    assert found.places == (0,)
    assert found.mass[0] == pytest.approx(0.6, abs=0.02)
    assert found.leading() == 1
    assert not found.beyond_first
    assert describe_sinks(found) == "key 0 (61% of the attention)"


def test_sinks_beyond_the_first_key_are_found():
    weights = with_sink(with_sink(attention(), 0, 0.4), 1, 0.3)
    found = sinks_of(weights)
    assert found.places == (0, 1)
    assert found.leading() == 2
    assert found.beyond_first
    middle = sinks_of(with_sink(attention(), 17, 0.3))
    assert middle.places == (17,)
    assert middle.leading() == 0


def test_a_sink_that_moves_with_the_content_is_reported_as_moving():
    where = np.random.default_rng(1).integers(2, 40, size=DOCUMENTS)
    found = sinks_of(with_sink(attention(), where, 0.4))
    assert found.places == ()
    assert found.moving == pytest.approx(1.0)
    assert found.moving_mass == pytest.approx(0.4, abs=0.02)
    assert found.beyond_first
    assert describe_sinks(found) == "1.0 a document at changing places (41% each)"


def test_attention_to_neighbours_is_no_sink():
    near = np.zeros((DOCUMENTS, LENGTH, LENGTH))
    near[:, np.arange(LENGTH), np.maximum(np.arange(LENGTH) - 1, 0)] = 1.0
    assert sinks_of(near).places == ()


def test_sinks_of_two_sided_attention():
    weights = np.random.default_rng(2).dirichlet(np.ones(LENGTH), size=(DOCUMENTS, LENGTH)) * 0.7
    weights[:, :, 30] += 0.3
    assert sinks_of(weights, causal=False).places == (30,)


def test_masking_undoes_a_sink_that_was_added_to_the_first_key():
    known = attention()
    mass = np.random.default_rng(3).uniform(0.2, 0.8, size=(DOCUMENTS, LENGTH, 1))
    sunk = known * (1 - mass)
    sunk[:, :, :1] += mass
    plain, masked = (lag_rows(LagField.from_dense(w, causal=True), "mask").values for w in (known, sunk))
    np.testing.assert_allclose(masked, plain, rtol=1e-5)
    kept = lag_rows(LagField.from_dense(sunk, causal=True), "keep").values
    assert kept.var(axis=1).sum() < 0.5 * plain.var(axis=1).sum()  # what the sink takes from every other lag
    assert sinks_of(sunk).places == (0,)
