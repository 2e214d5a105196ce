"""Kernels give the same numbers for arrays of any namespace, and give them back in that namespace, on that device."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eddyscope import LagGeometry
from eddyscope.kernels import gram as gram_module
from eddyscope.kernels import morlet as morlet_module
from eddyscope.kernels.coherence import cross_coherence, key_transform, leakage_share, packed_coherence
from eddyscope.kernels.gram import field_pass, mean_and_energy
from eddyscope.kernels.lagrows import packed_rows
from eddyscope.kernels.lagstats import lag_covariance, lag_moments, standardise, take_out_mean
from eddyscope.kernels.morlet import LagTransform
from eddyscope.kernels.namespace import on_host
from eddyscope.kernels.pod import decompose, fix_signs, modes, modes_of_windows

DOCUMENTS, LENGTH, HALF = 12, 24, 12
CAUSAL = LagGeometry(LENGTH, LENGTH, True)
TWO_SIDED = LagGeometry(LENGTH, LENGTH, False)


@dataclass(frozen=True)
class Other:
    """Another namespace, and one of its devices."""

    name: str
    xp: Any
    device: Any

    def array(self, values: np.ndarray) -> Any:
        return self.xp.asarray(values.copy(), device=self.device)

    def expect(self, found: Any, expected: np.ndarray, dtype: str | None = None) -> None:
        """Of this namespace, on this device, and the same numbers as NumPy's."""
        from array_api_compat import device

        assert type(found) is type(self.array(np.zeros(1)))
        assert device(found) == device(self.array(np.zeros(1)))
        assert str(found.dtype).rpartition(".")[2].strip("'>") == (dtype or expected.dtype.name)
        scale = float(np.nanmax(np.abs(expected), initial=0.0)) or 1.0
        atol = 1e-10 if expected.dtype in (np.float64, np.complex128) else 1e-5
        np.testing.assert_allclose(on_host(found), expected, rtol=0, atol=atol * scale)


@pytest.fixture(params=["strict", "torch", "cuda", "numpy"])
def other(request):
    if request.param == "numpy":
        return Other("numpy", np, "cpu")
    if request.param == "strict":
        import array_api_strict

        return Other("strict", array_api_strict, array_api_strict.Device("device1"))
    torch = pytest.importorskip("torch")
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    return Other(request.param, torch, torch.device("cuda:0" if request.param == "cuda" else "cpu"))


def snapshots(geometry, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(DOCUMENTS, geometry.size)) + rng.normal(size=geometry.size)).astype(dtype)


def windows_of(geometry):
    distance = np.abs(geometry.lags)
    return np.stack([np.ones(distance.size), np.exp(-((distance - 5.0) ** 2) / 8), np.where(distance < 4, 0.5, 0.0)])


@pytest.mark.parametrize("geometry", [CAUSAL, TWO_SIDED], ids=["causal", "two-sided"])
@pytest.mark.parametrize("by_lag", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_pass_over_a_field(other, geometry, by_lag, dtype, monkeypatch):
    monkeypatch.setattr(gram_module, "lag_grams_pay", lambda *_: by_lag)
    values, windows = snapshots(geometry, dtype), windows_of(geometry)
    expected = field_pass(values, geometry, windows, 3)
    found = field_pass(other.array(values), geometry, windows, 3)
    for name in ("grams", "mean", "energy"):
        other.expect(getattr(found, name), getattr(expected, name))
    for one, two in zip(mean_and_energy(other.array(values), geometry), (expected.mean, expected.energy), strict=True):
        other.expect(one, two)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_eigenvalues_coefficients_and_modes(other, dtype):
    values, windows = snapshots(CAUSAL, dtype), windows_of(CAUSAL)
    weights = windows[:, CAUSAL.entry_lag] * CAUSAL.query_mask(3)
    expected = [decompose(gram) for gram in field_pass(values, CAUSAL, windows, 3).grams]
    passed = field_pass(other.array(values), CAUSAL, windows, 3)
    found = [decompose(passed.grams[m, ...]) for m in range(len(windows))]
    patterns = modes_of_windows(other.array(values), found, other.array(weights), 4, passed.mean)
    assert [d.rank for d in found] == [d.rank for d in expected]
    for m, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        other.expect(mine.eigenvalues, theirs.eigenvalues)
        reference = modes(values, theirs, weights[m], 4)
        sign, own = fix_signs(reference), fix_signs(patterns[m, ...])
        np.testing.assert_allclose(
            on_host(patterns[m, ...]) * on_host(own)[:, None],
            reference * sign[:, None],
            atol=1e-10 if dtype == np.float64 else 1e-5,
        )
        np.testing.assert_allclose(
            on_host(mine.coefficients[:, :4]) * on_host(own), theirs.coefficients[:, :4] * sign, atol=1e-9
        )


@pytest.mark.parametrize("documents", [1, 2])
def test_one_and_two_documents(other, documents):
    values, windows = snapshots(CAUSAL)[:documents], windows_of(CAUSAL)
    weights = windows[:, CAUSAL.entry_lag]
    results = []
    for own in (values, other.array(values)):
        passed = field_pass(own, CAUSAL, windows)
        found = [decompose(passed.grams[index, ...]) for index in range(len(windows))]
        patterns = modes_of_windows(own, found, weights, 1, passed.mean)
        rows = packed_rows(own, CAUSAL, CAUSAL.lags[:HALF], HALF, LENGTH)
        covariance = lag_covariance(rows, np.arange(documents))
        gamma = packed_coherence(own, CAUSAL, key_transform(LENGTH, 3.0, 6.0), passed.mean)
        results.append((found[1].eigenvalues, patterns, covariance.fluctuation, gamma))
    for expected, found in zip(*results, strict=True):
        other.expect(found, expected)
    one_value = float(np.sum((values[0] - values.mean(axis=0)) ** 2 * weights[1] ** 2))
    np.testing.assert_allclose(results[0][0], [one_value], rtol=1e-12)


def test_modes_past_the_rank_are_nan_and_do_not_vary_in_sign(other):
    direction = np.random.default_rng(0).normal(size=CAUSAL.size)
    values = np.linspace(-1, 1, DOCUMENTS)[:, None] * direction
    decomposition = decompose(field_pass(other.array(values), CAUSAL, np.ones((1, LENGTH)), 0).grams[0, ...])
    patterns = on_host(modes(other.array(values), decomposition, other.array(np.ones(CAUSAL.size)), 3))
    assert decomposition.rank == 1
    assert np.isfinite(patterns[0]).all() and np.isnan(patterns[1:]).all()
    np.testing.assert_array_equal(on_host(fix_signs(other.array(patterns)))[1:], 1)


def test_of_several_largest_entries_the_first_is_positive(other):
    patterns = np.array([[1.0, -2.0, 2.0], [1.0, 2.0, -2.0], [-3.0, 1.0, 2.0]])
    np.testing.assert_array_equal(on_host(fix_signs(other.array(patterns))), [-1, 1, -1])
    np.testing.assert_array_equal(on_host(fix_signs(other.array(patterns[:, :0]))), [1, 1, 1])


@pytest.mark.parametrize("factor", [False, True])
def test_rows_in_lag_coordinates(other, factor):
    values = snapshots(CAUSAL, np.float32)
    lags = np.arange(HALF)
    scale = np.random.default_rng(1).uniform(1, 2, size=(DOCUMENTS, LENGTH - HALF)) if factor else None
    expected = packed_rows(values, CAUSAL, lags, HALF, LENGTH, scale)
    dense = CAUSAL.unpack(values)
    assert expected[3, 5, 2] == pytest.approx(dense[5, HALF + 2, HALF + 2 - 3] * (scale[5, 2] if factor else 1))
    found = packed_rows(other.array(values), CAUSAL, lags, HALF, LENGTH, None if scale is None else other.array(scale))
    other.expect(found, expected)


@pytest.mark.parametrize("grouped", [False, True])
def test_moments_and_covariances_along_the_lag(other, grouped):
    rows = np.random.default_rng(0).normal(size=(HALF, DOCUMENTS, 9)).cumsum(axis=0) + 3.0
    groups = np.arange(DOCUMENTS) // 3 if grouped else None
    expected = lag_covariance(rows.copy(), groups)
    found = lag_covariance(other.array(rows), groups)
    for name in ("mean", "fluctuation", "total", "lag_mean", *(["without_group"] if grouped else [])):
        other.expect(getattr(found, name), getattr(expected, name))
    variance = np.diag(expected.fluctuation).copy()
    variance[2] = 0
    other.expect(standardise(other.array(expected.total), other.array(variance)), standardise(expected.total, variance))


def test_moments_of_shards_merge(other):
    rows = np.random.default_rng(0).normal(size=(HALF, DOCUMENTS, 9)) + 2.0
    groups = np.arange(DOCUMENTS) // 3
    whole = lag_moments(rows, groups)
    parts = [lag_moments(other.array(rows[:, cut]), groups[cut]) for cut in (slice(0, 4), slice(4, None))]
    merged = parts[0].merged(parts[1])
    np.testing.assert_array_equal(merged.counts, whole.counts)
    other.expect(merged.means, whole.means)
    other.expect(merged.products, whole.products)


def test_what_is_equal_in_all_documents_does_not_fluctuate_at_all(other):
    rows = np.repeat(np.random.default_rng(0).normal(size=(HALF, 1, 9)), 7, axis=1)
    assert not on_host(lag_covariance(other.array(rows)).fluctuation).any()
    same = other.array(np.repeat(rows[:, 0][None], 7, axis=0))
    np.testing.assert_array_equal(on_host(take_out_mean(same)), rows[:, 0])
    assert not on_host(same).any()


@pytest.mark.parametrize("edges", ["zero", "reflect", "replicate"])
@pytest.mark.parametrize("fourier", [False, True])
def test_the_scalogram_of_a_covariance(other, edges, fourier, monkeypatch):
    monkeypatch.setattr(morlet_module, "fourier_pays", lambda *_: fourier)
    rows = np.random.default_rng(0).normal(size=(30, 80)).cumsum(axis=0)
    covariance = rows @ rows.T / 80
    transform = LagTransform(30, (2.0, 3.0, 30.0), edges=edges, two_sided=edges == "reflect")
    expected = transform.scalogram(covariance)
    found = transform.scalogram(other.array(covariance))
    other.expect(found, expected)
    other.expect(transform.spectrum(found), transform.spectrum(expected))
    several = np.stack([covariance, 2 * covariance])
    other.expect(transform.spectra(other.array(several)), transform.spectra(several))
    monkeypatch.setattr(morlet_module, "_CACHE_BYTES", 0)
    long = LagTransform(30, (2.0, 3.0, 30.0), edges=edges, two_sided=edges == "reflect")
    other.expect(long.spectra(other.array(several)), transform.spectra(several))


@pytest.mark.parametrize("geometry", [CAUSAL, TWO_SIDED], ids=["causal", "two-sided"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_coherence(other, geometry, dtype):
    values, transform = snapshots(geometry, dtype), key_transform(LENGTH, 3.0, 6.0)
    mean, energy = mean_and_energy(values, geometry)
    expected = packed_coherence(values, geometry, transform, mean)
    found = packed_coherence(other.array(values), geometry, transform, other.array(mean))
    np.testing.assert_array_equal(np.isnan(on_host(found)), np.isnan(expected))
    # Coherence is computed in the precision of the data, its parts put together in double.
    tolerance = 1e-10 if dtype == np.float64 else 1e-5
    assert str(found.dtype).endswith("complex128")
    np.testing.assert_allclose(on_host(found), expected, rtol=0, atol=tolerance)
    dense = geometry.unpack(values) - geometry.unpack(mean)
    if dtype == np.float64:
        np.testing.assert_allclose(cross_coherence(dense, transform, geometry.causal), expected, rtol=0, atol=1e-10)
        by_rows = cross_coherence(other.array(dense), transform, geometry.causal)
        np.testing.assert_allclose(on_host(by_rows), expected, rtol=0, atol=1e-10)
    other.expect(
        leakage_share(other.array(geometry.unpack(energy)), transform, 3.0),
        leakage_share(geometry.unpack(energy), transform, 3.0),
    )


def test_documents_that_are_all_but_equal_keep_their_differences(other):
    """In single precision a mean that is rounded would give all of them one and the same coherent fluctuation."""
    geometry, transform = TWO_SIDED, key_transform(LENGTH, 3.0, 6.0)
    level = np.random.default_rng(0).uniform(1, 2, size=geometry.size).astype(np.float32)
    step = np.random.default_rng(1).integers(-8, 9, size=(DOCUMENTS, geometry.size))
    values = (level + step * np.spacing(level)).astype(np.float32)
    mean, _ = mean_and_energy(values, geometry)
    exact = packed_coherence(values.astype(np.float64), geometry, transform, mean)
    found = packed_coherence(other.array(values), geometry, transform, other.array(mean))
    np.testing.assert_allclose(on_host(found), exact, atol=1e-4)


def test_the_example_of_the_docs_runs_and_is_right():
    torch = pytest.importorskip("torch")
    page = (Path(__file__).parents[2] / "docs" / "kernels.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    torch.manual_seed(0)
    made: dict[str, Any] = {}
    exec(example, made)
    attention = made["attention"].cpu().numpy().astype(np.float64)
    mean = attention.mean(axis=0)
    window = np.exp(-((np.arange(64)[:, None] - np.arange(64) - 8) ** 2) / 18)
    singular = np.linalg.svd(((attention - mean) * window).reshape(40, -1), compute_uv=False)
    np.testing.assert_allclose(on_host(made["eigenvalues"]), singular[:39] ** 2 / 40, rtol=1e-5)
    assert tuple(made["scalogram"].shape) == (len(made["transform"].scales), 32)
    norms = (made["modes"] ** 2).sum(-1)
    np.testing.assert_allclose(on_host(norms), 1, rtol=1e-4)
    assert 0 < np.nanmax(np.abs(on_host(made["gamma"]))) <= 1 + 1e-12
