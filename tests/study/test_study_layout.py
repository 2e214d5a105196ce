"""A study has the variables, dimensions and coordinates that it promises, whatever it is made from."""

import json
import warnings
from functools import cache

import numpy as np
import pytest

import eddyscope as es
import planted
from eddyscope.lagfield import LagField
from eddyscope.study.measures import SCALAR_MEASURES

N, L = 12, 32
MEASURES = (*SCALAR_MEASURES, "effective_rank")

#: Every variable that a layer has at least, with its dimensions.
VARIABLES = {
    "octave_share": ("octave",),
    "octave_density": ("octave",),
    "lag_energy": ("lag",),
    "scalogram": ("part", "scale", "lag"),
    "spectrum": ("part", "normalisation", "scale"),
    "dominant_scale": ("band",),
    "dominant_wavelength": ("band",),
    "dominant_lag": ("band",),
    "status": ("band",),
    "window": ("band", "lag"),
    "eigenvalues": ("band", "rank"),
    "modes": ("band", "mode", "query", "key"),
    "mode_profile": ("band", "mode", "lag"),
    "coefficients": ("band", "document", "mode"),
    "field_eigenvalues": ("rank",),
    "field_modes": ("mode", "query", "key"),
    "field_mode_profile": ("mode", "lag"),
    "field_coefficients": ("document", "mode"),
    "lag_eigenvalues": ("rank",),
    "lag_modes": ("mode", "lag"),
    "coherence": ("band", "query", "key"),
    "coherence_phase": ("band", "query", "key"),
    "mean_field": ("query", "key"),
    "fluctuation_level": (),
    "sink_mass": (),
    "energy_by_query": ("query",),
    **{f"{p}{m}": (("band",) if not p else ()) for p in ("", "field_", "lag_") for m in SCALAR_MEASURES},
    **{f"{p}effective_rank": (*(("band",) if not p else ()), "tolerance") for p in ("", "field_", "lag_")},
}

CASES = {
    "causal": {"causal": True},
    "two-sided": {"causal": False},
    "causal, each head": {"causal": True, "heads": 3},
    "two-sided, each head": {"causal": False, "heads": 2},
    "causal, band of lags": {"causal": True, "max_lag": 8},
    "two-sided, band of lags": {"causal": False, "max_lag": 5},
    "cross attention": {"causal": False, "keys": 40},
}


def attention_of(causal=True, heads=0, keys=L, documents=N):
    shape = (documents, *([heads] if heads else []), L, keys)
    logits = 0.5 * np.random.default_rng(1).normal(size=shape)
    return planted.softmax_rows(logits, causal)


def ensemble_of(causal=True, heads=0, keys=L, max_lag=None):
    attention = attention_of(causal, heads, keys)
    if keys == L:
        return es.AttentionEnsemble.from_arrays({"a": attention}, causal=causal, max_lag=max_lag)
    return es.AttentionEnsemble({"a": LagField.from_dense(attention, causal)}, {"a": es.LayerInfo("a", 0, "cross")})


@cache
def study_of(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return es.analyze(ensemble_of(**CASES[case]), modes=4)


def expected_dimensions(name, case):
    dims = VARIABLES[name]
    if name.startswith("octave_") and not CASES[case]["causal"]:
        dims = ("side", *dims)
    return ("head", *dims) if CASES[case].get("heads") else dims


@pytest.mark.parametrize("case", CASES)
def test_every_variable_is_there_with_its_dimensions_description_and_units(case):
    data = study_of(case).layer("a")
    for name in VARIABLES:
        if "coherence" in name and ("band of lags" in case or "cross" in case):
            assert name not in data  # rows along the key axis are not whole
            continue
        assert data[name].dims == expected_dimensions(name, case), name
        assert data[name].attrs["long_name"] and "units" in data[name].attrs, name
        if name.removeprefix("field_").removeprefix("lag_") in MEASURES:
            assert data[f"{name}_status"].dims == data[name].dims, name
    for name in ("scalogram", "octave_share", "lag_eigenvalues", "eigenvalues", "field_modes", "mean_field"):
        assert data[name].attrs["field"] in ("raw", "masked"), name
    assert data["scalogram"].attrs["omega0"] == 6 and data["modes"].attrs["window"] == "band"


@pytest.mark.parametrize("case", CASES)
def test_coordinates_say_what_is_on_each_axis(case):
    data, options = study_of(case).layer("a"), CASES[case]
    causal, keys, limit = options["causal"], options.get("keys", L), options.get("max_lag")
    h = min(x for x in (L // 2 if causal else L // 4, limit) if x is not None)
    low = 0 if causal else -(keys - 1 if limit is None else limit)
    high = L - 1 if limit is None else (limit - 1 if causal else limit)
    assert data["lag"].values.tolist() == list(range(low, high + 1))
    assert data["query"].values.tolist() == list(range(L))
    assert data["key"].values.tolist() == list(range(keys))
    assert data["document"].values.tolist() == list(range(N))
    assert data["mode"].values.tolist() == [1, 2, 3, 4]
    lags = h if causal else 2 * h + 1
    assert data["rank"].values.tolist() == list(range(1, max(N - 1, lags) + 1))
    assert data["tolerance"].values.tolist() == [0.10, 0.05, 0.01]
    assert data["part"].values.tolist() == ["total", "mean", "fluctuation"]
    assert data["normalisation"].values.tolist() == ["energy", "rectified", "standardised"]
    count = int(np.ceil(np.log2(h)))
    assert data["octave"].values.tolist() == [2**j - 1 for j in range(count)]
    if not causal:
        assert data["side"].values.tolist() == ["back", "ahead"]
    if "heads" in options:
        assert data["head"].values.tolist() == [str(i) for i in range(options["heads"])]
    assert (data.attrs["queries"], data.attrs["keys"], data.attrs["documents"]) == (L, keys, N)
    assert data.attrs["min_query"] == (L // 8 if causal else 0)


@pytest.mark.parametrize("case", CASES)
def test_eigenvalues_are_whole_descending_and_never_undefined(case):
    data = study_of(case).layer("a")
    present = data["status"] != "absent"
    for name in ("field_eigenvalues", "lag_eigenvalues", "eigenvalues"):
        values = data[name].where(present, 0) if name == "eigenvalues" else data[name]
        values = values.transpose(..., "rank").values
        if name.startswith("lag") and "cross" in case:  # there is no lag
            assert np.isnan(values).all()
            continue
        assert np.isfinite(values).all() and np.all(np.diff(values, axis=-1) <= 0) and np.all(values >= 0)
        if not name.startswith("lag"):
            assert not values[..., N - 1 :].any()


@pytest.mark.parametrize("case", CASES)
def test_maps_are_undefined_where_the_mask_forbids_and_modes_where_queries_are_left_out(case):
    options = CASES[case]
    data = study_of(case).layer("a")
    lag = data["query"] - data["key"]
    exists = lag >= 0 if options["causal"] else lag == lag
    if options.get("max_lag"):
        exists = exists & (lag < options["max_lag"] if options["causal"] else abs(lag) <= options["max_lag"])
    assert bool((data["mean_field"].notnull() == exists).all())
    mode = data["field_modes"].isel(mode=0)
    assert bool((mode.notnull() == (exists & (data["query"] >= data.attrs["min_query"]))).all())
    np.testing.assert_allclose((mode**2).sum(["query", "key"]), 1, atol=1e-6)
    mean = attention_of(options["causal"], options.get("heads", 0), options.get("keys", L)).mean(axis=0)
    np.testing.assert_allclose(data["mean_field"].where(exists, 0), np.where(exists, mean, 0), atol=1e-12)


@pytest.mark.parametrize("case", [c for c in CASES if "head" in c])
def test_one_head_is_the_study_of_that_head_alone(case):
    options, study = CASES[case], study_of(case)
    attention = attention_of(options["causal"], options["heads"])
    for head in range(options["heads"]):
        alone = es.analyze(
            es.AttentionEnsemble.from_arrays({"a": attention[:, head]}, causal=options["causal"]), modes=4
        ).layer("a")
        data = study.layer("a", head=head)
        assert "head" not in data.dims
        bands = alone.sizes["band"]
        for name in VARIABLES:
            ours = data[name].isel(band=slice(bands)) if "band" in data[name].dims else data[name]
            np.testing.assert_array_equal(ours.values, alone[name].values, err_msg=name)


def test_heads_with_fewer_bands_are_filled_up_and_say_absent():
    quiet = planted.noise(40, 160, 1)
    heads = np.stack([planted.periodic(40, 160, 10.0, noise=0.02), quiet], axis=1)
    data = es.analyze(es.AttentionEnsemble.from_arrays({"a": heads})).layer("a")
    one, many = data.isel(head=0), data.isel(head=1)
    assert one["status"].values.tolist() == ["ok"] + ["absent"] * (data.sizes["band"] - 1)
    assert set(many["status"].values) == {"no dominant scale"}
    assert np.isnan(one["eigenvalues"][1:]).all() and np.isfinite(one["eigenvalues"][0]).all()
    assert set(one["beta_published_status"].values[1:]) == {"absent"}
    assert set(one["peak_status"].values) | {"absent"} == set(data["peak_status"].values.flat) | {"absent"}
    table = es.analyze(es.AttentionEnsemble.from_arrays({"a": heads})).summary()
    assert table["head"].tolist() == ["0", "1"]
    assert table["dominant_wavelength"][0] == pytest.approx(10, rel=0.05)
    assert table["status"][1].startswith("no dominant scale")


def test_layers_keep_their_names_and_order():
    layers = {f"model.layers.{i}.self_attn": planted.noise(9, 16, i) for i in (11, 2, 0)}
    study = es.analyze(es.AttentionEnsemble.from_arrays(layers))
    assert study.layers == tuple(layers)
    assert [data.attrs["layer"] for _, data in study] == list(layers)
    assert [data.attrs["layer_index"] for _, data in study] == [0, 1, 2]
    assert study.layer(-1).attrs["layer"] == study.layer("model.layers.0.self_attn").attrs["layer"]
    assert repr(study) == "<Study of arrays: 3 layers, 9 documents>"
    assert repr(es.Study(study.data, {"model": {"name": "gpt2"}})) == "<Study of gpt2: 3 layers, 9 documents>"
    assert set(study.data.children) == set(layers)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.layer(3), r"^Layer 3 is not in this study\. It has 1 layers: a\.$"),
        (lambda s: s.layer("b"), r"^Layer 'b' is not in this study\."),
        (
            lambda s: s.layer(0, head=0),
            r"^Head 0 was asked for, but this study keeps the head mean\. Capture with heads=",
        ),
    ],
)
def test_what_is_not_there_is_named(call, message):
    with pytest.raises(es.EddyscopeError, match=message):
        call(study_of("causal"))


def test_a_missing_head_is_named():
    with pytest.raises(es.EddyscopeError, match=r"^Head 5 is not in this study\. It has: 0, 1, 2\.$"):
        study_of("causal, each head").layer(0, head=5)


def test_provenance_is_json_and_says_how_the_study_was_made():
    study = es.analyze(ensemble_of(), scales=np.array([3.0, 4.0]), omega0=np.float32(5.5), modes=np.int64(3), seed=7)
    kept = json.loads(json.dumps(study.provenance))
    assert kept["analysis"] | {"scales": [3.0, 4.0], "omega0": 5.5, "modes": 3, "seed": 7} == kept["analysis"]
    assert {"python", "numpy", "eddyscope"} <= set(kept["versions"])
    assert kept["source"] == "arrays"


def test_progress_counts_the_layers():
    seen = []
    layers = {"a": planted.noise(9, 16, 0), "b": planted.noise(9, 16, 1)}
    es.analyze(es.AttentionEnsemble.from_arrays(layers), progress=lambda *args: seen.append(args))
    assert seen == [("a", 0, 2), ("b", 1, 2), ("", 2, 2)]


SUMMARY = [
    "layer",
    "head",
    "peak_octave",
    "median_lag",
    "dominant_wavelength",
    "sink_mass",
    "fluctuation_level",
    "beta_published",
    "t_spec_published",
    "r2",
    "h_10",
    "h_05",
    "h_01",
    "participation_ratio",
    "lag_beta_published",
    "lag_t_spec_published",
    "lag_h_10",
    "lag_participation_ratio",
    "documents",
    "status",
]


@pytest.mark.parametrize("case", CASES)
def test_the_summary_has_one_row_a_layer_and_head_and_these_columns(case):
    study, heads = study_of(case), CASES[case].get("heads", 0)
    table = study.summary()
    assert table.columns.tolist()[: len(SUMMARY)] == SUMMARY
    assert table["head"].tolist() == ([str(i) for i in range(heads)] if heads else ["mean"])
    assert set(table["layer"]) == {"a"} and set(table["documents"]) == {N}
    data = study.layer("a")
    for column, variable in {
        "median_lag": "median_lag",
        "sink_mass": "sink_mass",
        "beta_published": "field_beta_published",
        "t_spec_published": "field_t_spec_published",
        "r2": "field_r2",
        "participation_ratio": "field_participation_ratio",
        "lag_beta_published": "lag_beta_published",
        "lag_participation_ratio": "lag_participation_ratio",
        "fluctuation_level": "fluctuation_level",
    }.items():
        np.testing.assert_array_equal(table[column], np.atleast_1d(data[variable].values))
    ranks = data["field_effective_rank"].transpose("tolerance", ...)
    for column, values in zip(("h_10", "h_05", "h_01"), ranks, strict=True):
        np.testing.assert_array_equal(table[column], np.atleast_1d(values.values))
    np.testing.assert_array_equal(
        table["lag_h_10"], np.atleast_1d(data["lag_effective_rank"].sel({"tolerance": 0.1}).values)
    )


def test_columns_of_ranks_follow_the_tolerances():
    table = es.analyze(ensemble_of(), tolerances=(0.2, 0.005)).summary()
    ranks = [c for c in table.columns[: len(SUMMARY) - 1] if c.startswith(("h_", "lag_h_"))]
    assert ranks == ["h_20", "h_0.5", "lag_h_20"]


@pytest.mark.parametrize("causal", [True, False])
def test_the_peak_octave_is_the_densest_of_both_sides_together(causal):
    attention = planted.noise(20, 64, 3, causal=causal)
    distance = np.abs(planted.distances(64))
    u = attention - attention.mean(axis=0)
    attention = attention.mean(axis=0) + u * np.where((distance >= 3) & (distance <= 6), 3.0, 1.0)
    if not causal:  # one side alone fluctuates: nothing is divided by the empty other
        attention = np.where(planted.distances(64) < 0, attention.mean(axis=0), attention)
    ensemble = es.AttentionEnsemble.from_arrays(attention[:, None], causal=causal, unnormalised=True)
    study = es.analyze(ensemble, intervals=False)
    assert study.summary()["peak_octave"][0] == "3-6"
    data = study.layer(0)
    share = data["octave_share"].sum([d for d in ("side",) if d in data.dims])
    assert float(share.sum()) == pytest.approx(1, abs=1e-12)


def test_bare_arrays_are_refused_with_the_way_to_an_ensemble():
    with pytest.raises(es.EddyscopeError, match=r"is ndarray, expected an AttentionEnsemble.*from_arrays"):
        es.analyze(planted.noise(9, 16))
