"""Studies compared layer by layer: what is planted comes out, with its sign, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import eddyscope as es
import planted
from comparison_help import COUNT, LENGTH, documents
from eddyscope.comparison.compare import compare
from eddyscope.trust.differences import paired_difference


def of(table, **chosen):
    for name, value in chosen.items():
        table = table[table[name] == value]
    assert len(table) == 1, chosen
    return table.iloc[0]


def test_a_layer_that_looks_farther_is_the_one_that_differs(bumps):
    found = compare(bumps(4, 4), bumps(4, 14, seed=1), labels=["near", "far"])
    same, moved = (of(found.differences, layer=k, measure="mean_octave") for k in (0, 1))
    assert same["p_holm"] > 0.05 and abs(same["difference"]) < 0.1
    assert moved["p_holm"] < 1e-6 and 0.5 < moved["low"] < moved["difference"] < moved["high"] < 2
    assert of(found.differences, layer=1, measure="near_share")["high"] < -0.2
    assert moved["subject"] == "far" and moved["reference"] == "near" and bool(moved["paired"])


def test_a_study_against_itself_differs_in_nothing(bumps):
    found = compare(bumps(4, 9), bumps(4, 9), labels=["a", "b"])
    tested = found.differences.dropna(subset=["p"])
    assert len(tested) > 12
    assert (tested["p"] == 1).all()
    np.testing.assert_allclose(tested["difference"], (tested["kind"] == "ratio").astype(float))


def test_a_study_whose_pod_is_approximate_is_named():
    ensemble = es.AttentionEnsemble.from_arrays(planted.bump(24, 24, 6.0, 2.0)[:, None])
    exact, sketched = es.analyze(ensemble), es.analyze(ensemble, pod="randomized")
    notes = compare(exact, sketched, labels=["exact", "sketched"]).notes
    said = [note for note in notes if "approximate (randomized POD)" in note]
    assert len(said) == 1 and said[0].startswith("sketched: exponents and ranks")
    assert f"at most {sketched.packed(0).attrs['largest_relative_difference']:.2g} of their size" in said[0]


def test_values_and_intervals_are_those_of_the_summary(bumps):
    study = bumps(4, 9)
    found, summary = compare(study, bumps(5, 9, seed=3), labels=["a", "b"]), study.summary()
    for layer in (0, 1):
        for name in ("participation_ratio", "beta_published", "lag_participation_ratio"):
            row = of(found.values, layer=layer, subject="a", measure=name)
            for column, wanted in (("value", name), ("low", f"{name}_low"), ("high", f"{name}_high")):
                assert row[column] == pytest.approx(summary[wanted][layer], rel=1e-9), (name, column)
        for name in ("median_lag", "h_10"):
            assert of(found.values, layer=layer, subject="a", measure=name)["value"] == summary[name][layer]


def test_a_ratio_is_the_paired_difference_of_logarithms(bumps):
    first, second = bumps(4, 9), bumps(5, 12, seed=3)
    row = of(compare(second, first).differences, layer=1, measure="lag_participation_ratio")
    data = [s.packed(1) for s in (first, second)]
    column = [str(m) for m in data[0]["measure"].values].index("participation_ratio")
    parts = [np.log(d["lag_measure_replicates"].values[:, column]) for d in data]
    values = [float(np.log(d["lag_participation_ratio"])) for d in data]
    expected = paired_difference(values[0], parts[0], values[1], parts[1])
    assert row["kind"] == "ratio"
    assert np.log([row["difference"], row["low"], row["high"]]) == pytest.approx(
        [expected.value, expected.low, expected.high]
    )


def test_resolved_exponents_are_compared_on_the_smaller_window(bumps):
    first, second = bumps(4, 9), bumps(4, 9, seed=5)
    row = of(compare(first, second).differences, layer=0, measure="lag_beta_resolved")
    windows = [float(s.packed(0)["lag_resolved_window"]) for s in (first, second)]
    assert np.isfinite(row["difference"]) == (min(windows) >= 8)


def test_octaves_that_all_have_add_up_and_the_planted_one_differs(bumps):
    found = compare(bumps(4), bumps(9, seed=1), labels=["a", "b"])
    shares = found.octaves.groupby("subject")["share"].sum()
    np.testing.assert_allclose(shares, 1)
    apart = found.octaves[found.octaves["subject"] == "b"].set_index("octave")
    assert apart["difference"].sum() == pytest.approx(0, abs=1e-9)
    assert apart.loc[3, "first"] == 7 and apart.loc[3, "low"] > 0 and apart.loc[3, "p_holm"] < 0.01
    assert apart.loc[2, "high"] < 0


def test_spectra_stand_on_scales_that_all_have(bumps):
    scales = np.array([3.0, 4.0, 5.0, 6.0])
    study = bumps(4)
    other = es.analyze(ensemble_of_bump(9), scales=[2.6, 3.0, 4.2, 5.5], modes=2)
    found = compare(other, study, labels=["few", "many"])
    kept = found.spectra[found.spectra["subject"] == "few"]["scale"].to_numpy()
    assert kept.tolist() == [2.6, 3.0, 4.2, 5.5]
    reverse = compare(study, other).spectra["scale"].unique()
    assert reverse.min() >= 2.6 - 1e-9 and reverse.max() <= 5.5 + 1e-9 and len(reverse) > len(scales)
    here = study.packed(0)
    exact = found.spectra[(found.spectra["subject"] == "many") & np.isclose(found.spectra["scale"], 3.0)]
    at = np.exp(np.interp(np.log(3.0), np.log(here["scale"]), np.log(here["spectrum"].values[2, 0])))
    assert float(exact["energy"].iloc[0]) == pytest.approx(float(at))


def ensemble_of_bump(place):
    return es.AttentionEnsemble.from_arrays(
        planted.bump(COUNT, LENGTH, place, 1.5, seed=9)[:, None], documents=documents()
    )


def test_other_documents_are_not_paired_and_the_note_says_why(bumps):
    found = compare(bumps(4), bumps(4, documents=documents(1)), labels=["a", "b"])
    assert not found.differences["paired"].any()
    assert any("not paired over documents, the texts differ" in note for note in found.notes)
    paired = of(compare(bumps(4), bumps(4, seed=2)).differences, measure="mean_octave")
    apart = of(compare(bumps(4), bumps(4, seed=2, documents=documents(1))).differences, measure="mean_octave")
    assert apart["difference"] == pytest.approx(paired["difference"])
    assert apart["high"] - apart["low"] > 0


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ({"kind": "text", "tokenizer": "a"}, {"kind": "text", "tokenizer": "b"}, "the tokenizers differ"),
        ({"kind": "text", "tokenizer": "a"}, {"kind": "text", "tokenizer": "a"}, "the same text was cut"),
    ],
)
def test_the_same_text_read_differently(bumps, first, second, why):
    sources = {"sources": [{"sha256": "12"}]}
    one = bumps(4, documents=documents(0, **first, **sources))
    other = bumps(4, documents=documents(1, **second, **sources))
    assert any(why in note for note in compare(one, other).notes)


def test_distances_stand_in_characters_where_tokens_differ_in_length(bumps):
    sources = {"kind": "text", "sources": [{"sha256": "12"}]}
    short = bumps(4, documents=documents(0, ["x" * LENGTH] * COUNT, tokenizer="characters", **sources))
    long = bumps(4, documents=documents(1, ["x" * 4 * LENGTH] * COUNT, tokenizer="words", **sources))
    found = compare(short, long, labels=["characters", "words"])
    assert any("characters a token: characters 1.00, words 4.00" in note for note in found.notes)
    tokens, characters = (
        [of(found.values, subject=s, measure=m)["value"] for s in ("characters", "words")]
        for m in ("median_lag", "median_lag_characters")
    )
    assert tokens[0] == tokens[1] == characters[0] == characters[1] / 4
    octaves = [of(found.values, subject=s, measure="mean_octave_characters")["value"] for s in found.labels]
    assert octaves[1] - octaves[0] == pytest.approx(2)
    assert (found.octaves["last_characters"] / found.octaves["last"]).dropna().unique().tolist() == [1.0, 4.0]


def test_attention_of_arrays_is_paired_when_one_says_so(bumps):
    one, other = bumps(4, documents=None), bumps(6, seed=1, documents=None)
    assert not compare(one, other).differences["paired"].any()
    assert compare(one, other, paired=True).differences["paired"].all()
    with pytest.raises(es.EddyscopeError, match=r"cannot be paired: the texts differ\. Leave out paired=True"):
        compare(bumps(4), bumps(4, documents=documents(1)), paired=True)


def test_seeds_of_a_group_widen_the_interval_and_count_in_the_note(bumps):
    near = [bumps(4 + k, seed=k) for k in range(3)]
    far = [bumps(11 + 2 * k, seed=5 + k) for k in range(3)]
    groups = compare(groups={"near": near, "far": far})
    single = compare(near[1], far[1], labels=["near", "far"])
    wide, narrow = (of(c.differences, measure="mean_octave") for c in (groups, single))
    assert wide["low"] > 0 and wide["high"] - wide["low"] > 1.5 * (narrow["high"] - narrow["low"])
    value = of(groups.values, subject="far", measure="mean_octave")
    assert value["seeds"] == 3
    assert any("differences are between architectures" in note for note in groups.notes)
    assert any("Single models are compared" in note for note in single.notes)
    two = compare(groups={"near": near[:2], "far": far[:2]})
    assert any("has 2 seeds; a statement about an architecture needs 3" in note for note in two.notes)


def test_an_architecture_does_not_differ_from_its_own_other_seeds(bumps):
    seeds = [bumps(4 + place, seed=k) for k, place in enumerate((0, 3, 1, 4, 0.5, 3.5))]
    found = of(compare(groups={"a": seeds[:3], "b": seeds[3:]}).differences, measure="mean_octave")
    assert found["low"] < 0 < found["high"]


def test_a_series_says_when_a_layer_takes_up_its_distances(bumps):
    way = {0: (14, 4), 10: (14, 4), 40: (14, 4), 100: (4, 4), 400: (4, 4)}
    studies = [bumps(*places, seed=k) for k, places in enumerate(way.values())]
    shuffled = [2, 0, 4, 1, 3]
    labels = [f"step-{step:04d}" for step in way]
    found = compare(*[studies[i] for i in shuffled], labels=[labels[i] for i in shuffled], over="step")
    assert found.steps == (0, 10, 40, 100, 400)
    moving, resting = found.series.iloc[0], found.series.iloc[1]
    assert moving["moves_at"] == moving["half_at"] == moving["settled_at"] == 100
    assert moving["high"] < 0 and moving["p_holm"] < 0.01
    assert np.isnan([resting["moves_at"], resting["half_at"], resting["settled_at"]]).all()
    again = compare(*studies, over=list(way))
    assert again.steps == found.steps and again.series["moves_at"].iloc[0] == 100


def test_heads_are_compared_one_by_one(read):
    def study(*places):
        attention = np.stack([planted.bump(COUNT, LENGTH, p, 1.5, seed=k) for k, p in enumerate(places)], axis=1)
        return es.analyze(es.AttentionEnsemble.from_arrays({"a": attention}, documents=read), modes=2, dominant=1)

    found = compare(study(4, 4), study(4, 12), labels=["a", "b"])
    rows = found.differences[found.differences["measure"] == "mean_octave"].set_index("head")
    assert rows.loc["0", "p"] == 1 and rows.loc["1", "low"] > 0.5


def test_models_of_other_depth_are_aligned_by_position(bumps):
    found = compare(bumps(4, 9, 12), bumps(4, 9), labels=["deep", "flat"])
    assert sorted(found.values["layer"].unique()) == [0, 1]
    assert any("2 to 3 layers: the first 2 are compared" in note for note in found.notes)


def test_studies_without_intervals_have_differences_without_them():
    def study(place):
        return es.analyze(ensemble_of_bump(place), modes=2, intervals=False)

    found = compare(study(4), study(12), labels=["a", "b"])
    row = of(found.differences, measure="mean_octave")
    assert row["difference"] > 0.5 and np.isnan([row["low"], row["p"]]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: compare(s), r"^A comparison needs at least two studies or groups, got 1\.$"),
        (lambda s: compare(s, s, labels=["a"]), r"^There are 1 labels for 2 studies\.$"),
        (lambda s: compare(s, groups={"a": [s]}), r"^Give studies, or groups of studies, not both\.$"),
        (lambda s: compare(groups={"a": [s], "b": []}), r"^The group 'b' is empty\.$"),
        (lambda s: compare(s, s, over="epoch"), r"^over is 'epoch'; expected 'step' or a list of steps\.$"),
        (lambda s: compare(s, s, over="step", labels=["a", "b1"]), r"^'a' does not end in a training step\. Name the"),
        (lambda s: compare(s, s, over="step", labels=["10", "20k"]), r"^'20k' does not end in a training step\."),
        (lambda s: compare(s, s, over="step"), r"^'study \(1\)' does not end in a training step\. Name the"),
        (lambda s: compare(s, s, over=[1, 1]), r"are not one for each of the 2 studies, each once\.$"),
        (lambda s: compare(groups={"a": [s], "b": [s]}, over="step"), r"takes studies, not groups\.$"),
        (lambda s: compare(s, "study"), r"^One of the studies is str, expected a Study\. Open it with"),
    ],
)
def test_what_does_not_fit_together_is_refused(bumps, call, message):
    with pytest.raises(es.EddyscopeError, match=message):
        call(bumps(4))


@pytest.mark.parametrize("labels", [("10", "x-0200"), ("a/10/out", "a/200/out"), ("b-10/study.zarr", "200.zarr")])
def test_steps_stand_at_the_end_of_a_folders_name(bumps, labels):
    assert compare(bumps(4), bumps(9), labels=labels, over="step").steps == (10, 200)


@pytest.mark.parametrize("known", [("model", "weights_sha256"), ("file", "sha256")])
def test_one_training_is_no_two_seeds(bumps, known):
    def training(number, digest):
        study, (what, name) = bumps(4, seed=number), known
        return es.Study(study.data, study.provenance | {what: {name: digest}}, study.documents)

    one, again, other = training(0, "a"), training(1, "a"), training(2, "b")
    with pytest.raises(
        es.EddyscopeError, match=r"^Studies 1 and 3 of the group 'g' are of one model, which would count"
    ):
        compare(groups={"g": [one, other, again], "h": [other]})
    assert len(compare(groups={"g": [one, other], "h": [again]}).differences)


def test_a_group_of_other_documents_is_refused(bumps):
    with pytest.raises(es.EddyscopeError, match=r"^The studies of the group 'a' cannot be joined: the texts differ\."):
        compare(groups={"a": [bumps(4), bumps(4, documents=documents(1))], "b": [bumps(4)]})


def test_heads_against_their_mean_is_refused(bumps):
    attention = np.tril(np.ones((COUNT, 1, 2, LENGTH, LENGTH)))
    heads = es.AttentionEnsemble.from_arrays(attention / attention.sum(-1, keepdims=True), documents=documents())
    with pytest.raises(es.EddyscopeError, match=r"^One study kept each head and another their mean\."):
        compare(bumps(4), es.analyze(heads, modes=2))
