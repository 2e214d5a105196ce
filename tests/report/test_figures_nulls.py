"""Null models and intervals are drawn beside the trained values, where the study has them."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex

from eddyscope.report import draw_coherence, draw_complexity, draw_eigenvalue_spectra, draw_lag_energy
from eddyscope.report.complexity import series_values
from eddyscope.report.maps import chance_level
from eddyscope.report.nulls import NULL_STYLES, null_kinds, plot_interval
from eddyscope.report.style import BLUE, GREY, INK, ORANGE
from eddyscope.report.views import views

TWIN, SHUFFLED = NULL_STYLES["twin"].colour, NULL_STYLES["shuffled"].colour


def coloured(axes, colour):
    """Lines in data coordinates of this colour."""
    lines = [line for line in axes.lines if line.get_transform() == axes.transData]
    return [line for line in lines if to_hex(line.get_color()) == colour]


def bars(axes, colour):
    """Ends of the bars of this colour by place, as {x: (low, high)}."""
    found = [c for c in axes.collections if isinstance(c, LineCollection) and to_hex(c.get_color()[0]) == colour]
    return {round(float(s[0, 0]), 6): (s[0, 1], s[1, 1]) for c in found for s in c.get_segments()}


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize(("panel", "column"), [(0, "h_10"), (1, "participation_ratio"), (2, "t_spec_published")])
def test_complexity_draws_null_models_as_grey_lines_of_the_summary(with_nulls, panel, column):
    figure = draw_complexity(with_nulls)
    summary = with_nulls.summary()
    for kind, colour in (("twin", TWIN), ("shuffled", SHUFFLED)):
        (line,) = coloured(figure.axes[panel], colour)
        np.testing.assert_array_equal(line.get_xdata(), [0, 1, 2])
        np.testing.assert_allclose(line.get_ydata(), summary[f"{kind}_{column}"])
        low, high = figure.axes[panel].get_ylim()
        assert low < min(line.get_ydata()) and max(line.get_ydata()) < high
    assert legend_of(figure)[3:] == ["untrained twin", "shuffled documents"]


def test_heads_have_a_grey_mark_each(heads_with_nulls):
    axes = draw_complexity(heads_with_nulls).axes[1]
    for kind, colour, marker in (("twin", TWIN, "_"), ("shuffled", SHUFFLED, ".")):
        (line,) = coloured(axes, colour)
        assert line.get_marker() == marker and line.get_linestyle() == "None"
        np.testing.assert_allclose(line.get_ydata(), heads_with_nulls.summary()[f"{kind}_participation_ratio"])


@pytest.mark.parametrize(("panel", "measure"), [(1, "participation_ratio"), (2, "t_spec_published")])
@pytest.mark.parametrize(("prefix", "colour", "shift"), [("field_", INK, 0), ("", BLUE, -0.12), ("lag_", ORANGE, 0.12)])
def test_bars_are_the_intervals(causal, panel, measure, prefix, colour, shift):
    axes = draw_complexity(causal).axes[panel]
    drawn, expected = bars(axes, colour), {}
    for index, name in enumerate(causal.layers):
        ends = [np.ravel(causal.packed(name)[f"{prefix}{measure}_{end}"])[0] for end in ("low", "high")]
        if np.isfinite(ends).all():
            expected[round(index + shift, 6)] = np.clip(ends, *axes.get_ylim())
    assert drawn.keys() == expected.keys() and expected
    for x, ends in expected.items():
        np.testing.assert_allclose(drawn[x], ends)


def test_an_effective_rank_without_an_upper_bound_has_an_arrow_at_the_top(causal):
    axes = draw_complexity(causal).axes[0]
    layers = [causal.packed(name) for name in causal.layers]
    ends = np.array([[float(d[f"field_effective_rank_{e}"][0]) for e in ("low", "high")] for d in layers])
    assert np.isinf(ends[:, 1]).any()
    top = axes.get_ylim()[1]
    drawn = bars(axes, INK)
    for index, (low, high) in enumerate(ends):
        np.testing.assert_allclose(drawn[index], (low, min(high, top)))
    arrows = [c for c in axes.collections if isinstance(c, PathCollection) and to_hex(c.get_facecolor()[0]) == INK]
    places = np.concatenate([c.get_offsets() for c in arrows])
    np.testing.assert_array_equal(places, [(i, top) for i in np.flatnonzero(ends[:, 1] > top)])


def test_bars_leave_the_limits_of_the_axes_alone():
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    axes.set_ylim(1, 10)
    ends = np.array([[2.0, 0.5, np.nan, 20.0], [3.0, np.inf, np.nan, 30.0]])
    plot_interval(np.arange(4.0), ends, axes, INK)
    assert axes.get_ylim() == (1, 10)
    assert bars(axes, INK) == {0.0: (2, 3), 1.0: (1, 10)}


def test_shares_have_intervals_too(causal):
    drawn = bars(draw_complexity(causal).axes[3], GREY)
    data = causal.packed(0)
    np.testing.assert_allclose(drawn[0.0], (data["fluctuation_level_low"], data["fluctuation_level_high"]))


def test_spectra_of_null_models_are_grey_lines_within_the_axes(with_nulls):
    figure = draw_eigenvalue_spectra(with_nulls)
    for axes, name in zip(figure.axes, with_nulls.layers, strict=True):
        expected = with_nulls.packed(name)["null_eigenvalues"].values
        lines = coloured(axes, TWIN) + coloured(axes, SHUFFLED)
        assert len(lines) == len(expected) == 3
        for line, eigenvalues in zip(lines, expected, strict=True):
            kept = eigenvalues[eigenvalues > 0]
            np.testing.assert_array_equal(line.get_ydata(), kept)
            assert axes.get_ylim()[0] < kept.min() and kept.max() < axes.get_ylim()[1]
        assert [line.get_linestyle() for line in lines] == ["-", "-", lines[2].get_linestyle()]
        assert lines[2].get_linestyle() != "-"
    assert legend_of(figure)[-2:] == ["untrained twin", "shuffled documents"]


def test_the_third_panel_of_lag_energy_is_the_density_of_the_twin_on_the_same_colours(with_nulls):
    figure = draw_lag_energy(with_nulls)
    _, density, twin = [axes.images[0] for axes in figure.axes if axes.get_xlabel() == "distance, tokens"]
    expected = [with_nulls.packed(n)["null_octave_density"].values[:2].mean(axis=0) for n in with_nulls.layers]
    np.testing.assert_allclose(twin.get_array(), np.clip(np.log2(expected), -3, 3))
    assert twin.get_clim() == density.get_clim() and twin.get_cmap().name == density.get_cmap().name
    assert "density of the untrained twin" in [text.get_text() for text in figure.texts]


def test_the_twin_of_a_two_sided_layer_has_both_sides(two_sided_with_nulls):
    panels = [axes for axes in draw_lag_energy(two_sided_with_nulls).axes if axes.get_xlabel()]
    assert [axes.get_title() for axes in panels] == ["ahead", "back"] * 3
    for axes in panels[4:]:
        expected = [
            two_sided_with_nulls.packed(n)["null_octave_density"].sel(side=axes.get_title()).values.mean(axis=0)
            for n in two_sided_with_nulls.layers
        ]
        np.testing.assert_allclose(axes.images[0].get_array(), np.clip(np.log2(expected), -3, 3))


def test_chance_is_the_level_of_independent_phases_beyond_four_scales(causal):
    figure = draw_coherence(causal)
    levels = []
    for axes, view in zip(figure.axes, views(causal).shown, strict=False):
        data = causal.layer(view.layer)
        scale = float(data["coherence_scale"][0])
        far = [
            float(data["coherence_chance"][0, query, key])
            for query in range(0, 96, 5)
            for key in range(query + 1)
            if query - key > 4 * scale
        ]
        levels.append(chance_level(view))
        assert levels[-1] == pytest.approx(np.sqrt(np.nanmean(far)), rel=0.05)
        assert axes.get_title().endswith(f"chance {levels[-1]:.2g}")
    level = float(np.median(levels))
    bar = figure.axes[-1]
    assert any(np.allclose(line.get_ydata(), level) for line in bar.lines)
    assert any(f"(chance: about {level:.2g})" in text.get_text() for text in figure.texts)


def test_without_intervals_and_null_models_nothing_is_added(by_head):
    shown = views(by_head).shown
    assert null_kinds(shown) == []
    complexity = draw_complexity(by_head)
    assert not any(axes.collections for axes in complexity.axes)
    assert len(legend_of(complexity)) == 3
    said = " ".join(text.get_text() for text in complexity.texts)
    assert "Bars" not in said and "null models" not in said
    values, _ = series_values(shown, "field_participation_ratio")
    assert np.isfinite(values).all()
    assert not [line for axes in draw_eigenvalue_spectra(by_head).axes for line in coloured(axes, TWIN)]
    assert len([axes for axes in draw_lag_energy(by_head).axes if axes.get_xlabel()]) == 2
    coherence = draw_coherence(by_head)
    assert any("(chance: about 1/√N = 0.29)" in text.get_text() for text in coherence.texts)
    assert "chance" not in coherence.axes[0].get_title()
