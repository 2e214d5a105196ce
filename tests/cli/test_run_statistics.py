"""``--keep statistics`` is ``keep="statistics"`` typed differently, and every output of a run comes from it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import eddyscope as es
from eddyscope.study.nulls import run_nulls
from peaks import run_alone

pytest.importorskip("torch")
pytest.importorskip("transformers")

Run = Any


def test_the_command_line_equals_the_python(typed: Run, model: Path, text: Path, tmp_path: Path) -> None:
    line = "--documents 24 --context 24 --sink first=2 --layers 0 --keep statistics --null shuffled,uniform"
    done = typed("run", model, "--text", text, "--out", tmp_path / "out", *line.split(), "--no-figures", "--no-report")
    assert done.status == 0
    assert "Plan: " in done.err and "What can be concluded" in done.out and "fields not kept" in done.out
    loaded, tokenizer = es.load_model(str(model))
    documents = es.read_documents(text, tokenizer, context=24, count=24)
    options: dict[str, Any] = {"sinks": ["first=2", "keep"], "layers": [0]}
    statistics = es.capture(loaded, documents, keep="statistics", **options)
    expected = run_nulls(
        es.analyze(statistics, sink="first=2"), statistics, ["shuffled", "uniform"], model=loaded,
        capturing=options | {"keep": "statistics"},
    )  # fmt: skip
    found = es.open_study(tmp_path / "out")
    xr.testing.assert_identical(found.data, expected.data)
    assert np.isfinite(found.packed(0)["uniform_spectrum"]).any()
    assert np.isfinite(found.packed(0)["null_value"].values[0]).any()
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["keep"] == "statistics"


@pytest.mark.slow
def test_every_output_of_a_run_is_written(typed: Run, model: Path, text: Path, tmp_path: Path) -> None:
    line = "--documents 20 --context 24 --keep statistics --heads each"
    done = typed("run", model, "--text", text, "--out", tmp_path / "out", *line.split())
    assert done.status == 0, done.err
    assert "no-figures" not in done.err
    assert {"study.zarr", "summary.csv", "summary.json", "run.json", "figures"} <= {
        p.name for p in (tmp_path / "out").iterdir()
    }
    assert typed("show", tmp_path / "out").status == 0


def test_reading_on_goes_by_a_measure_along_the_lag(typed: Run, model: Path, text: Path, tmp_path: Path) -> None:
    line = "--documents auto --precision 0.9 --context 8 --layers 0 --keep statistics --no-figures --no-report -q"
    done = typed("run", model, "--text", text, "--out", tmp_path / "out", *line.split())
    assert done.status == 0, done.err
    assert es.open_study(tmp_path / "out").provenance["auto"]["measure"] == "lag_participation_ratio"
    done = typed(
        "run", model, "--text", text, "--out", tmp_path / "b", *line.split(), "--measure", "participation_ratio"
    )
    assert done.status == 2 and "needs fields, and statistics alone are kept" in done.err


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ("--keep all", 2, "--keep is 'all'; expected fields or statistics."),
        ("--preset published", 1, "The preset published needs the fields"),
        ("--sink-pod mask", 1, "sink_pod='mask' needs the fields"),
        ("--null phases", 2, "The null model phases needs fields."),
    ],
)
def test_what_statistics_cannot_answer_is_refused_before_the_work(
    typed: Run, model: Path, text: Path, tmp_path: Path, options: str, status: int, message: str
) -> None:
    line = options.split() if "--keep" in options else ["--keep", "statistics", *options.split()]
    done = typed("run", model, "--text", text, "--out", tmp_path / "out", *line)
    assert done.status == status and message in " ".join(done.err.split())
    assert "Capturing" not in done.err and not (tmp_path / "out").exists()


_MEASURED = """
from peaks import peak_bytes
from eddyscope.cli import main
try:
    main()
finally:
    print(peak_bytes())
"""


@pytest.mark.slow
def test_2000_documents_through_30_layers_stay_within_the_stated_budget(tmp_path: Path) -> None:
    """Case 22: the plan is printed before the work, fields would not fit, statistics stay below what was said."""
    from eddyscope import models
    from eddyscope.models.config import GPTConfig

    models.save_model(models.untrained(GPTConfig("base", 65, 64, 30, 2, 16), seed=0), tmp_path / "deep")
    np.save(tmp_path / "ids.npy", np.random.default_rng(0).integers(0, 65, (2000, 64)))
    line = f"--token-ids {tmp_path}/ids.npy --memory-budget 850MB --no-intervals --no-figures --no-report"

    def alone(*more: str) -> subprocess.CompletedProcess[str]:  # a plan counts what its process holds already
        return run_alone(_MEASURED, "run", tmp_path / "deep", *line.split(), *more, check=False)

    refused = alone("--out", str(tmp_path / "fields"))
    assert refused.returncode == 2, refused.stderr
    assert "850 MB of the budget" in refused.stderr and "--keep statistics" in refused.stderr
    done = alone("--keep", "statistics", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) <= 850e6
    told = done.stderr.splitlines()
    plan = next(place for place, words in enumerate(told) if words.startswith("Plan: "))
    assert plan < next(place for place, words in enumerate(told) if words.startswith("Capturing"))
    study = es.open_study(tmp_path / "out")
    assert len(study.layers) == 30 and study.layer(0).attrs["documents"] == 2000
