"""``eddyscope show`` says in words what a study found; it fits a terminal of 80 columns and a file."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import eddyscope as es
import planted
from eddyscope.cli.bars import bar, print_bars
from eddyscope.cli.table import _percent, bands, print_study, short_names, title
from eddyscope.study.words import conclusions

Run = Any


@pytest.fixture(scope="module")
def study() -> es.Study:
    """A dominant wavelength of 6 in the first layer, none in the second."""
    layers = [planted.periodic(60, 96, 6, seed=1), planted.noise(60, 96, seed=2)]
    named = {f"model.layers.{i}.self_attn": a.astype(np.float32) for i, a in enumerate(layers)}
    return es.analyze(es.AttentionEnsemble.from_arrays(named))


def printed(study: es.Study) -> str:
    file = io.StringIO()
    print_study(study, file=file, bars=True)
    return file.getvalue()


def table_lines(study: es.Study) -> list[str]:
    """The rows of the table, without its header."""
    lines = printed(study).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("layer ")) + 1
    return lines[first : lines.index("", first)]


def test_the_command_prints_the_table(typed: Run, study: es.Study, tmp_path: Path) -> None:
    study.save(tmp_path / "out" / "study.zarr")
    for place in (tmp_path / "out", tmp_path / "out" / "study.zarr"):
        done = typed("show", place)
        assert (done.status, done.err) == (0, "")
        assert done.out == printed(study)


def test_it_fits_80_columns_without_colour(study: es.Study) -> None:
    text = printed(study)
    assert max(map(len, text.splitlines())) <= 80
    assert text.isascii()
    assert "\x1b" not in text


def test_bars_show_the_shares_of_the_study(study: es.Study) -> None:
    lines = printed(study).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("Share of the fluctuation"))
    share = study.packed(0)["octave_share"].values
    assert lines[first + 1].split() == ["0", "1-2", "3-6", "7-14", "15-30", "31-47"]
    row = lines[first + 2]
    assert row.startswith("0 ")
    width = lines[first + 1].index("1-2") - lines[first + 1].index("0") - 1
    cells = [row[8 + k * (width + 1) :][:width].strip() for k in range(share.size)]
    assert [len(cell.replace(".", "")) for cell in cells] == [round(s * width) for s in share]


def test_bars_are_blocks_and_coloured_in_a_terminal_alone(study: es.Study) -> None:
    names = short_names(study.layers)
    for terminal in (True, False):
        file = io.StringIO()
        environment = {"TERM": "xterm-256color"}
        console = Console(file=file, force_terminal=terminal, width=80, _environ=environment)
        print_bars(console, study, names)
        assert ("\x1b[34m" in file.getvalue()) == terminal
        assert file.getvalue().isascii() != terminal


@pytest.mark.parametrize(
    ("share", "plain", "blocks"),
    [
        (0.0, "", ""),
        (1.0, "####", "████"),
        (0.5, "##", "██"),
        (0.001, ".", "▏"),
        (0.53, "##", "██▏"),
        (math.nan, "-", "-"),
    ],
)
def test_a_bar_is_as_long_as_its_share(share: float, plain: str, blocks: str) -> None:
    assert bar(share, 4, blocks=False) == plain
    assert bar(share, 4, blocks=True) == blocks


def test_rows_say_what_the_summary_says(study: es.Study) -> None:
    table = study.summary()
    rows = {line.split()[0]: line for line in table_lines(study) if not line.startswith(" ")}
    assert list(rows) == ["0", "1"]
    wavelength = table.loc[0, "dominant_wavelength"]
    assert wavelength == pytest.approx(6, rel=0.02)
    assert f" {wavelength:.3g} " in rows["0"]
    assert "lags " in rows["1"]
    for row, line in zip(table.to_dict("records"), rows.values(), strict=True):
        assert f" {row['peak_octave']} " in line
        assert f" {row['beta_published']:.3g} " in line
        assert f"{row['fluctuation_level'] * 100:.2g} %" in line or f"{row['fluctuation_level'] * 100:.0f} %" in line


def test_bands_are_wavelengths_or_distances(study: es.Study) -> None:
    wave, lags = bands(study.packed(0)), bands(study.packed(1))
    assert [float(b) for b in wave] == pytest.approx(study.packed(0)["dominant_wavelength"].values, rel=0.005)
    assert lags[0].startswith("lags ")
    assert len(lags) == study.packed(1).sizes["band"]


def test_statuses_are_explained_in_words(study: es.Study) -> None:
    text = " ".join(printed(study).split())
    assert "no dominant scale: no wavelength stands out" in text
    noted = {part for row in study.summary()["status"] for part in row.split("; ")} - {"ok"}
    assert all(part in text for part in noted)


def test_columns_are_explained(study: es.Study) -> None:
    lines = printed(study).splitlines()
    header = next(line for line in lines if line.startswith("layer"))
    names = ["most at", "half by", "bands", "sink", "fluct", "beta", "H*", "PR"]
    assert all(name in header for name in names)
    assert all(any(line.startswith(name) for line in lines) for name in names)
    assert any("at most 10 %" in line for line in lines)


def test_warnings_and_failed_checks_are_repeated(study: es.Study) -> None:
    checks = [
        {"check": "causality", "layer": name, "passed": False, "value": value, "tolerance": 1e-5, "note": "why"}
        for name, value in zip(study.layers, (0.25, 0.5), strict=True)
    ]
    passed = {"check": "shape", "layer": study.layers[0], "passed": True, "value": 1.0, "tolerance": 1.0, "note": ""}
    marked = es.Study(
        study.data,
        {
            "checks": [*checks, passed],
            "warnings": [{"slug": "few-documents", "message": "12 documents instead of 150. [few-documents]"}],
            "layers_without_attention": {"model.layers.2": "MambaMixer"},
        },
    )
    text = " ".join(printed(marked).split())
    assert "Failed checks: these numbers are not to be trusted" in text
    assert "causality in layer 0, 1: 0.5, tolerance 1e-05 (why)" in text
    assert "shape" not in text
    assert "Warnings - 12 documents instead of 150. [few-documents]" in text
    assert "Layers without attention to show: model.layers.2." in text
    assert "Failed checks" not in printed(study)
    assert "Warnings" not in printed(study)


def test_each_head_has_a_row() -> None:
    attention = np.stack([planted.noise(12, 16, seed=s) for s in range(3)], axis=1)[:, None].astype(np.float32)
    made = es.analyze(es.AttentionEnsemble.from_arrays(attention), intervals=False)
    assert "each head" in printed(made)
    assert [line.split()[:2] for line in table_lines(made) if line.startswith("layer0")] == [
        ["layer0", "0"],
        ["layer0", "1"],
        ["layer0", "2"],
    ]


def test_names_are_shortened_by_what_they_share() -> None:
    assert list(short_names(["model.layers.0.self_attn", "model.layers.10.self_attn"]).values()) == ["0", "10"]
    assert list(short_names(["layer0", "layer1"]).values()) == ["layer0", "layer1"]
    assert list(short_names(["encoder.layer.0.attention.self"]).values()) == ["encoder.layer.0.attention.self"]
    assert list(short_names(["enc.0.attn", "dec.0.attn", "dec.0.cross"]).values()) == [
        "enc.0.attn",
        "dec.0.attn",
        "dec.0.cross",
    ]
    assert list(short_names(["h.0.a.b", "h.1.a.b"]).values()) == ["0", "1"]
    assert list(short_names(["a", "a.b"]).values()) == ["a", "a.b"]


def test_the_full_names_are_told(study: es.Study) -> None:
    assert "Layers are model.layers.*.self_attn." in printed(study)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("owner/model", "owner/model"),
        ("/a/b/model", "model"),
        ("./model", "model"),
        ("a/b/model", "model"),
        ("", "arrays"),
    ],
)
def test_the_title_names_the_model(study: es.Study, name: str, shown: str) -> None:
    titled = title(es.Study(study.data, {"model": {"name": name}}))
    assert titled == f"{shown}: 2 layers, 60 documents of 96 tokens, causal, head mean"


def test_markup_in_names_is_text() -> None:
    attention = planted.noise(12, 16).astype(np.float32)
    named = {"[red]x[bold]": attention, "<b>\u05d0": attention}
    text = printed(es.analyze(es.AttentionEnsemble.from_arrays(named), intervals=False))
    assert "[red]x[bold]" in text
    assert "<b>\u05d0" in text


def test_one_document_is_not_several() -> None:
    alone = es.analyze(es.AttentionEnsemble.from_arrays(planted.noise(1, 16, seed=0)[:, None]), intervals=False)
    assert "1 layer, 1 document of 16 tokens" in title(alone)
    assert "There is one document, and nothing to compare it with." in printed(alone)


def test_shares_have_two_digits_and_no_exponent() -> None:
    shown = {0.0: "0 %", 1.5e-13: "< 0.01 %", 1e-4: "0.01 %", 0.0372: "3.7 %", 0.094: "9.4 %", 0.5: "50 %"}
    assert {value: _percent(value) for value in shown} == shown
    assert _percent(float("nan")) == "-"


def test_a_model_that_sees_later_tokens_is_said_to(study: es.Study) -> None:
    checks = [
        {"check": "looks ahead", "layer": name, "passed": True, "value": value, "tolerance": 1.0, "note": ""}
        for name, value in zip(study.layers, (0.01, 0.0234), strict=True)
    ]
    text = " ".join(printed(es.Study(study.data, {"checks": checks})).split())
    assert "Not causal, as known of this kind of model" in text
    assert "attention of earlier tokens moves by up to 0.023 when later tokens change." in text
    assert "Not causal" not in printed(study)


def test_conclusions_have_no_exponents(study: es.Study) -> None:
    data = study.packed(study.layers[0]).copy()
    for name, value in (("", 1223.4), ("_low", 538.2), ("_high", 2784.0)):
        data[f"field_participation_ratio{name}"] = value
    data["field_participation_ratio_status"], data["median_lag"] = "ok", 1.0
    said = " ".join(conclusions(data))
    assert "1223 (538 to 2784)" in said
    assert "within 1 token." in said or "within 1 token;" in said
