"""Long contexts: 4,096 tokens in blocks of rows equal eager, in a fraction of its memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from blocks_memory import LENGTH, MAX_LAG, model_of_long_context

from eddyscope.lagfield import LagGeometry
from peaks import run_alone

pytestmark = pytest.mark.slow


def grown(way: str, out: Path) -> float:
    done = run_alone("import sys, blocks_memory; blocks_memory.main(*sys.argv[1:])", way, out, check=False)
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split()[-1])


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from /proc")
def test_a_context_of_4096_in_blocks_equals_eager_in_less_than_a_quarter_of_its_memory(tmp_path: Path) -> None:
    blocks = grown("blocks", tmp_path / "blocks.npz")
    eager = grown("eager", tmp_path / "none")
    assert blocks < eager / 4
    found = np.load(tmp_path / "blocks.npz")
    model = model_of_long_context()
    model.set_attn_implementation("eager")
    ids = torch.from_numpy(np.random.default_rng(0).integers(5, 64, (1, LENGTH)))
    with torch.inference_mode():
        attentions = model(input_ids=ids, attention_mask=torch.ones_like(ids), output_attentions=True).attentions
    geometry = LagGeometry(LENGTH, LENGTH, True, MAX_LAG)
    for layer, attention in enumerate(attentions):
        whole = attention.numpy()
        kept = np.take(whole.reshape(1, whole.shape[1], -1), geometry.flat_index, axis=2)
        np.testing.assert_allclose(found["values"][layer], kept, atol=1e-5)
        np.testing.assert_allclose(found["row_sum"][layer], whole.sum(axis=-1), atol=1e-5)
