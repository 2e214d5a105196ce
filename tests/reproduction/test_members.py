"""Which models take part, and which stand for one architecture."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

import eddyscope as es
from eddyscope.reproduction.members import architectures, find_members

torch = pytest.importorskip("torch")


def trained(place, name, variant="base", seed=1, steps=10, vocabulary=None, **sizes):
    """A folder as training writes it, of a tiny model."""
    from eddyscope.models import GPTConfig, save_model, untrained

    letters = list(find_members()[0][0].vocabulary) if vocabulary is None else vocabulary
    fields = {"vocab_size": len(letters), "context": 256, "layers": 6, "heads": 2, "width": 8} | sizes
    model = untrained(GPTConfig(variant=variant, **fields), seed=seed, vocabulary=letters)
    recipe = {"steps": steps, "batch": 8, "seed": seed}
    save_model(model, place / name, training={"recipe": recipe, "validation_loss": 2.5})


def test_the_bundled_models_come_first_and_base_before_all():
    members, notes = find_members()
    assert [m.name for m in members] == ["base", "ega-1", "ega-1-causal", "ega-4", "ega-c"]
    assert notes == []
    assert [a.label for a in architectures(members)] == [m.name for m in members]
    assert all(m.seed == 0 and m.loss is not None and m.loss < 1.6 for m in members)


def test_seeds_of_one_recipe_are_one_architecture(tmp_path):
    for seed in (1, 2, 3):
        trained(tmp_path, f"base-s{seed}", seed=seed)
    trained(tmp_path, "longer", seed=1, steps=99)
    trained(tmp_path, "wide", width=16)
    members, notes = find_members(tmp_path, bundled=["base"])
    assert notes == []
    found = {a.label: [m.name for m in a.members] for a in architectures(members)}
    assert found == {
        "base": ["base"],
        "base (width 8, 10 steps)": ["base-s1", "base-s2", "base-s3"],
        "base (width 8, 99 steps)": ["longer"],
        "base (width 16)": ["wide"],
    }


def test_what_cannot_take_part_is_named_with_the_reason(tmp_path):
    trained(tmp_path, "a-good-one")
    trained(tmp_path, "again")
    trained(tmp_path, "deep", layers=7)
    trained(tmp_path, "other-letters", vocabulary=list("abc "))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    (tmp_path / "unfinished").mkdir()
    members, notes = find_members(tmp_path)
    assert [m.name for m in members if m.name not in es.models.names()] == ["a-good-one"]
    assert [note.partition(":")[0] for note in notes] == ["again", "broken", "deep", "other-letters"]
    for note, reason in zip(notes, ("same training as a-good-one", "JSON", "has 7 layers", "vocabulary"), strict=True):
        assert reason in note


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda place: (place / "model.safetensors").unlink(), "cannot be read .*do not exist"),
        (lambda place: (place / "model.safetensors").write_bytes(b"cut"), "cannot be read .*as safetensors"),
        (lambda place: reweigh(place, lambda w: w.pop("norm.bias")), "cannot be read .*missing: norm.bias"),
        (lambda place: reweigh(place, lambda w: w["norm.bias"].fill_(float("nan"))), "its weights hold NaN or Inf"),
        (lambda place: reconfigure(place, lambda c: c["config"].update(layers=6.0)), "layers is 6.0; expected a whole"),
        (lambda place: reconfigure(place, lambda c: c.update(training=[1])), "cannot be read"),
        (lambda place: reconfigure(place, lambda c: c["training"].update(validation_loss="low")), "cannot be read"),
        (lambda place: (place / "config.json").rename(place / "checkpoint.safetensors"), "its training has not ended"),
    ],
)
def test_weights_that_cannot_be_used_are_named_before_anything_is_measured(tmp_path, spoil, reason):
    trained(tmp_path, "good")
    trained(tmp_path, "spoilt", seed=2)
    spoil(tmp_path / "spoilt")
    members, notes = find_members(tmp_path, bundled=["base"])
    assert [member.name for member in members] == ["base", "good"]
    (note,) = notes
    assert re.match(rf"spoilt: left out, .*{reason}", note), note
    assert note.endswith(".") and ".)" not in note


def test_a_model_rebuilt_with_shared_heads_is_no_training(tmp_path):
    from eddyscope.models.config import GPTConfig
    from eddyscope.models.folder import build, save_model

    trained(tmp_path, "good", seed=2)
    config = GPTConfig(heads=2, width=8)
    save_model(build(config, list(find_members()[0][0].vocabulary), kept=[[0]] * 6), tmp_path / "shared")
    members, notes = find_members(tmp_path, bundled=["base"])
    assert [member.name for member in members] == ["base", "good"]
    assert notes == ["shared: left out, its heads share patterns, and no training gave it."]


def reweigh(place, change):
    """Change the weights in a folder."""
    from safetensors.torch import load_file, save_file

    weights = load_file(place / "model.safetensors")
    change(weights)
    save_file(weights, place / "model.safetensors")


def reconfigure(place, change):
    """Change the config in a folder."""
    content = json.loads((place / "config.json").read_text())
    change(content)
    (place / "config.json").write_text(json.dumps(content))


def test_a_repeated_bundled_training_counts_once(tmp_path):
    from eddyscope.models import load, save_model
    from eddyscope.models.config import BUNDLED
    from eddyscope.models.folder import read_config

    save_model(load("base"), tmp_path / "base-s0", training=read_config(BUNDLED / "base")["training"])
    members, notes = find_members(tmp_path)
    assert "base-s0" not in [m.name for m in members]
    assert notes == ["base-s0: left out, it is the same training as base."]


def test_places_without_models_are_refused(tmp_path):
    with pytest.raises(
        es.EddyscopeError, match=r"^No model was found in .*; expected folders in it that 'eddyscope train'"
    ):
        find_members(tmp_path)
    with pytest.raises(es.EddyscopeError, match=r"is not a folder\."):
        find_members(tmp_path / "nowhere")
    with pytest.raises(es.EddyscopeError, match=r"^There is no bundled model 'gpt'\. Choose from base, "):
        find_members(bundled=["gpt"])


def test_members_compare_by_what_they_are():
    (base, *_), _ = find_members(bundled=["base"])
    assert replace(base, recipe={**base.recipe, "seed": 5}).budget == base.budget
    assert replace(base, recipe={**base.recipe, "steps": 5}).budget != base.budget
