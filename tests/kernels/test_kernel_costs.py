"""The two ways to the same numbers agree, and the cheaper one is taken."""

import numpy as np
import pytest

from eddyscope import LagGeometry
from eddyscope.kernels import gram as gram_module
from eddyscope.kernels import morlet as morlet_module
from eddyscope.kernels.costs import fourier_pays, lag_grams_pay
from eddyscope.kernels.gram import field_pass, mean_and_energy
from eddyscope.kernels.morlet import LagTransform

GEOMETRIES = {
    "causal": LagGeometry(12, 12, True),
    "two-sided": LagGeometry(9, 9, False),
    "cross": LagGeometry(6, 11, False),
    "band": LagGeometry(14, 14, True, 5),
}


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
@pytest.mark.parametrize("min_query", [0, 3])
@pytest.mark.parametrize("together", [1, 20, 1000])
def test_lag_grams_and_window_grams_are_the_same(geometry, min_query, together, monkeypatch):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(10, geometry.size)) + rng.normal(size=geometry.size)
    windows = rng.uniform(size=(3, geometry.lags.size))
    for limit in ("_ENTRIES_TOGETHER", "_NUMBERS_TOGETHER"):
        monkeypatch.setattr(gram_module, limit, together)
    passed = {}
    for by_lag in (True, False):
        monkeypatch.setattr(gram_module, "lag_grams_pay", lambda *_, by_lag=by_lag: by_lag)
        passed[by_lag] = field_pass(values, geometry, windows, min_query)
    np.testing.assert_allclose(passed[True].grams, passed[False].grams, rtol=1e-12, atol=1e-14)
    for name in ("mean", "energy"):
        np.testing.assert_array_equal(getattr(passed[True], name), getattr(passed[False], name))
    mean, energy = mean_and_energy(values, geometry)
    np.testing.assert_array_equal(mean, passed[True].mean)
    np.testing.assert_array_equal(energy, passed[True].energy)


def test_grams_are_symmetric_to_the_last_bit():
    geometry = GEOMETRIES["causal"]
    values = np.random.default_rng(1).normal(size=(8, geometry.size))
    grams = field_pass(values, geometry, np.ones((2, geometry.lags.size))).grams
    np.testing.assert_array_equal(grams, grams.transpose(0, 2, 1))


@pytest.mark.parametrize(
    ("documents", "length", "windows", "expected"),
    [
        (150, 256, 5, True),  # the usual study
        (150, 256, 1, True),  # one window: weighing the snapshots anew costs as much as folding
        (1000, 256, 1, False),
        (1000, 256, 5, True),
        (4000, 256, 5, True),
        (4000, 16, 2, False),  # lags with few queries: moving Grams costs more than forming them
    ],
)
def test_lag_grams_pay_with_several_windows_over_long_runs(documents, length, windows, expected):
    together = max(1, min(16, (512 << 20) // (8 * documents**2)))
    assert lag_grams_pay(documents, length * (length + 1) // 2, length, windows, together) is expected


def test_the_study_takes_the_way_that_pays(monkeypatch):
    asked = []
    monkeypatch.setattr(gram_module, "lag_grams_pay", lambda *given: asked.append(given) or lag_grams_pay(*given))
    geometry = GEOMETRIES["causal"]
    field_pass(np.random.default_rng(0).normal(size=(10, geometry.size)), geometry, np.ones((5, 12)))
    assert asked == [(10, 78, 12, 5, 12)]


@pytest.mark.parametrize("edges", ["zero", "reflect", "replicate"])
@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("columns_together", [1, 20])
def test_the_scalogram_is_the_same_by_product_and_by_fourier_transform(edges, two_sided, columns_together, monkeypatch):
    lags = 33
    rows = np.random.default_rng(0).normal(size=(lags, 50)).cumsum(axis=0)
    transform = LagTransform(lags, (2.0, 2.55, 5.3, 11.0), edges=edges, two_sided=two_sided)
    found = {}
    monkeypatch.setattr(morlet_module, "_FOURIER_BYTES", columns_together * 32 * 135)
    for fourier in (True, False):
        monkeypatch.setattr(morlet_module, "fourier_pays", lambda *_, fourier=fourier: fourier)
        found[fourier] = transform.scalogram(rows @ rows.T / 50)
    np.testing.assert_allclose(found[True], found[False], rtol=1e-11)


def test_fourier_transforms_pay_for_long_axes_alone():
    from scipy.fft import next_fast_len

    pays = [fourier_pays(lags, next_fast_len(4 * lags)) for lags in (1, 128, 512, 1024, 2048, 8192)]
    assert pays == [False, False, False, False, True, True]


def test_a_long_axis_takes_the_fourier_transform(monkeypatch):
    def refused(*_):
        raise AssertionError("formed the matrix of the transform")

    monkeypatch.setattr(LagTransform, "_matrix", refused)
    transform = LagTransform(1500, (10.0,))
    scalogram = transform.scalogram(np.eye(1500))
    # White noise of unit variance has unit energy at every scale and place that no edge touches.
    np.testing.assert_allclose(scalogram[0, 100:1400], 1, atol=1e-3)
