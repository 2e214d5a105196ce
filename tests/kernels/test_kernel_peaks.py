"""Which maxima of a spectrum are dominant scales, on spectra drawn by hand."""

import numpy as np
import pytest

from eddyscope.kernels.peaks import find_peaks, flatten

SCALES = 2.55 * 2.0 ** (np.arange(26) / 8)
X = np.log2(SCALES)


def hill(at, height, width=0.25):
    """A Gaussian hill in log scale, at ``at`` octaves above the first scale."""
    return height * np.exp(-((X - X[0] - at) ** 2) / (2 * width**2))


def spectrum_of(*hills, slope=0.0):
    return np.exp(slope * (X - X[0]) + sum(hills, np.zeros(X.size)))


def replicates_of(spectrum, at, spread, seed=0):
    """Jackknife replicates in which the hill's height varies."""
    heights = spread * np.random.default_rng(seed).normal(size=15)
    return np.stack([spectrum * np.exp(hill(at, h)) for h in heights])


def test_a_hill_is_a_peak_with_its_scale_and_prominence():
    spectrum = spectrum_of(hill(1.53, 2.0))
    (peak,) = find_peaks(spectrum, SCALES, spectrum)
    assert peak.scale == pytest.approx(SCALES[0] * 2**1.53, rel=5e-3)
    assert peak.scale != pytest.approx(SCALES[peak.index], rel=5e-3)  # refined between grid scales
    flat = flatten(spectrum, SCALES)
    assert peak.prominence == pytest.approx(flat.max() - max(flat[:8].min(), flat[14:].min()), abs=1e-9)
    assert (peak.status, peak.counts) == ("untested", True)
    assert np.isnan(peak.standard_error)


@pytest.mark.parametrize("at", [1.0, 1.06, 1.125])
def test_a_parabola_in_log_log_is_refined_exactly_on_any_grid(at):
    for scales in (SCALES, np.array([2.6, 3, 4, 4.6, 5.2, 6, 7.1, 9, 12.0])):
        spectrum = np.exp(np.maximum(-6 * (np.log2(scales / 2.55) - at) ** 2, -2))
        (peak,) = find_peaks(spectrum, scales, spectrum)
        assert peak.scale == pytest.approx(2.55 * 2**at, rel=1e-12)


def test_flattening_takes_off_the_straight_line_in_log_log():
    np.testing.assert_allclose(flatten(3 * SCALES**-1.7, SCALES), 0, atol=1e-13)
    stack = np.stack([spectrum_of(hill(1, 2.0)), spectrum_of(hill(1, 2.0), slope=1.3)])
    np.testing.assert_allclose(flatten(stack, SCALES)[0], flatten(stack, SCALES)[1], atol=1e-12)


def test_on_a_slope_the_wavelength_is_that_of_the_spectrum_itself():
    spectrum = spectrum_of(hill(1.5, 2.0, 0.35), slope=2.0)
    (peak,) = find_peaks(spectrum, SCALES, spectrum)
    own = np.argmax(spectrum[:20])
    assert peak.index == own
    assert own > np.argmax(flatten(spectrum, SCALES))


def test_a_shoulder_is_none():
    spectrum = spectrum_of(hill(1.5, 0.8), slope=-3.0)
    (peak,) = find_peaks(spectrum, SCALES, spectrum)
    assert peak.prominence > 0.3
    assert (peak.status, peak.counts) == ("shoulder", False)


def test_two_flattened_maxima_do_not_share_one_of_the_spectrum():
    steps = np.zeros(26)
    steps[10:] += 0.5  # rises in steps, so that flattening makes a maximum of each
    steps[12] += 0.3
    steps[10] += 0.12
    spectrum = np.exp(steps + 0.15 * np.arange(26))
    assert np.flatnonzero(np.diff(np.sign(np.diff(spectrum))) < 0).tolist() == [11]  # one maximum, at 12
    peaks = find_peaks(spectrum, SCALES, spectrum)
    assert [p.status for p in peaks if p.counts] == ["untested"]
    assert sum(p.index == 12 and p.prominence > 0.05 for p in peaks) == 2


def test_a_low_hill_is_weak():
    spectrum = spectrum_of(hill(1.5, 0.045, 0.2))
    assert [p.status for p in find_peaks(spectrum, SCALES, spectrum)] == ["weak"]
    spectrum = spectrum_of(hill(1.5, 0.07, 0.2))
    assert [p.status for p in find_peaks(spectrum, SCALES, spectrum)] == ["untested"]


@pytest.mark.parametrize(("energy", "status"), [(0.04, "weak"), (0.06, "untested")])
def test_a_peak_needs_a_twentieth_of_the_largest_energy(energy, status):
    spectrum = spectrum_of(hill(0.7, np.log(100.0)), hill(2.4, np.log(100.0 * energy)))
    peaks = {round(p.scale, 1): p.status for p in find_peaks(spectrum, SCALES, spectrum)}
    (faint,) = [s for at, s in peaks.items() if at > 10]
    assert faint == status


@pytest.mark.parametrize(("spread", "status"), [(0.02, "ok"), (2.0, "within error")])
def test_a_peak_must_stand_three_standard_errors_out(spread, status):
    spectrum = spectrum_of(hill(1.5, 1.0))
    replicates = replicates_of(spectrum, 1.5, spread)
    peak = max(find_peaks(spectrum, SCALES, spectrum, replicates), key=lambda p: p.prominence)
    assert peak.status == status
    assert (peak.prominence < 3 * peak.standard_error) == (status == "within error")


def test_its_standard_error_is_that_of_the_same_three_grid_points():
    spectrum = spectrum_of(hill(1.5, 1.0))
    replicates = replicates_of(spectrum, 1.5, 0.1)
    (peak,) = find_peaks(spectrum, SCALES, spectrum, replicates)
    flat = flatten(replicates, SCALES)
    base = flatten(spectrum, SCALES)
    left, right = base[:12].argmin(), 12 + base[12:].argmin()
    prominence = flat[:, base.argmax()] - np.maximum(flat[:, left], flat[:, right])
    expected = np.sqrt(14 / 15 * ((prominence - prominence.mean()) ** 2).sum())
    assert peak.standard_error == pytest.approx(expected)


@pytest.mark.parametrize(
    ("other", "status"),
    [
        (spectrum_of(hill(1.5, 1.0)), "untested"),
        (spectrum_of(hill(1.625, 1.0)), "untested"),  # one grid step away
        (spectrum_of(hill(1.75, 1.0)), "edge-dependent"),
        (spectrum_of(slope=0.3), "edge-dependent"),
        (spectrum_of(hill(1.5, 0.04)), "edge-dependent"),
        (spectrum_of(hill(1.5, 0.8), slope=-3.0), "edge-dependent"),  # a shoulder there
        (spectrum_of(hill(1.5, 1.0)) + 60 * spectrum_of(hill(3.0, 4.0), slope=-1), "edge-dependent"),  # weak there
    ],
)
def test_a_peak_must_be_there_under_the_other_edge_rule_too(other, status):
    (peak,) = find_peaks(spectrum_of(hill(1.5, 1.0)), SCALES, other)
    assert peak.status == status
    assert peak.counts == (status == "untested")


@pytest.mark.parametrize("whole", [2, 3])
def test_a_fraction_of_a_stronger_wavelength_is_its_harmonic(whole):
    spectrum = spectrum_of(hill(2.4, 3.0, 0.2), hill(2.4 - np.log2(whole), 1.0, 0.2))
    strong, weak = find_peaks(spectrum, SCALES, spectrum)
    assert (strong.status, weak.status) == ("untested", "harmonic")
    assert weak.counts and strong.scale / weak.scale == pytest.approx(whole, rel=0.02)


def test_a_weaker_peak_at_twice_the_wavelength_is_no_harmonic():
    spectrum = spectrum_of(hill(2.4, 1.0, 0.2), hill(1.4, 3.0, 0.2))
    assert {p.status for p in find_peaks(spectrum, SCALES, spectrum)} == {"untested"}
    spectrum = spectrum_of(hill(2.4, 3.0, 0.2), hill(1.65, 1.0, 0.15))  # 1.7 times
    assert {p.status for p in find_peaks(spectrum, SCALES, spectrum)} == {"untested"}


def test_peaks_that_count_come_first_and_then_by_prominence_times_energy():
    other = spectrum_of(hill(0.5, 1.0, 0.15), hill(1.1, 2.0, 0.15))
    spectrum = spectrum_of(hill(0.5, 1.0, 0.15), hill(1.1, 2.0, 0.15), hill(2.4, 3.0, 0.15))
    peaks = find_peaks(spectrum, SCALES, other)
    assert [p.status for p in peaks] == ["untested", "untested", "edge-dependent"]
    weights = [p.prominence * p.energy for p in peaks]
    assert weights[0] > weights[1] and weights[2] > weights[0]


def test_of_equal_peaks_the_smaller_scale_is_first():
    mirrored = np.exp(np.abs(np.sin(np.arange(25) * np.pi / 12)))  # two equal hills
    one, two = find_peaks(mirrored, SCALES[:25], mirrored)
    assert one.prominence == pytest.approx(two.prominence) and one.scale < two.scale


@pytest.mark.parametrize(
    "spectrum",
    [np.ones(26), np.zeros(26), np.full(26, np.nan), 3 * SCALES**-2.0, np.array([1.0, 2.0])],
    ids=["flat", "nothing", "undefined", "power law", "two scales"],
)
def test_where_there_is_no_maximum_there_is_no_peak(spectrum):
    assert [p for p in find_peaks(spectrum, SCALES[: spectrum.size], spectrum) if p.counts] == []
