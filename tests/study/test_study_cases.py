"""Small, degenerate and odd ensembles: what can be computed is, the rest carries its status, nothing warns."""

import warnings

import numpy as np
import pytest
import xarray as xr

import eddyscope as es
import planted
from eddyscope.lagfield import LagField
from eddyscope.study.measures import SCALAR_MEASURES

FIELD_FIT = ("beta_published", "t_spec_published", "r2", "fit_intercept", "fit_curvature")


@pytest.fixture(autouse=True)
def _no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def ensemble_of(attention, causal=True, **options):
    return es.AttentionEnsemble.from_arrays(attention[:, None], causal=causal, **options)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("documents", "length"), [(10, 32), (150, 12), (7, 48)])
@pytest.mark.parametrize("preset", [None, "published"])
def test_equal_documents_do_not_fluctuate(causal, dtype, documents, length, preset):
    one = planted.noise(1, length, 3, causal=causal).astype(dtype)
    study = es.analyze(ensemble_of(np.repeat(one, documents, axis=0), causal), preset=preset)
    data = study.layer(0)
    for name in ("eigenvalues", "field_eigenvalues", "lag_eigenvalues"):
        assert not data[name].values.any()
    for prefix in ("", "field_", "lag_"):
        for name in SCALAR_MEASURES:
            assert np.isnan(data[f"{prefix}{name}"]).all()
            assert set(np.ravel(data[f"{prefix}{name}_status"])) == {"no fluctuation"}
        assert np.isnan(data[f"{prefix}effective_rank"]).all()
        assert set(np.ravel(data[f"{prefix}effective_rank_status"])) == {"no fluctuation"}
    assert float(data["fluctuation_level"]) == 0
    assert np.isnan(data["field_modes"]).all() and np.isnan(data["modes"]).all() and np.isnan(data["lag_modes"]).all()
    if preset is None:
        assert np.isnan(data["octave_share"]).all() and np.isnan(data["coherence"]).all()
        assert set(data["status"].values) == {"no dominant scale"}
    assert study.summary()["status"].tolist() == ["no fluctuation"]
    np.testing.assert_allclose(data["mean_field"].fillna(0), one[0], atol=1e-7)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("documents", [1, 2, 3, 8])
@pytest.mark.parametrize("length", [4, 5, 8, 17])
@pytest.mark.parametrize("preset", [None, "published"])
def test_few_and_short_documents(causal, documents, length, preset):
    study = es.analyze(ensemble_of(planted.noise(documents, length, 1, causal=causal), causal), preset=preset)
    data = study.layer(0)
    assert not data["field_eigenvalues"][max(1, documents - 1) :].any()
    assert (documents == 1) == (str(data["field_stable_rank_status"].values) == "no fluctuation")
    if documents > 1:
        assert float(data["field_eigenvalues"][0]) > 0
        fitted = {str(data[f"field_{name}_status"].values) for name in FIELD_FIT}
        assert fitted == {"too few modes"}
        expected = "too few documents" if documents < 8 else str(data["field_participation_ratio_status"].values)
        assert str(data["field_participation_ratio_status"].values) == expected
        assert float(data["octave_share"].sum()) == pytest.approx(1)
    if documents < 8:
        assert np.isnan(data["field_participation_ratio"])
        assert str(data["lag_participation_ratio_status"].values) in ("too few documents", "no fluctuation")
    assert np.isnan(data["modes"].isel(mode=slice(max(1, documents - 1), None))).all()
    assert len(study.summary()) == 1


@pytest.mark.parametrize("length", [1, 2, 3])
def test_shorter_ones_are_refused(length):
    with pytest.raises(
        es.EddyscopeError,
        match=rf"^Attention has {length} queries and {length} keys; an analysis along the lag needs at least 4 tok",
    ):
        es.analyze(ensemble_of(planted.noise(5, length)))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("limit", [2, 5, 16, 1000])
def test_max_lag_keeps_nearer_lags_in_every_part(causal, limit):
    attention = planted.noise(12, 32, 2, causal=causal)
    data = es.analyze(ensemble_of(attention, causal), max_lag=limit).layer(0)
    kept = np.abs(data["lag"]) < limit if causal else np.abs(data["lag"]) <= limit
    assert not data["window"].where(~kept, 0).values.any()
    assert np.isnan(data["scalogram"].where(~kept)).all()
    u = np.where(planted.distances(32) >= 0, attention, 0) if causal else attention
    near = np.abs(planted.distances(32)) < limit if causal else np.abs(planted.distances(32)) <= limit
    first = data.attrs["min_query"]
    expected = (u.var(axis=0) * near)[first:].sum()
    assert float(data["field_eigenvalues"].sum()) == pytest.approx(expected, rel=1e-9)
    # The same from a field that keeps only these lags.
    if limit < 16:
        banded = es.analyze(ensemble_of(attention, causal, max_lag=limit)).layer(0)
        for name in ("field_eigenvalues", "octave_share", "lag_eigenvalues", "scalogram", "sink_mass"):
            ours = data[name].sel(lag=banded["lag"]) if "lag" in data[name].dims else data[name]
            np.testing.assert_allclose(ours, banded[name], rtol=1e-6, atol=1e-12, err_msg=name)


def test_a_band_of_a_single_lag_is_an_ensemble_too():
    data = es.analyze(ensemble_of(planted.noise(12, 16, 2), max_lag=1)).layer(0)
    assert data["lag"].values.tolist() == [0]
    assert float(data["octave_share"][0]) == 1


@pytest.mark.parametrize("lags", ["coherence", "published"])
def test_what_needs_all_lags_says_so(lags):
    ensemble = ensemble_of(planted.noise(12, 16, 2), max_lag=4)
    with pytest.raises(
        es.EddyscopeError, match=r"needs square attention with all lags, got 16 queries, 16 keys and max"
    ):
        es.coherence(ensemble, 0, 4.0) if lags == "coherence" else es.analyze(ensemble, preset="published")


def test_a_sliding_window_leaves_lags_without_any_energy():
    near = planted.distances(64) < 6
    attention = np.where(near, planted.noise(20, 64, 1), 0)
    attention /= attention.sum(axis=-1, keepdims=True)
    data = es.analyze(ensemble_of(attention)).layer(0)
    assert data["octave_share"].values[3:].tolist() == [0, 0]
    assert np.isfinite(data["spectrum"].sel(normalisation="standardised")).all()
    assert int(np.count_nonzero(data["lag_eigenvalues"])) == 5  # rows sum to 1: one of six is a structural zero


@pytest.mark.parametrize("options", [{}, {"preset": "published"}, {"sink_pod": "mask"}, {"sink": "keep"}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_ensemble_is_left_as_it_was(options, dtype):
    attention = planted.noise(12, 24, 3).astype(dtype)[:, None]
    given = attention.copy()
    ensemble = es.AttentionEnsemble.from_arrays(given)
    field = ensemble[0]
    before = [array.copy() for array in (field.values, field.first_key, field.row_sum)]
    settings = np.geterr()
    es.analyze(ensemble, **options)
    es.coherence(ensemble, 0, 3.0)
    np.testing.assert_array_equal(given, attention)
    for array, was in zip((field.values, field.first_key, field.row_sum), before, strict=True):
        np.testing.assert_array_equal(array, was)
    assert np.geterr() == settings


@pytest.mark.parametrize("causal", [True, False])
def test_the_same_seed_gives_the_same_numbers(causal):
    ensemble = ensemble_of(planted.noise(20, 40, 3, causal=causal).astype(np.float32), causal)
    one, two = (es.analyze(ensemble, seed=5).layer(0) for _ in range(2))
    xr.testing.assert_identical(one, two)


@pytest.mark.parametrize("causal", [True, False])
def test_single_precision_agrees_with_double(causal):
    attention = planted.noise(20, 48, 4, causal=causal)
    double, single = (es.analyze(ensemble_of(attention.astype(t), causal)).layer(0) for t in (np.float64, np.float32))
    assert single["field_modes"].dtype == np.float32 and double["field_modes"].dtype == np.float64
    for name, variable in double.data_vars.items():
        if variable.dtype.kind != "f":
            np.testing.assert_array_equal(single[name], variable, err_msg=name)
            continue
        size = float(np.nan_to_num(np.abs(variable.values)).max(initial=0.0))
        np.testing.assert_allclose(single[name], variable, rtol=1e-3, atol=2e-4 * size, err_msg=name)


def test_half_precision_values_are_analysed_in_single():
    attention = planted.noise(12, 24, 4)
    half = LagField.from_dense(attention.astype(np.float16), True)
    ensemble = es.AttentionEnsemble({"a": half}, {"a": es.LayerInfo("a", 0)})
    data = es.analyze(ensemble).layer("a")
    plain = es.analyze(ensemble_of(attention)).layer(0)
    assert data["field_modes"].dtype == data["mean_field"].dtype == np.float32
    np.testing.assert_allclose(data["field_eigenvalues"][:5], plain["field_eigenvalues"][:5], rtol=1e-2)


def test_permuting_documents_permutes_coefficients_and_leaves_the_rest():
    attention = planted.noise(16, 40, 5)
    order = np.random.default_rng(0).permutation(16)
    one, two = (es.analyze(ensemble_of(a), intervals=False).layer(0) for a in (attention, attention[order]))
    for name, variable in one.data_vars.items():
        if variable.dtype.kind != "f" or "other_document" in variable.dims:
            continue
        ours = variable.isel(document=order).values if "document" in variable.dims else variable.values
        theirs = two[name].values
        if name.endswith("top_document"):  # each under its new number
            theirs = order[theirs.astype(int)]
        if name.startswith("coherence_phase"):
            ours, theirs = np.exp(1j * ours), np.exp(1j * theirs)
        np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-8, err_msg=name)


def test_a_constant_field_added_changes_only_what_is_said_of_the_mean():
    attention = planted.noise(16, 40, 6)
    shift = np.tril(np.random.default_rng(1).normal(size=(40, 40)))
    one, two = (es.analyze(ensemble_of(a, unnormalised=True)).layer(0) for a in (attention, attention + shift))
    for name in ("field_eigenvalues", "eigenvalues", "lag_eigenvalues", "field_participation_ratio", "octave_share"):
        np.testing.assert_allclose(two[name], one[name], rtol=1e-7, atol=1e-13, err_msg=name)
    for name in ("field_modes", "coherence"):
        np.testing.assert_allclose(two[name], one[name], atol=1e-6, err_msg=name)
    assert float(two["fluctuation_level"]) < float(one["fluctuation_level"])
