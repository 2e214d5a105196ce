"""A plan counts what can be counted, and says what would fit where something does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from eddyscope.budget import budget_bytes, fitted
from eddyscope.errors import UsageError
from eddyscope.lagfield import LagGeometry
from eddyscope.plans import GOALS, ModelSize, Plan, Work, size

MB = 10**6


def model(**more: Any) -> ModelSize:
    sizes: dict[str, Any] = {"layers": (True,) * 30, "heads": 9, "weights": 540 * MB, "width": 576, "inner": 1536}
    return ModelSize(**({"name": "a model", "ways": ("hooks", "function", "blocks")} | sizes | more))


def work(**more: Any) -> Work:
    return Work(**({"documents": 2000, "tokens": 512, "kept": 1, "batch": 3, "shard": 63} | more))


def plan(budget: float | None = None, of: ModelSize | None = None, **more: Any) -> Plan:
    return Plan(of or model(), work(**more), 400 * MB, None if budget is None else int(budget))


@pytest.mark.parametrize("tokens", [2, 7, 40])
@pytest.mark.parametrize("max_lag", [None, 1, 5, 39, 100])
@pytest.mark.parametrize("causal", [True, False])
def test_entries_are_those_of_the_geometry(tokens: int, max_lag: int | None, causal: bool) -> None:
    geometry = LagGeometry(tokens, tokens, causal, max_lag)
    assert work(tokens=tokens, max_lag=max_lag).entries(causal) == geometry.size


def test_fields_are_counted_exactly() -> None:
    entries = 512 * 513 // 2
    a_document = 30 * (4 * entries + 8 * 512)
    found = plan()
    assert found.costs["run"].memory["fields"] == 2000 * a_document
    assert found.costs["store"].memory["fields"] == 63 * a_document
    assert found.costs["store"].disk == 2000 * a_document
    half = plan(item=2, kept=9)
    assert half.costs["store"].disk == 2000 * 30 * 9 * (2 * entries + 8 * 512)
    assert (found.passes, found.shards) == (667, 32)


def test_memory_of_statistics_and_of_a_store_does_not_grow_with_the_documents() -> None:
    one, two = plan(documents=2000), plan(documents=200_000)
    for goal in ("statistics", "store"):
        assert one.costs[goal].total == two.costs[goal].total
    assert two.costs["run"].memory["fields"] == 100 * one.costs["run"].memory["fields"]


def test_the_table_adds_up() -> None:
    table = plan().table()
    assert list(table.columns) == list(GOALS.values())
    assert (table.iloc[:-2].sum() == table.loc["memory"]).all()
    assert table.index.name == "bytes"


def test_the_batch_and_the_shards_give_way_to_the_budget() -> None:
    roomy = plan(20_000 * MB, batch=64, shard=64)
    assert fitted(roomy, "store") is roomy
    tight = fitted(plan(2_500 * MB, batch=64, shard=64), "store", ("batch", "shard"))
    assert tight.costs["store"].total <= 2_500 * MB
    assert 1 <= tight.work.batch < 64
    assert tight.work.shard % tight.work.batch == 0
    larger = replace(tight, work=replace(tight.work, batch=2 * tight.work.batch, shard=2 * tight.work.batch))
    assert larger.costs["store"].total > 2_500 * MB  # the largest that fits


def test_long_contexts_go_over_to_blocks_of_rows() -> None:
    long: dict[str, Any] = {"tokens": 8192, "max_lag": 64, "documents": 10, "batch": 1, "shard": 10}
    assert fitted(plan(8_000 * MB, **long), "run").work.way == "blocks"
    alone = model(ways=("hooks",))
    with pytest.raises(
        UsageError, match=r"more than the 8\.0 GB of the budget; the largest part is what a pass and the"
    ):
        fitted(plan(8_000 * MB, alone, **long), "run")
    with pytest.raises(UsageError, match=r"What would fit: --way blocks"):
        fitted(plan(8_000 * MB, **long), "run", ("batch",))


def test_what_cannot_fit_is_refused_with_what_would() -> None:
    with pytest.raises(UsageError) as raised:
        fitted(plan(6_000 * MB, batch=3), "run")
    said = str(raised.value)
    assert said.startswith(
        "'run' takes up to 49 GB of memory for 2000 documents read one at a time, more than the 6.0 GB"
    )
    assert "the largest part is the fields (32 GB)" in said
    assert "What would fit: --keep statistics (4.8 GB); --documents 125." in said
    assert plan(batch=1, documents=125).costs["run"].total <= 6_000 * MB
    assert plan(batch=1, documents=250).costs["run"].total > 6_000 * MB


def test_a_batch_that_was_asked_for_stays_and_is_named() -> None:
    with pytest.raises(UsageError, match=r"more than the 2\.0 GB of the budget; .*What would fit: --batch 1"):
        fitted(plan(2_000 * MB, batch=64, shard=64, documents=64, tokens=256), "store", ("way",))


def test_a_budget_below_the_model_says_how_much_it_takes() -> None:
    with pytest.raises(
        UsageError, match=r"largest part is the model \(540 MB\)\. Give a larger budget \(--memory-budget"
    ):
        fitted(plan(300 * MB), "store", ("batch", "way", "shard"))
    with pytest.raises(UsageError) as raised:
        fitted(plan(300 * MB), "store", ("batch", "way", "shard"))
    amount = str(raised.value).rsplit(" ", 1)[1].rstrip(").")
    assert fitted(plan(budget_bytes(amount)), "store", ("batch", "way", "shard")).work.batch == 1


@pytest.mark.parametrize(
    ("text", "count"),
    [("4GB", 4e9), ("4 gb", 4e9), ("1.5GiB", 1.5 * 2**30), ("800M", 8e8), ("123", 123), (5 * 10**9, 5e9), (None, None)],
)
def test_amounts_of_memory(text: Any, count: float | None) -> None:
    assert budget_bytes(text) == count


@pytest.mark.parametrize("text", ["", "GB", "four", "-1GB", "0", "nan", "inf", "4 XB"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"The memory budget is .*, expected an amount such as 4GB, 800MB or 2GiB\."):
        budget_bytes(text)


def test_sizes_in_words() -> None:
    assert [size(x) for x in (0, 999, 1500, 12e6, 1.5e9, 43e9)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "12 MB",
        "1.5 GB",
        "43 GB",
    ]


def test_the_plan_in_words() -> None:
    text = str(replace(plan(6_000 * MB), seconds=7200.0))
    assert text.startswith("model      a model: 30 layers of 9 heads, causal; kept: the head mean\n")
    assert "documents  2,000 of 512 tokens, 1,024,000 tokens in all" in text
    assert "passes     667 of 3 documents (hooks under eager attention)" in text
    assert "time       2.0 h to read all (3.6 s a document), analysis aside" in text
    assert "budget     6.0 GB: enough for run --keep statistics, capture --store\n" in text
    assert plan().line("store") == "667 passes of 3 documents, up to 2.3 GB of memory, up to 32 GB on disk in 32 shards"
    assert np.all(plan().table().to_numpy() >= 0)


def test_blocks_of_rows_take_no_more_than_the_maps_that_they_are_cut_from() -> None:
    for batch, tokens in ((1, 64), (1, 256), (16, 256), (16, 2048)):
        sizes = {"documents": 100, "tokens": tokens, "batch": batch, "shard": batch}
        blocks, hooks = (plan(way=way, **sizes).costs["store"].total for way in ("blocks", "hooks"))
        assert blocks <= hooks
    # One document of 64 tokens: three maps of nine heads, and what is kept of them.
    short = plan(way="blocks", documents=1, tokens=64, batch=1, shard=1).costs["store"].memory["work"]
    longer = (
        plan(way="blocks", documents=1, tokens=64, batch=1, shard=1, of=model(heads=18)).costs["store"].memory["work"]
    )
    assert longer - short == 3 * 4 * 9 * 64**2
