"""A plan knows a model by its shapes alone, and the process keeps to what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import FAMILIES, tiny

import eddyscope as es
from eddyscope.capture.load import skeleton
from eddyscope.capture.options import Options
from eddyscope.capture.planning import model_size, plan_of
from eddyscope.documents import Documents
from eddyscope.errors import InputError, UsageError
from peaks import run_alone


def documents(count: int = 12, length: int = 24) -> Documents:
    return Documents.from_ids(np.random.default_rng(0).integers(5, 64, (count, length)))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_fields_and_batches_are_those_of_the_capture(family: str, tmp_path: Path) -> None:
    model = tiny(family)
    plan = es.plan(model, documents(), heads="each")
    passes: list[Any] = []
    ensemble = es.capture(model, documents(), heads="each", progress=lambda *x: passes.append(x))
    assert plan.passes == len(passes)
    kept = sum(f.values.nbytes + 8 * f.row_sum.size for f in ensemble.fields.values() if f.row_sum is not None)
    if family == "albert":  # runs one module three times, which its modules do not say
        assert 3 * plan.costs["run"].memory["fields"] == kept
    else:
        two_sided = sum(not field.causal for field in ensemble.fields.values())
        assert plan.model.layers.count(False) == two_sided
        assert plan.costs["run"].memory["fields"] == kept
    assert plan.model.weights == sum(p.nbytes for p in [*model.parameters(), *model.buffers()])


@pytest.mark.parametrize(
    "options",
    [{"heads": "mean"}, {"heads": [0, 2]}, {"layers": [1]}, {"max_lag": 7}, {"dtype": "float16"}],
    ids=["mean", "heads", "layers", "max-lag", "half"],
)
def test_the_store_is_as_large_as_planned_before_compression(tmp_path: Path, options: dict[str, Any]) -> None:
    plan = es.plan(tiny("llama"), documents(), shard=5, **options)
    store = es.capture_fields(tiny("llama"), documents(), tmp_path / "f.zarr", shard=5, **options)
    assert (plan.shards, plan.work.shard) == (store.shards, store.size)
    fields = store.ensemble().fields.values()
    assert plan.costs["store"].disk == sum(
        f.values.nbytes + 8 * f.row_sum.size for f in fields if f.row_sum is not None
    )


@pytest.mark.parametrize("family", ["llama", "bert"])
@pytest.mark.parametrize("options", [{}, {"heads": "each", "max_lag": 6}, {"max_lag": 18}], ids=["all", "band", "wide"])
def test_statistics_are_as_large_as_planned(family: str, options: dict[str, Any]) -> None:
    planned = es.plan(tiny(family), documents(40), **options).costs["statistics"].memory["statistics"]
    found = es.capture(tiny(family), documents(40), keep="statistics", **options).nbytes
    # Two-sided rows that would need the masked key itself are left out, which a plan does not count.
    assert found == planned if family == "llama" else 0.98 * planned < found <= planned


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "modernbert"])
def test_a_plan_needs_no_weights(family: str, tmp_path: Path) -> None:
    tiny(family).save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    empty, tokenizer = skeleton(str(tmp_path / "model"), gguf_file=None, dtype="float32")
    assert tokenizer is None
    assert all(p.is_meta for p in empty.parameters())
    loaded, options = tiny(family), Options()
    first, second = model_size(empty, options, 24), model_size(type(empty)(loaded.config), options, 24)
    assert first == second
    half, _ = skeleton(str(tmp_path / "model"), gguf_file=None, dtype="bfloat16")
    assert model_size(half, options, 24).item == 2


def test_a_layer_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match=r"Layer 7 is not in this model\. It has 2 layers"):
        es.plan(tiny("llama"), documents(), layers=[7])
    assert len(es.plan(tiny("llama"), documents(), layers=["model.layers.1.self_attn"]).model.layers) == 1


def test_an_extractor_has_no_plan() -> None:
    def extract(model: Any, inputs: Any) -> Any:
        raise AssertionError("it is not read")

    with pytest.raises(InputError, match=r"Linear is read by an extractor, which names its layers only as it reads"):
        es.plan(torch.nn.Linear(2, 2), documents(), extract=extract)


def test_a_first_shard_gives_the_time() -> None:
    plan = es.plan(tiny("llama"), documents(), shard=4, measure=True)
    assert plan.seconds is not None
    assert 0 < plan.seconds < 60
    assert "to read all" in str(plan)
    assert es.plan(tiny("llama"), documents()).seconds is None


def test_a_budget_chooses_batch_and_shards(tmp_path: Path) -> None:
    model, read = tiny("llama", max_position_embeddings=256), documents(64, 256)
    free, least = (plan_of(model, read, Options(heads="each", batch=batch), shard=batch) for batch in (8, 1))
    assert es.plan(model, read, heads="each").work.batch == 8
    budget = (free.costs["store"].total + least.costs["store"].total) // 2
    store = es.capture_fields(model, read.select(range(40)), tmp_path / "f.zarr", heads="each", memory_budget=budget)
    chosen = store.provenance["shards"]
    assert 1 <= chosen["batch"] < 8
    assert chosen["documents"] % chosen["batch"] == 0


def test_what_cannot_fit_is_refused_before_any_work(tmp_path: Path) -> None:
    model = tiny("llama")
    model.model.layers[0].register_forward_pre_hook(lambda *_: pytest.fail("it was read"))
    with pytest.raises(UsageError, match=r"more than the 1\.0 MB of the budget; the largest part is the libraries"):
        es.capture(model, documents(), memory_budget="1MB")
    with pytest.raises(UsageError, match=r"'capture --store' takes up to .* more than the 1\.0 MB of the budget"):
        es.capture_fields(model, documents(), tmp_path / "f.zarr", memory_budget="1MB")
    with pytest.raises(UsageError, match=r"'run' takes up to"):
        es.plan(model, documents(), memory_budget="1MB")
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_gone_on_with_keeps_its_batch(tmp_path: Path) -> None:
    model = tiny("llama")
    least = plan_of(model, documents(64, 60), Options(batch=1, heads="each"), shard=1)
    budget = int(1.2 * least.costs["store"].total)
    given: dict[str, Any] = {"heads": "each", "memory_budget": budget}
    store = es.capture_fields(model, documents(64, 60), tmp_path / "f.zarr", **given)
    store.remove_shard(store.shards - 1)
    again = es.capture_fields(model, documents(64, 60), tmp_path / "f.zarr", resume=True, **given)
    assert again.provenance["shards"] == store.provenance["shards"]
    assert again.missing == []


MEASURED = """
import json, sys
import numpy as np, torch
import eddyscope as es
from peaks import peak_bytes
from tiny_models import tiny
goal, count, length, layers, path = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
model = tiny("llama", num_hidden_layers=layers, max_position_embeddings=length)
documents = es.Documents.from_ids(np.random.default_rng(0).integers(5, 64, (count, length)))
es.capture(model, documents.select(range(2)))  # what is loaded on first use belongs to the libraries
plan = es.plan(model, documents, heads="each", layers=[0] if goal == "analyze" else None)
if goal == "store":
    es.capture_fields(model, documents, path, heads="each")
elif goal == "analyze":
    es.analyze(es.open_fields(path).ensemble([0]), intervals=False)
elif goal == "statistics":
    es.analyze(es.capture(model, documents, heads="each", keep="statistics"))
else:
    es.analyze(es.capture(model, documents, heads="each"))
print(json.dumps({"peak": peak_bytes(), "planned": plan.costs[goal].total, "process": plan.process}))
"""


def measured(goal: str, count: int, length: int, layers: int, path: Path) -> dict[str, int]:
    """Peak memory of a process that does one thing, and what was planned for it."""
    done = run_alone(MEASURED, goal, count, length, layers, path)
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    "goal", ["store", *(pytest.param(goal, marks=pytest.mark.slow) for goal in ("run", "statistics"))]
)
def test_the_process_keeps_to_its_plan(goal: str, tmp_path: Path) -> None:
    found = measured(goal, 48, 192, 2, tmp_path / "f.zarr")
    assert found["peak"] <= found["planned"]
    # No wild guess either: at least a sixth of what was planned beyond the libraries is used at these small sizes.
    assert found["peak"] - found["process"] >= (found["planned"] - found["process"]) / 6


@pytest.mark.slow
def test_2000_documents_of_30_layers_stay_within_the_plan(tmp_path: Path) -> None:
    found = measured("store", 2000, 32, 30, tmp_path / "f.zarr")
    assert found["peak"] <= found["planned"]
    fields = 2000 * 30 * 4 * (4 * 32 * 33 // 2 + 8 * 32)
    assert found["planned"] - found["process"] < fields / 4  # far from holding all fields
    found = measured("analyze", 2000, 32, 30, tmp_path / "f.zarr")
    assert found["peak"] <= found["planned"]
