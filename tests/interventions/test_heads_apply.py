"""Plans on models: applied, taken off, saved, loaded, rebuilt, and refused where they do not belong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny
from torch import Tensor

import eddyscope as es
from eddyscope.errors import InputError, StoreError
from eddyscope.interventions.heads.allocation import unit_rows
from eddyscope.interventions.heads.plan import LayerPlan, Plan, model_identity, read_plan
from eddyscope.interventions.layers import attention_layers
from eddyscope.models import VARIANTS, GPTConfig, untrained

SIZES = {"vocab_size": 64, "context": 20, "layers": 3, "heads": 4, "width": 32}
IDS = torch.from_numpy(np.random.default_rng(0).integers(3, 64, size=(2, 20)))


def gpt(variant: str = "base", seed: int = 1) -> Any:
    model = untrained(GPTConfig(variant=variant, **SIZES), seed=seed, vocabulary=[chr(40 + i) for i in range(64)])
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)
    return model


def outputs(model: Any) -> Tensor:
    with torch.no_grad():
        found = model(input_ids=IDS)[0] if hasattr(model, "set_attn_implementation") else model(IDS)
    assert isinstance(found, Tensor)
    return found


def some_plan(model: Any, seed: int = 0, *, healed: bool = False) -> Plan:
    """Each layer keeps other heads than the one before; the mixes are random, healed also those of kept heads."""
    rng = np.random.default_rng(seed)
    layers = []
    for layer in attention_layers(model):
        kept = tuple(sorted(int(h) for h in rng.permutation(layer.heads)[: 1 + layer.index % layer.heads]))
        mixing = rng.normal(size=(layer.heads, len(kept))) / len(kept)
        if not healed:
            mixing[list(kept)] = np.eye(len(kept))
        layers.append(LayerPlan(layer.name, kept, mixing))
    return Plan(model_identity(model), tuple(layers), "residual x importance")


MODELS = {"gpt": gpt, **{family: (lambda f=family: tiny(f)) for family in ("gpt2", "llama", "bert", "modernbert")}}


@pytest.mark.parametrize("name", MODELS)
def test_a_plan_that_keeps_all_heads_changes_nothing(name: str) -> None:
    model = MODELS[name]()
    heads = [(layer.name, layer.heads) for layer in attention_layers(model)]
    whole = [LayerPlan(layer, tuple(range(n)), unit_rows(n, range(n))) for layer, n in heads]
    before = outputs(model)
    with es.heads.apply(model, Plan(model_identity(model), tuple(whole), "residual")):
        assert torch.equal(outputs(model), before)


@pytest.mark.parametrize("name", MODELS)
def test_weights_under_a_plan_are_mixes_of_the_kept_patterns(name: str) -> None:
    model = MODELS[name]()
    plan = some_plan(model)
    layer, planned = attention_layers(model)[0], plan.layers[0]
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation("eager")
    seen: list[Tensor] = []
    handle = layer.module.register_forward_hook(lambda module, arguments, output: seen.append(output[1]))
    outputs(model)
    with es.heads.apply(model, plan):
        outputs(model)
    handle.remove()
    own, shared = (weights.numpy() for weights in seen)
    expected = np.einsum("hk,bkij->bhij", planned.mixing, own[:, list(planned.kept)])
    np.testing.assert_allclose(shared, expected, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_plan_is_taken_off_without_a_trace(name: str) -> None:
    model = MODELS[name]()
    before = outputs(model)
    applied = es.heads.apply(model, some_plan(model))
    assert not torch.allclose(outputs(model), before, atol=1e-3)
    applied.remove()
    assert torch.equal(outputs(model), before)


@pytest.mark.parametrize("name", ["gpt", "gpt2", "llama", "bert"])
def test_a_saved_model_is_loaded_with_its_plan(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    plan = some_plan(model)
    with es.heads.apply(model, plan):
        expected = outputs(model)
    es.heads.save(model, plan, tmp_path / "saved")
    loaded = es.heads.load(tmp_path / "saved")
    torch.testing.assert_close(outputs(loaded), expected, atol=1e-5, rtol=1e-5)
    with pytest.raises(StoreError, match="not an empty folder"):
        es.heads.save(model, plan, tmp_path / "saved")


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_rebuilt_model_equals_the_one_with_the_plan_applied(variant: str) -> None:
    model = gpt(variant)
    plan = some_plan(model)
    with es.heads.apply(model, plan):
        expected = outputs(model)
    made = es.heads.rebuild(model, plan)
    scale = float(expected.abs().max())
    assert float((outputs(made) - expected).abs().max()) < 1e-5 * max(1.0, scale)
    for attention in made.attentions():
        attention.fused = False
    assert float((outputs(made) - expected).abs().max()) < 1e-5 * max(1.0, scale)
    assert sum(p.numel() for p in made.parameters()) < sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("fused", "healed"), [(True, False), (False, False), (True, True)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_in_double_precision_the_rebuilt_model_differs_by_rounding_alone(
    variant: str, fused: bool, healed: bool
) -> None:
    model = gpt(variant).double()
    plan = some_plan(model, healed=healed)
    with es.heads.apply(model, plan):
        expected = outputs(model)
    made = es.heads.rebuild(model, plan)
    for attention in made.attentions():
        attention.fused = fused
    found = outputs(made)
    assert found.dtype == expected.dtype == torch.float64
    assert float((found - expected).abs().max()) < 1e-10 * float(expected.abs().max())


def test_heads_that_use_other_patterns_than_their_own_are_told() -> None:
    mixing = np.array([[1.0, 0.0], [0.5, 0.5], [0.2, 1.0], [0.0, 0.0]])
    layer = LayerPlan("a", (0, 2), mixing)
    assert (layer.shared, layer.mixed) == ((1, 3), (1, 2, 3))


def test_the_rebuilt_model_is_saved_loaded_and_captured(tmp_path: Path) -> None:
    from eddyscope.documents import Documents

    model = gpt()
    plan = some_plan(model)
    made = es.heads.rebuild(model, plan)
    es.heads.save(made, plan, tmp_path / "rebuilt")
    loaded = es.heads.load(tmp_path / "rebuilt")
    assert torch.equal(outputs(loaded), outputs(made))
    assert loaded.encode("0123") == model.encode("0123")
    read = Documents.from_ids(IDS.numpy())
    anyway = {"heads": "each", "allow_failed_checks": True}  # rows of a mix need not sum to 1
    with es.heads.apply(model, plan), pytest.warns(es.EddyscopeWarning, match="rows sum to 1"):
        expected = es.capture(model, read, **anyway)
    with pytest.warns(es.EddyscopeWarning, match="rows sum to 1"):
        found = es.capture(loaded, read, **anyway)
    for name in expected.layers:
        np.testing.assert_allclose(found.fields[name].dense(), expected.fields[name].dense(), atol=1e-5)


@pytest.mark.parametrize("weight", ["attention", "value-norm"])
@pytest.mark.parametrize("variant", ["base", "ega-1"])
def test_every_way_of_capture_sees_the_mixes_of_the_rebuilt_model(variant: str, weight: str) -> None:
    from eddyscope.documents import Documents

    model = gpt(variant)
    plan = some_plan(model)

    def captured(model: Any, way: str) -> np.ndarray:
        read = Documents.from_ids(IDS.numpy())
        with pytest.warns(es.EddyscopeWarning, match="rows sum to 1"):
            found = es.capture(model, read, heads="each", way=way, weight=weight, allow_failed_checks=True)
        return np.stack([field.dense() for field in found.fields.values()])

    with es.heads.apply(model, plan):
        expected = captured(model, "function")
    assert expected.size == 3 * 4 * 2 * 20 * 20  # all heads, not the kept ones alone
    made = es.heads.rebuild(model, plan)
    for way in ("function", "blocks") if weight == "value-norm" else ("hooks", "function", "blocks"):
        np.testing.assert_allclose(captured(made, way), expected, atol=1e-5, rtol=1e-4)


def test_a_rebuilt_model_reads_the_same_while_it_is_captured_in_blocks() -> None:
    from eddyscope.capture.source import Wants
    from eddyscope.capture.sources import source_for

    made = es.heads.rebuild(gpt(), some_plan(gpt()))
    before = outputs(made)
    source = source_for(made, Wants(way="blocks"))
    with source.ready(), source.listening(lambda *_: None):
        during = outputs(made)
    torch.testing.assert_close(during, before, atol=1e-5, rtol=1e-5)
    assert torch.equal(outputs(made), before)


def test_plans_are_written_and_read_without_loss(tmp_path: Path) -> None:
    model = tiny("llama")
    plan = some_plan(model).with_results(loss={"rise": 0.1, "interval": [0.0, 0.2]}, cost={"context": 20})
    plan.write(tmp_path / "heads.json")
    content = json.loads((tmp_path / "heads.json").read_text())
    assert content["format_version"] == 1
    assert {"id", "class", "layers", "heads", "kv_heads"} <= set(content["model"])
    assert content["model"]["kv_heads"] == 2
    kept = content["layers"][0]["kept"]
    assert content["layers"][0]["keys_kept"] == sorted({head // 2 for head in kept})
    found = read_plan(tmp_path)
    assert (found.model, found.loss, found.cost) == (plan.model, plan.loss, plan.cost)
    for mine, theirs in zip(found.layers, plan.layers, strict=True):
        assert (mine.name, mine.kept) == (theirs.name, theirs.kept)
        np.testing.assert_allclose(mine.mixing, theirs.mixing, rtol=1e-6)


REFUSED = [
    (lambda: gpt("ega-1"), "made for other weights"),
    (lambda: gpt(seed=2), "made for other weights"),
    (lambda: tiny("gpt2"), "with class GPT; this one has GPT2LMHeadModel"),
    (lambda: untrained(GPTConfig(**SIZES | {"layers": 2})), "with layers 3; this one has 2"),
    (lambda: untrained(GPTConfig(**SIZES | {"heads": 8})), "with heads a layer 4; this one has 8"),
]


@pytest.mark.parametrize(("other", "reason"), REFUSED)
def test_a_plan_for_another_model_is_refused_with_the_reason(other: Any, reason: str) -> None:
    plan = some_plan(gpt())
    with pytest.raises(InputError, match=reason):
        es.heads.apply(other(), plan)


def test_other_key_value_heads_are_refused() -> None:
    plan = some_plan(tiny("llama"))
    with pytest.raises(InputError, match="key-value heads a layer 2; this one has 4"):
        es.heads.apply(tiny("llama", num_key_value_heads=4), plan)


def test_a_plan_whose_weights_do_not_fit_its_heads_is_refused() -> None:
    with pytest.raises(InputError, match="one row of 2 weights a head"):
        LayerPlan("a", (0, 1), np.zeros((4, 3)))
    with pytest.raises(InputError, match="not finite"):
        LayerPlan("a", (0,), np.full((2, 1), np.nan))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not valid JSON"),
        ('{"format_version": 99}', "format_version 99; this version of eddyscope reads up to 1"),
        ('{"format_version": 1}', "not a plan of heads"),
        ('{"format_version": 1, "model": {}, "layers": [], "criterion": "x"}', "not a plan of heads"),
    ],
)
def test_a_damaged_plan_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "heads.json").write_text(text)
    with pytest.raises(StoreError, match=reason):
        read_plan(tmp_path / "heads.json")


def _changed(**of_layer: Any) -> Any:
    return lambda content: content["layers"][1].update(of_layer)


def _of_model(**changes: Any) -> Any:
    return lambda content: content["model"].update(changes)


HOSTILE = [
    (_changed(kept=[0, 0]), "keeps heads"),
    (_changed(kept=[1, 0]), "keeps heads"),
    (_changed(kept=[0, 4]), "keeps heads"),
    (_changed(kept=[-1, 0]), "keeps heads"),
    (_changed(kept=[0, 1.5]), "not whole numbers"),
    (_changed(kept=[0, True]), "not whole numbers"),
    (_changed(kept="01"), "wrong kind"),
    (_changed(kept=[0, 10**400]), "keeps heads"),
    (_changed(mixing=[[1.0, float("nan")]] * 4), "not finite"),
    (_changed(mixing=[[1.0, float("inf")]] * 4), "not finite"),
    (_changed(mixing=[[1, 10**400]] * 4), "too large"),
    (_changed(mixing=[[1.0], [1.0, 2.0], [1.0], [1.0]]), "a row of 2 numbers a head"),
    (_changed(mixing=[["1", "0"]] * 4), "a row of 2 numbers a head"),
    (_changed(mixing=[[[1.0], [0.0]]] * 4), "a row of 2 numbers a head"),
    (_changed(mixing=[]), "keeps heads"),
    (_changed(name=["blocks"]), "wrong kind"),
    (_of_model(kv_heads=0), "kv_heads 0"),
    (_of_model(layers="3"), "layers '3'"),
    (_of_model(heads=10**400), "heads 1000"),
    (_of_model(weights_sha256=7), "weights_sha256 7"),
    (lambda content: content["model"].pop("weights_sha256"), "no 'weights_sha256'"),
    (lambda content: content.update(format_version="1"), "format_version is not a number"),
    (lambda content: content.update(format_version=0), "format_version is not a number"),
    (lambda content: content.update(layers=7), "not a plan of heads"),
    (lambda content: content.update(loss=[1]), "not a plan of heads"),
]


@pytest.mark.parametrize(("change", "reason"), HOSTILE)
def test_a_plan_with_anything_wrong_in_it_is_refused_as_a_file(change: Any, reason: str, tmp_path: Path) -> None:
    plan = some_plan(gpt())
    plan.write(tmp_path / "heads.json")
    content = json.loads((tmp_path / "heads.json").read_text())
    assert content["layers"][1]["kept"] == list(plan.layers[1].kept)
    assert len(content["layers"][1]["kept"]) == 2
    change(content)
    (tmp_path / "heads.json").write_text(json.dumps(content))
    with pytest.raises(StoreError, match=reason) as told:
        es.heads.apply(gpt(), tmp_path)
    assert len(str(told.value)) < 500


def test_json_that_is_nested_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "heads.json").write_text("[" * 200_000)
    with pytest.raises(StoreError, match="not valid JSON"):
        read_plan(tmp_path)


def test_a_plan_with_a_layer_too_few_or_of_another_name_is_refused() -> None:
    plan = some_plan(gpt())
    with pytest.raises(InputError, match="The plan has 2 layers, this model 3"):
        es.heads.apply(gpt(), replace(plan, layers=plan.layers[:2]))
    with pytest.raises(InputError, match=r"layer 'blocks\.2\.attention' with 4 heads is 'blocks\.0\.attention'"):
        es.heads.apply(gpt(), replace(plan, layers=plan.layers[::-1]))


def test_only_gpts_of_the_study_are_rebuilt() -> None:
    model: Any = tiny("gpt2")
    with pytest.raises(InputError, match="GPT2LMHeadModel has no rebuilt form"):
        es.heads.rebuild(model, some_plan(model))


def test_a_layer_without_any_pattern_cannot_be_rebuilt() -> None:
    model = gpt()
    plan = some_plan(model)
    first = LayerPlan(plan.layers[0].name, (), np.zeros((4, 0)))
    with pytest.raises(InputError, match="expected at least one"):
        es.heads.rebuild(model, replace(plan, layers=(first, *plan.layers[1:])))
