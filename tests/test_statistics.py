"""Statistics stand where fields do: the same results along the lag, and what fields alone can tell is named."""

import warnings

import matplotlib as mpl
import numpy as np
import pytest

import eddyscope as es
import planted
from eddyscope.ensemble import LayerInfo
from eddyscope.lagfield import LagField
from eddyscope.statistics import collect
from eddyscope.study.measures import NOT_KEPT
from eddyscope.study.words import conclusions

mpl.use("Agg")

N, L = 24, 32
#: Along the lag, and yet not from statistics: how far the rows of one document say the same.
OF_ROWS = ("lag_effective_samples", "lag_mode_separated")
#: What is cut to the number of lags, since there are no eigenvalues of the field beyond it.
BY_RANK = ("lag_eigenvalues", "rank")


def documents_in_blocks():
    """Documents of which some share a block, so that groups differ in size."""
    ids = np.random.default_rng(5).integers(0, 50, size=(N, L))
    ids[7], ids[21] = ids[6], ids[20]
    return es.Documents.from_ids(ids)


def sunk(share, seed=2):
    """Noise beside a sink that takes nearly all mass of a few rows, in a few documents."""
    rng = np.random.default_rng(seed)
    return planted.add_sink(planted.noise(N, L, seed), rng.uniform(0.2, share, (N, L)))


CASES = {
    "causal": {"attention": {"a": planted.periodic(N, L, 10.0, noise=0.3), "b": planted.noise(N, L, 1)}},
    "two-sided": {"attention": {"a": planted.noise(N, L, 1, causal=False)}, "causal": False},
    "queries left out on the way": {"attention": {"a": sunk(0.97)}},
    "each head": {"attention": {"a": np.stack([planted.noise(N, L, 3), sunk(0.98)], 1)}},
    "band of lags": {"attention": {"a": planted.noise(N, L, 1)}, "max_lag": 12},
    "single precision": {"attention": {"a": sunk(0.9).astype(np.float32)}},
    "scores": {"attention": {"a": np.tril(np.random.default_rng(0).normal(size=(N, L, L)))}, "unnormalised": True},
}


def ensemble_of(case):
    options = dict(CASES[case])
    attention = options.pop("attention")
    return es.AttentionEnsemble.from_arrays(attention, documents=documents_in_blocks(), **options)


@pytest.fixture(scope="module", params=CASES)
def both(request):
    """Studies of the same attention, from fields and from statistics of them."""
    ensemble = ensemble_of(request.param)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return es.analyze(ensemble), es.analyze(es.AttentionStatistics.from_ensemble(ensemble))


def same(name, one, other):
    """Equal words; numbers equal to 1e-10, or to rounding beside the largest."""
    if one.dtype == object:
        np.testing.assert_array_equal(one, other, err_msg=name)
        return
    largest = float(np.nanmax(np.abs(one), initial=0.0)) if np.isfinite(one).any() else 0.0
    np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-12 * largest, err_msg=name)


def of_fields(name, data):
    """Whether a variable follows from fields alone: the POD of the field and of bands, and coherence."""
    return name.startswith("field_") or f"field_{name}" in data or name in ("early_share", "coherence_scale")


def test_everything_along_the_lag_is_that_of_the_fields(both):
    whole, lean = both
    compared = 0
    for name in whole.layers:
        fields, statistics = whole.packed(name), lean.packed(name)
        for variable in map(str, fields.variables):
            if variable in OF_ROWS or of_fields(variable, statistics) or variable not in statistics:
                continue
            one, other = fields[variable].values, statistics[variable].values
            if variable == "packed_mean_field":  # kept in the precision of the fields
                other = other.astype(one.dtype)
            if variable in BY_RANK:
                assert not one[..., other.shape[-1] :].any() or variable == "rank"
                one = one[..., : other.shape[-1]]
            same(variable, one, other)
            compared += 1
    assert compared > 90 * len(whole.layers)


def test_the_results_that_users_look_at_first_are_among_them(both):
    for name in both[1].layers:
        data = both[1].packed(name)
        for variable in (
            "octave_share", "octave_density_low", "scalogram", "spectrum", "spectrum_low", "dominant_lag", "status",
            "lag_modes", "lag_participation_ratio", "lag_participation_ratio_low", "lag_beta_published_high",
            "lag_measure_convergence", "sink_mass_low", "fluctuation_level", "packed_mean_field", "near_share_low",
            "row_mass", "energy_by_query", "peak_status", "lag_effective_rank_high",
        ):  # fmt: skip
            assert variable in data and not of_fields(variable, data), variable
            assert data[variable].dtype == object or np.isfinite(data[variable].values).any(), variable


def test_what_needs_fields_says_so(both):
    for name in both[1].layers:
        data = both[1].packed(name)
        for prefix in ("", "field_"):
            for measure in ("beta_published", "participation_ratio", "effective_rank", "beta_resolved"):
                assert set(data[f"{prefix}{measure}_status"].values.flat) <= {NOT_KEPT, "absent"}
                assert np.isnan(data[f"{prefix}{measure}"].values).all()
        assert np.isnan(data["field_eigenvalues"].values).all() and np.isnan(data["coherence_scale"].values).all()
        for absent in ("packed_modes", "packed_field_modes", "packed_coherence", "gram", "coefficients"):
            assert absent not in data


def test_such_a_study_is_shown_and_spoken_of_like_any_other(both):
    from eddyscope.cli.table import print_study

    study = both[1]
    table = study.summary()
    assert table["status"].str.contains(NOT_KEPT).all() and np.isfinite(table["lag_participation_ratio"]).any()
    data = study.layer(0)
    one = data.isel(head=0) if "head" in data.dims else data
    assert any(NOT_KEPT in sentence for sentence in conclusions(one))
    print_study(study)


def test_such_a_study_is_saved_opened_and_drawn_like_any_other(tmp_path):
    from eddyscope.report.figures import write_figures

    study = es.analyze(es.AttentionStatistics.from_ensemble(ensemble_of("causal")), intervals=False)
    study.save(tmp_path / "study.zarr")
    again = es.open_study(tmp_path / "study.zarr")
    assert again.summary().equals(study.summary())
    write_figures(again, tmp_path / "figures", formats=["png"])


@pytest.mark.parametrize("shards", [1, 7, 64])
@pytest.mark.parametrize("case", ["causal", "two-sided"])
def test_statistics_of_shards_merged_in_any_order_give_the_same_study(case, shards):
    ensemble = ensemble_of(case)
    groups = ensemble.documents.groups()
    parts = [
        es.AttentionStatistics.from_ensemble(ensemble.select_documents(index), groups=groups[index])
        for index in np.array_split(np.arange(N), min(shards, N))
    ]
    order = np.random.default_rng(shards).permutation(len(parts))
    merged = parts[order[0]]
    for index in order[1:]:
        merged = merged.merge(parts[index])
    assert merged.count == len(merged.documents) == N and merged.provenance.get("merged", 1) == len(parts)
    whole, lean = es.analyze(ensemble), es.analyze(merged)
    for variable in ("scalogram", "spectrum_low", "octave_share_high", "lag_modes", "sink_mass_low", "lag_energy"):
        same(variable, whole.packed("a")[variable].values, lean.packed("a")[variable].values)
    for head in merged.layers_of["a"].values():
        direct = es.AttentionStatistics.from_ensemble(ensemble).layers_of["a"]["mean"]
        for sink in merged.sinks:
            one, other = (h.parts[sink].moments.covariance().fluctuation for h in (head, direct))
            assert np.linalg.norm(one - other) < 1e-12 * np.linalg.norm(other)


def test_a_query_that_a_late_document_leaves_out_is_left_out_of_all():
    ensemble = ensemble_of("queries left out on the way")
    read, field = [], ensemble.fields["a"]

    def shards():
        read.append(1)
        for start in range(0, N, 8):
            part = slice(start, start + 8)
            yield {"a": field.select_documents(part)}, np.arange(N)[part] % 15

    found = collect(shards, {"a": "self"}, ["mask", "keep"])["a"]["mean"]
    whole = es.analyze(ensemble, intervals=False).packed("a")
    assert found.parts["mask"].axis.left_out == int(whole["queries_left_out"]) > 0
    assert found.parts["keep"].axis.left_out == 0
    assert len(read) == 2  # what was counted before had to be taken again
    one = found.parts["mask"].moments.covariance().fluctuation
    np.testing.assert_allclose(np.diag(one), whole["lag_energy"].dropna("lag").values, rtol=1e-12)


def test_parts_that_leave_out_different_queries_are_not_merged():
    ensemble = ensemble_of("queries left out on the way")
    parts = [es.AttentionStatistics.from_ensemble(ensemble.select_documents(i)) for i in (range(8), range(8, N))]
    with pytest.raises(es.EddyscopeError, match=r"^Layer 'a': documents of one part leave out queries.*sinks=\['keep'"):
        parts[0].merge(parts[1])
    kept = [
        es.AttentionStatistics.from_ensemble(ensemble.select_documents(i), sinks=["keep"])
        for i in (range(8), range(8, N))
    ]
    assert kept[0].merge(kept[1]).count == N


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "published"}, r"^The preset published needs the fields, .*keep='fields'"),
        (
            {"sink": "first=2"},
            r"^There are no statistics for sink='first=2', only for mask, keep, .*sinks=\['first=2'\]",
        ),
        ({"sink_pod": "mask"}, r"^sink_pod='mask' needs the fields"),
        ({"max_lag": 10}, r"^max_lag=10 was asked for, .*max_lag=None"),
    ],
)
def test_options_that_statistics_cannot_answer_are_named(options, message):
    statistics = es.AttentionStatistics.from_ensemble(ensemble_of("causal"))
    with pytest.raises(es.EddyscopeError, match=message):
        es.analyze(statistics, **options)


@pytest.mark.parametrize("sink", ["keep", "first=1"])
def test_sinks_are_compared_with_the_other_treatment_as_from_fields(sink):
    ensemble = ensemble_of("single precision")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sinks are left in")
        one = es.analyze(ensemble, sink=sink).packed("a")
        other = es.analyze(es.AttentionStatistics.from_ensemble(ensemble), sink=sink).packed("a")
    assert str(one["sink_other_treatment"].values) == ("first=1" if sink == "keep" else "keep")
    assert np.isfinite(one["sink_other"].values).any()
    for name in ("sink_other", "sink_matters", "sink_other_treatment", "sinks", "sink_share", "lag_energy"):
        same(name, one[name].values, other[name].values)


def test_more_masked_keys_are_answered_where_they_were_asked_for():
    ensemble = ensemble_of("causal")
    statistics = es.AttentionStatistics.from_ensemble(ensemble, sinks=["first=2"])
    one, other = es.analyze(ensemble, sink="first=2"), es.analyze(statistics, sink="first=2")
    same("spectrum", one.packed("a")["spectrum"].values, other.packed("a")["spectrum"].values)
    with pytest.raises(es.EddyscopeError, match="sinks must be one of mask, keep or first=K"):
        es.AttentionStatistics.from_ensemble(ensemble, sinks=["none"])


def test_a_field_that_is_asked_for_is_missed_in_words():
    statistics = es.AttentionStatistics.from_ensemble(ensemble_of("causal"))
    with pytest.raises(
        es.EddyscopeError, match=r"^The field of layer 'a' was asked for, and only statistics were kept"
    ):
        es.coherence(statistics, "a", 4.0)
    with pytest.raises(es.EddyscopeError, match="only statistics were kept"):
        es.reconstruct(es.analyze(statistics), statistics, "a", 2)


def test_layers_with_a_cross_attention_keep_its_mean_field_alone():
    rng = np.random.default_rng(0)
    weights = rng.uniform(size=(N, 16, 24))
    cross = LagField.from_dense(weights / weights.sum(-1, keepdims=True), causal=False)
    own = LagField.from_dense(planted.noise(N, 24), causal=True)
    info = {"self": LayerInfo("self", 0), "cross": LayerInfo("cross", 1, kind="cross")}
    ensemble = es.AttentionEnsemble({"self": own, "cross": cross}, info)
    whole, lean = es.analyze(ensemble), es.analyze(es.AttentionStatistics.from_ensemble(ensemble))
    for variable in ("packed_mean_field", "fluctuation_level", "fluctuation_level_low", "sink_mass", "row_mass_high"):
        same(variable, whole.packed("cross")[variable].values, lean.packed("cross")[variable].values)
    assert lean.packed("cross")["status"].values.tolist() == ["cross attention"]


@pytest.mark.parametrize("case", ["causal", "each head", "queries left out on the way"])
def test_statistics_on_disk_come_back_as_they_were(case, tmp_path):
    statistics = es.AttentionStatistics.from_ensemble(ensemble_of(case))
    statistics.save(tmp_path / "statistics.zarr")
    again = es.open_statistics(tmp_path / "statistics.zarr")
    assert repr(again) == repr(statistics) and again.nbytes == statistics.nbytes
    assert again.info == statistics.info and again.provenance == statistics.provenance
    np.testing.assert_array_equal(again.documents.ids, statistics.documents.ids)
    one, other = (es.analyze(s, intervals=False) for s in (statistics, again))
    assert one.packed("a").equals(other.packed("a"))


def test_a_place_that_holds_something_is_never_overwritten_unasked(tmp_path):
    statistics = es.AttentionStatistics.from_ensemble(ensemble_of("causal"))
    statistics.save(tmp_path / "here")
    with pytest.raises(es.EddyscopeError, match=r"There are statistics at .* already"):
        statistics.save(tmp_path / "here")
    statistics.save(tmp_path / "here", force=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    with pytest.raises(es.EddyscopeError, match="holds no statistics, so it is never overwritten"):
        statistics.save(tmp_path / "other", force=True)
    with pytest.raises(es.EddyscopeError, match=r"There are no statistics at .*: nothing is there"):
        es.open_statistics(tmp_path / "nowhere")


def test_memory_does_not_depend_on_the_number_of_documents():
    ensemble = es.AttentionEnsemble.from_arrays(planted.noise(N, L)[:, None])
    few = es.AttentionStatistics.from_ensemble(ensemble.select_documents(range(15)))
    assert few.nbytes == es.AttentionStatistics.from_ensemble(ensemble).nbytes


def test_masses_are_means_over_documents():
    ensemble = ensemble_of("each head")
    table = es.AttentionStatistics.from_ensemble(ensemble).masses()
    weights = CASES["each head"]["attention"]["a"][:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.nansum(weights * np.log(weights), axis=-1).mean()
    assert table["entropy"][1] == pytest.approx(entropy, rel=1e-9)
    assert table["sink_mass"][1] == pytest.approx(weights[:, L // 2 :, 0].mean(), rel=1e-9)
    assert table["row_mass"].to_numpy() == pytest.approx(1) and table["head"].tolist() == ["0", "1"]
