"""Profiles and maps of modes, and coherence, show the study's numbers."""

import numpy as np
import pytest

from eddyscope.report import draw_coherence, draw_mode_profiles, draw_modes
from eddyscope.report.profiles import MODES


def images(figure):
    return [axes.images[0] for axes in figure.axes if axes.images]


def test_profiles_are_those_of_the_band_on_one_scale_and_of_the_field_on_its_own(causal):
    figure = draw_mode_profiles(causal)
    for axes, name in zip(figure.axes, causal.layers, strict=True):
        data = causal.packed(name)
        *band, field = [line for line in axes.lines if np.size(line.get_xdata()) == 48]
        profiles = data["mode_profile"].values[0, :MODES, :48]
        np.testing.assert_allclose([line.get_ydata() for line in band], profiles / np.abs(profiles).max())
        alone = data["field_mode_profile"].values[0, :48]
        np.testing.assert_allclose(field.get_ydata(), alone / np.abs(alone).max())
        np.testing.assert_array_equal(field.get_xdata(), np.arange(48))


def test_the_window_is_shaded_behind_the_modes(causal):
    axes = draw_mode_profiles(causal).axes[0]
    top = axes.collections[0].get_paths()[0].vertices
    window = causal.packed(0)["window"].values[0, :48]
    for lag in range(48):
        assert np.isclose(top[top[:, 0] == lag, 1].max(), window[lag])


def test_the_lag_axis_ends_where_the_energy_of_the_band_does(causal):
    for axes, name in zip(draw_mode_profiles(causal).axes, causal.layers, strict=True):
        profiles = causal.packed(name)["mode_profile"].values[0, :MODES, :48]
        energy = np.cumsum((profiles**2).sum(axis=0) * (96 - 12 - np.arange(48)))
        end = axes.get_xlim()[1]
        assert end == 47 or np.log2(end).is_integer()
        assert energy[int(end)] > 0.98 * energy[-1]


def test_profiles_of_two_sided_layers_are_centred_on_the_query(two_sided):
    low, high = draw_mode_profiles(two_sided).axes[0].get_xlim()
    assert low == -high


def test_maps_are_the_first_modes(causal):
    found = images(draw_modes(causal))
    for index, name in enumerate(causal.layers):
        data = causal.layer(name)
        for image, expected in zip(
            found[2 * index : 2 * index + 2], (data["modes"][0, 0], data["field_modes"][0]), strict=True
        ):
            shown = np.ma.filled(image.get_array(), np.nan)
            np.testing.assert_allclose(shown, expected.values)


def test_maps_share_one_symmetric_scale(causal):
    found = images(draw_modes(causal))
    assert len({id(image.norm) for image in found}) == 1
    norm = found[0].norm
    assert norm.vmin == -norm.vmax
    assert norm(0.0) == 0.5
    assert norm(norm.vmax / 4) == pytest.approx(0.75)  # the colour goes by the root


def test_coherence_is_shown_between_0_and_1(causal):
    figure = draw_coherence(causal)
    for image, name in zip(images(figure), causal.layers, strict=True):
        expected = causal.layer(name)["coherence"][0].values
        np.testing.assert_allclose(np.ma.filled(image.get_array(), np.nan), expected)
        assert image.get_clim() == (0.0, 1.0)


@pytest.mark.parametrize("kind", ["causal", "two_sided"])
def test_keys_within_four_scales_are_covered(kind, request):
    study = request.getfixturevalue(kind)
    axes = draw_coherence(study).axes[0]
    near = 4 * float(study.packed(0)["coherence_scale"][0])
    (path,) = axes.collections[0].get_paths()
    query = study.packed(0).attrs["queries"] // 2
    for key in range(study.packed(0).attrs["keys"]):
        if abs(abs(query - key) - near) < 1.01 or (kind == "causal" and key > query):
            continue
        assert path.contains_point((key, query)) == (abs(query - key) < near)


def test_a_band_of_lags_has_no_coherence_and_the_panel_says_why(banded):
    for axes in draw_coherence(banded).axes:
        assert [text.get_text() for text in axes.texts] == ["not computed: needs square\nattention with all lags"]


@pytest.mark.parametrize("draw", [draw_mode_profiles, draw_modes, draw_coherence])
def test_layers_that_do_not_fluctuate_say_so(draw, partly_still, one_document):
    silent = [axes for axes in draw(partly_still).axes if "no fluctuation" in [t.get_text() for t in axes.texts]]
    assert len(silent) == (2 if draw is draw_modes else 1)
    for axes in draw(one_document).axes:
        assert "no fluctuation" in [text.get_text() for text in axes.texts]


def test_a_study_of_two_documents_has_one_mode(two_documents):
    for axes in draw_mode_profiles(two_documents).axes:
        assert len([line for line in axes.lines if np.size(line.get_xdata()) == 24]) == 2
    assert len(images(draw_modes(two_documents))) == 6
