import numpy as np
import pytest
from numpy.fft import fft, fftfreq, ifft

from eddyscope.kernels import coherence as coherence_module
from eddyscope.kernels.coherence import cross_coherence, key_transform, leakage_share

L = 40


def brute_force(dense, scale, omega0, length, causal):
    """Every row's transform along the key axis, zero beyond both ends, and the mean over documents."""
    frequency = fftfreq(length)
    wavelet = np.where(frequency > 0, np.exp(-((2 * np.pi * frequency * scale - omega0) ** 2) / 2), 0)
    w = ifft(fft(dense, length) * wavelet)[..., : dense.shape[-1]]
    gamma = np.full(dense.shape[1:], np.nan, dtype=complex)
    for i in range(dense.shape[1]):
        for j in range(i + 1 if causal else dense.shape[2]):
            power = (np.abs(w[:, i, i]) ** 2).mean() * (np.abs(w[:, i, j]) ** 2).mean()
            gamma[i, j] = (w[:, i, i] * w[:, i, j].conj()).mean() / np.sqrt(power)
    return gamma


def field(documents, seed=0, causal=True):
    rows = np.random.default_rng(seed).normal(size=(documents, L, L))
    return np.tril(rows) if causal else rows


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("scale", "omega0"), [(2.55, 6.0), (5.0, 5.0)])
@pytest.mark.parametrize("rows_together", [7, 32])
def test_it_is_the_mean_over_documents_of_every_pair(causal, scale, omega0, rows_together, monkeypatch):
    monkeypatch.setattr(coherence_module, "ROWS_TOGETHER", rows_together)
    dense = field(9, causal=causal)
    found = cross_coherence(dense, key_transform(L, scale, omega0), causal)
    np.testing.assert_allclose(found, brute_force(dense, scale, omega0, 4 * L, causal), atol=1e-10)
    single = cross_coherence(dense.astype(np.float32), key_transform(L, scale, omega0), causal)
    np.testing.assert_allclose(single, found, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_lies_between_0_and_1_and_is_1_at_the_query_itself(dtype):
    found = np.abs(cross_coherence(field(5).astype(dtype), key_transform(L, 3.0, 6.0), True))
    assert np.isnan(found[np.triu_indices(L, 1)]).all()
    seen = found[np.tril_indices(L)]
    assert np.all((seen >= 0) & (seen <= 1 + 1e-15))
    np.testing.assert_allclose(np.diag(found), 1, atol=1e-6)


def test_a_phase_that_is_kept_comes_out_with_its_sign():
    """Row i: the same wave at its own end and farther back, there ahead by a quarter of the period."""
    period, documents = 6.0, 200
    rng = np.random.default_rng(1)
    phase = rng.uniform(0, 2 * np.pi, size=documents)
    j = np.arange(L)
    near, far = np.exp(-((j - 30) ** 2) / 18), np.exp(-((j - 10) ** 2) / 18)
    row = near * np.cos(2 * np.pi * j / period + phase[:, None])
    row += far * np.cos(2 * np.pi * j / period + phase[:, None] + np.pi / 2)
    dense = np.zeros((documents, L, L))
    dense[:, 30] = row
    gamma = cross_coherence(dense, key_transform(L, period / 1.033, 6.0), False)[30, 10]
    assert np.abs(gamma) > 0.99
    # W(30) conj W(10): the wave advances by 20 positions from 10 to 30, and 10 is ahead by a quarter.
    expected = np.angle(np.exp(1j * (2 * np.pi * 20 / period - np.pi / 2)))
    assert np.angle(gamma) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("documents", [50, 200])
def test_beyond_four_scales_chance_gives_about_one_over_root_n(documents):
    scale = 3.0
    apart = np.abs(np.arange(L)[:, None] - np.arange(L))
    squares = [
        np.abs(cross_coherence(field(documents, seed, False), key_transform(L, scale, 6.0), False)) ** 2
        for seed in range(6)
    ]
    found = np.sqrt(np.mean(squares, axis=0)[apart > 4 * scale].mean())
    assert found == pytest.approx(1 / np.sqrt(documents), rel=0.06)


def test_closer_the_wavelet_sees_the_same_noise():
    scale, middle = 4.0, 20
    rows = np.zeros((4000, L, L), dtype=np.float32)
    rows[:, middle] = np.random.default_rng(3).normal(size=(4000, L))
    found = np.abs(cross_coherence(rows, key_transform(L, scale, 6.0), True)[middle])
    distance = np.arange(9)
    np.testing.assert_allclose(found[middle - distance], np.exp(-(distance**2) / (4 * scale**2)), atol=0.05)


def test_without_energy_it_is_nan_without_a_warning():
    assert np.isnan(cross_coherence(np.zeros((4, L, L)), key_transform(L, 3.0, 6.0), True)).all()


def test_far_from_loud_keys_the_power_is_the_tail_of_the_wavelet():
    lag = np.arange(64)[:, None] - np.arange(64)[None, :]
    energy = np.where(lag >= 0, np.exp(-2.0 * np.maximum(lag, 0)), 0.0)
    share = leakage_share(energy, key_transform(64, 2.55, 6.0), 2.55)
    assert share[lag > 40].min() > 0.99
    assert share[(lag >= 0) & (lag < 4)].max() < 0.01


def test_a_field_as_loud_everywhere_leaks_less_than_a_percent():
    share = leakage_share(np.ones((64, 64)), key_transform(64, 4.0, 6.0), 4.0)
    assert share.max() < 0.01
