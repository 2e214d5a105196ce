import numpy as np
import pytest

import eddyscope as es
import planted
from eddyscope.errors import UsageError
from eddyscope.study.options import make_options


@pytest.fixture(scope="module")
def ensemble():
    return es.AttentionEnsemble.from_arrays(planted.periodic(20, 160, 10.0, noise=0.02)[:, None])


WRONG = [
    ({"preset": "paper"}, r"^preset must be one of published, got 'paper'\.$"),
    ({"window": "hann"}, r"^window must be one of band, lowpass, octaves, got 'hann'\.$"),
    ({"edges": "periodic"}, r"^edges must be one of reflect, zero, replicate, got 'periodic'\.$"),
    ({"sink": "drop"}, r"^sink must be one of mask, keep or first=K with K of at least 1, got 'drop'\.$"),
    ({"sink_pod": None}, r"^sink_pod must be one of mask, keep or first=K with K of at least 1, got None\.$"),
    ({"lags": "both"}, r"^lags must be one of back, ahead, got 'both'\.$"),
    ({"select": "best"}, r"^select must be one of peaks, top, octaves, bands, got 'best'\.$"),
    ({"select": []}, r"^select must be a list of positive numbers \(tokens\), got \[\]\.$"),
    ({"select": 7}, r"^select must be a list of numbers, got 7\.$"),
    ({"scales": [3, -1]}, r"^scales must be a list of positive numbers \(tokens\), got \[3\.0, -1\.0\]\.$"),
    ({"scales": [3, np.inf]}, r"^scales must be a list of positive numbers \(tokens\), got \[3\.0, inf\]\.$"),
    ({"scales": [4, 3]}, r"^scales must ascend without repeats, got \[4\.0, 3\.0\]\.$"),
    ({"scales": [3, 3]}, r"^scales must ascend without repeats, got \[3\.0, 3\.0\]\.$"),
    ({"scales": ["a"]}, r"^scales must be a list of numbers, got \['a'\]\.$"),
    (
        {"omega0": 1.5},
        r"^omega0 must be at least 2, got 1\.5\. Below 5 the wavelet has a mean of its own; 6 is usual\.$",
    ),
    ({"omega0": np.nan}, r"^omega0 must be at least 2, got nan\."),
    ({"omega0": "6"}, r"^omega0 must be at least 2, got '6'\."),
    ({"dominant": 0}, r"^dominant must be a whole number of at least 1, got 0\.$"),
    ({"modes": 2.0}, r"^modes must be a whole number of at least 1, got 2\.0\.$"),
    ({"modes": True}, r"^modes must be a whole number of at least 1, got True\.$"),
    ({"min_query": -1}, r"^min_query must be a whole number of at least 0, got -1\.$"),
    ({"min_query": 160}, r"^min_query=160 leaves no query of 160\. Choose a smaller one\.$"),
    ({"max_lag": 1}, r"^max_lag must be a whole number of at least 2, got 1\.$"),
    ({"tolerances": []}, r"^tolerances must lie between 0 and 1, got \[\]\.$"),
    ({"tolerances": [0.1, 1.0]}, r"^tolerances must lie between 0 and 1, got \[0\.1, 1\.0\]\.$"),
    ({"tolerances": 0.1}, r"^tolerances must be a list of numbers, got 0\.1\.$"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_an_option_that_is_not_allowed_is_named(options, message, ensemble):
    with pytest.raises(es.EddyscopeError, match=message) as caught:
        es.analyze(ensemble, **options)
    assert "\n" not in str(caught.value)


def test_peaks_are_the_default(ensemble):
    data = es.analyze(ensemble).layer(0)
    assert data["status"].values.tolist() == ["ok"]
    assert data["band_label"].values[0] == f"wavelength {float(data['dominant_wavelength'][0]):.3g}"
    assert np.isnan(data["band_first"]).all()


@pytest.mark.parametrize("dominant", [1, 3, np.int64(6)])
def test_top_takes_the_largest_values_of_the_fluctuations_spectrum(dominant, ensemble):
    data = es.analyze(ensemble, select="top", dominant=dominant, intervals=False).layer(0)
    spectrum = data["spectrum"].sel(part="fluctuation", normalisation="energy").values
    order = np.argsort(-np.nan_to_num(spectrum, nan=-1))[:dominant]
    np.testing.assert_array_equal(data["dominant_scale"], data["scale"].values[order])
    marked = ["largest energy" if s == "ok" else s for s in data["scale_status"].values[order]]
    assert data["status"].values.tolist() == marked


def test_octaves_are_all_of_them(ensemble):
    data = es.analyze(ensemble, select="octaves", intervals=False).layer(0)
    np.testing.assert_array_equal(data["band_first"], data["octave"])
    np.testing.assert_array_equal(data["band_last"], data["octave_last"])
    assert set(data["status"].values) == {"octave"}
    assert data["band_label"].values.tolist()[:3] == ["lag 0", "lags 1-2", "lags 3-6"]
    # Energies of the octave windows add up to that of the field.
    np.testing.assert_allclose((data["window"] ** 2).sum("band"), 1, atol=1e-10)
    assert float(data["eigenvalues"].sum()) == pytest.approx(float(data["field_eigenvalues"].sum()), rel=1e-10)


def test_bands_split_the_energy_in_three_at_borders_of_octaves(ensemble):
    data = es.analyze(ensemble, select="bands", intervals=False).layer(0)
    assert data["status"].values.tolist() == [s for s in ("fine", "medium", "coarse") if s in data["status"].values]
    first, last = data["band_first"].values, data["band_last"].values
    assert first[0] == 0 and last[-1] == 79
    np.testing.assert_array_equal(first[1:], last[:-1] + 1)
    np.testing.assert_allclose((data["window"] ** 2).sum("band"), 1, atol=1e-10)
    middle = data["octave_share"].cumsum() - data["octave_share"] / 2
    for band, name in enumerate(data["status"].values):
        low, high = {"fine": (0, 1 / 3), "medium": (1 / 3, 2 / 3), "coarse": (2 / 3, 1)}[str(name)]
        inside = (data["octave"] >= first[band]) & (data["octave"] <= last[band])
        assert np.all((middle.values[inside] >= low) & (middle.values[inside] <= high))


def test_given_scales_are_taken_as_they_are(ensemble):
    data = es.analyze(ensemble, select=[9.7, 2.0, 30.0], intervals=False).layer(0)
    assert data["dominant_scale"].values.tolist() == [9.7, 2.0, 30.0]
    assert data["status"].values.tolist() == ["given", "above Nyquist", "edge-affected"]


@pytest.mark.parametrize("window", ["band", "lowpass", "octaves"])
@pytest.mark.parametrize("causal", [True, False])
def test_windows_follow_their_formulas(window, causal):
    attention = planted.noise(12, 64, 1, causal=causal)
    data = es.analyze(
        es.AttentionEnsemble.from_arrays(attention[:, None], causal=causal),
        window=window,
        select=[2.6, 4.0],
        intervals=False,
    ).layer(0)
    distance = np.abs(data["lag"].values)
    octaves = data.sizes["octave"]
    bumps = np.exp(-((np.log2(1 + distance) - np.arange(octaves)[:, None] - 0.5) ** 2) / (2 * 0.6**2))
    for band, (scale, centre) in enumerate(
        zip(data["dominant_scale"].values, data["dominant_lag"].values, strict=True)
    ):
        expected = {
            "band": np.exp(-((distance - centre) ** 2) / (2 * max(scale / 2, 1) ** 2)),
            "lowpass": np.exp(-(distance**2) / (2 * scale**2)),
            "octaves": np.sqrt(bumps / bumps.sum(axis=0))[min(int(np.log2(1 + centre)), octaves - 1)],
        }[window]
        np.testing.assert_allclose(data["window"][band], expected, atol=1e-12)
    energy = np.nan_to_num(data["lag_energy"].values)
    covered = (data["window"].values ** 2).max(axis=0)
    assert float(data["energy_outside"]) == pytest.approx(1 - (energy * covered).sum() / energy.sum(), rel=1e-9)


def test_octave_bands_use_their_own_windows_whatever_is_asked_for():
    ensemble = es.AttentionEnsemble.from_arrays(planted.noise(12, 64, 1)[:, None])
    for window in ("band", "lowpass", "octaves"):
        data = es.analyze(ensemble, window=window, select="octaves", intervals=False).layer(0)
        np.testing.assert_allclose((data["window"] ** 2).sum("band"), 1, atol=1e-10)


@pytest.mark.parametrize("min_query", [0, 5])
def test_queries_before_min_query_do_not_enter_the_field_pod(min_query):
    attention = planted.noise(12, 32, 1)
    data = es.analyze(es.AttentionEnsemble.from_arrays(attention[:, None]), min_query=min_query, intervals=False).layer(
        0
    )
    energy = attention.var(axis=0)[min_query:].sum()
    assert float(data["field_eigenvalues"].sum()) == pytest.approx(energy, rel=1e-10)
    early = float((data["field_modes"][0, :4] ** 2).sum())
    assert float(data["early_share"]) == pytest.approx(early if min_query < 4 else 0, rel=1e-9)


def test_more_modes_than_documents_allow_are_left_undefined():
    data = es.analyze(
        es.AttentionEnsemble.from_arrays(planted.noise(5, 16, 1)[:, None]), modes=9, intervals=False
    ).layer(0)
    assert data.sizes["mode"] == 9
    assert np.isfinite(data["field_coefficients"][:, :4]).all() and np.isnan(data["field_coefficients"][:, 4:]).all()
    assert np.isnan(data["field_modes"][4:]).all()


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("seed", -1, r"seed must be a whole number of at least 0, got -1"),
        ("seed", "x", r"seed must be a whole number of at least 0, got 'x'"),
        ("seed", 1.5, r"seed must be a whole number of at least 0, got 1\.5"),
        ("intervals", "no", r"intervals must be True or False, got 'no'"),
        ("tolerances", "0.1", r"tolerances must be a list of numbers, got '0\.1'"),
    ],
)
def test_values_of_another_kind_are_refused_in_a_line(ensemble, option, value, expected):
    with pytest.raises(UsageError, match=expected):
        es.analyze(ensemble, **{option: value})


def test_numbers_and_truths_of_numpy_are_taken():
    made = make_options(seed=np.int64(3), intervals=np.bool_(False))
    assert (made.seed, made.intervals) == (3, False)
    assert type(made.intervals) is bool
