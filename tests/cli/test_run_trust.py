"""``--null`` and ``--documents auto`` are run_nulls and read_on typed differently, and show says what follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eddyscope as es
from eddyscope.study.nulls import run_nulls

pytest.importorskip("torch")
pytest.importorskip("transformers")

Run = Any


@pytest.mark.slow
def test_null_models_stand_beside_the_model_as_in_python(typed: Run, model: Path, text: Path, tmp_path: Path) -> None:
    line = [
        "--context",
        "24",
        "--documents",
        "24",
        "--layers",
        "0",
        "--heads",
        "each",
        "--no-figures",
        "--no-report",
        "-q",
    ]
    done = typed("run", model, "--text", text, *line, "--null", "twin,shuffled,phases", "--out", tmp_path / "out")
    assert (done.status, done.err) == (0, "")
    loaded, tokenizer = es.load_model(str(model))
    documents = es.read_documents(text, tokenizer, context=24, count=24)
    ensemble = es.capture(loaded, documents, heads="each", layers=[0])
    expected = run_nulls(
        es.analyze(ensemble), ensemble, ["twin", "shuffled", "phases"], model=loaded, capturing={"heads": "each"}
    )
    found = es.open_study(tmp_path / "out")
    assert found.packed(0)["null"].values.tolist() == ["twin 0", "twin 1", "twin 2", "shuffled", "phases"]
    for name in ("null_value", "null_difference", "null_p_holm", "null_octave_density"):
        np.testing.assert_allclose(found.packed(0)[name], expected.packed(0)[name], rtol=1e-9, err_msg=name)
    assert "twin_participation_ratio" in found.summary()


def test_show_says_what_can_be_concluded(typed: Run, model: Path, text: Path, tmp_path: Path) -> None:
    line = [
        "--context",
        "24",
        "--documents",
        "24",
        "--layers",
        "0",
        "--no-figures",
        "--no-report",
        "-q",
        "--null",
        "shuffled",
    ]
    assert typed("run", model, "--text", text, *line, "--out", tmp_path / "out").status == 0
    shown = " ".join(typed("show", tmp_path / "out").out.split())
    assert "What can be concluded (intervals are 95 %)" in shown
    assert "Decay: not resolved, two halves of the documents agree on" in shown
    assert "Against shuffled documents:" in shown


def test_auto_reads_on_and_says_that_it_stopped_by_looking(typed: Run, model: Path, text: Path, tmp_path: Path) -> None:
    line = [
        "--context",
        "24",
        "--documents",
        "auto",
        "--precision",
        "0.9",
        "--layers",
        "0",
        "--no-figures",
        "--no-report",
        "-q",
    ]
    done = typed("run", model, "--text", text, *line, "--out", tmp_path / "out")
    assert done.status == 0
    assert done.err.startswith("Warning: Stopped by looking, 1 times, at 100 documents: participation_ratio is known")
    assert es.open_study(tmp_path / "out").provenance["auto"]["looks"][0]["documents"] == 100


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--documents few", "--documents is 'few'; expected a whole number of at least 1, or auto."),
        ("--documents 0", "--documents is '0'; expected a whole number of at least 1, or auto."),
        ("--null triplet", "null must be among twin, shuffled, uniform, phases, got 'triplet'."),
        ("--sink first=0", "sink must be one of mask, keep or first=K with K of at least 1, got 'first=0'."),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    typed: Run, model: Path, text: Path, tmp_path: Path, line: str, message: str
) -> None:
    done = typed("run", model, "--text", text, "--out", tmp_path / "out", *line.split())
    assert (done.status, done.out) == (2, "")
    assert message in done.err
