"""``eddyscope analyze`` is ``es.analyze`` typed differently, and says what is wrong with arrays."""

from __future__ import annotations

import inspect
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import eddyscope as es
from eddyscope.arrays import identify, read_arrays
from eddyscope.cli.analyze import analyze_command
from eddyscope.cli.shared import analysis_options

Run = Any

SAME = [
    ("", {}),
    ("--no-intervals --seed 7", {"intervals": False, "seed": 7}),
    ("--scales 4,6,9 --omega0 5.5 --edges zero", {"scales": [4, 6, 9], "omega0": 5.5, "edges": "zero"}),
    ("--select 5,8 --window lowpass --modes 3", {"select": [5, 8], "window": "lowpass", "modes": 3}),
    ("--select top --dominant 2 --sink keep", {"select": "top", "dominant": 2, "sink": "keep"}),
    (
        "--sink-pod mask --min-query 2 --tolerances 0.2,0.02",
        {"sink_pod": "mask", "min_query": 2, "tolerances": [0.2, 0.02]},
    ),
    ("--preset published --scales 2,4,8,16", {"preset": "published", "scales": [2, 4, 8, 16]}),
]


@pytest.mark.parametrize(("line", "options"), SAME, ids=[line or "defaults" for line, _ in SAME])
def test_the_command_line_equals_the_python(
    typed: Run, arrays: Path, tmp_path: Path, line: str, options: dict[str, Any]
) -> None:
    done = typed(
        "analyze", arrays, "--layers", 0, "--out", tmp_path / "out", "--no-figures", "--no-report", "-q", *line.split()
    )
    assert (done.status, done.out, done.err) == (0, "", "")
    expected = es.analyze(es.AttentionEnsemble.from_arrays(read_arrays(arrays)).select_layers([0]), **options)
    found = es.open_study(tmp_path / "out")
    xr.testing.assert_identical(found.data, expected.data)
    assert found.provenance["analysis"] == expected.provenance["analysis"]
    assert found.provenance["file"] == identify(arrays)


def test_max_lag_cuts_the_field_too(typed: Run, arrays: Path, tmp_path: Path) -> None:
    line = ["analyze", arrays, "--layers", "1", "--max-lag", "12", "--no-figures", "--no-report", "--no-intervals"]
    assert typed(*line, "--out", tmp_path / "out").status == 0
    ensemble = es.AttentionEnsemble.from_arrays(read_arrays(arrays), max_lag=12).select_layers([1])
    xr.testing.assert_identical(
        es.open_study(tmp_path / "out").data, es.analyze(ensemble, max_lag=12, intervals=False).data
    )


def test_every_argument_of_analyze_is_an_option_with_the_same_default() -> None:
    of_python = {n: p.default for n, p in inspect.signature(es.analyze).parameters.items()}
    del of_python["ensemble"], of_python["progress"]
    own = {n: p.default for n, p in inspect.signature(analyze_command).parameters.items()}
    for name in ("pod", "power_iterations", "memory_budget", "scratch", "workers", "dask"):  # of this command alone
        assert own[name] == of_python.pop(name), name
    assert list(inspect.signature(analysis_options).parameters) == list(of_python)
    assert {k: tuple(v) if isinstance(v, list) else v for k, v in analysis_options().items()} == of_python


def test_two_sided_and_layers(typed: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(24), size=(12, 3, 24)).astype(np.float32)
    np.save(tmp_path / "a.npy", weights)
    line = ["analyze", tmp_path / "a.npy", "--no-figures", "--no-report", "--no-intervals", "--layers", "0,layer2"]
    assert "is not causal" in typed(*line, "--out", tmp_path / "out").err
    assert typed(*line, "--out", tmp_path / "out", "--two-sided").status == 0
    found = es.open_study(tmp_path / "out")
    assert found.layers == ("layer0", "layer2")
    assert found.layer(0)["lag"].values.min() < 0


def test_the_folder_holds_what_it_should(typed: Run, arrays: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    line = ["analyze", str(arrays), "--out", str(out), "--no-figures", "--no-report", "--no-intervals"]
    done = typed(*line)
    assert done.status == 0
    assert sorted(p.name for p in out.iterdir()) == ["run.json", "study.zarr", "summary.csv", "summary.json"]
    study = es.open_study(out)
    table = study.summary()
    pd.testing.assert_frame_equal(pd.read_csv(out / "summary.csv"), table, check_dtype=False)
    rows = json.loads((out / "summary.json").read_text())
    assert rows["format_version"] == 1
    assert [row["layer"] for row in rows["rows"]] == list(study.layers)
    assert rows["rows"][1]["dominant_wavelength"] is None or np.isfinite(rows["rows"][1]["dominant_wavelength"])
    record = json.loads((out / "run.json").read_text())
    assert record["format_version"] == 1
    assert record["command"] == [
        "eddyscope",
        "analyze",
        str(arrays),
        "--out",
        str(out),
        "--no-figures",
        "--no-report",
        "--no-intervals",
    ]
    assert record["date"].endswith("+00:00")
    assert set(record["seconds"]) == {"reading", "analysing"}
    assert record["options"]["analysis"]["omega0"] == 6.0
    assert record["file"]["name"] == "attention.npz"
    assert record["versions"]["eddyscope"] == es.__version__
    assert record["warnings"] == []
    assert record["files"] == ["study.zarr", "summary.csv", "summary.json", "run.json"]


def test_stages_and_table_are_printed(typed: Run, arrays: Path, tmp_path: Path) -> None:
    done = typed("analyze", arrays, "--out", tmp_path / "out", "--no-figures", "--no-report", "--no-intervals")
    assert done.err.splitlines() == [f"Reading {arrays}", "Analysing 2 layers", "Writing the results"]
    assert done.out.startswith("attention.npz: 2 layers, 20 documents of 32 tokens, causal, head mean\n")
    assert f"The results are in {tmp_path / 'out'}: start with summary.csv." in done.out
    assert "\x1b" not in done.out + done.err


def test_masked_half_warns_and_is_recorded(typed: Run, arrays: Path, tmp_path: Path) -> None:
    done = typed(
        "analyze",
        arrays,
        "--out",
        tmp_path / "out",
        "--preset",
        "published",
        "--lags",
        "ahead",
        "--no-figures",
        "--no-report",
    )
    assert done.status == 0
    warning = "lags='ahead' reads the masked half of causal attention. [masked-half]"
    assert done.err.count(f"Warning: {warning}\n") == 1
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["warnings"] == [{"slug": "masked-half", "message": warning}]
    assert warning.split(" [")[0] in " ".join(done.out.split())


REFUSED = [
    (["--omega0", "1"], "omega0 must be at least 2, got 1.0."),
    (["--scales", "2,x"], "--scales is '2,x'; expected numbers joined by commas, such as 2,4,8."),
    (["--select", "some"], "--select is 'some'; expected numbers joined by commas, such as 2,4,8, or one of peaks,"),
    (["--window", "boxcar"], "window must be one of band, lowpass, octaves, got 'boxcar'."),
    (["--preset", "paper"], "preset must be one of published, got 'paper'."),
    (["--lags", "ahead"], "Use it with preset='published' (--preset published)"),
    (
        ["--preset", "published", "--omega0", "7"],
        "preset='published' fixes omega0 to 5.0, got 7.0.",
    ),
    (["--preset", "published", "--max-lag", "8"], "preset='published' fixes max_lag to None, got 8."),
    (["--tolerances", "2"], "tolerances must lie between 0 and 1"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=[" ".join(options) for options, _ in REFUSED])
def test_options_that_cannot_be_exit_with_2(
    typed: Run, arrays: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    done = typed("analyze", arrays, "--out", tmp_path / "out", "--no-figures", "--no-report", *options)
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert done.err.startswith("Error: ")
    assert done.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def refused(typed: Run, tmp_path: Path, array: Any, *options: str) -> str:
    """Error of an analysis that is refused in one line, without a trace left."""
    path = tmp_path / "a.npy"
    np.save(path, array)
    done = typed("analyze", path, "--out", tmp_path / "out", "--no-figures", "--no-report", "--quiet", *options)
    assert (done.status, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    return str(done.err)


@pytest.mark.parametrize("shape", [(2, 3, 4, 8, 8, 1), (5, 3, 8, 9), (8, 8)])
def test_another_layout_is_named(typed: Run, tmp_path: Path, shape: tuple[int, ...]) -> None:
    error = refused(typed, tmp_path, np.zeros(shape, np.float32))
    assert f"Attention has shape {shape}, expected (documents, layers, L, L), (documents, layers, heads, L, L)" in error


def test_integers_are_no_attention(typed: Run, tmp_path: Path) -> None:
    assert "dtype int64, expected floating-point" in refused(typed, tmp_path, np.zeros((4, 2, 8, 8), np.int64))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_is_named_and_left_out_on_demand(typed: Run, attention: np.ndarray, tmp_path: Path, value: float) -> None:
    spoiled = attention.copy()
    spoiled[5, 1, 20, 3] = value
    error = refused(typed, tmp_path, spoiled)
    assert "Attention of layer 'layer1' has NaN or Inf in document 5." in error
    assert "(--drop-bad)" in error
    done = typed(
        "analyze", tmp_path / "a.npy", "--out", tmp_path / "out", "--drop-bad", "--no-figures", "--no-report", "-q"
    )
    assert done.status == 0
    assert done.err == "Warning: Left out 1 of 20 documents with NaN or Inf: [5]. [dropped-documents]\n"
    study = es.open_study(tmp_path / "out")
    assert study.data["layer0"].attrs["documents"] == 19
    assert study.provenance["documents_dropped"] == [5]
    assert study.provenance["warnings"][0]["slug"] == "dropped-documents"
    good = es.AttentionEnsemble.from_arrays(np.delete(attention, 5, axis=0))
    xr.testing.assert_allclose(study.layer(0), es.analyze(good).layer(0))


def test_equal_documents_have_no_fluctuation(typed: Run, attention: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.repeat(attention[:1], 12, axis=0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = typed("analyze", tmp_path / "a.npy", "--out", tmp_path / "out", "--no-figures", "--no-report")
    assert done.status == 0
    assert "Warning" not in done.err
    assert "no fluctuation: every document gives the same attention" in " ".join(done.out.split())
    table = es.open_study(tmp_path / "out").summary()
    assert set(table["status"]) == {"no fluctuation"}
    assert table[["beta_published", "participation_ratio", "h_10"]].isna().all(axis=None)
    assert float(es.open_study(tmp_path / "out").layer(0)["field_eigenvalues"].max()) < 1e-10


@pytest.mark.parametrize(("documents", "length"), [(1, 32), (2, 32), (20, 8), (2, 8), (1, 8)])
def test_small_ensembles_give_what_they_can(
    typed: Run, attention: np.ndarray, tmp_path: Path, documents: int, length: int
) -> None:
    small = attention[:documents, :1, :length, :length]
    np.save(tmp_path / "a.npy", small / small.sum(axis=-1, keepdims=True))
    done = typed("analyze", tmp_path / "a.npy", "--out", tmp_path / "out", "--no-figures", "--no-report")
    assert done.status == 0
    row = es.open_study(tmp_path / "out").summary().iloc[0]
    assert row["documents"] == documents
    assert row["status"] != "ok"
    assert np.isfinite(row["sink_mass"])


def test_fewer_than_four_tokens_are_refused(typed: Run, tmp_path: Path) -> None:
    error = refused(typed, tmp_path, np.ones((5, 1, 3, 3), np.float32) / 3, "--two-sided")
    assert "Attention has 3 queries and 3 keys; an analysis along the lag needs at least 4 tokens." in error


def test_scores_are_refused_unless_they_are_meant(typed: Run, tmp_path: Path) -> None:
    scores = np.tril(np.random.default_rng(0).normal(size=(12, 2, 24, 24))).astype(np.float32)
    error = refused(typed, tmp_path, scores)
    assert "'layer0'" in error
    assert "(--unnormalised)" in error
    line = [
        "analyze",
        tmp_path / "a.npy",
        "--out",
        tmp_path / "out",
        "--unnormalised",
        "--no-figures",
        "--no-report",
        "--no-intervals",
    ]
    assert typed(*line).status == 0
    assert es.open_study(tmp_path / "out").provenance["unnormalised"] is True


def test_a_pickle_is_refused(typed: Run, tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(b"\x80\x04whatever")
    done = typed("analyze", tmp_path / "a.pt", "--out", tmp_path / "out")
    assert done.status == 1
    assert "'a.pt' is a pickle, which can run code when it is opened, so it is never read." in done.err
