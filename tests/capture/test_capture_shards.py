"""A capture to disk is the capture: the same fields whatever interrupts it, and nothing else is gone on with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny

import eddyscope as es
from eddyscope.capture.shards import Sharding, fingerprint
from eddyscope.documents import Documents
from eddyscope.errors import CaptureError, CheckError, EddyscopeWarning, InputError, StoreError, UsageError
from eddyscope.fieldstore import FieldStore

COUNT, LENGTH = 21, 16


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny("llama")


def documents(seed: int = 0, count: int = COUNT) -> Documents:
    return Documents.from_ids(np.random.default_rng(seed).integers(5, 64, (count, LENGTH)))


class Interrupted(Exception):
    """Raised in the middle of a capture."""


def interrupted_after(number: int) -> Any:
    def report(done: int, _: int) -> None:
        if done > number:
            raise Interrupted

    return report


def assert_same(one: es.AttentionEnsemble, other: es.AttentionEnsemble) -> None:
    assert one.layers == other.layers
    assert one.info == other.info
    for name in one.layers:
        for part in ("values", "first_key", "row_sum"):
            first, second = getattr(one[name], part), getattr(other[name], part)
            assert first.dtype == second.dtype
            assert np.array_equal(first, second), (name, part)
    assert one.documents is not None
    assert other.documents is not None
    assert one.documents.to_dataset().identical(other.documents.to_dataset())
    skipped = {"seconds", "shards", "fingerprint"}
    assert {k: v for k, v in one.provenance.items() if k not in skipped} == {
        k: v for k, v in other.provenance.items() if k not in skipped
    }


OPTIONS: list[dict[str, Any]] = [
    {},
    {"heads": "each", "layers": [1], "dtype": "float16", "max_lag": 6},
    {"heads": "each", "batch": 5},
]


@pytest.mark.parametrize("options", OPTIONS, ids=["mean", "half", "batch"])
def test_a_store_holds_what_capture_gives(model: Any, tmp_path: Path, options: dict[str, Any]) -> None:
    shard = 2 * options.get("batch", 4)
    seen: list[tuple[int, int]] = []
    store = es.capture_fields(
        model, documents(), tmp_path / "f.zarr", shard=shard, progress=lambda *x: seen.append(x), **options
    )
    batch = options.get("batch", shard)
    expected = es.capture(model, documents(), **(options | {"batch": batch}))
    stored = store.ensemble()
    stored.provenance["options"]["batch"] = batch
    assert_same(stored, expected)
    assert seen[-1] == (COUNT, COUNT)
    assert sorted(seen) == seen


@pytest.mark.parametrize("number", [0, 3, 9, 20])
def test_an_interrupted_capture_goes_on_to_the_same_result(model: Any, tmp_path: Path, number: int) -> None:
    options: dict[str, Any] = {"shard": 4, "batch": 2}
    whole = es.capture_fields(model, documents(), tmp_path / "whole.zarr", **options)
    path = tmp_path / "f.zarr"
    with pytest.raises(Interrupted):
        es.capture_fields(model, documents(), path, progress=interrupted_after(number), **options)
    assert path.exists() == (number >= 4)  # with no whole shard nothing is left
    if path.exists():
        before = es.open_fields(path).whole
        assert before == list(range(number // 4))
        times = {n: (path / f"shards/{n:05d}/zarr.json").stat().st_mtime_ns for n in before}
        options = {}  # the store knows them
    else:
        times = {}
    store = es.capture_fields(model, documents(), path, resume=True, **options)
    assert_same(store.ensemble(), whole.ensemble())
    assert {n: (path / f"shards/{n:05d}/zarr.json").stat().st_mtime_ns for n in times} == times


def test_a_complete_store_is_gone_on_with_at_once(model: Any, tmp_path: Path) -> None:
    first = es.capture_fields(model, documents(), tmp_path / "f.zarr", shard=8).ensemble()
    read: list[Any] = []
    again = es.capture_fields(model, documents(), tmp_path / "f.zarr", resume=True, progress=lambda *x: read.append(x))
    assert read == []
    assert_same(again.ensemble(), first)


def other_model() -> Any:
    changed = tiny("llama")
    with torch.no_grad():
        changed.model.layers[1].mlp.up_proj.weight.add_(1e-4)
    return changed


DIFFERENT: list[tuple[dict[str, Any], str]] = [
    ({"model": other_model}, r"the weights of the model differ\. Go on with what it was begun with"),
    ({"model": lambda: tiny("llama", num_hidden_layers=3)}, r"parameters of the model is \d+, was \d+; layers of the"),
    ({"documents": documents(1)}, r"sha256 of the text is '.*', was '.*'; the tokens of the documents differ\."),
    ({"documents": documents(0, COUNT - 1)}, r"count of the text is 20, was 21"),
    ({"heads": "each"}, r"heads of the options is 'each', was 'mean'"),
    ({"max_lag": 5}, r"max_lag of the options is 5, was None; the layers differ\."),
    ({"layers": [0]}, r"layers of the options differs; the layers differ\."),
    ({"dtype": "float16"}, r"dtype of the options is 'float16', was 'float32'"),
    ({"shard": 5}, r"shard is 5, was 8\."),
    ({"batch": 3}, r"batch is 3, was 8\."),
]


@pytest.mark.parametrize(("other", "said"), DIFFERENT, ids=[str(i) for i, _ in enumerate(DIFFERENT)])
def test_another_capture_is_not_gone_on_with(model: Any, tmp_path: Path, other: dict[str, Any], said: str) -> None:
    path = tmp_path / "f.zarr"
    store = es.capture_fields(model, documents(), path, shard=8)
    store.remove_shard(2)
    given = dict(other)
    made = given.pop("model", lambda: model)()
    with pytest.raises(StoreError, match=rf"The store '.*f.zarr' was begun with something else: .*{said}"):
        es.capture_fields(made, given.pop("documents", documents()), path, resume=True, **given)
    assert es.open_fields(path).whole == [0, 1]


def test_a_damaged_shard_is_captured_again(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "f.zarr"
    expected = es.capture_fields(model, documents(), tmp_path / "g.zarr", shard=8).ensemble()
    es.capture_fields(model, documents(), path, shard=8)
    chunk = next((path / "shards/00001/layers/model.layers.0.self_attn/values").glob("c*"))
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with pytest.warns(EddyscopeWarning, match=r"Shard 1 is captured again: .* bytes instead of .* \[damaged-shard\]"):
        store = es.capture_fields(model, documents(), path, resume=True)
    assert_same(store.ensemble(), expected)


@pytest.mark.parametrize("other", [False, True])
def test_a_whole_shard_that_belongs_elsewhere_is_not_analysed(model: Any, tmp_path: Path, other: bool) -> None:
    store = es.capture_fields(model, documents(), tmp_path / "fields.zarr", shard=8)
    place = tmp_path / "fields.zarr" / "shards" / "00001"
    if other:  # the same documents read by a model with other weights: all sizes and sums are right
        changed = tiny("llama")
        with torch.no_grad():
            changed.model.layers[0].self_attn.q_proj.weight.mul_(1.01)
        es.capture_fields(changed, documents(), tmp_path / "other.zarr", shard=8)
        donor, said = tmp_path / "other.zarr" / "shards" / "00001", "it is of another capture"
    else:
        donor, said = tmp_path / "fields.zarr" / "shards" / "00000", "it holds shard 0"
    shutil.rmtree(place)
    shutil.copytree(donor, place)
    assert list(es.open_fields(store.path).verify()) == [1]
    with pytest.raises(StoreError, match=rf"00001' is damaged: {said}\. Capture it again with resume=True"):
        es.open_fields(store.path).ensemble()
    with pytest.warns(EddyscopeWarning, match=rf"Shard 1 is captured again: .*{said}.* \[damaged-shard\]"):
        again = es.capture_fields(model, documents(), store.path, resume=True)
    assert_same(again.ensemble(), es.capture_fields(model, documents(), tmp_path / "whole.zarr", shard=8).ensemble())


def test_a_layer_that_a_store_does_not_have_is_named(model: Any, tmp_path: Path) -> None:
    store = es.capture_fields(model, documents(), tmp_path / "fields.zarr")
    for read in (lambda: store.read_layer("x"), lambda: store.read_shard(0, ["x"]), lambda: list(store.iterate(["x"]))):
        with pytest.raises(InputError, match=r"Layer 'x' is not in .*\. It has model\.layers\.0\.self_attn, model"):
            read()


def test_what_goes_wrong_outside_the_model_is_not_said_of_it(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match="cannot be written: no name has NUL in it"):
        es.capture_fields(model, documents(), f"{tmp_path}/a\0b")

    def fail(*_: Any) -> None:
        raise ValueError("the disk is not a model")

    monkeypatch.setattr(FieldStore, "write_shard", fail)
    with pytest.raises(ValueError, match=r"^the disk is not a model$"):
        es.capture_fields(model, documents(), tmp_path / "fields.zarr")


def test_another_number_of_threads_is_told(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "f.zarr"
    es.capture_fields(model, documents(), path, shard=8).remove_shard(1)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        with pytest.warns(
            EddyscopeWarning, match=rf"threads {threads + 1} instead of {threads}.*\[resumed-elsewhere\]"
        ):
            es.capture_fields(model, documents(), path, resume=True)
    finally:
        torch.set_num_threads(threads)


def test_nothing_is_replaced_unasked(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "f.zarr"
    es.capture_fields(model, documents(), path, shard=8)
    with pytest.raises(StoreError, match=r"There is a store of fields at '.*f.zarr' already, with 3 of 3 shards\."):
        es.capture_fields(model, documents(), path)
    with pytest.raises(UsageError, match=r"resume and force were both given"):
        es.capture_fields(model, documents(), path, resume=True, force=True)
    for wrong in (1.5, "4", True):
        with pytest.raises(UsageError, match=rf"shard is {wrong!r}, expected at least 1 document, as a whole number"):
            es.capture_fields(model, documents(), tmp_path / "new.zarr", shard=wrong)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=f"shard is {wrong!r}"):
            es.plan(model, documents(), shard=wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"shard is 0, expected at least 1 document"):
        es.capture_fields(model, documents(), path, shard=0)
    assert es.capture_fields(model, documents(1), path, heads="each", force=True).ensemble().heads == "each"


def test_a_failed_check_leaves_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("gpt2")
    from transformers.models.gpt2 import modeling_gpt2

    def uniform(module: Any, query: Any, key: Any, value: Any, mask: Any, **more: Any) -> Any:
        weights = query.new_full((*query.shape[:-1], key.shape[-2]), 1 / key.shape[-2])
        return (weights @ value).transpose(1, 2), weights

    monkeypatch.setattr(modeling_gpt2, "eager_attention_forward", uniform)
    with pytest.raises(CheckError, match=r"Check 'masked keys' failed"):
        es.capture_fields(model, documents(), tmp_path / "f.zarr")
    assert list(tmp_path.iterdir()) == []
    with pytest.warns(EddyscopeWarning, match=r"\[failed-checks\]"):
        store = es.capture_fields(model, documents(), tmp_path / "f.zarr", allow_failed_checks=True, shard=8)
    with pytest.warns(EddyscopeWarning, match=r"\[failed-checks\]"):
        expected = es.capture(model, documents(), allow_failed_checks=True, batch=8)
    found = store.ensemble().provenance
    assert found["failed_checks"] == expected.provenance["failed_checks"]
    assert found["checks"] == expected.provenance["checks"]


def poisoned(bad: int = 63) -> Any:
    """A model in which one token gives NaN."""
    model = tiny("llama")
    with torch.no_grad():
        model.model.embed_tokens.weight[bad] = float("nan")
    return model


@pytest.mark.filterwarnings("ignore:The capture went on")
def test_documents_with_nan_are_named_or_left_out(tmp_path: Path) -> None:
    ids = np.random.default_rng(0).integers(5, 60, (COUNT, LENGTH))
    ids[[3, 8, 9, 10, 11], 4] = 63
    model, read = poisoned(), Documents.from_ids(ids)
    with pytest.raises(CaptureError, match=r"has NaN or Inf in document 3\."):
        es.capture_fields(model, read, tmp_path / "f.zarr", shard=2)
    assert es.open_fields(tmp_path / "f.zarr").whole == [0]
    with pytest.warns(EddyscopeWarning, match=r"Left out 5 of 21 documents with NaN or Inf: \[3, 8, 9, 10, 11\]"):
        store = es.capture_fields(model, read, tmp_path / "f.zarr", shard=2, drop_bad=True, force=True)
    with pytest.warns(EddyscopeWarning, match=r"Left out 5 of 21"):
        expected = es.capture(model, read, drop_bad=True, batch=2)
    expected.provenance["options"]["batch"] = None
    assert_same(store.ensemble(), expected)


def test_documents_of_unequal_length(model: Any, tmp_path: Path) -> None:
    mask = np.ones((COUNT, LENGTH), dtype=bool)
    mask[::3, :4] = False
    ids = documents().ids
    with pytest.warns(EddyscopeWarning, match="unequal-lengths"):
        store = es.capture_fields(model, Documents.from_ids(ids, mask=mask), tmp_path / "f.zarr", shard=6, batch=1)
    with pytest.warns(EddyscopeWarning, match="unequal-lengths"):
        expected = es.capture(model, Documents.from_ids(ids, mask=mask), batch=1)
    assert_same(store.ensemble(), expected)


def test_shards_are_whole_numbers_of_batches() -> None:
    assert Sharding.of(None, 16, False, 1000, 500) == Sharding(64, 16)
    assert Sharding.of(None, 10, False, 1000, 500) == Sharding(60, 10)
    assert Sharding.of(None, 16, False, 64 << 20, 500) == Sharding(4, 4)
    assert Sharding.of(None, 16, True, 64 << 20, 500) == Sharding(16, 16)
    assert Sharding.of(None, 16, False, 1000, 7) == Sharding(7, 7)
    assert Sharding.of(5, 16, False, 1000, 500) == Sharding(5, 5)


def test_the_fingerprint_tells_weights_apart(model: Any) -> None:
    assert fingerprint(model) == fingerprint(tiny("llama"))
    assert fingerprint(model) != fingerprint(other_model())
    assert fingerprint(model) != fingerprint(tiny("llama").half())


def test_the_record_of_a_shard_says_where_it_was_captured(model: Any, tmp_path: Path) -> None:
    es.capture_fields(model, documents(), tmp_path / "f.zarr", shard=8)
    root = json.loads((tmp_path / "f.zarr/shards/00001/zarr.json").read_text())["attributes"]
    assert (root["content"], root["shard"], root["documents"]) == ("eddyscope fields, shard", 1, 8)
    record = json.loads(root["record"])
    assert record["device"] == "cpu"
    assert record["threads"] == torch.get_num_threads()
    assert {c["check"] for c in record["checks"]} >= {"rows sum to 1", "masked keys"}
