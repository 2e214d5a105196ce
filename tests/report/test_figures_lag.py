"""Lag energy and scalograms show the study's numbers, on scales that can be compared."""

import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from eddyscope.report import draw_lag_energy, draw_scalograms, plot_scalogram, view_of
from eddyscope.report.views import views


def written(axes):
    return [text.get_text() for text in axes.texts]


def meshes(figure):
    found = {}
    for axes in figure.axes:
        for collection in axes.collections:
            if isinstance(collection, QuadMesh) and axes.get_title():
                found[axes.get_title().split(" · ")[0]] = collection
    return found


def test_lag_energy_shows_shares_and_densities_of_every_layer(causal):
    share, density, *_ = draw_lag_energy(causal).axes
    layers = [causal.packed(name) for name in causal.layers]
    np.testing.assert_array_equal(share.images[0].get_array(), [d["octave_share"].values for d in layers])
    doublings = np.log2([d["octave_density"].values for d in layers])
    np.testing.assert_allclose(density.images[0].get_array(), np.clip(doublings, -3, 3))


def test_octaves_are_labelled_as_ranges_of_distances(causal):
    share = draw_lag_energy(causal).axes[0]
    assert [t.get_text() for t in share.get_xticklabels()] == ["0", "1-2", "3-6", "7-14", "15-30", "31-47"]
    assert [t.get_text() for t in share.get_yticklabels()] == ["0", "1", "2"]


def test_a_flat_density_has_the_middle_colour_and_twice_is_as_strong_as_half(causal):
    image = draw_lag_energy(causal).axes[1].images[0]
    assert image.norm(0.0) == 0.5
    assert image.norm(1.0) - 0.5 == pytest.approx(0.5 - image.norm(-1.0))


def test_two_sided_layers_have_the_keys_ahead_on_the_left_and_back_on_the_right(two_sided):
    ahead, back, *_ = draw_lag_energy(two_sided).axes
    assert (ahead.get_title(), back.get_title()) == ("ahead", "back")
    assert ahead.get_position().x1 < back.get_position().x0
    assert ahead.xaxis_inverted() and not back.xaxis_inverted()
    for axes in (ahead, back):
        expected = [
            two_sided.packed(name)["octave_share"].sel(side=axes.get_title()).values for name in two_sided.layers
        ]
        np.testing.assert_array_equal(axes.images[0].get_array(), expected)
    assert ahead.images[0].get_clim() == back.images[0].get_clim()


def test_numbers_in_cells_are_the_shares_in_percent(causal):
    share = draw_lag_energy(causal).axes[0]
    values = causal.packed(1)["octave_share"].values
    assert [int(text) for text in written(share)[6:12]] == [round(100 * v) for v in values]


def test_scalograms_show_the_fluctuation_of_each_layer(causal):
    found = meshes(draw_scalograms(causal))
    for index, name in enumerate(causal.layers):
        energy = causal.packed(name)["scalogram"].sel(part="fluctuation").transpose("scale", "lag").values
        np.testing.assert_array_equal(found[f"layer {index}"].get_array(), energy[:, :48])


def test_scalograms_share_one_logarithmic_colour_scale(causal):
    norms = {id(mesh.norm) for mesh in meshes(draw_scalograms(causal)).values()}
    assert len(norms) == 1
    norm = next(iter(meshes(draw_scalograms(causal)).values())).norm
    assert isinstance(norm, LogNorm)
    largest = max(float(causal.packed(n)["scalogram"].sel(part="fluctuation").max()) for n in causal.layers)
    assert norm.vmax == largest and norm.vmin >= largest * 1e-4


def test_scalograms_share_their_axes(causal):
    panels = [axes for axes in draw_scalograms(causal).axes if axes.get_title()]
    assert len({axes.get_xlim() for axes in panels}) == 1 and len({axes.get_ylim() for axes in panels}) == 1
    assert {axes.get_yscale() for axes in panels} == {"log"}
    low, high = panels[0].get_ylim()
    wavelengths = causal.packed(0)["wavelength"].values
    assert low < wavelengths.min() and high > wavelengths.max()


def test_the_planted_wavelength_is_marked_where_it_is_loudest(causal):
    axes = draw_scalograms(causal).axes[0]
    data = causal.packed(0)
    marked = [line for line in axes.lines if line.get_marker() == "o"]
    assert len(marked) == int(np.isfinite(data["dominant_wavelength"]).sum()) > 0
    (x,), (y,) = marked[0].get_data()
    assert (x, y) == (float(data["dominant_lag"][0]), float(data["dominant_wavelength"][0]))
    assert y == pytest.approx(5, rel=0.05)
    assert axes.get_title() == f"layer 0 · wavelength {y:.2f}"


def test_a_layer_without_a_dominant_wavelength_has_no_mark_and_says_so(causal):
    axes = draw_scalograms(causal).axes[2]
    assert axes.get_title() == "layer 2 · no dominant"
    assert not [line for line in axes.lines if line.get_marker() == "o"]


def test_what_is_hatched_lies_outside_the_cone(causal):
    axes = draw_scalograms(causal).axes[0]
    data = causal.packed(0)
    paths = [path for c in axes.collections if not isinstance(c, QuadMesh) for path in c.get_paths()]
    for scale in range(data.sizes["scale"]):
        period = float(data["wavelength"][scale])
        low, high = float(data["cone_low"][scale]), float(data["cone_high"][scale])
        for lag in np.arange(0.0, 47.5, 0.5):
            if min(abs(lag - low), abs(lag - high)) < 0.5:
                continue
            hatched = any(path.contains_point((lag, period)) for path in paths)
            assert hatched == (lag < low or lag > high), (lag, period)


def test_edge_affected_scales_lie_above_the_dashed_line(causal):
    axes = draw_scalograms(causal).axes[0]
    data = causal.packed(0)
    affected = data["wavelength"].values[data["scale_status"].values == "edge-affected"]
    clear = data["wavelength"].values[data["scale_status"].values == "ok"]
    dashed = {float(line.get_ydata()[0]) for line in axes.lines if line.get_linestyle() == "--"}
    assert len(dashed) == 1
    assert clear.max() < dashed.pop() < affected.min()


def test_scales_that_nyquist_cuts_lie_below_the_dotted_line(published):
    axes = draw_scalograms(published).axes[0]
    data = published.packed(0)
    cut = data["wavelength"].values[data["scale_status"].values == "above Nyquist"]
    heights = {float(line.get_ydata()[0]) for line in axes.lines if line.get_marker() != "o"}
    assert any(cut.max() < height < cut.max() * 1.2 for height in heights)


def test_a_layer_that_does_not_fluctuate_says_so_and_leaves_the_scale_to_the_others(partly_still):
    figure = draw_scalograms(partly_still)
    assert "no fluctuation" in written(figure.axes[1])
    assert set(meshes(figure)) == {"layer 0", "layer 2"}
    assert written(draw_lag_energy(partly_still).axes[0]).count("no fluctuation") == 1


def test_a_layer_all_on_the_sink_says_so(on_the_sink):
    assert int(on_the_sink.packed(1)["queries_left_out"]) > 0
    (said,) = written(draw_scalograms(on_the_sink).axes[1])
    assert said == "no rows left:\nthe sink holds nearly\nall attention"


def test_a_panel_can_be_drawn_into_axes_of_ones_own(causal):
    axes = Figure().add_subplot()
    mesh = plot_scalogram(view_of(causal, 1), axes)
    energy = causal.packed(1)["scalogram"].sel(part="fluctuation").values[:, :48]
    np.testing.assert_array_equal(mesh.get_array(), energy)


def test_a_panel_of_many_heads_asks_for_one(by_head):
    with pytest.raises(Exception, match=r"has 4 heads and a panel shows one. Pass head=, one of: 0, 1, 2, 3"):
        view_of(by_head, 0)
    assert view_of(by_head, 0, 2).label == "layer 0, head 2"


def test_about_names_model_documents_and_context(causal, by_head, two_sided):
    assert views(causal).about == "arrays  ·  40 documents  ·  96 tokens  ·  3 layers  ·  mean over heads  ·  causal"
    assert "each of 4 heads" in views(by_head).about
    assert views(two_sided).about.endswith("two-sided")
