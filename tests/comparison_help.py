"""Studies of planted attention, small enough to analyse in a moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest

import eddyscope as es
import planted
from eddyscope.documents import Documents

COUNT, LENGTH = 30, 40


def documents(seed: int = 0, texts: Sequence[str] | None = None, **identity: object) -> Documents:
    ids = np.random.default_rng(seed).integers(0, 40, size=(COUNT, LENGTH))
    made = Documents.from_ids(ids, name=f"ids {seed}")
    return Documents(
        made.ids, made.special, made.starts, made.blocks, texts=None if texts is None else tuple(texts),
        identity=made.identity | identity,
    )  # fmt: skip


@cache
def _study(places: tuple[float, ...], seed: int, read: Documents | None) -> es.Study:
    attention = np.stack(
        [planted.bump(COUNT, LENGTH, place, 1.5, seed=100 * seed + k) for k, place in enumerate(places)], axis=1
    )
    return es.analyze(es.AttentionEnsemble.from_arrays(attention, documents=read), modes=2, dominant=1)


@pytest.fixture(scope="session")
def read() -> Documents:
    return documents()


@pytest.fixture(scope="session")
def bumps(read: Documents) -> Callable[..., es.Study]:
    """A study whose layers fluctuate at these distances, of documents that all such studies share by default."""

    def make(*places: float, seed: int = 0, documents: Documents | None = read) -> es.Study:
        return _study(places, seed, documents)

    return make
