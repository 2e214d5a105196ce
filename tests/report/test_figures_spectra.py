"""Eigenvalue spectra and complexity show the study's numbers and say which of them can be read."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from eddyscope.report import draw_complexity, draw_eigenvalue_spectra, plot_eigenvalue_spectra, view_of
from eddyscope.report.complexity import series_values
from eddyscope.report.style import BLUE, INK, ORANGE, VERMILION
from eddyscope.report.views import views


def test_lines_are_the_eigenvalues(causal):
    for axes, name in zip(draw_eigenvalue_spectra(causal).axes, causal.layers, strict=True):
        data = causal.packed(name)
        expected = [data["field_eigenvalues"].values, *data["eigenvalues"].values]
        lines = [line for line in axes.lines if line.get_linestyle() == "-"]
        assert len(lines) == len(expected)
        for line, eigenvalues in zip(lines, expected, strict=True):
            np.testing.assert_array_equal(line.get_ydata(), eigenvalues[eigenvalues > 0])
            np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 40))


def test_the_dashed_line_is_the_published_fit_over_its_ranks(causal):
    for axes, name in zip(draw_eigenvalue_spectra(causal).axes, causal.layers, strict=True):
        data = causal.packed(name)
        fits = [line for line in axes.lines if to_hex(line.get_color()) == VERMILION]
        assert len(fits) == 2
        for line, measured, prefix in zip(fits, (data, data.isel(band=0)), ("field_", ""), strict=True):
            np.testing.assert_array_equal(line.get_xdata(), [1, 30])
            slope, intercept = np.polyfit(
                np.log(np.arange(1, 31)), np.log(measured[f"{prefix}eigenvalues"].values[:30]), 1
            )
            np.testing.assert_allclose(line.get_ydata(), np.exp(intercept) * np.array([1, 30]) ** slope, rtol=1e-6)


def test_panels_share_their_axes(causal):
    panels = draw_eigenvalue_spectra(causal).axes
    assert len({axes.get_xlim() for axes in panels}) == 1 and len({axes.get_ylim() for axes in panels}) == 1
    assert {(axes.get_xscale(), axes.get_yscale()) for axes in panels} == {("log", "log")}
    largest = max(float(causal.packed(name)["field_eigenvalues"].max()) for name in causal.layers)
    assert panels[0].get_ylim()[1] > largest


def test_beta_and_t_spec_are_written_with_their_status(causal, two_documents):
    data = causal.packed(2)
    first = draw_eigenvalue_spectra(causal).axes[2].texts[0].get_text()
    beta = float(data["field_beta_published"])
    assert float(first.split()[1]) == pytest.approx(beta, rel=0.01)
    assert float(first.split()[3]) == pytest.approx(1 / beta, rel=0.01)
    assert first.endswith("*") == (str(data["field_beta_published_status"].values) == "not a power law")
    few = [text.get_text() for text in draw_eigenvalue_spectra(two_documents).axes[0].texts]
    assert few == ["too few modes", "too few modes"]


def test_many_bands_have_a_colour_each(octaves):
    lines = [line for line in draw_eigenvalue_spectra(octaves).axes[0].lines if line.get_linestyle() == "-"]
    assert len(lines) == 1 + octaves.packed(0).sizes["band"]
    assert len({to_hex(line.get_color()) for line in lines}) == len(lines)


def test_the_caption_explains_the_sampling_floor(causal):
    said = " ".join(text.get_text() for text in draw_eigenvalue_spectra(causal).texts)
    assert "with N = 40 each eigenvalue also carries about 1/N of all the energy" in said


def test_a_still_layer_has_no_spectrum(partly_still):
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    assert plot_eigenvalue_spectra(view_of(partly_still, 1), axes) == []
    assert [text.get_text() for text in axes.texts] == ["no fluctuation"]


@pytest.mark.parametrize(
    ("panel", "measure"), [(0, "effective_rank"), (1, "participation_ratio"), (2, "t_spec_published")]
)
@pytest.mark.parametrize(("prefix", "colour", "marker"), [("field_", INK, "o"), ("", BLUE, "s"), ("lag_", ORANGE, "^")])
def test_points_are_the_measures_filled_where_they_can_be_read(causal, panel, measure, prefix, colour, marker):
    axes = draw_complexity(causal).axes[panel]
    shown = views(causal).shown
    values, sure = series_values(shown, f"{prefix}{measure}")
    for index, name in enumerate(causal.layers):
        data = causal.packed(name)
        assert values[index] == float(np.ravel(data[f"{prefix}{measure}"])[0])
        assert sure[index] == (str(np.ravel(data[f"{prefix}{measure}_status"])[0]) == "ok")
    filled, hollow = [line for line in axes.lines if line.get_marker() == marker]
    assert to_hex(filled.get_color()) == colour
    np.testing.assert_array_equal(filled.get_ydata(), values[sure])
    np.testing.assert_array_equal(hollow.get_ydata(), values[~sure])
    assert to_hex(filled.get_markerfacecolor()) == colour and hollow.get_markerfacecolor() == "white"


def test_noise_is_hollow_and_a_rank_two_layer_is_not(causal):
    _, sure = series_values(views(causal).shown, "field_effective_rank")
    assert not sure[2]


def test_what_has_no_number_is_crossed_at_the_foot(one_document):
    ranks = draw_complexity(one_document).axes[0]
    crosses = [line for line in ranks.lines if line.get_marker() == "x"]
    assert sum(line.get_xdata().size for line in crosses) == 3 * 3
    assert not any(line.get_xdata().size for line in ranks.lines if line.get_marker() in "os^")


def test_the_limits_of_the_effective_rank_are_drawn(causal):
    ranks = draw_complexity(causal).axes[0]
    heights = [
        float(line.get_ydata()[0]) for line in ranks.lines if line.get_transform() == ranks.get_yaxis_transform()
    ]
    assert sorted(heights) == [19.5, 39.0]


def test_shares_are_sink_mass_and_level_of_fluctuation(causal):
    shares = draw_complexity(causal).axes[3]
    summary = causal.summary()
    filled = {
        line.get_marker(): line.get_ydata()
        for line in shares.lines
        if line.get_xdata().size and line.get_marker() in "Dv"
    }
    np.testing.assert_array_equal(filled["D"], summary["sink_mass"])
    np.testing.assert_array_equal(filled["v"], summary["fluctuation_level"])
    assert shares.get_ylim() == (0, 1)
