"""Scale-selective, field and lag POD of a study, against scikit-learn and planted spectra."""

from functools import cache

import numpy as np
import pytest
from sklearn.decomposition import PCA

import eddyscope as es
import planted

N, L = 20, 40


@cache
def made(causal=True, each=False):
    attention = planted.noise(N, L, 3, causal=causal)
    if each:
        attention = np.stack([attention, planted.noise(N, L, 4, causal=causal)], axis=1)
    return attention, es.AttentionEnsemble.from_arrays({"a": attention}, causal=causal)


@cache
def study_of(causal=True, window="band", each=False):
    return es.analyze(made(causal, each)[1], select=[2.6, 4.0, 7.0], window=window, modes=6, intervals=False)


def windowed(attention, data, band=None):
    """Snapshots under a band's window, flattened over the queries used."""
    lag = planted.distances(L).astype(int)
    visible = lag >= 0 if data.attrs["causal"] else np.ones((L, L), dtype=bool)
    weight = np.ones((L, L))
    if band is not None:
        weight = data["window"].values[band][np.searchsorted(data["lag"].values, np.where(visible, lag, 0))]
    weight = np.where(visible, weight, 0)
    weight[: data.attrs["min_query"]] = 0
    return (attention * weight).reshape(len(attention), -1)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", ["band", "lowpass", "octaves"])
@pytest.mark.parametrize("band", [None, 0, 2])
def test_pod_is_the_principal_component_analysis_of_windowed_snapshots(causal, window, band):
    attention, _ = made(causal)
    data = study_of(causal, window).layer(0)
    sample = windowed(attention, data, band)
    pca = PCA(svd_solver="full").fit(sample)
    prefix, at = ("field_", ...) if band is None else ("", band)
    expected = pca.explained_variance_[: N - 1] * (N - 1) / N  # scikit-learn divides by N - 1
    np.testing.assert_allclose(data[f"{prefix}eigenvalues"].values[at][: N - 1], expected, rtol=1e-9)
    ours = np.nan_to_num(data[f"{prefix}modes"].values[at]).reshape(6, -1)
    sign = np.sign((ours * pca.components_[:6]).sum(axis=1))
    np.testing.assert_allclose(ours * sign[:, None], pca.components_[:6], atol=1e-8)
    scores = pca.transform(sample)[:, :6]
    np.testing.assert_allclose(data[f"{prefix}coefficients"].values[at] * sign, scores, atol=1e-8)
    largest = np.take_along_axis(ours, np.abs(ours).argmax(axis=1)[:, None], axis=1)
    assert np.all(largest > 0)
    gram = data[f"{prefix}gram"].values[at]
    centred = sample - sample.mean(axis=0)
    np.testing.assert_allclose(gram, centred @ centred.T / N, atol=1e-15)


def test_profiles_are_means_of_modes_over_the_queries_that_have_the_lag():
    data = study_of().layer(0)
    mode = data["field_modes"].values[1]
    for lag in (0, 7, 30):
        diagonal = np.diagonal(mode, -lag)
        assert float(data["field_mode_profile"].sel(mode=2, lag=lag)) == pytest.approx(np.nanmean(diagonal))
    late = es.analyze(made()[1], min_query=30, select=[4.0], intervals=False).layer(0)
    assert np.isfinite(late["mode_profile"]).all()  # every lag has a query from 30 on
    assert float(late["field_mode_profile"].sel(mode=1, lag=3)) == pytest.approx(
        np.nanmean(np.diagonal(late["field_modes"].values[0], -3))
    )


@pytest.mark.parametrize("causal", [True, False])
def test_lag_pod_is_the_analysis_of_all_full_rows(causal):
    attention, ensemble = made(causal)
    data = es.analyze(ensemble, sink="keep", intervals=False).layer(0)
    h = L // 2 if causal else L // 4
    lags = np.arange(h) if causal else np.arange(-h, h + 1)
    queries = np.arange(h, L) if causal else np.arange(h, L - h)
    u = attention - attention.mean(axis=0)
    sample = np.stack([u[:, queries, queries - lag] for lag in lags], axis=-1).reshape(-1, lags.size)
    assert abs(sample.mean(axis=0)).max() < 1e-15
    pca = PCA(svd_solver="full").fit(sample)
    expected = pca.explained_variance_ * (len(sample) - 1) / len(sample)
    np.testing.assert_allclose(data["lag_eigenvalues"][: lags.size], expected, rtol=1e-9)
    ours = data["lag_modes"].sel(lag=lags).values[:4]
    sign = np.sign((ours * pca.components_[:4]).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(ours * sign, pca.components_[:4], atol=1e-8)
    assert np.isnan(data["lag_modes"].values[:, ~np.isin(data["lag"], lags)]).all()
    shares = expected.sum() ** 2 / (expected**2).sum()
    assert float(data["lag_participation_ratio"]) == pytest.approx(shares)


def test_a_rank_2_ensemble_has_exactly_two_modes_with_their_eigenvalues():
    attention, factor = planted.with_spectrum(np.array([2.0, 0.5]), 20, 24)
    ensemble = es.AttentionEnsemble.from_arrays(attention[:, None])
    study = es.analyze(ensemble, min_query=0, intervals=False)
    data = study.layer(0)
    np.testing.assert_allclose(data["field_eigenvalues"][:2] / factor, [2, 0.5], rtol=1e-9)
    assert not data["field_eigenvalues"][2:].values.any()
    assert np.isnan(data["field_modes"][2:]).all()
    assert str(data["field_beta_published_status"].values) == "too few modes"
    assert float(data["field_stable_rank"]) == pytest.approx(1.25)
    assert float(data["field_first_mode_energy"]) == pytest.approx(0.8)
    assert data["field_effective_rank"].values.tolist() == [2, 2, 2]
    for rank, error in ((0, 2.5), (1, 0.5), (2, 0.0)):
        rebuilt = np.nan_to_num(es.reconstruct(study, ensemble, 0, rank).values)
        assert ((rebuilt - attention) ** 2).sum() / 20 / factor == pytest.approx(error, abs=1e-9)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_planted_decay_comes_back(beta):
    planted_spectrum = np.arange(1, 40) ** -beta
    attention, factor = planted.with_spectrum(planted_spectrum, 40, 32)
    data = es.analyze(es.AttentionEnsemble.from_arrays(attention[:, None]), min_query=0, intervals=False).layer(0)
    np.testing.assert_allclose(data["field_eigenvalues"][:39] / factor, planted_spectrum, rtol=1e-8)
    assert float(data["field_beta_published"]) == pytest.approx(beta, abs=1e-8)
    assert float(data["field_t_spec_published"]) == pytest.approx(1 / beta, rel=1e-8)
    assert str(data["field_beta_published_status"].values) == "ok"


def test_white_noise_has_no_rank_that_so_few_documents_can_tell():
    data = study_of().layer(0)
    assert float(data["field_effective_rank"][0]) > (N - 1) / 2
    assert set(data["field_effective_rank_status"].values) == {"unresolved"}
    # Lag POD: 20 x 20 rows tell 20 lags apart.
    assert set(data["lag_effective_rank_status"].values) == {"ok"}
    assert float(data["lag_participation_ratio"]) > 15


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("band", [None, 1])
def test_the_error_of_a_reconstruction_is_the_sum_of_the_eigenvalues_left_out(causal, band):
    attention, ensemble = made(causal)
    study = study_of(causal)
    data = study.layer(0)
    eigenvalues = data["field_eigenvalues"].values if band is None else data["eigenvalues"].values[band]
    for rank in (0, 1, 5, 12, N - 1):
        rebuilt = es.reconstruct(study, ensemble, 0, rank, band=band)
        assert rebuilt.dims == ("document", "query", "key")
        exact = attention if band is None else windowed(attention - attention.mean(axis=0), data, band).reshape(N, L, L)
        defined = rebuilt.notnull().values
        error = ((rebuilt.values - exact)[defined] ** 2).sum() / N
        assert error == pytest.approx(eigenvalues[rank:].sum(), rel=1e-8, abs=1e-15)
        expected = np.tril(np.ones((L, L))) if causal else np.ones((L, L))
        expected[: data.attrs["min_query"]] = 0
        np.testing.assert_array_equal(defined, np.broadcast_to(expected, defined.shape))


def test_a_reconstruction_is_the_mean_plus_coefficients_times_modes():
    _, ensemble = made()
    study = study_of()
    data = study.layer(0)
    rebuilt = es.reconstruct(study, ensemble, "a", 3, documents=[7, 2])
    assert rebuilt["document"].values.tolist() == [7, 2]
    part = data["field_coefficients"].sel(mode=[1, 2, 3], document=[7, 2])
    expected = data["mean_field"] + (part * data["field_modes"]).sum("mode", skipna=False)
    np.testing.assert_allclose(rebuilt, expected.transpose("document", "query", "key"), atol=1e-12)
    band = es.reconstruct(study, ensemble, 0, 2, band=1, documents=4)
    part = data["coefficients"].isel(band=1, document=[4], mode=[0, 1])
    expected = (part * data["modes"].isel(band=1)).sum("mode", skipna=False).transpose("document", "query", "key")
    np.testing.assert_allclose(band, expected, atol=1e-12)
    assert band.attrs["band"] == str(data["band_label"][1].values)


def test_a_reconstruction_of_one_head_of_masked_attention_and_of_near_lags():
    attention, ensemble = made(each=True)
    study = es.analyze(ensemble, sink_pod="mask", max_lag=10, modes=2, intervals=False)
    data = study.layer(0, head=1)
    rebuilt = es.reconstruct(study, ensemble, 0, N - 1, head=1)
    masked = attention[:, 1].copy()
    masked[:, :, 0] = 0
    masked[:, 1:] /= masked[:, 1:].sum(axis=-1, keepdims=True)
    lag = planted.distances(L)
    reached = (lag >= 0) & (lag < 10) & (np.arange(L) >= data.attrs["min_query"])[:, None]
    np.testing.assert_array_equal(rebuilt.notnull(), np.broadcast_to(reached, rebuilt.shape))
    np.testing.assert_allclose(rebuilt.values[:, reached], masked[:, reached], atol=1e-10)
    assert rebuilt.attrs["field"] == "masked"
    with pytest.raises(es.EddyscopeError, match=r"^This study keeps each head; one must be named\. Heads: 0, 1\.$"):
        es.reconstruct(study, ensemble, 0, 3)


def test_the_gram_is_made_anew_where_a_study_does_not_keep_it(monkeypatch):
    _, ensemble = made()
    kept = study_of()
    monkeypatch.setattr("eddyscope.study.podpart.KEPT_GRAM", 0)
    study = es.analyze(ensemble, select=[2.6, 4.0, 7.0], modes=6, intervals=False)
    assert "gram" not in study.packed(0)
    for band in (None, 1):
        np.testing.assert_allclose(
            es.reconstruct(study, ensemble, 0, 4, band=band),
            es.reconstruct(kept, ensemble, 0, 4, band=band),
            atol=1e-12,
        )


def test_what_cannot_be_rebuilt_is_refused():
    _, ensemble = made()
    study = study_of()
    for call, message in {
        (("rank", 20),): r"^rank must be 0 to 19, got 20\.$",
        (("rank", -1),): r"^rank must be 0 to 19, got -1\.$",
        (("rank", 3), ("band", 3)): r"^band must be 0 to 2, got 3\.$",
        (("rank", 3), ("documents", (0, 20))): r"^documents must be 0 to 19, got \[0, 20\]\.$",
        (("rank", 3), ("head", 0)): r"^Head 0 was asked for, but this study keeps the head mean\.",
    }.items():
        with pytest.raises(es.EddyscopeError, match=message):
            es.reconstruct(study, ensemble, 0, **dict(call))
    other = es.AttentionEnsemble.from_arrays({"a": planted.noise(N, L, 9)})
    with pytest.raises(
        es.EddyscopeError, match=r"^The mean field of layer 'a' differs from the study's by up to 0\.\d+\."
    ):
        es.reconstruct(study, other, 0, 3)
    fewer = ensemble.select_documents([0, 1, 2])
    with pytest.raises(
        es.EddyscopeError, match=r"but the study was made from 20 documents of 40 x 40\. Pass the ensem"
    ):
        es.reconstruct(study, fewer, 0, 3)
