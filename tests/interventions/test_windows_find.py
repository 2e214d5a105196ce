"""From a model to a plan: what it says can be measured again; plans travel as files and fit one model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import tiny
from windows_help import documents, gpt, model_named, outputs

import eddyscope as es
from eddyscope.documents import Documents
from eddyscope.errors import InputError, StoreError, UsageError
from eddyscope.interventions.layers import attention_layers
from eddyscope.interventions.losses import Yardstick
from eddyscope.interventions.windows.cost import keys_kept, keys_read
from eddyscope.interventions.windows.find import SEARCHED, divide
from eddyscope.interventions.windows.plan import LayerWindow, WindowPlan, describe_model
from eddyscope.interventions.windows.removal import Removal, visible

MEASURED = {"windows": [2, 8], "measurements": 12}


@pytest.mark.parametrize("name", ["gpt-base", "gpt2", "llama", "bert"])
@pytest.mark.parametrize("heads", ["all", "each"])
def test_the_rise_of_a_plan_is_that_of_the_model_with_it_on_unseen_documents(name: str, heads: str) -> None:
    model, read = model_named(name), documents()
    limit = 0.05 if name == "bert" else 0.5
    found = es.windows.find(model, read, max_loss_rise=limit, heads=heads, **MEASURED)
    plan = found.plan
    assert plan.measured["loss"]["rise"] <= limit
    unseen = divide(read, SEARCHED, 0)[1]
    yardstick = Yardstick(model, unseen)
    before = outputs(model, _ids(read))
    with es.windows.apply(model, plan):
        rise = yardstick.rise(yardstick.now())
    assert (outputs(model, _ids(read)) == before).all()
    assert float(rise.estimate) == pytest.approx(plan.measured["loss"]["rise"], abs=1e-5)
    assert plan.measured["loss"]["interval"] == pytest.approx([float(rise.low), float(rise.high)], abs=1e-5)
    assert [layer.name for layer in plan.layers] == [layer.name for layer in attention_layers(model)]
    assert all(1 <= w <= 20 for layer in plan.layers for w in (layer.window, *layer.each))
    assert [layer.heads is None for layer in plan.layers] == [heads == "all"] * 2
    assert (plan.measured["cost"]["cache_share"] is None) is (name == "bert")


def _ids(read: Documents) -> Any:
    import torch

    return torch.from_numpy(read.ids[:2])


def test_larger_rises_leave_less_of_the_cache() -> None:
    found = es.windows.find(gpt(), documents(), max_loss_rise=[0.05, 0.5], **MEASURED)
    small, large = (plan.measured["cost"]["cache_share"] for plan in found.plans)
    assert large <= small <= 1


def test_windows_shorter_than_the_shortest_measured_are_not_tried() -> None:
    plan = es.windows.find(gpt(), documents(), max_loss_rise=50.0, windows=[6]).plan
    assert [layer.window for layer in plan.layers] == [6, 6]


def test_search_and_reported_loss_share_no_source_block() -> None:
    ids = np.random.default_rng(1).integers(3, 64, size=(40, 20))
    read = Documents.from_ids(ids, blocks=np.repeat(np.arange(10), 4))
    first, second = divide(read, SEARCHED, 0)
    assert not set(first.blocks) & set(second.blocks)
    assert len(first) == 16
    assert len(second) == 24
    with pytest.raises(InputError, match=r"The 4 documents are one stretch of text"):
        divide(read.select(np.arange(4)), SEARCHED, 0)
    with pytest.raises(InputError, match=r"^One document leaves none .* Give two or more"):
        divide(read.select(np.arange(1)), SEARCHED, 0)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("window", [1, 3, 11, 12])
def test_costs_count_the_keys_that_the_mask_lets_through(causal: bool, keep: bool, window: int) -> None:
    removals = (None if window >= 12 else Removal(window),)
    mask = visible(removals, 12, 12, causal=causal, keep_first=keep)[0]
    assert keys_read(window, 12, keep, causal) == int(mask.sum())
    if causal:  # what the last query sees is what a cache must hold
        assert keys_kept(window, 12, keep) == int(mask[-1].sum())


def test_a_key_value_head_keeps_what_the_longest_of_its_windows_needs() -> None:
    model = tiny("llama")
    layers = attention_layers(model)
    whole = es.windows.cost(model, layers, 20, [(20,)] * 2, "drop")
    assert whole.cache_entries == 2 * 2 * 20
    assert whole.cache_bytes == 2 * 2 * 20 * 2 * 8 * 4  # layers, key-value heads, keys, key and value, features, bytes
    each = es.windows.cost(model, layers, 20, [(4, 1, 2, 2), (20, 1, 1, 1)], "drop")
    assert each.cache_entries == 4 + 2 + 20 + 1
    kept = es.windows.cost(model, layers, 20, [(4, 1, 2, 2), (20, 1, 1, 1)], "keep")
    assert kept.cache_entries == each.cache_entries + 3


def test_a_plan_comes_back_from_its_file(tmp_path: Path) -> None:
    plan = es.windows.find(gpt(), documents(), max_loss_rise=0.5, heads="each", name="mine", **MEASURED).plan
    es.windows.save(plan, tmp_path / "windows.json")
    content = json.loads((tmp_path / "windows.json").read_text())
    assert content["format_version"] == 1
    assert content["model"] == {"id": "mine", "class": "GPT", "layers": 2, "heads": 4, "kv_heads": 4}
    assert set(content["loss"]) == {"before", "after", "rise", "interval"}
    assert content["loss"]["after"] - content["loss"]["before"] == pytest.approx(content["loss"]["rise"])
    again = es.windows.load(tmp_path)
    assert again == plan
    model = gpt()
    with es.windows.apply(model, plan):
        expected = outputs(model, _ids(documents()))
    with es.windows.apply(model, tmp_path):
        assert (outputs(model, _ids(documents())) == expected).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format_version": 2}, r"has format 2; this version of eddyscope reads up to 1"),
        ({"format_version": "1"}, r"it has no format_version"),
        ({"layers": [{"name": "a", "window": 2.5}]}, r"it has a window of 2\.5"),
        ({"layers": [{"name": "a", "window": 0}]}, r"it has a window of 0"),
        ({"layers": [{"name": "a"}]}, r"KeyError\('window'\) in it"),
        ({"sink": "mask"}, r"it has sink 'mask'"),
        ({"layers": []}, r"it has no layers"),
        ({"format_version": 0}, r"it has no format_version"),
        ({"context": 0}, r"it has a context of 0"),
        (
            {"model": {"id": "x", "class": "GPT", "layers": 1, "heads": "4", "kv_heads": 4}},
            r"a model with heads of '4'",
        ),
        (
            {"model": {"id": "x", "class": "GPT", "layers": 2, "heads": 4, "kv_heads": 4}},
            r"1 layers where its model has 2",
        ),
        ({"layers": [{"name": "a", "window": 4, "heads": []}]}, r"it has no window for the heads of 'a'"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    size = {"id": "x", "class": "GPT", "layers": 1, "heads": 4, "kv_heads": 4}
    content = {"format_version": 1, "model": size, "context": 20, "layers": [{"name": "a", "window": 4}]}
    place = tmp_path / "windows.json"
    place.write_text(json.dumps(content))
    assert es.windows.load(place).sink == "keep"
    place.write_text(json.dumps(content | change))
    with pytest.raises(StoreError, match=said):
        es.windows.load(place)
    with pytest.raises(StoreError, match="There is no plan of windows"):
        es.windows.load(tmp_path / "none.json")
    place.write_text("[" * 100_000)
    with pytest.raises(StoreError, match="is not JSON"):
        es.windows.load(place)


@pytest.mark.parametrize("heads", [(2,), (2,) * 3, (2,) * 5])
def test_a_plan_for_other_heads_of_a_layer_is_refused_and_changes_nothing(heads: tuple[int, ...]) -> None:
    model = gpt()
    layers = attention_layers(model)
    rows = tuple(LayerWindow(layer.name, 2, heads) for layer in layers)
    plan = WindowPlan(describe_model(model, layers), 20, "keep", rows)
    with pytest.raises(InputError, match=f"windows for {len(heads)} heads of layer 'blocks.0.attention'.* has 4 there"):
        es.windows.apply(model, plan)
    assert not any(module.edits for module in model.attentions())


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (lambda: tiny("gpt2"), r"made for a GPT, not for a GPT2LMHeadModel"),
        (lambda: gpt(layers=3), r"made for 2 layers; this GPT has 3"),
        (lambda: gpt(heads=8), r"made for a model with 4 heads; this GPT has 8"),
    ],
)
def test_a_plan_for_another_model_is_refused_with_the_reason(other: Any, said: str) -> None:
    plan = es.windows.find(gpt(), documents(), max_loss_rise=0.5, windows=[], measurements=2).plan
    with pytest.raises(InputError, match=said):
        es.windows.apply(other(), plan)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"heads": "mean"}, "heads must be all or each"),
        ({"sink": "mask"}, "sink must be keep or drop"),
        ({"max_loss_rise": 0}, "max_loss_rise must be positive"),
        ({"windows": [20]}, "windows must be 1 to 19"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        es.windows.find(gpt(), documents(), **options)


@pytest.mark.parametrize(("family", "more"), [("qwen2", {}), ("gemma2", {"sliding_window": 20})])
def test_a_config_has_the_windows_by_itself(family: str, more: dict[str, Any]) -> None:
    model = tiny(family, **more)
    layers = attention_layers(model)
    plan = es.windows.WindowPlan(
        es.windows.find(model, documents(), windows=[], measurements=1).plan.model,
        20,
        "drop",
        (es.windows.LayerWindow(layers[0].name, 20), es.windows.LayerWindow(layers[1].name, 5)),
    )
    made = es.windows.config(model, plan)
    assert (made.sliding_window, made.layer_types) == (5, ["full_attention", "sliding_attention"])
    own = type(model)(made).eval()
    own.load_state_dict(model.state_dict())
    before = outputs(model, _ids(documents()))
    with es.windows.apply(model, plan):
        expected = outputs(model, _ids(documents()))
    assert (expected - before).abs().max() > 1e-3
    np.testing.assert_allclose(outputs(own, _ids(documents())), expected, atol=1e-5)


def test_where_a_config_cannot_have_the_windows_the_reason_is_given() -> None:
    def plan(model: Any, sink: str, window: int = 5) -> Any:
        layers = attention_layers(model)
        size = es.windows.find(model, documents(), windows=[], measurements=1).plan.model
        return es.windows.WindowPlan(
            size, 20, sink, tuple(es.windows.LayerWindow(layer.name, window) for layer in layers)
        )

    for family, sink, window, said in (
        ("llama", "drop", 5, "its architecture has no sliding windows"),
        ("qwen2", "keep", 5, "keep the first key visible"),
        ("qwen2", "drop", 20, "leaves the whole context visible"),
    ):
        model = tiny(family)
        with pytest.raises(InputError, match=said):
            es.windows.config(model, plan(model, sink, window))
    with pytest.raises(InputError, match="no sliding windows"):
        es.windows.config(gpt(), plan(gpt(), "drop"))
