"""Mixing weights solved together: the algebra against a solver, and what it gains on models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny

from eddyscope.documents import Documents
from eddyscope.interventions.heads.joint import damped_newton, solve_jointly
from eddyscope.interventions.heads.plan import LayerPlan, Plan, model_identity
from eddyscope.interventions.heads.planning import rise_of
from eddyscope.interventions.layers import attention_layers
from eddyscope.interventions.losses import Yardstick
from eddyscope.models import GPTConfig, untrained


def gpt() -> Any:
    model = untrained(GPTConfig(vocab_size=24, context=16, layers=3, heads=4, width=32), seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6)
    return model


def documents(count: int = 60, vocabulary: int = 24, seed: int = 3) -> Documents:
    return Documents.from_ids(np.random.default_rng(seed).integers(3, vocabulary, size=(count, 16)))


def moved_mixes(model: Any, size: float) -> Plan:
    """All heads but the last keep their pattern; the last uses that of the one before it, moved by chance."""
    rng = np.random.default_rng(0)
    layers = []
    for layer in attention_layers(model):
        kept = layer.heads - 1
        mixing = np.vstack([np.eye(kept), np.eye(kept)[-1:] + size * rng.normal(size=(1, kept))])
        layers.append(LayerPlan(layer.name, tuple(range(kept)), mixing))
    return Plan(model_identity(model), tuple(layers), "residual x importance")


@pytest.mark.parametrize(("gradients", "weights"), [(200, 12), (15, 40)])
def test_the_closed_form_is_that_of_a_dense_solver(gradients: int, weights: int) -> None:
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(gradients, weights)) * rng.uniform(0.1, 3, size=weights)
    slope = rng.normal(size=weights)
    fisher = samples.T @ samples / gradients
    damped = fisher + weights / gradients * np.diag(np.diag(fisher))
    np.testing.assert_allclose(damped_newton(slope, samples), -np.linalg.solve(damped, slope), rtol=1e-8)


def test_weights_that_nothing_depends_on_stay() -> None:
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(30, 4))
    samples[:, 2] = 0
    found = damped_newton(np.array([1.0, 1.0, 0.0, 1.0]), samples)
    assert found[2] == 0
    assert (found[[0, 1, 3]] != 0).all()
    np.testing.assert_array_equal(damped_newton(np.ones(4), np.zeros((3, 4))), np.zeros(4))


def test_an_encoder_whose_heads_are_twins_is_found_again() -> None:
    model = tiny("bert")
    with torch.no_grad():
        for layer in attention_layers(model):
            module: Any = layer.module
            for part in (module.query, module.key):
                part.weight.mul_(20)
                size = part.weight.shape[0] // layer.heads
                part.weight[-size:] = part.weight[-2 * size : -size]
                part.bias[-size:] = part.bias[-2 * size : -size]
    read, unseen = documents(vocabulary=64), documents(vocabulary=64, seed=4)
    plan = moved_mixes(model, 0.2)
    found = solve_jointly(model, plan, read, draws=12)
    yardstick = Yardstick(model, unseen)
    whole = rise_of(model, moved_mixes(model, 0.0), yardstick)[1].estimate
    before, after = (float(rise_of(model, each, yardstick)[1].estimate) for each in (plan, found))
    assert float(whole) < 1e-6  # twins share without any loss
    assert after < 0.3 * before


@pytest.mark.parametrize("family", ["gpt", "gpt2", "llama"])
def test_the_loss_on_the_plans_own_documents_falls_and_the_model_is_left_alone(family: str) -> None:
    model = gpt() if family == "gpt" else tiny(family)
    read = documents(vocabulary=24 if family == "gpt" else 64)
    yardstick = Yardstick(model, read)
    plan = moved_mixes(model, 0.3)
    found = solve_jointly(model, plan, read, draws=4)
    before, after = (float(rise_of(model, each, yardstick)[1].estimate) for each in (plan, found))
    assert after < before
    for new, old in zip(found.layers, plan.layers, strict=True):
        assert new.kept == old.kept
        np.testing.assert_array_equal(new.mixing[:-1], np.eye(len(old.kept)))  # a rebuilt model mixes for none of these
        assert not np.array_equal(new.mixing[-1], old.mixing[-1])
    np.testing.assert_array_equal(yardstick.now(), yardstick.before)


def test_a_layer_that_shares_nothing_is_not_touched() -> None:
    model = gpt()
    plan = moved_mixes(model, 0.3)
    whole = LayerPlan(plan.layers[1].name, (0, 1, 2, 3), np.eye(4))
    none = LayerPlan(plan.layers[2].name, (), np.zeros((4, 0)))
    plan = replace(plan, layers=(plan.layers[0], whole, none))
    found = solve_jointly(model, plan, documents(), draws=2)
    np.testing.assert_array_equal(found.layers[1].mixing, np.eye(4))
    assert found.layers[2].mixing.shape == (4, 0)
    assert not np.array_equal(found.layers[0].mixing, plan.layers[0].mixing)
    alone = replace(plan, layers=(replace(whole, name=plan.layers[0].name), whole, none))
    assert solve_jointly(model, alone, documents(), draws=2) is alone


def test_a_solution_that_gains_nothing_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    model = gpt()
    plan = moved_mixes(model, 0.1)
    monkeypatch.setattr(
        "eddyscope.interventions.heads.joint.damped_newton", lambda slope, samples: -damped_newton(slope, samples)
    )
    assert solve_jointly(model, plan, documents(), draws=1) is plan
