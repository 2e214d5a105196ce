"""The estimate for a million documents is what the sizes give, and the plan's own figures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_docs_show_what_the_sizes_give(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "cluster", "--estimate", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    kept = ROOT / "benchmarks/results/cluster_estimate.md"
    assert (tmp_path / "cluster_estimate.md").read_text(encoding="utf-8") == kept.read_text(encoding="utf-8")
    found = json.loads((tmp_path / "cluster_estimate.json").read_text(encoding="utf-8"))
    # By hand: 2 x 6.61e9 x 1024 for the weights, and 2 x 2 x 32 x 1024 x 1024 x 4096 for two products with all keys.
    assert found["forward_flop_a_document"] == pytest.approx(13.54e12 + 0.55e12, rel=1e-3)
    assert found["gpu_hours"] == pytest.approx(1e6 * 14.09e12 / 1e14 / 3600, rel=1e-3)
    assert found["shards"] == pytest.approx(1e6 / 64, rel=1e-3)
    assert found["store_bytes"] == pytest.approx(1e6 * 32 * (2 * 1024 * 1025 / 2 + 8 * 1024), rel=1e-3)
