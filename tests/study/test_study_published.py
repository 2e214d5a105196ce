"""The preset repeats what the published script printed for a small ensemble (tests/data/README.md)."""

from pathlib import Path

import numpy as np
import pytest

import eddyscope as es

DATA = Path(__file__).parent.parent / "data" / "published_pipeline.npz"
WAYS = {"back": "queryback", "ahead": "asis"}


@pytest.fixture(scope="module")
def oracle():
    with np.load(DATA) as loaded:
        return dict(loaded)


@pytest.fixture(scope="module")
def ensemble(oracle):
    return es.AttentionEnsemble.from_arrays(oracle["attention"][:, None], causal=True)


@pytest.fixture(scope="module", params=WAYS)
def case(request, oracle, ensemble):
    """The study of one way to read lags, and what the script gave for it."""
    options = {"preset": "published", "scales": oracle["scales"], "lags": request.param, "intervals": False}
    if request.param == "ahead":
        with pytest.warns(es.EddyscopeWarning, match="reads the masked half of causal attention") as caught:
            study = es.analyze(ensemble, **options)
        assert [w.message.slug for w in caught] == ["masked-half"]
    else:
        study = es.analyze(ensemble, **options)
    prefix = f"{WAYS[request.param]}_"
    expected = {k.removeprefix(prefix): v for k, v in oracle.items() if k.startswith(prefix)}
    if request.param == "back":  # the script was given the attention reversed
        for name in ("modes", "coherence_scale4"):
            expected[name] = expected[name][..., ::-1, ::-1]
    return study.layer(0), expected


def test_scalogram(case):
    data, expected = case
    ours = data["scalogram"].sel(part="total").values
    np.testing.assert_allclose(ours, expected["scalogram"], atol=1e-5 * expected["scalogram"].max())
    audible = expected["scalogram"] > 1e-10 * expected["scalogram"].max()
    np.testing.assert_allclose(ours[audible], expected["scalogram"][audible], rtol=1e-4)


def test_dominant_scales(case, oracle):
    data, expected = case
    np.testing.assert_allclose(data["dominant_scale"], oracle["scales"][expected["dominant_idx"]])


def test_eigenvalues(case):
    data, expected = case
    ours = data["eigenvalues"].values[:, :23]
    theirs = expected["eigenvalues"]
    np.testing.assert_allclose(ours, theirs[:, :23], atol=1e-5 * theirs.max())
    assert np.all(theirs[:, 23] < 1e-5 * theirs.max())


def test_modes_up_to_their_sign(case):
    data, expected = case
    ours, theirs = np.nan_to_num(data["modes"].values[:, :3]), expected["modes"]
    sign = np.sign((ours * theirs).sum(axis=(2, 3), keepdims=True))
    np.testing.assert_allclose(ours * sign, theirs, atol=1e-5 * np.abs(theirs).max())


def test_decay(case):
    data, expected = case
    assert float(data["beta_published"][0]) == pytest.approx(float(expected["beta"]), rel=1e-5)
    assert float(data["t_spec_published"][0]) == pytest.approx(float(expected["t_spec"]), rel=1e-5)


def test_effective_rank_is_one_less_than_the_scripts(case, oracle):
    data, expected = case
    np.testing.assert_array_equal(data["tolerance"], oracle["h_star_eps"])
    assert np.all(expected["h_star"] < 24)  # none of these is capped
    np.testing.assert_array_equal(data["effective_rank"][0], expected["h_star"] - 1)


def test_coherence_on_keys_that_the_query_may_see(case, oracle, ensemble):
    _, expected = case
    found = es.coherence(ensemble, 0, oracle["scales"][4], preset="published")
    ours = found["coherence"].values[0]
    seen = np.tril_indices(48)
    np.testing.assert_allclose(ours[seen], expected["coherence_scale4"][seen], atol=1e-5)
    assert np.isnan(ours[np.triu_indices(48, 1)]).all()


def test_the_study_holds_the_coherence_of_its_first_band(case, ensemble):
    data, _ = case
    scale = float(data["dominant_scale"][0])
    assert float(data["coherence_scale"][0]) == scale
    expected = es.coherence(ensemble, 0, scale, preset="published")["coherence"].values[0]
    np.testing.assert_allclose(data["coherence"][0], expected, atol=1e-6)
    assert np.isnan(data["coherence"][1:]).all()


def test_the_presets_own_scales_and_conventions(ensemble):
    study = es.analyze(ensemble, preset="published", intervals=False)
    data = study.layer(0)
    np.testing.assert_allclose(data["scale"], 2 ** np.linspace(1, 6, 20))
    assert study.provenance["analysis"]["omega0"] == 5
    assert data.attrs["edges"] == "replicate"
    assert data.attrs["min_query"] == 0
    assert data["scalogram"].attrs["field"] == data["eigenvalues"].attrs["field"] == "raw"
    distance = np.arange(48)
    for band in range(4):
        expected = np.exp(-(distance**2) / (2 * float(data["dominant_scale"][band]) ** 2))
        np.testing.assert_allclose(data["window"][band], expected)
    np.testing.assert_allclose(data["spectrum"].sel(normalisation="energy"), data["scalogram"].sum("lag"))


@pytest.mark.parametrize("way", WAYS)
def test_a_two_sided_field_has_both_ways_each_the_others_mirror(way):
    """Reading a reversed field ahead is reading the field back."""
    rng = np.random.default_rng(0)
    attention = rng.dirichlet(np.ones(24), size=(12, 24))
    other = "ahead" if way == "back" else "back"
    options = {"preset": "published", "intervals": False, "scales": [2, 3, 4, 6]}
    one = es.analyze(es.AttentionEnsemble.from_arrays(attention[:, None], causal=False), lags=way, **options).layer(0)
    turned = np.ascontiguousarray(attention[:, ::-1, ::-1])
    two = es.analyze(es.AttentionEnsemble.from_arrays(turned[:, None], causal=False), lags=other, **options).layer(0)
    np.testing.assert_allclose(one["spectrum"], two["spectrum"], rtol=1e-10)
    np.testing.assert_allclose(one["scalogram"], two["scalogram"][..., ::-1], rtol=1e-10)
    np.testing.assert_allclose(one["eigenvalues"], two["eigenvalues"], rtol=1e-8, atol=1e-15)
    np.testing.assert_allclose(one["window"], two["window"][:, ::-1])
    np.testing.assert_allclose(one["energy_outside"], two["energy_outside"], rtol=1e-10)
    np.testing.assert_array_equal(one["dominant_lag"], two["dominant_lag"])
    masked = (one["lag"] < 0) if way == "back" else (one["lag"] > 0)
    assert not one["window"].values[:, masked.values].any()
    assert np.isnan(one["scalogram"].values[..., masked.values]).all()
    assert float(one["energy_outside"]) < 0.9


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("omega0", 7.0),
        ("select", "octaves"),
        ("select", [3.0, 4.0]),
        ("window", "octaves"),
        ("edges", "zero"),
        ("sink_pod", "mask"),
        ("min_query", 4),
        ("max_lag", 16),
    ],
)
def test_an_option_that_the_preset_fixes_is_refused(option, value, ensemble):
    with pytest.raises(
        es.EddyscopeError, match=rf"^preset='published' fixes {option} to .*, got .*\. Leave it out, or"
    ):
        es.analyze(ensemble, preset="published", **{option: value})


def test_an_option_as_the_preset_has_it_is_no_conflict(ensemble):
    study = es.analyze(ensemble, preset="published", window="lowpass", omega0=5, select="top", intervals=False)
    assert study.provenance["analysis"]["window"] == "lowpass"


def test_lags_ahead_without_the_preset_are_refused(ensemble):
    with pytest.raises(es.EddyscopeError, match=r"^lags='ahead' reads the masked half of a causal field and is there"):
        es.analyze(ensemble, lags="ahead")
