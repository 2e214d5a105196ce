from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eddyscope.documents import Documents

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.append(str(Path(__file__).parents[1] / "capture"))  # tiny models

pytest.importorskip("torch")
distributed = pytest.importorskip("distributed")

COUNT, LENGTH = 22, 24


@pytest.fixture
def documents() -> Documents:
    return Documents.from_ids(np.random.default_rng(0).integers(5, 64, (COUNT, LENGTH)))


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    """A scheduler and two workers in threads of this process: all of Dask but the processes, at once there."""
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            dashboard_address="127.0.0.1:0",  # any free port: other workers of the tests have clusters too
            worker_dashboard_address="127.0.0.1:0",
            memory_limit=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client
