"""A sink on the first key changes what is said about the layer, and not what is said about its lags."""

import numpy as np
import pytest

import eddyscope as es
import planted
from eddyscope.lagfield import LagField
from eddyscope.study.rows import full_range, lag_rows, mask_first_keys

N, L = 30, 64
LAG_STATISTICS = (
    "octave_share",
    "octave_density",
    "lag_energy",
    "scalogram",
    "spectrum",
    "spectrum_other_edges",
    "lag_eigenvalues",
    "median_lag",
    "lag_effective_rank",
    "lag_participation_ratio",
    "lag_beta_published",
    "peak_scale",
    "peak_prominence",
)


def analysed(attention, causal=True, **options):
    return es.analyze(es.AttentionEnsemble.from_arrays(attention[:, None], causal=causal), **options).layer(0)


@pytest.mark.filterwarnings("ignore::eddyscope.EddyscopeWarning")
@pytest.mark.parametrize("causal", [True, False])
def test_masked_statistics_do_not_see_a_sink_and_unmasked_ones_do(causal):
    attention = planted.noise(N, L, 1, causal=causal)
    share = np.random.default_rng(2).uniform(0.2, 0.9, size=(N, L))  # another in every document and row
    sunk = planted.add_sink(attention, share)
    plain, masked, kept = analysed(attention, causal), analysed(sunk, causal), analysed(sunk, causal, sink="keep")
    for name in LAG_STATISTICS:
        np.testing.assert_allclose(masked[name], plain[name], rtol=1e-6, err_msg=name)
    assert masked["scalogram"].attrs["field"] == "masked" and kept["scalogram"].attrs["field"] == "raw"
    assert float(masked["sink_mass"]) > 0.5 > float(plain["sink_mass"])
    assert not np.allclose(kept["lag_energy"], plain["lag_energy"], rtol=0.1, equal_nan=True)
    # Field POD reads the raw field, and the sink's share fluctuates.
    assert masked["field_eigenvalues"].attrs["field"] == "raw"
    assert float(masked["field_eigenvalues"][0]) > 2 * float(plain["field_eigenvalues"][0])
    both = [analysed(a, causal, sink_pod="mask") for a in (attention, sunk)]
    np.testing.assert_allclose(both[1]["field_eigenvalues"], both[0]["field_eigenvalues"], rtol=1e-6, atol=1e-12)
    assert both[1]["field_eigenvalues"].attrs["field"] == "masked"


def test_a_period_comes_out_the_same_beside_a_sink():
    attention = planted.periodic(N, 2 * L, 9.0, noise=0.02)
    share = np.random.default_rng(2).uniform(0.2, 0.9, size=(N, 2 * L))
    sunk = planted.add_sink(attention, share)
    assert float(analysed(sunk)["dominant_wavelength"][0]) == pytest.approx(9, rel=0.03)
    ranks = [float(analysed(a)["lag_effective_rank"][0]) for a in (attention, sunk)]
    assert ranks[0] == ranks[1]


def test_with_each_head_every_head_is_masked_by_its_own_sink():
    heads = np.stack([planted.noise(N, L, seed) for seed in (1, 2)], axis=1)
    share = np.random.default_rng(3).uniform(0.2, 0.9, size=(N, 2, L))
    study, plain = (
        es.analyze(es.AttentionEnsemble.from_arrays({"a": a}), intervals=False).layer(0)
        for a in (planted.add_sink(heads, share), heads)
    )
    np.testing.assert_allclose(study["lag_energy"], plain["lag_energy"], rtol=1e-6)
    expected = planted.add_sink(heads, share)[:, :, L // 2 :, 0].mean(axis=(0, 2))
    np.testing.assert_allclose(study["sink_mass"], expected)


@pytest.mark.parametrize("causal", [True, False])
def test_queries_with_nearly_nothing_beside_the_sink_are_left_out_for_all_documents_and_counted(causal):
    attention = planted.noise(N, L, 1, causal=causal)
    share = np.full((N, L), 0.3)
    drowned = [40, 33, 31] if not causal else [40, 33, 63]
    for number, query in enumerate(drowned):
        share[number, query] = 0.96  # in one document each
    share[:, 5] = 0.99  # no full row
    data = analysed(planted.add_sink(attention, share), causal)
    assert int(data["queries_left_out"]) == 3
    _, first, stop = full_range(LagField.from_dense(attention, causal).geometry)
    first += 0 if causal else 1  # key 0 is at lag h of the first of them, which masking takes away
    used = [i for i in range(first, stop) if i not in drowned]
    masked = attention.copy()
    masked[:, :, 0] = 0
    masked /= masked.sum(axis=-1, keepdims=True) + (masked.sum(axis=-1, keepdims=True) == 0)
    for lag in (0, 3, 11):
        energy = np.mean([masked[:, i, i - lag].var(axis=0) for i in used])
        assert float(data["lag_energy"].sel(lag=lag)) == pytest.approx(energy, rel=1e-5)
    assert data.attrs["full_rows"] == len(used)
    # The mass on the sink counts the rows that were left out.
    sunk = planted.add_sink(attention, share)
    _, first, stop = full_range(LagField.from_dense(attention, causal).geometry)
    assert float(data["sink_mass"]) == pytest.approx(sunk[:, first:stop, 0].mean())


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("select", ["peaks", "top", "octaves", "bands", [4.0]])
def test_where_the_sink_leaves_no_full_row_lag_statistics_are_undefined_and_say_so(causal, select):
    data = analysed(planted.add_sink(planted.noise(12, L, 1, causal=causal), 0.97), causal, select=select)
    assert data.attrs["full_rows"] == 0
    assert int(data["queries_left_out"]) == (32 if causal else 31)
    assert float(data["sink_mass"]) > 0.97
    for name in LAG_STATISTICS:
        assert np.isnan(data[name].values.astype(float)).all(), name
    for name in ("lag_beta_published", "lag_participation_ratio", "lag_stable_rank"):
        assert str(data[f"{name}_status"].values) == "no full rows"
    assert set(data["lag_effective_rank_status"].values) == {"no full rows"}
    if select in ("peaks", "top", "bands"):
        assert set(data["status"].values) == {"no full rows"}
    assert np.isfinite(data["eigenvalues"]).all()  # octave windows need no lag statistic
    assert str(data["field_stable_rank_status"].values) == "ok"


def test_a_missing_mass_stays_missing():
    """Rows of a model with a sink of its own sum to less than 1; masking key 0 does not fill them up."""
    attention = 0.37 * planted.noise(N, L, 1)
    field = LagField.from_dense(attention, True)
    rows = lag_rows(field, "mask")
    whole = lag_rows(LagField.from_dense(attention / 0.37, True), "mask")
    np.testing.assert_allclose(rows.values, 0.37 * whole.values)
    data = es.analyze(es.AttentionEnsemble.from_arrays(attention[:, None], unnormalised=True)).layer(0)
    assert float(data["row_mass"]) == pytest.approx(0.37)


def test_scores_are_never_masked():
    scores = np.tril(np.random.default_rng(0).normal(size=(N, L, L)))
    ensemble = es.AttentionEnsemble.from_arrays(scores[:, None], unnormalised=True)
    study = es.analyze(ensemble, sink="mask", sink_pod="mask")
    assert {study.provenance["analysis"][name] for name in ("sink", "sink_pod")} == {"keep"}
    assert study.layer(0)["lag_energy"].attrs["field"] == study.layer(0)["modes"].attrs["field"] == "raw"


def test_masking_the_packed_field_removes_key_0_and_keeps_each_rows_mass():
    attention = planted.noise(5, 16, 1)
    field = LagField.from_dense(attention, True)
    before = field.values.copy()
    values, used = mask_first_keys(field)
    np.testing.assert_array_equal(field.values, before)
    dense = field.geometry.unpack(values)
    assert not dense[:, :, 0].any() and not dense[:, 0].any()  # query 0 sees key 0 alone
    np.testing.assert_allclose(dense[:, 1:].sum(axis=-1), 1)
    np.testing.assert_array_equal(used, (field.geometry.entry_key > 0))
    np.testing.assert_allclose(
        dense[:, 1:, 1:] / dense[:, 1:, 1:].sum(axis=-1, keepdims=True),
        attention[:, 1:, 1:] / attention[:, 1:, 1:].sum(axis=-1, keepdims=True),
    )


@pytest.mark.parametrize(
    ("length", "causal", "expected"),
    [(64, True, (32, 64)), (64, False, (16, 48)), (9, True, (4, 9)), (9, False, (2, 7))],
)
def test_full_rows_have_the_whole_range_of_lags(length, causal, expected):
    field = LagField.from_dense(planted.noise(2, length, causal=causal), causal)
    lags, first, stop = full_range(field.geometry)
    assert (first, stop) == expected
    _, valid = field.rows(lags, first, stop)
    assert valid.all()
    h = length // 2 if causal else length // 4
    assert (lags[0], lags[-1]) == ((0, h - 1) if causal else (-h, h))
    lags, first, stop = full_range(field.geometry, max_lag=2)
    assert (lags[0], lags[-1], first, stop) == ((0, 1, 2, length) if causal else (-2, 2, 2, length - 2))
