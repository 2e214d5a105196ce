from __future__ import annotations

import os

import numpy as np
import pytest
from numpy.typing import NDArray

from eddyscope.documents import Documents

# Before the hub's client is imported, which reads it once: nothing in these tests is looked up on the network.
os.environ["HF_HUB_OFFLINE"] = "1"

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

#: Vocabulary of every tiny model; the ids of documents stay clear of the special ones below 5.
VOCABULARY = 64


@pytest.fixture
def ids() -> NDArray[np.int64]:
    return np.random.default_rng(0).integers(5, VOCABULARY, (5, 24))


@pytest.fixture
def documents(ids: NDArray[np.int64]) -> Documents:
    return Documents.from_ids(ids)
