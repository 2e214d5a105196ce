"""The opening sentences say what the study holds: trained, untrained and planted."""

from __future__ import annotations

import re

import numpy as np
import pytest

import eddyscope as es
import planted
from eddyscope.report.pagedata.answer import answer, percent
from eddyscope.report.pagedata.facts import facts
from eddyscope.report.views import views
from eddyscope.study.nulltable import NULL_MEASURES


def told(study):
    """Sentences by what they are about, without marks."""
    shown = views(study).shown
    documents = int(shown[0].data.attrs["documents"])
    said = answer([facts(view) for view in shown], shown, documents)
    return {one.about: re.sub(r"\[\[(?:[^\]|]+\|)?([^\]]+)\]\]", r"\1", one.text) for one in said}


def analyzed(*layers, **options):
    attention = np.stack(layers, axis=1)
    return es.analyze(es.AttentionEnsemble.from_arrays(attention, causal=True), **options)


@pytest.fixture(scope="module")
def near_and_far():
    """Layer 0 fluctuates about lag 2, layer 1 about lag 40, both in a field of 128 tokens."""
    return analyzed(planted.bump(40, 128, 2, 1, seed=1, noise=0.01), planted.bump(40, 128, 40, 4, seed=2, noise=0.01))


@pytest.fixture(scope="module")
def trained_and_twin(tmp_path_factory):
    """The bundled character model and its untrained twin, reading the same documents."""
    pytest.importorskip("torch")
    from eddyscope.capture import capture
    from eddyscope.cli.model import resolve_model
    from eddyscope.models.twin import untrained_twin

    loaded = resolve_model("base")
    text = tmp_path_factory.mktemp("text") / "book.txt"
    words = np.random.default_rng(0).choice(
        ["the", "cat", "sat", "on", "a", "mat", "and", "who", "knows", "why", "it", "ran", "to", "them"], 4000
    )
    text.write_text(" ".join(words))
    documents = es.read_documents(text, loaded.tokenizer, context=96, count=24, seed=0)
    readers = (loaded.model, untrained_twin(loaded.model, 0))
    return [es.analyze(capture(reader, documents), intervals=False) for reader in readers]


def test_planted_distances_are_named(near_and_far):
    said = told(near_and_far)
    near, far = (float(near_and_far.packed(k)["median_lag"]) for k in (0, 1))
    assert near < 8 < 30 < far < 50
    assert (
        said["nearest"]
        == f"Layer 0 works nearest: half of the fluctuation there lies within {near:.0f} tokens of the query."
    )
    assert said["farthest"] == f"Layer 1 works farthest: half lies within {far:.0f} tokens."


def test_shares_are_those_of_the_study(near_and_far):
    said = told(near_and_far)["shares"]
    for name, where in (("near_share", "below 8 tokens"), ("far_share", "farther half of the distances")):
        values = sorted(float(near_and_far.packed(k)[name]) for k in (0, 1))
        assert f"{where} from {percent(values[0])} (layer" in said
        assert f"to {percent(values[1])} (layer" in said


def test_first_modes_are_those_of_the_study(near_and_far):
    said = told(near_and_far)["first mode"]
    for layer in (0, 1):
        data = near_and_far.packed(layer)
        share = float(data["field_first_mode_energy"])
        profile = np.abs(data["field_mode_profile"].values[0])
        profile[~np.isfinite(data["lag_energy"].values)] = 0
        lag = int(data["lag"].values[np.nanargmax(profile)])
        at = "largest at a lag of" if layer == 0 else "at"
        assert f"layer {layer} {percent(share)}, {at} {lag}" in said
    assert "If 40 documents had nothing in common and fluctuated alike, it would hold 2.6 %." in said


def test_a_planted_wavelength_is_named():
    study = analyzed(planted.periodic(40, 128, 9, seed=3), planted.noise(40, 128, seed=4))
    found = float(study.packed(0)["dominant_wavelength"][0])
    assert found == pytest.approx(9, abs=0.3)
    said = told(study)["wavelengths"]
    assert said == f"Dominant wavelengths in tokens: layer 0: {found:.3g}. Layer 1 has none."


def test_what_is_not_resolved_is_said(near_and_far):
    study = analyzed(planted.noise(24, 48, seed=1), planted.noise(24, 48, seed=2))
    statuses = [str(study.packed(k)["field_beta_resolved_status"].values) for k in (0, 1)]
    assert statuses == ["unresolved", "unresolved"]
    assert "the decay exponent (everywhere)" in told(study)["unresolved"]
    assert told(study)["unresolved"].startswith("Not resolved by 24 documents: ")
    without = told(analyzed(planted.noise(24, 48, seed=1), intervals=False))["unresolved"]
    assert without == "No intervals were computed, so nothing here says how far 24 documents can be trusted."


def test_attention_without_structure_prefers_no_distance():
    """White logits, which nearly is what an untrained model gives."""
    said = told(analyzed(*(planted.noise(60, 128, seed=k, strength=0.2) for k in range(3))))
    assert said["flat"].startswith(
        "No layer prefers a distance: the fluctuation is spread over all of them about evenly"
    )
    assert "nearest" not in said


def test_equal_layers_are_not_ranked():
    same = planted.bump(30, 64, 4, 1, seed=5)
    said = told(analyzed(same, same))
    assert said["nearest"].startswith("All layers work at the same distances: half of the fluctuation lies within ")
    assert "farthest" not in said


def test_documents_that_are_all_the_same_have_no_distances():
    still = np.repeat(planted.noise(1, 32, seed=1), 12, axis=0)
    assert told(analyzed(still))["missing"] == "Layer 0: no distances, no fluctuation."


def test_null_models_are_counted_as_the_tests_say(with_nulls):
    said = told(with_nulls)["null twin"]
    column = NULL_MEASURES.index("fluctuation_level")
    data = [with_nulls.packed(k) for k in range(3)]
    higher = sum(d["null_p_holm"].values[0, column] < 0.05 and d["null_difference"].values[0, column] > 0 for d in data)
    lower = sum(d["null_p_holm"].values[0, column] < 0.05 and d["null_difference"].values[0, column] < 0 for d in data)
    for count, word in ((higher, "higher"), (lower, "lower")):
        assert (f"the level of fluctuation is {word} in {count}" in said) == (count > 0)
    assert "of 3 layers" in said


def test_heads_are_averaged_for_layers_and_named_by_themselves(by_head):
    said = told(by_head)
    medians = {
        (layer, str(head)): float(by_head.packed(layer, head)["median_lag"])
        for layer in range(len(by_head.layers))
        for head in by_head.packed(layer)["head"].values
    }
    if len(set(medians.values())) > 1:
        layer, head = min(medians, key=medians.__getitem__)
        least = f"with half within {min(medians.values()):.0f} token"
        assert f"Of single heads, head {head} of layer {layer} is nearest, {least}" in said["heads"]
        assert f"farthest, with half within {max(medians.values()):.0f} token" in said["heads"]
    assert "head" not in said.get("nearest", "") + said.get("farthest", "")


@pytest.mark.slow
def test_a_trained_model_works_nearer_than_its_untrained_twin(trained_and_twin):
    trained, twin = trained_and_twin
    said = told(trained)
    medians = [float(trained.packed(k)["median_lag"]) for k in range(6)]
    assert f"lies within {min(medians):.0f} token" in said["nearest"]
    assert f"half lies within {max(medians):.0f} token" in said["farthest"]
    nearest = [k for k in range(6) if medians[k] == min(medians)]
    for layer in nearest:
        assert re.search(rf"\b{layer}\b", said["nearest"].split(":")[0])
    untrained = told(twin)
    assert "flat" in untrained
    assert all(float(twin.packed(k)["median_lag"]) > min(medians) for k in range(6))
