"""Attention that is turned into statistics as it is read: the same as statistics of fields, in memory that is flat."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny

from eddyscope.capture import capture
from eddyscope.capture.shards import Sharding
from eddyscope.documents import Documents
from eddyscope.errors import InputError, UsageError
from eddyscope.statistics import AttentionStatistics
from eddyscope.study.analyze import analyze
from peaks import run_alone

COUNT, TOKENS = 23, 24


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents come five at a time, so that there are several shards, the last smaller."""
    # By the module, as eddyscope.capture is the function once the package is imported.
    monkeypatch.setattr(sys.modules[Sharding.__module__], "SHARD_DOCUMENTS", 5)
    assert Sharding.of(None, 5, True, 1000, COUNT).shard == 5


@pytest.fixture
def documents() -> Documents:
    return Documents.from_ids(np.random.default_rng(0).integers(5, 64, (COUNT, TOKENS)))


def assert_same(one: AttentionStatistics, other: AttentionStatistics) -> None:
    """Equal to rounding, in every part."""
    assert one.layers == other.layers and one.info == other.info
    np.testing.assert_array_equal(one.groups, other.groups)
    for name, heads in one.layers_of.items():
        assert list(heads) == list(other.layers_of[name])
        for label, head in heads.items():
            theirs = other.layers_of[name][label]
            np.testing.assert_allclose(head.field.means, theirs.field.means, rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(head.field.energy, theirs.field.energy, rtol=1e-10, atol=1e-15)
            np.testing.assert_allclose(head.masses.means, theirs.masses.means, rtol=1e-12, atol=1e-15)
            np.testing.assert_allclose(head.sums.mass, theirs.sums.mass, rtol=1e-12)
            np.testing.assert_array_equal(head.sums.hits, theirs.sums.hits)
            assert list(head.parts) == list(theirs.parts)
            for sink, part in head.parts.items():
                np.testing.assert_array_equal(part.axis.queries, theirs.parts[sink].axis.queries)
                own, their = part.moments, theirs.parts[sink].moments
                assert own is not None and their is not None
                a, b = own.covariance(), their.covariance()
                assert np.linalg.norm(a.fluctuation - b.fluctuation) <= 1e-12 * np.linalg.norm(b.fluctuation)
                assert np.linalg.norm(a.mean - b.mean) <= 1e-12 * np.linalg.norm(b.mean)


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("llama", {}),
        ("llama", {"heads": "each", "max_lag": 8}),
        ("bert", {"heads": [0, 2]}),
        ("gpt2", {"sinks": ["first=2"], "layers": [1]}),
        ("llama", {"weight": "value-norm"}),
    ],
    ids=["head mean", "each head, band of lags", "two-sided, some heads", "two keys masked", "value-weighted"],
)
def test_statistics_of_a_stream_are_those_of_the_fields(
    family: str, options: dict[str, Any], documents: Documents
) -> None:
    sinks = options.get("sinks", ["mask", "keep"])
    fields = capture(tiny(family), documents, **({k: v for k, v in options.items() if k != "sinks"} | {"batch": 5}))
    found = capture(tiny(family), documents, **options, batch=5, keep="statistics")
    assert_same(found, AttentionStatistics.from_ensemble(fields, sinks=sinks))
    assert found.documents is not None and len(found.documents) == found.count == COUNT


def test_the_study_of_a_stream_has_everything_that_a_study_has(documents: Documents) -> None:
    found = capture(tiny("llama"), documents, keep="statistics", batch=5)
    study = analyze(found)
    assert study.provenance["keep"] == "statistics" and study.provenance["sinks"] == ["mask", "keep"]
    assert json.loads(json.dumps(study.provenance)) == study.provenance
    assert len(study.heads_table()) == 2 * 4
    checks = [(c["check"], c["layer"], c["note"]) for c in found.provenance["checks"]]
    assert len(checks) == len(set(checks)) and all(c["passed"] for c in found.provenance["checks"])
    whole = capture(tiny("llama"), documents, batch=5).provenance["checks"]
    assert {c[:2] for c in checks} == {(c["check"], c["layer"]) for c in whole}


def test_progress_counts_documents(documents: Documents) -> None:
    seen: list[tuple[int, int]] = []
    capture(tiny("llama"), documents, keep="statistics", batch=5, progress=lambda *done: seen.append(done))
    assert seen == [(done, COUNT) for done in (5, 10, 15, 20, 23)]


def test_documents_are_read_again_where_a_late_one_leaves_out_a_query(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = capture(tiny("gpt2"), documents, batch=5)
    field = fields[1]
    assert field.first_key is not None
    beside = np.sort((1 - field.first_key[:, 0, TOKENS // 2 :]).min(axis=1))
    monkeypatch.setattr("eddyscope.study.rows.MIN_REMAINING", float(beside[2]))  # so three documents leave some out
    seen: list[tuple[int, int]] = []
    found = capture(tiny("gpt2"), documents, keep="statistics", batch=5, progress=lambda *done: seen.append(done))
    assert_same(found, AttentionStatistics.from_ensemble(fields))
    assert found.layers_of[found.layers[1]]["mean"].parts["mask"].axis.left_out > 0
    assert len(seen) == 10


def test_bad_documents_are_left_out_of_all_layers(documents: Documents) -> None:
    model = tiny("llama")
    with torch.no_grad():
        model.get_input_embeddings().weight[63] = float("nan")
    bad = np.flatnonzero((documents.ids == 63).any(axis=1))
    assert 0 < bad.size < COUNT
    with pytest.raises(Exception, match=rf"has NaN or Inf in document {bad[0]}"):
        capture(model, documents, keep="statistics", batch=5)
    with pytest.warns(UserWarning, match=f"Left out {bad.size} of {COUNT} documents"):
        found = capture(model, documents, keep="statistics", batch=5, drop_bad=True)
    kept = np.setdiff1d(np.arange(COUNT), bad)
    assert found.count == kept.size and found.provenance["documents_dropped"] == bad.tolist()
    plain = AttentionStatistics.from_ensemble(
        capture(tiny("llama"), documents, batch=1).select_documents(kept), groups=documents.groups()[kept]
    )
    head, other = (s.layers_of[s.layers[0]]["mean"] for s in (found, plain))
    np.testing.assert_allclose(head.field.mean, other.field.mean, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": "everything"}, r"^keep is 'everything', expected 'fields' or 'statistics'"),
        ({"keep": "statistics", "sinks": ["all"]}, r"^sinks must be one of mask, keep or first=K"),
        ({"keep": "statistics", "sinks": []}, r"^No treatment of sinks was given"),
        ({"keep": "statistics", "sinks": ["first=2"], "max_lag": 4}, r"^sink='first=2' needs the attention to these"),
    ],
)
def test_what_cannot_be_kept_is_named(options: dict[str, Any], message: str, documents: Documents) -> None:
    with pytest.raises((InputError, UsageError), match=message):
        capture(tiny("gpt2"), documents, **options)


_PEAK = """
import sys
import numpy as np, torch
import eddyscope as es
from peaks import peak_bytes
torch.set_num_threads(1)
ids = np.random.default_rng(0).integers(0, 65, size=(int(sys.argv[1]), 256))
statistics = es.capture(es.models.load("base"), es.Documents.from_ids(ids), keep="statistics")
assert statistics.count == len(ids)
print(peak_bytes())
"""


@pytest.mark.slow
def test_two_thousand_documents_take_the_memory_of_two_hundred() -> None:
    """The bundled model `base`, documents of 256 tokens; peaks of fresh processes."""
    peaks = [int(run_alone(_PEAK, count).stdout) for count in (200, 2000)]
    assert peaks[1] <= 1.05 * peaks[0], peaks
