"""The method of snapshots by lag equals a direct decomposition, and no other basis does better."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from eddyscope import LagGeometry
from eddyscope.kernels import gram as gram_module
from eddyscope.kernels.gram import field_pass
from eddyscope.kernels.pod import decompose, fix_signs, modes

GEOMETRIES = {
    "causal": LagGeometry(12, 12, True),
    "two-sided": LagGeometry(9, 9, False),
    "cross": LagGeometry(6, 11, False),
    "band": LagGeometry(14, 14, True, 5),
}


def windows_of(geometry):
    """None, a band, and one that leaves lags out."""
    distance = np.abs(geometry.lags)
    return np.stack([np.ones(distance.size), np.exp(-((distance - 3.0) ** 2) / 8), np.where(distance < 4, 0.5, 0.0)])


def snapshots_of(geometry, documents=10, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(documents, geometry.size)) + rng.normal(size=geometry.size)


def weighted(values, geometry, window, min_query=0):
    """The windowed snapshots themselves, without the queries that are left out."""
    kept = geometry.entry_query >= min_query
    return (values * window[np.searchsorted(geometry.lags, geometry.entry_lag)])[:, kept]


def pod(values, geometry, window, min_query=0, count=4):
    decomposition = decompose(field_pass(values, geometry, window[None], min_query).grams[0])
    per_entry = np.where(geometry.query_mask(min_query), np.repeat(window, geometry.counts), 0.0)
    patterns = modes(values, decomposition, per_entry, count)
    assert patterns.dtype == values.dtype
    return decomposition, patterns * fix_signs(patterns)[:, None]


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
@pytest.mark.parametrize("min_query", [0, 2])
@pytest.mark.parametrize("window", range(3))
def test_it_is_the_principal_component_analysis_of_windowed_snapshots(geometry, min_query, window):
    values, window = snapshots_of(geometry), windows_of(geometry)[window]
    documents = len(values)
    decomposition, patterns = pod(values, geometry, window, min_query)
    sample = weighted(values, geometry, window, min_query)
    pca = PCA(svd_solver="full").fit(sample)
    # scikit-learn divides by N - 1, POD by N.
    expected = pca.explained_variance_[: documents - 1] * (documents - 1) / documents
    np.testing.assert_allclose(decomposition.eigenvalues, expected, rtol=1e-10)
    kept = geometry.entry_query >= min_query
    sign = np.sign((patterns[:, kept] * pca.components_[:4]).sum(axis=1))
    np.testing.assert_allclose(patterns[:, kept], pca.components_[:4] * sign[:, None], atol=1e-10)
    assert not patterns[:, ~kept].any()
    scores = pca.transform(sample)[:, : documents - 1]
    np.testing.assert_allclose(np.abs(decomposition.coefficients), np.abs(scores), atol=1e-10)


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_all_windows_and_the_mean_come_from_one_pass(geometry):
    values, windows = snapshots_of(geometry), windows_of(geometry)
    passed = field_pass(values, geometry, windows, min_query=2)
    u = values - values.mean(axis=0)
    np.testing.assert_allclose(passed.mean, values.mean(axis=0), atol=1e-14)
    np.testing.assert_allclose(passed.energy, (u**2).mean(axis=0), atol=1e-14)
    for gram, window in zip(passed.grams, windows, strict=True):
        sample = weighted(u, geometry, window, 2)
        np.testing.assert_allclose(gram, sample @ sample.T / len(u), atol=1e-13)
        assert gram.trace() == pytest.approx((sample**2).sum(axis=1).mean())


@pytest.mark.parametrize("lags_at_a_time", [1, 2, 5])
def test_how_many_lag_grams_are_held_at_a_time_does_not_matter(lags_at_a_time, monkeypatch):
    geometry = GEOMETRIES["causal"]
    values, windows = snapshots_of(geometry), windows_of(geometry)
    whole = field_pass(values, geometry, windows, 1)
    monkeypatch.setattr(gram_module, "_BLOCK_BYTES", lags_at_a_time * 8 * len(values) ** 2)
    parts = field_pass(values, geometry, windows, 1)
    np.testing.assert_allclose(parts.grams, whole.grams, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(parts.mean, whole.mean)


@pytest.mark.parametrize(("documents", "entries"), [(8, 78), (40, 6)])
def test_the_snapshot_gram_gives_what_a_direct_svd_gives(documents, entries):
    geometry = LagGeometry(12, 12, True) if entries == 78 else LagGeometry(3, 3, True)
    values = snapshots_of(geometry, documents)
    u = values - values.mean(axis=0)
    decomposition, patterns = pod(values, geometry, np.ones(geometry.lags.size), count=5)
    left, singular, right = np.linalg.svd(u, full_matrices=False)
    rank = min(documents - 1, entries)
    assert decomposition.eigenvalues.size == documents - 1
    assert decomposition.rank == rank
    np.testing.assert_allclose(decomposition.eigenvalues[:rank], singular[:rank] ** 2 / documents, rtol=1e-9)
    assert not decomposition.eigenvalues[rank:].any()
    assert decomposition.eigenvalues.sum() == pytest.approx((u**2).sum(axis=1).mean())
    np.testing.assert_allclose(np.abs(patterns @ right[:5].T), np.eye(5), atol=1e-9)
    np.testing.assert_allclose(patterns @ patterns.T, np.eye(5), atol=1e-9)
    a = decomposition.coefficients
    np.testing.assert_allclose(a.T @ a / documents, np.diag(decomposition.eigenvalues), atol=1e-12)
    np.testing.assert_allclose(np.abs(a[:, :rank]), np.abs((left * singular)[:, :rank]), atol=1e-9)
    np.testing.assert_allclose(np.abs(a[:, :5]), np.abs(u @ patterns.T), atol=1e-9)


@st.composite
def ensembles_and_bases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    documents, entries = draw(st.integers(3, 12)), 28
    decay = draw(st.sampled_from([0.0, 0.5, 1.0, 2.0]))
    snapshots = rng.normal(size=(documents, entries)) * np.arange(1, entries + 1) ** -decay
    snapshots = snapshots @ np.linalg.qr(rng.normal(size=(entries, entries)))[0]
    other = rng.normal(size=(documents, entries))
    kind = draw(st.sampled_from(["random", "Fourier", "other data", "perturbed modes", "documents"]))
    return snapshots, kind, rng, other


def competing_basis(kind, rng, other, u, own):
    """Orthonormal columns, at least as many as the documents have modes."""
    entries = u.shape[1]
    if kind == "random":
        return np.linalg.qr(rng.normal(size=(entries, entries)))[0]
    if kind == "Fourier":
        k, x = np.arange(entries)[:, None], np.arange(entries)[None, :]
        return np.linalg.qr(np.cos(np.pi * k * (x + 0.5) / entries).T)[0]
    if kind == "other data":
        return np.linalg.svd(other - other.mean(axis=0))[2].T
    if kind == "documents":  # Gram-Schmidt of the snapshots themselves
        return np.linalg.qr(np.concatenate([u.T, rng.normal(size=(entries, entries))], axis=1))[0]
    return np.linalg.qr(own.T + 0.1 * rng.normal(size=(entries, len(own))))[0]


@settings(deadline=None, max_examples=60)
@given(ensembles_and_bases())
def test_no_basis_of_any_rank_reconstructs_the_ensemble_better(case):
    """Theorem 1, and the error is the sum of the eigenvalues left out."""
    snapshots, kind, rng, other = case
    geometry = LagGeometry(7, 7, True)
    u = snapshots - snapshots.mean(axis=0)
    documents = len(u)
    decomposition, patterns = pod(snapshots, geometry, np.ones(7), count=documents - 1)
    basis = competing_basis(kind, rng, other, u, patterns)
    energy = (u**2).sum(axis=1).mean()
    for rank in range(1, documents):
        leading = patterns[:rank]
        error = ((u - u @ leading.T @ leading) ** 2).sum(axis=1).mean()
        assert error == pytest.approx(decomposition.eigenvalues[rank:].sum(), abs=1e-10 * energy)
        theirs = basis[:, :rank]
        assert error <= ((u - u @ theirs @ theirs.T) ** 2).sum(axis=1).mean() + 1e-10 * energy


def test_two_patterns_are_two_modes_with_their_own_energies():
    geometry = GEOMETRIES["causal"]
    rng = np.random.default_rng(0)
    patterns = np.linalg.qr(rng.normal(size=(geometry.size, 2)))[0].T
    a = rng.normal(size=(20, 2))
    a = np.linalg.qr(a - a.mean(axis=0))[0] * np.sqrt(20 * np.array([3.0, 0.25]))
    decomposition, found = pod(a @ patterns + 5.0, geometry, np.ones(12), count=4)
    assert decomposition.rank == 2
    np.testing.assert_allclose(decomposition.eigenvalues[:2], [3, 0.25], rtol=1e-12)
    np.testing.assert_allclose(np.abs(found[:2] @ patterns.T), np.eye(2), atol=1e-10)
    assert np.isnan(found[2:]).all()  # no direction that the ensemble could tell


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0, 3.0])
def test_planted_eigenvalues_come_back(beta):
    geometry = LagGeometry(16, 16, True)
    rng = np.random.default_rng(1)
    planted = np.arange(1, 40) ** -beta
    patterns = np.linalg.qr(rng.normal(size=(geometry.size, 39)))[0].T
    a = rng.normal(size=(40, 39))
    a = np.linalg.qr(a - a.mean(axis=0))[0] * np.sqrt(40 * planted)
    decomposition, _ = pod(a @ patterns + rng.normal(size=geometry.size), geometry, np.ones(16))
    np.testing.assert_allclose(decomposition.eigenvalues, planted, rtol=1e-8)


def test_a_constant_field_added_changes_nothing():
    geometry = GEOMETRIES["two-sided"]
    values, window = snapshots_of(geometry), windows_of(geometry)[1]
    one, patterns = pod(values, geometry, window)
    other, shifted = pod(values + 30 * np.random.default_rng(5).normal(size=geometry.size), geometry, window)
    np.testing.assert_allclose(other.eigenvalues, one.eigenvalues, rtol=1e-10)
    np.testing.assert_allclose(shifted, patterns, atol=1e-9)


def test_permuting_documents_permutes_coefficients_and_nothing_else():
    geometry = GEOMETRIES["causal"]
    values, window = snapshots_of(geometry), windows_of(geometry)[1]
    order = np.random.default_rng(3).permutation(len(values))
    one, patterns = pod(values, geometry, window)
    other, permuted = pod(values[order], geometry, window)
    np.testing.assert_allclose(other.eigenvalues, one.eigenvalues, rtol=1e-11)
    np.testing.assert_allclose(permuted, patterns, atol=1e-10)
    sign = np.sign((other.coefficients * one.coefficients[order]).sum(axis=0))
    np.testing.assert_allclose(other.coefficients * sign, one.coefficients[order], atol=1e-10)


def test_the_largest_entry_of_each_mode_is_positive():
    patterns = np.array([[1.0, -3.0, 2.0], [1.0, 2.0, -1.5], [np.nan, np.nan, np.nan], [-2.0, 2.0, 0.0]])
    assert fix_signs(patterns)[:2].tolist() == [-1, 1]
    assert fix_signs(patterns)[3] == -1  # the first of equals decides
    _, found = pod(snapshots_of(GEOMETRIES["causal"]), GEOMETRIES["causal"], np.ones(12))
    largest = np.abs(found).argmax(axis=1)
    assert np.all(found[np.arange(4), largest] > 0)


def test_float32_modes_keep_unit_norm_under_a_mean_a_thousand_times_the_fluctuation():
    geometry = LagGeometry(24, 24, True)
    values = 1e-3 * snapshots_of(geometry, 12) + 1.0
    double, expected = pod(values, geometry, np.ones(24))
    single, found = pod(values.astype(np.float32), geometry, np.ones(24))
    np.testing.assert_allclose(single.eigenvalues, double.eigenvalues, rtol=1e-4)
    np.testing.assert_allclose((found**2).sum(axis=1), 1, atol=1e-3)
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_one_document_has_no_mode():
    geometry = GEOMETRIES["causal"]
    decomposition, found = pod(snapshots_of(geometry, 1), geometry, np.ones(12))
    assert decomposition.eigenvalues.tolist() == [0]
    assert (decomposition.rank, found.shape) == (0, (1, geometry.size))
    assert np.isnan(found).all()


def test_snapshots_are_left_as_they_were():
    geometry = GEOMETRIES["causal"]
    values = snapshots_of(geometry)
    before = values.copy()
    pod(values, geometry, np.ones(12))
    np.testing.assert_array_equal(values, before)
