"""Panels for notebooks, what a notebook shows, figures for papers, tokens and chance."""

from __future__ import annotations

import warnings

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from test_report_browser import documents_of

import eddyscope as es
import planted
from eddyscope.errors import InputError, UsageError
from eddyscope.lagfield import LagField
from eddyscope.report import write_paper_figures
from eddyscope.report.pagedata.budget import MAP_BYTES, plan
from eddyscope.report.pagedata.coincidence import Coincidence, coincidences
from eddyscope.report.pagedata.encode import few_ranks, linear_codes, number, pooled, signed_codes
from eddyscope.report.pagedata.texts import (
    LINE_BREAK,
    PUNCTUATION,
    SENTENCE_END,
    WORD_END,
    WORD_START,
    Texts,
    character_kinds,
)
from eddyscope.report.style import paper_style

PANELS = ("scalogram", "modes", "profiles", "spectrum", "octaves", "coherence")


# --- study.plot ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("panel", PANELS)
def test_each_panel_draws_into_the_axes_it_is_given(panel, causal):
    axes = Figure().subplots()
    assert getattr(causal.plot, panel)(layer=1, ax=axes) is axes
    assert axes.has_data()
    assert axes.get_title() == "layer 1"
    assert axes.get_xlabel()


def test_a_panel_makes_a_figure_of_its_own(causal):
    with mpl.rc_context({"backend": "agg"}):
        import matplotlib.pyplot as plt

        axes = causal.plot.scalogram(layer=0)
        plt.close(axes.figure)


def test_panels_hold_the_numbers_of_the_study(causal):
    axes = Figure().subplots()
    causal.plot.octaves(layer=0, ax=axes)
    heights = [bar.get_height() for bar in axes.patches]
    np.testing.assert_allclose(heights, causal.packed(0)["octave_density"].values)
    axes = Figure().subplots()
    causal.plot.modes(layer=0, mode=2, band=0, ax=axes)
    np.testing.assert_allclose(axes.images[0].get_array(), causal.layer(0)["modes"].values[0, 1])


def test_heads_layers_and_modes_that_are_not_there_are_named(by_head, causal):
    with pytest.raises(InputError, match="and a panel shows one"):
        by_head.plot.scalogram(layer=0)
    assert by_head.plot.spectrum(layer=0, head=1, ax=Figure().subplots()).get_title() == "layer 0, head 1"
    with pytest.raises(InputError, match="It has modes 1 to 8"):
        causal.plot.modes(layer=0, mode=9, ax=Figure().subplots())
    with pytest.raises(InputError, match="Band 7 is not in layer 0"):
        causal.plot.modes(layer=0, band=7, ax=Figure().subplots())


# --- notebooks -------------------------------------------------------------------------------------------------------


def test_a_study_shows_its_answer_and_its_table(any_study):
    shown = any_study._repr_html_()
    assert shown.startswith("<div>")
    assert shown.count("<tr>") >= 2
    assert "<p>" in shown


def test_a_field_shows_its_size_and_where_its_weight_is():
    field = LagField.from_dense(planted.impulse(5, 16), causal=True)
    shown = field._repr_html_()
    assert "16 × 16" in shown
    mean = field.at_lag(0).mean()
    assert f"<th>mean weight at 0</th><td>{mean:.3g}</td>" in shown


# --- figures for papers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pod", ["exact", "randomized"])
def test_figures_for_papers_say_that_a_pod_is_approximate(pod, tmp_path):
    ensemble = es.AttentionEnsemble.from_arrays(planted.bump(10, 16, 5.0, 2.0)[:, None])
    study = es.analyze(ensemble, pod=pod, intervals=False)
    names = ["eigenvalue_spectra", "lag_energy"]
    write_paper_figures(study, tmp_path, formats=["svg"], names=names, widths=["one"])
    with_words = [name for name in names if "POD approximate" in (tmp_path / f"{name}-one.svg").read_text()]
    assert with_words == (["eigenvalue_spectra"] if pod == "randomized" else [])


def test_figures_for_papers_have_the_widths_of_columns(causal, tmp_path):
    for path in write_paper_figures(causal, tmp_path, formats=["png"], names=["lag_energy", "modes"]):
        width = {"one": 3.35, "two": 7.0}[path.stem.rpartition("-")[2]]
        with Image.open(path) as image:
            assert image.width == pytest.approx(300 * width, abs=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two_sided_with_nulls", "by_head", "partly_still", "on_the_sink", "one_document"])
def test_any_study_has_figures_for_papers(name, request, tmp_path):
    study = request.getfixturevalue(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(write_paper_figures(study, tmp_path, formats=["png"], widths=["one"])) == 7


def test_the_same_study_gives_the_same_paper(causal, tmp_path):
    first = write_paper_figures(causal, tmp_path / "a", names=["lag_energy"], widths=["one"])
    second = write_paper_figures(causal, tmp_path / "b", names=["lag_energy"], widths=["one"])
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]


def test_colours_for_papers_go_from_dark_to_light():
    """Each step up is lighter in grey too, so that nothing is lost in a black and white print."""
    from eddyscope.report.style import DIVERGING, SEQUENTIAL, colormap

    with paper_style():
        for name in (DIVERGING, SEQUENTIAL):
            grey = colormap(name)(np.linspace(0, 1, 64))[:, :3] @ (0.2126, 0.7152, 0.0722)
            assert (np.diff(grey) > 0).all()
    assert colormap(DIVERGING).name == DIVERGING


def test_unknown_widths_are_refused(causal, tmp_path):
    with pytest.raises(UsageError, match="There is no width 'three'"):
        write_paper_figures(causal, tmp_path, widths=["three"])


# --- codes and the budget --------------------------------------------------------------------------------------------


def test_codes_keep_values_within_a_step():
    values = np.random.default_rng(0).normal(size=1000)
    limit = float(np.abs(values).max())
    codes = signed_codes(values, limit).astype(float)
    back = np.sign(codes - 128) * ((codes - 128) / 127) ** 2 * limit
    np.testing.assert_allclose(np.sqrt(np.abs(back)), np.sqrt(np.abs(values)), atol=0.01)
    assert (np.sign(back) * np.sign(values) >= 0).all()
    codes = linear_codes(np.array([0.0, 0.5, 1.0, np.nan]), 0, 1)
    assert codes.tolist() == [1, 128, 255, 0]


def test_a_pattern_at_one_distance_survives_shrinking():
    dense = np.zeros((100, 100))
    dense[np.arange(1, 100), np.arange(99)] = -3.0
    small = pooled(dense, 32)
    assert small.shape == (25, 25)
    assert (np.diag(small) == -3).all()
    assert np.isnan(pooled(np.full((9, 9), np.nan), 3)).all()


def test_numbers_are_short_and_json_has_no_nan():
    assert [number(v) for v in (1.23456, 3.0, np.nan, np.inf, 0.0)] == [1.235, 3, None, "inf", 0]
    assert few_ranks(5).tolist() == [0, 1, 2, 3, 4]
    assert few_ranks(1599).max() == 1598
    assert few_ranks(1599).size <= 64


@pytest.mark.parametrize(("views", "queries"), [(6, 256), (48, 256), (270, 256), (270, 1024), (30, 2048), (1000, 512)])
def test_a_page_stays_within_its_budget(views, queries):
    shipping = plan(views, bands=4, modes=8, queries=queries, causal=True)
    cells = min(shipping.side, queries) ** 2 / 2 * 4 / 3
    taken = views * (shipping.bands + 1) * shipping.modes * cells
    assert taken <= MAP_BYTES or shipping.side == 48
    assert bool(shipping.note) == (shipping.modes < 8 or shipping.bands < 4 or shipping.side < queries)


# --- tokens ----------------------------------------------------------------------------------------------------------


def test_words_lines_and_sentences_are_found():
    text = "ut it.\nDon't go!\" A\ne\u0301t"
    kinds = character_kinds(text)

    def where(kind):
        return [i for i, k in enumerate(kinds) if k & kind]

    assert where(WORD_START) == [3, 7, 13, 18, 20]  # the first word may have begun before the text
    assert where(WORD_END) == [1, 4, 11, 14, 18]  # and the last one may go on
    assert where(LINE_BREAK) == [6, 19]
    assert where(PUNCTUATION) == [5, 15, 16]
    assert where(SENTENCE_END) == [5, 15]


def test_a_token_has_the_kinds_of_all_its_characters():
    texts = Texts(documents_of(["ab. c\n"], 6))
    shown = texts.token_text(0)
    assert shown.tokens == list("ab. c\n")
    assert [k & WORD_END for k in shown.kinds] == [0, WORD_END, 0, 0, WORD_END, 0]


def test_attention_to_line_breaks_is_beyond_chance_and_noise_is_not():
    """In a few documents all queries look at the line break, which stands somewhere else in each document."""
    rng = np.random.default_rng(0)
    length, count = 48, 32
    breaks = rng.integers(4, 12, count)
    texts = ["".join("\n" if j == breaks[s] else "abc "[(j + s) % 4] for j in range(length)) for s in range(count)]
    attention = planted.noise(count, length, seed=1, strength=0.05)
    for document in range(6):
        attention[document, 12:] *= 0.3
        attention[document, 12:, breaks[document]] += 0.7
    study = es.analyze(
        es.AttentionEnsemble.from_arrays(attention[:, None], causal=True, documents=documents_of(texts, length)),
        intervals=False,
    )
    found = {(c.of, c.kind): c for c in coincidences(study.packed(0), "field_", {}, 0, Texts(study.documents))}
    assert found["keys", "line breaks"].verdict == "more"
    assert found["keys", "line breaks"].share > 0.5
    assert found["queries", "punctuation"] == Coincidence("queries", "punctuation", 0.0, 0.0, 0.0, 0.0)


def test_there_is_no_line_without_texts(causal):
    assert causal.documents is None
    few = documents_of([f"{k} abcdef" for k in range(3)], 8)
    attention = planted.noise(3, 8, seed=1)[:, None]
    study = es.analyze(es.AttentionEnsemble.from_arrays(attention, causal=True, documents=few))
    assert coincidences(study.packed(0), "field_", {}, 0, Texts(few)) == []
