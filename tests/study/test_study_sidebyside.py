"""Layers of small ensembles are analysed side by side, with the same results."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import eddyscope as es
from eddyscope.study import analyze as analysis
from eddyscope.study import sidebyside
from eddyscope.study.sidebyside import side_by_side, threads_for


@pytest.fixture
def ensemble() -> es.AttentionEnsemble:
    rng = np.random.default_rng(0)
    attention = np.tril(rng.random((24, 3, 32, 32)) ** 3)
    return es.AttentionEnsemble.from_arrays(attention / attention.sum(-1, keepdims=True), causal=True)


def blas_threads() -> int:
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


def in_threads(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(analysis, "threads_for", lambda ensemble: count)


def allow(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(sidebyside, "threadpool_info", lambda: [{"user_api": "blas", "num_threads": count}])


def test_it_changes_nothing(ensemble: es.AttentionEnsemble, monkeypatch: pytest.MonkeyPatch) -> None:
    in_threads(monkeypatch, 1)
    with threadpool_limits(1, user_api="blas"):
        alone = es.analyze(ensemble)
    in_threads(monkeypatch, 3)
    seen: list[tuple[str, int, int]] = []
    together = es.analyze(ensemble, progress=lambda *told: seen.append(told))
    for name in alone.layers:
        assert together.layer(name).identical(alone.layer(name))
    assert seen == [*((name, done, 3) for done, name in enumerate(alone.layers)), ("", 3, 3)]


def test_each_has_one_thread_of_the_library_and_it_has_its_own_again_afterwards() -> None:
    before, together = blas_threads(), threading.Barrier(2, timeout=20)

    def work(name: str) -> tuple[str, int]:
        together.wait()  # two are at work at a time
        return name, blas_threads()

    assert list(side_by_side(work, ["a", "b", "c", "d"], 2)) == [(name, 1) for name in "abcd"]
    assert blas_threads() == before


def test_a_fault_ends_it_and_is_told(ensemble: es.AttentionEnsemble, monkeypatch: pytest.MonkeyPatch) -> None:
    before, begun = blas_threads(), []

    def work(name: str) -> Any:
        begun.append(name)
        raise ValueError(f"fault in {name}")

    with pytest.raises(ValueError, match="fault in a"):
        list(side_by_side(work, ["a", *"bcdefgh"], 1))
    assert begun == ["a"]
    with pytest.raises(ValueError, match="fault in a"):
        list(side_by_side(work, ["a", *"bcdefgh"], 2))
    assert blas_threads() == before

    def stop(*told: Any) -> None:
        raise KeyboardInterrupt

    in_threads(monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt):
        es.analyze(ensemble, progress=stop)
    assert blas_threads() == before


def test_no_more_threads_than_the_library_may_use_and_than_there_are_layers(
    ensemble: es.AttentionEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    for allowed, expected in ((1, 1), (2, 2), (64, 3)):
        allow(monkeypatch, allowed)
        assert threads_for(ensemble) == expected
    monkeypatch.setattr(sidebyside, "MOST", 2)
    assert threads_for(ensemble) == 2


def test_large_layers_come_one_after_another(ensemble: es.AttentionEnsemble, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch, 8)
    assert threads_for(ensemble) == 3
    monkeypatch.setattr(sidebyside, "DOCUMENTS", 23)
    assert threads_for(ensemble) == 1
    monkeypatch.setattr(sidebyside, "DOCUMENTS", 24)
    monkeypatch.setattr(sidebyside, "LAYER_BYTES", ensemble[0].values.nbytes - 1)
    assert threads_for(ensemble) == 1
