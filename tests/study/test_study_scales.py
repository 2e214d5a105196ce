"""Known answers of the lag statistics: where attention sits, and how quickly it varies with distance."""

from functools import cache

import numpy as np
import pytest

import eddyscope as es
import planted


@cache
def analysed(kind, *args, causal=True, **options):
    attention = getattr(planted, kind)(*args, **({} if causal else {"causal": False}))
    ensemble = es.AttentionEnsemble.from_arrays(attention[:, None].astype(np.float32), causal=causal)
    return es.analyze(ensemble, **options).layer(0)


def counting(data):
    return [float(w) for w in data["dominant_wavelength"].values if np.isfinite(w)]


def test_a_fluctuating_period_of_12_over_recency_has_a_wavelength_of_12():
    data = analysed("periodic", 120, 160, 12.0)
    assert float(data["dominant_wavelength"][0]) == pytest.approx(12, rel=0.05)
    assert str(data["status"][0].values) == "ok"
    assert float(data["peak_standard_error"][0]) * 3 < float(data["peak_prominence"][0])


@pytest.mark.parametrize("period", [9.0, 12.0, 20.0])
def test_periods_come_out(period):
    data = analysed("periodic", 60, 256, period)
    assert counting(data) == [pytest.approx(period, rel=0.02)]
    assert data["status"].values.tolist() == ["ok"]


def test_a_bump_at_distance_40_sits_in_its_octave_and_has_no_wavelength():
    data = analysed("bump", 60, 256, 40.0, 8.0)
    densest = int(data["octave_density"].values.argmax())
    assert (int(data["octave"][densest]), int(data["octave_last"][densest])) == (31, 62)
    assert "ok" not in data["status"].values
    assert counting(data) == []
    assert 31 <= float(data["median_lag"]) <= 62


@pytest.mark.parametrize("distance", [20.0, 40.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_narrow_bump_and_its_mirror_image_fake_no_wavelength(distance, seed):
    data = analysed("bump", 40, 256, distance, distance / 5, seed, 0.05)
    assert counting(data) == []
    assert set(data["status"].values) == {"no dominant scale"}


def test_an_impulse_at_lag_0_has_no_wavelength():
    data = analysed("impulse", 40, 256)
    assert float(data["octave_share"][0]) > 0.9
    assert counting(data) == []


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("seed", [0, 1])
def test_noise_has_no_wavelength_and_is_flat(causal, seed):
    data = analysed("noise", 60, 160, seed, causal=causal)
    assert counting(data) == []
    assert set(data["status"].values) == {"no dominant scale"}
    np.testing.assert_allclose(data["octave_density"], 1, atol=0.2)
    spectrum = data["spectrum"].sel(part="fluctuation", normalisation="energy")
    clear = spectrum[(data["scale_status"] == "ok").values]
    np.testing.assert_allclose(clear / clear.mean(), 1, atol=0.05)


def test_bands_without_a_peak_are_octaves_denser_than_flat_most_energy_first():
    data = analysed("bump", 60, 256, 40.0, 8.0)
    share, density = data["octave_share"].values, data["octave_density"].values
    dense = [j for j in np.argsort(-share) if density[j] > 1][:4]
    np.testing.assert_array_equal(data["band_first"], data["octave"].values[dense])
    np.testing.assert_array_equal(data["band_last"], data["octave_last"].values[dense])
    np.testing.assert_array_equal(data["dominant_lag"], np.round(2.0 ** (np.array(dense) + 0.5)) - 1)
    assert np.isnan(data["dominant_scale"]).all()


def test_without_intervals_peaks_are_untested():
    data = analysed("periodic", 60, 160, 12.0, intervals=False)
    assert data["status"].values.tolist() == ["untested"]
    assert np.isnan(data["peak_standard_error"]).all()
    assert np.all(data["group"] == -1)


def test_with_fewer_than_eight_documents_too():
    attention = planted.periodic(7, 160, 12.0, noise=0.01)
    data = es.analyze(es.AttentionEnsemble.from_arrays(attention[:, None])).layer(0)
    assert data["status"].values[0] == "untested"


def test_the_dominant_lag_is_where_the_scale_is_loudest_inside_the_cone():
    data = analysed("periodic", 60, 256, 12.0)
    nearest = int(np.abs(np.log(data["scale"].values / float(data["dominant_scale"][0]))).argmin())
    energy = data["scalogram"].sel(part="fluctuation")[nearest].values
    inside = [b for b in range(128) if float(data["cone_low"][nearest]) <= b <= float(data["cone_high"][nearest])]
    assert float(data["dominant_lag"][0]) == inside[int(energy[inside].argmax())]


@pytest.mark.parametrize("causal", [True, False])
def test_the_budget_is_the_energy_of_full_rows_and_adds_up(causal):
    attention = planted.noise(20, 64, 3, causal=causal)
    data = es.analyze(es.AttentionEnsemble.from_arrays(attention[:, None], causal=causal), sink="keep").layer(0)
    h = 32 if causal else 16
    queries = range(32, 64) if causal else range(16, 48)
    lags = np.arange(h) if causal else np.arange(-h, h + 1)
    u = attention - attention.mean(axis=0)
    energy = np.array([np.mean([u[:, i, i - lag] ** 2 for i in queries]) for lag in lags])
    np.testing.assert_allclose(data["lag_energy"].sel(lag=lags), energy, rtol=1e-10)
    assert np.isnan(data["lag_energy"].sel(lag=[lag for lag in data["lag"].values if lag not in lags])).all()
    assert float(data["octave_share"].sum()) == pytest.approx(1, abs=1e-12)
    distance = np.abs(lags)
    at = np.bincount(distance, weights=energy)
    assert float(data["median_lag"]) == np.flatnonzero(np.cumsum(at) >= at.sum() / 2)[0]
    assert float(data["near_share"]) == pytest.approx(at[:8].sum() / at.sum())
    assert float(data["far_share"]) == pytest.approx(at[h // 2 :].sum() / at.sum())
    # j = 0..ceil(log2 h) - 1; distances beyond the last bin join it.
    assert data["octave"].values.tolist() == [0, 1, 3, 7, 15][: 5 if causal else 4]
    assert int(data["octave_last"][-1]) == lags.max()
    if not causal:
        half = np.where(lags == 0, 0.5, 1.0)
        octave = np.minimum(np.floor(np.log2(1 + distance)), 3)
        for side, of in (("back", lags >= 0), ("ahead", lags <= 0)):
            expected = [(energy * half)[of & (octave == j)].sum() / energy.sum() for j in range(4)]
            np.testing.assert_allclose(data["octave_share"].sel(side=side), expected, rtol=1e-10)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("edges", [None, "reflect", "zero", "replicate"])
def test_total_is_mean_plus_fluctuation_at_every_scale_and_lag(causal, edges):
    attention = planted.noise(12, 64, 4, causal=causal)
    data = es.analyze(es.AttentionEnsemble.from_arrays(attention[:, None], causal=causal), edges=edges).layer(0)
    assert data.attrs["edges"] == (edges or ("reflect" if causal else "zero"))
    for name in ("scalogram", "spectrum"):
        total, mean, fluctuation = (data[name].sel(part=p) for p in ("total", "mean", "fluctuation"))
        np.testing.assert_allclose(total, mean + fluctuation, rtol=1e-12)
    rectified = data["spectrum"].sel(normalisation="rectified")
    np.testing.assert_allclose(rectified, data["spectrum"].sel(normalisation="energy") / data["scale"], rtol=1e-12)


def test_the_standardised_spectrum_does_not_see_how_loud_each_lag_is():
    attention = planted.noise(30, 64, 5)
    u = attention - attention.mean(axis=0)
    loud = np.where(planted.distances(64) % 5 == 0, 3.0, 1.0)
    for gain in (1.0, loud):
        field = es.AttentionEnsemble.from_arrays((attention.mean(axis=0) + gain * u)[:, None], unnormalised=True)
        data = es.analyze(field, intervals=False).layer(0).sel(part="fluctuation")
        if np.ndim(gain) == 0:
            plain = data["spectrum"]
        else:
            np.testing.assert_allclose(
                data["spectrum"].sel(normalisation="standardised"), plain.sel(normalisation="standardised"), rtol=1e-9
            )
            assert not np.allclose(data["spectrum"].sel(normalisation="energy"), plain.sel(normalisation="energy"))


def test_scales_outside_the_range_are_taken_and_marked():
    data = analysed("noise", 20, 64, scales=(2.0, 2.6, 4.0, 6.0, 12.0, 40.0))
    assert data["scale_status"].values.tolist() == ["above Nyquist", "ok", "ok", *["edge-affected"] * 3]
    np.testing.assert_allclose(data["wavelength"], data["scale"] * 4 * np.pi / (6 + np.sqrt(38)))
    empty = data.isel(scale=-1)  # no position is clear of the far edge
    assert np.isnan(empty["spectrum"]).all() and np.isnan(empty["spectrum_other_edges"])
    assert np.isnan([empty["cone_low"], empty["cone_high"]]).all()
    assert np.isfinite(data["spectrum_other_edges"][:-1]).all()


def test_the_fluctuation_level_is_its_share_of_the_squared_field():
    attention = planted.noise(20, 64, 6)
    data = analysed("noise", 20, 64, 6)
    used = np.tril(np.ones((64, 64)))[8:]
    fluctuation = (attention.var(axis=0)[8:] * used).sum()
    total = ((attention[:, 8:] ** 2).mean(axis=0) * used).sum()
    assert float(data["fluctuation_level"]) == pytest.approx(fluctuation / total, rel=1e-5)
    by_query = attention.var(axis=0).sum(axis=1)
    np.testing.assert_allclose(data["energy_by_query"], by_query / by_query.sum(), atol=1e-6)
