"""The transform as a matrix equals the transform of every row; its spectra mean what they say."""

import numpy as np
import pytest
import pywt
from numpy.fft import fft, fftfreq, ifft
from scipy.fft import next_fast_len
from scipy.special import erf

from eddyscope.kernels import morlet
from eddyscope.kernels.lagstats import lag_covariance
from eddyscope.kernels.morlet import (
    LagTransform,
    cone,
    cone_weights,
    default_scales,
    lag_transform,
    morlet_hat,
    scale_limits,
    transform_matrix,
    wavelength,
)

EDGES = ("zero", "reflect", "replicate")


def extended(rows, edges, two_sided, length):
    """Rows (..., lag) laid on a circle of ``length``, with what stands beyond each end; position 0 is the first lag."""
    n = rows.shape[-1]
    circle = np.zeros((*rows.shape[:-1], length))
    circle[..., :n] = rows
    for step in range(1, n):
        if edges == "reflect":
            circle[..., -step] += rows[..., step]
            if two_sided:
                circle[..., n - 1 + step] += rows[..., n - 1 - step]
    if edges == "replicate":
        circle[..., -n:] += rows[..., :1]
        circle[..., n : 2 * n] += rows[..., -1:]
    return circle


def transformed(rows, scale, omega0, edges, two_sided, length):
    """The definition: ``W = ifft(fft(x) conj(psi_hat))`` of every row."""
    frequency = fftfreq(length)
    wavelet = np.pi**-0.25 * np.sqrt(2 * np.pi * scale) * np.exp(-((2 * np.pi * frequency * scale - omega0) ** 2) / 2)
    wavelet[frequency <= 0] = 0
    spectrum = fft(extended(rows, edges, two_sided, length)) * wavelet.conj()
    return ifft(spectrum)[..., : rows.shape[-1]]


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("omega0", [5.0, 6.0])
def test_the_scalogram_of_the_covariance_is_that_of_every_row(edges, two_sided, omega0):
    lags, documents, queries = 33, 7, 5
    rows = np.random.default_rng(0).normal(size=(lags, documents, queries)).cumsum(axis=0)
    each = rows.transpose(1, 2, 0).copy()
    mean = each.mean(axis=0)
    scales = (2.0, 2.55, 5.3, 11.0)
    transform = LagTransform(lags, scales, omega0, edges, two_sided)
    found = lag_covariance(rows.copy())
    length = next_fast_len(4 * lags)
    for covariance, sample in ((found.total, each), (found.mean, mean[None]), (found.fluctuation, each - mean)):
        energy = transform.scalogram(covariance)
        for index, scale in enumerate(scales):
            expected = (np.abs(transformed(sample, scale, omega0, edges, two_sided, length)) ** 2).mean(axis=(0, 1))
            np.testing.assert_allclose(energy[index], expected, rtol=1e-10)
    total, parts = transform.scalogram(found.total), (found.mean, found.fluctuation)
    np.testing.assert_allclose(total, sum(transform.scalogram(c) for c in parts), rtol=1e-12)


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("two_sided", [False, True])
def test_fourfold_padding_is_as_good_as_sixteenfold(edges, two_sided):
    lags = 48
    row = np.random.default_rng(1).normal(size=(1, lags))
    # At the Nyquist limit the wavelet's transform ends abruptly, so that the wavelet has a long tail.
    for scale, tolerance in ((2.55, 1e-3), (lags / (4 * np.sqrt(2)), 1e-8), (lags / (2 * np.sqrt(2)), 1e-7)):
        matrix = transform_matrix(lags, scale, 6.0, edges, two_sided, length=4 * lags)
        expected = transformed(row, scale, 6.0, edges, two_sided, 16 * lags)[0]
        assert np.abs(matrix @ row[0] - expected).max() < tolerance * np.abs(expected).max()


@pytest.mark.parametrize("omega0", [5.0, 6.0])
def test_a_sine_of_any_period_is_found_within_a_grid_step(omega0):
    lags = 128
    scales = default_scales(lags, omega0)
    clear = scales[scales <= scale_limits(lags, omega0)[1] * (1 + 1e-9)]
    transform = LagTransform(lags, tuple(clear), omega0)
    position = np.arange(lags)
    for period in np.linspace(wavelength(clear[1], omega0), wavelength(clear[-2], omega0), 40):
        phases = np.linspace(0, 2 * np.pi, 8, endpoint=False)[:, None]
        rows = np.cos(2 * np.pi * position / period + phases)
        spectrum = transform.spectrum(transform.scalogram(rows.T @ rows / 8))
        found = wavelength(clear[spectrum.argmax()], omega0)
        assert abs(np.log2(found / period)) <= 1 / 8


@pytest.mark.parametrize("edges", ["zero", "reflect"])
@pytest.mark.parametrize(("lags", "two_sided"), [(64, False), (128, False), (129, True)])
def test_white_noise_is_flat_where_nyquist_and_edges_are_clear(edges, lags, two_sided):
    smallest, clear, _ = scale_limits(lags, 6.0)
    assert smallest == pytest.approx(2.55, abs=0.01)
    scales = np.geomspace(smallest, clear, 40)
    transform = LagTransform(lags, tuple(scales), 6.0, edges, two_sided)
    np.testing.assert_allclose(transform.spectrum(transform.scalogram(np.eye(lags))), 1, atol=0.03)


@pytest.mark.parametrize("edges", ["zero", "reflect"])
def test_below_it_nyquist_cuts_the_band(edges):
    transform = LagTransform(128, (2.0,), edges=edges)
    (energy,) = transform.spectrum(transform.scalogram(np.eye(128)))
    assert energy == pytest.approx((1 + erf(2 * np.pi - 6)) / 2, abs=0.02)
    assert energy == pytest.approx(0.65, abs=0.015)


@pytest.mark.parametrize("omega0", [5.0, 6.0, 8.0])
def test_the_wavelet_has_unit_energy_and_peaks_at_its_wavelength(omega0):
    frequency = np.linspace(0, 0.5, 200_001)
    for scale in (4.0, 11.3):
        energy = np.trapezoid(morlet_hat(frequency, scale, omega0) ** 2, frequency)
        assert energy == pytest.approx(1, abs=1e-4)
        plain = morlet_hat(frequency, scale, omega0, unit_energy=False)
        np.testing.assert_allclose(plain, morlet_hat(frequency, scale, omega0) * np.pi**0.25)
    assert np.all(morlet_hat(-frequency, 4.0, omega0) == 0)
    # |W|^2 of a sine is |psi_hat_a(f)|^2, which peaks in a where the wavelength is the period.
    scales = np.linspace(8, 16, 80_001)
    peak = scales[np.argmax(morlet_hat(1 / 12.0, scales, omega0))]
    assert wavelength(peak, omega0) == pytest.approx(12, abs=1e-3)
    assert wavelength(1.0, 6.0) == pytest.approx(1.033, abs=5e-4)


@pytest.mark.parametrize(("scale", "tolerance"), [(4.0, 5e-4), (8.0, 5e-4), (16.0, 5e-4), (2.55, 0.1)])
def test_the_modulus_is_that_of_pywavelets(scale, tolerance):
    """cmor2.0-omega0/2pi is the same wavelet, exp(-t^2 / 2) exp(i omega0 t), times pi^(1/4) / sqrt(2 pi) of ours.

    PyWavelets integrates the wavelet over each sample where the definition takes its value. That multiplies the
    transform by sinc(f) and moves it by half a sample; both are undone in the row that it is given. What remains is
    its table of the wavelet (an error that falls as 2^-precision), and at the Nyquist limit the part of the band above
    0.5 cycles, which the definition cuts and sampling folds back.
    """
    n, length = 96, 1024
    row = np.random.default_rng(2).normal(size=n)
    ours = np.abs(transform_matrix(n, scale, 6.0, "zero", False, length=length) @ row)
    padded = np.zeros(length)
    padded[n : 2 * n] = row
    frequency = fftfreq(length)
    undone = ifft(fft(padded) * np.exp(1j * np.pi * frequency) / np.sinc(frequency)).real
    name = f"cmor2.0-{6 / (2 * np.pi):.17g}"
    theirs = np.abs(pywt.cwt(undone, [scale], name, method="fft", precision=14)[0][0, n : 2 * n])
    np.testing.assert_allclose(theirs * np.sqrt(2 * np.sqrt(np.pi)), ours, rtol=0, atol=tolerance * ours.max())


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("two_sided", [False, True])
def test_spectra_of_many_covariances_equal_means_over_their_scalograms(edges, two_sided, monkeypatch):
    lags = 40
    scales = (2.55, 4.0, 7.0, 14.0, 30.0)
    sample = np.random.default_rng(4).normal(size=(3, 200, lags))
    covariances = sample.transpose(0, 2, 1) @ sample / 200
    transform = LagTransform(lags, scales, 6.0, edges, two_sided)
    expected = np.stack([transform.spectrum(transform.scalogram(c)) for c in covariances])
    np.testing.assert_allclose(transform.spectra(covariances), expected, rtol=1e-12)
    monkeypatch.setattr(morlet, "_CACHE_BYTES", 0)  # a long axis: nothing is kept
    np.testing.assert_allclose(LagTransform(lags, scales, 6.0, edges, two_sided).spectra(covariances), expected)
    np.testing.assert_array_equal(np.isnan(expected).any(axis=0), [False] * 4 + [not two_sided])


def test_the_spectrum_is_the_mean_over_positions_inside_the_cone_borders_in_part():
    weights = cone_weights(64, 5.0, False)  # 7.07 <= b <= 55.93
    low, high = np.sqrt(2) * 5, 63 - np.sqrt(2) * 5
    assert weights.sum() == pytest.approx(1)
    full = weights[20]
    assert full == pytest.approx(1 / (high - low))
    np.testing.assert_allclose(weights[8:56], full)
    np.testing.assert_allclose([weights[7], weights[56]], [(7.5 - low) * full, (high - 55.5) * full])
    assert not weights[:7].any() and not weights[57:].any()
    np.testing.assert_allclose(weights, weights[::-1])


def test_the_cone_gives_up_the_near_end_of_a_causal_axis_first():
    clear = 64 / (4 * np.sqrt(2))
    assert cone(64, clear, False) == pytest.approx((16, 47))
    assert cone(64, clear * 1.01, False) == pytest.approx((0, 63 - 16 * 1.01))
    assert cone(64, clear * 1.01, True) == pytest.approx((16.16, 63 - 16.16))  # a two-sided one keeps both
    assert cone(64, 2 * clear, True) == pytest.approx((31.5, 31.5))  # until they meet in the middle
    middle = cone_weights(64, 2 * clear, True)
    assert middle.sum() == 1 and middle[31:33].sum() == 1
    assert not cone_weights(64, 60.0, False).any()


def test_default_scales_are_eight_an_octave_between_nyquist_and_edges():
    scales = default_scales(128, 6.0)
    np.testing.assert_allclose(np.diff(np.log2(scales)), 1 / 8)
    assert scales[0] == pytest.approx(8 / np.pi)
    assert scales[-1] <= 128 / (2 * np.sqrt(2)) < scales[-1] * 2 ** (1 / 8)
    assert scale_limits(128, 6.0)[1] == pytest.approx(22.6, abs=0.03)
    assert default_scales(4, 6.0).tolist() == [pytest.approx(8 / np.pi)]  # too short for any: one, marked


def test_layers_of_one_shape_share_a_transform():
    one = lag_transform(32, (3.0, 4.0), 6.0, "reflect")
    assert one is lag_transform(32, (3.0, 4.0), 6.0, "reflect")
    assert one is not lag_transform(32, (3.0, 4.0), 6.0, "zero")
