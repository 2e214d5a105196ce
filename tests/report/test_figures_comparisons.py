"""Figures of comparisons show the numbers of their tables."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import LogNorm

from comparison_help import bumps, read
from eddyscope.comparison.compare import compare
from eddyscope.report.comparisons import draw_comparison, draw_octave_differences
from eddyscope.report.figures import save_figure

__all__ = ["bumps", "read"]


@pytest.fixture
def pair(bumps):
    return compare(bumps(4, 4), bumps(4, 14, seed=1), labels=["near", "far"])


def panel(figure, title):
    return next(axes for axes in figure.axes if axes.get_title() == title)


def test_lines_are_the_values_by_layer(pair):
    axes = panel(draw_comparison(pair), "participation ratio")
    assert axes.get_yscale() == "log"
    for line, label in zip(axes.get_lines(), pair.labels, strict=True):
        table = pair.values[(pair.values["measure"] == "participation_ratio") & (pair.values["subject"] == label)]
        np.testing.assert_allclose(line.get_ydata(), table["value"])


def test_a_series_has_a_line_a_layer_over_the_steps(bumps):
    found = compare(bumps(14, 4), bumps(4, 4, seed=1), bumps(4, 4, seed=2), over=[0, 100, 400])
    axes = next(a for a in draw_comparison(found).axes if a.get_title().startswith("mean octave"))
    assert len(axes.get_lines()) == 2
    for layer, line in enumerate(axes.get_lines()):
        table = found.values[(found.values["measure"] == "mean_octave") & (found.values["layer"] == layer)]
        np.testing.assert_allclose(line.get_ydata(), table["value"])
        assert line.get_xdata().tolist() == [0, 100, 400]


def test_labels_of_neighbouring_steps_do_not_run_into_each_other(bumps):
    found = compare(*(bumps(4, 4, seed=s) for s in range(5)), over=[0, 100, 400, 1400, 1500])
    axes = next(a for a in draw_comparison(found).axes if a.get_title().startswith("mean octave"))
    assert axes.get_xticks().tolist() == [0, 100, 400, 1500]


def test_octaves_hold_the_differences_and_bold_those_that_stand(pair):
    figure = draw_octave_differences(pair)
    (axes,) = [a for a in figure.axes if a.get_title() == "far"]
    (image,) = axes.get_images()
    table = pair.octaves[pair.octaves["subject"] == "far"].pivot(index="layer", columns="octave", values="difference")
    np.testing.assert_allclose(image.get_array(), table)
    assert not isinstance(image.norm, LogNorm) and image.norm.vcenter == 0
    chance = pair.octaves[pair.octaves["subject"] == "far"]["p_holm"].to_numpy()
    bold = [text.get_fontweight() == "bold" for text in axes.texts]
    assert bold == (chance < 0.05).tolist()
    assert any(bold) and not all(bold)


def test_the_same_comparison_gives_the_same_bytes(pair, tmp_path):
    for draw in (draw_comparison, draw_octave_differences):
        for kind in ("png", "pdf"):
            first, second = (
                save_figure(draw(pair), tmp_path / f"{draw.__name__}-{k}.{kind}").read_bytes() for k in range(2)
            )
            assert first == second
