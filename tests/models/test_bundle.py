"""The bundled models load by name, are what their cards say, and need nothing of the training code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from eddyscope.errors import InputError
from eddyscope.models import Corpus, GPTConfig, Recipe, evaluate, evaluation_windows, load, names, read_config, train
from eddyscope.models.config import BUNDLED as FOLDER
from eddyscope.models.gpt import GPT
from eddyscope.models.release import causal_statistics_loss, look_ahead, pack, paired_difference, table

BUNDLED = ["base", "ega-1", "ega-1-causal", "ega-4", "ega-c"]


def test_the_models_of_the_study_are_bundled() -> None:
    assert names() == BUNDLED


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_model_loads_by_name_and_reads(name: str) -> None:
    model = load(name)
    assert not model.training
    assert model.config == GPTConfig(variant=name, width=128)
    ids = model.encode("To be, or not to be")
    assert model.decode(ids) == "To be, or not to be"
    with torch.inference_mode():
        assert model(torch.tensor([ids])).shape == (1, 19, 65)


def test_together_they_stay_below_fifteen_megabytes() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 15e6


def test_they_share_one_budget() -> None:
    recipes = [read_config(FOLDER / name)["training"]["recipe"] for name in BUNDLED]
    assert all(recipe == recipes[0] for recipe in recipes)


@pytest.mark.parametrize("name", BUNDLED)
def test_a_card_names_recipe_loss_commit_and_limits(name: str) -> None:
    text = (FOLDER / name / "card.md").read_text(encoding="utf-8")
    training = read_config(FOLDER / name)["training"]
    assert f"{training['validation_loss']:.4f} nats per character" in text
    assert f"commit {training['commit']}" in text
    assert "## Limits" in text
    assert ("depend on later tokens. The loss profits" in text) == load(name).config.sees_later_tokens


@pytest.mark.slow
@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_weights_give_the_loss_of_their_card(name: str, tinyshakespeare: Corpus) -> None:
    model = load(name)
    windows = evaluation_windows(torch.tensor(model.encode(tinyshakespeare.validation)), model.config.context)
    stated = read_config(FOLDER / name)["training"]
    assert len(windows) == stated["validation_windows"]
    assert abs(evaluate(model, windows) - stated["validation_loss"]) < 0.005
    if name == "base":
        assert stated["validation_loss"] < 1.60


@pytest.mark.slow
@pytest.mark.parametrize("name", BUNDLED)
def test_the_causality_of_a_bundled_model_is_as_documented(name: str, tinyshakespeare: Corpus) -> None:
    model = load(name)
    windows = evaluation_windows(torch.tensor(model.encode(tinyshakespeare.validation)), model.config.context, 4)
    moved = look_ahead(model, windows[:, :-1], 128)
    if model.config.sees_later_tokens:
        assert moved > 0.01
    else:
        assert moved < 1e-3


def test_an_unknown_name_lists_the_names() -> None:
    with pytest.raises(InputError) as caught:
        load("gpt-5")
    assert str(caught.value) == (
        "No model 'gpt-5': it is not a folder, and the bundled models are base, ega-1, ega-1-causal, ega-4, ega-c. "
        "Use one of these names or the folder of a training run."
    )


def test_loading_needs_neither_training_code_nor_transformers() -> None:
    script = (
        "import sys; from eddyscope import models; models.load('base'); "
        "unwanted = ('transformers', 'eddyscope.models.training', 'eddyscope.models.optim'); "
        "sys.exit(', '.join(m for m in unwanted if m in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_models_are_part_of_the_package() -> None:
    code = "import eddyscope as es; assert 'base' in es.models.names(); assert 'models' in dir(es)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_names_of_the_models_are_known_without_torch() -> None:
    script = (
        "import sys, importlib.abc\n"
        "class Hide(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'torch': raise ModuleNotFoundError('no torch', name='torch')\n"
        "sys.meta_path.insert(0, Hide())\n"
        "from eddyscope import models\n"
        "assert models.names() and models.GPTConfig(variant='ega-1') and models.find_corpus\n"
        "models.load('base')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "MissingDependencyError" in done.stderr
    assert "needs the package 'torch', which is not installed" in done.stderr
    assert "pip install 'eddyscope[hf]'" in done.stderr


def test_packing_a_run_measures_what_is_stored(letters: Corpus, tmp_path: Path) -> None:
    config = GPTConfig(variant="ega-1", layers=1, heads=2, width=16, context=32)
    trained = train(config, letters, Recipe(steps=5, batch=2), tmp_path / "run", threads=1)
    loss = pack(tmp_path / "run", "small", "abc123", letters, tmp_path / "weights")
    stored = load(tmp_path / "weights" / "small")
    assert torch.equal(stored.tokens.weight, trained.tokens.weight.half().float())
    windows = evaluation_windows(torch.tensor(stored.encode(letters.validation)), 32)
    assert loss == pytest.approx(evaluate(stored, windows))
    text = (tmp_path / "weights" / "small" / "card.md").read_text()
    assert f"{loss:.4f} nats per character, weights as stored" in text
    assert f"all {len(windows)} non-overlapping windows" in text
    assert "commit abc123" in text
    row = table([str(tmp_path / "weights" / "small")], letters).splitlines()[-1]
    assert row.startswith(f"| `ega-1` | {sum(p.numel() for p in stored.parameters()):,} | {loss:.4f} |")


def test_the_interval_of_a_difference_is_paired_and_covers_its_groups() -> None:
    generator = torch.Generator().manual_seed(0)
    reference = torch.randn(150, generator=generator).double()  # what both models share cancels
    assert paired_difference(reference + 0.25, reference) == "+0.2500 +- 0.0000"
    groups = torch.linspace(-1, 1, 15).double()
    expected = 2.145 * float(groups.std()) / 15**0.5
    found = paired_difference(reference + groups.repeat_interleave(10), reference)
    assert found in (f"+0.0000 +- {expected:.4f}", f"-0.0000 +- {expected:.4f}")


def test_statistics_up_to_the_key_take_the_look_ahead_away(lively: Callable[..., GPT]) -> None:
    model, twin = lively("ega-2"), lively("ega-2-causal")
    windows = torch.randint(0, 28, (4, 49), generator=torch.Generator().manual_seed(0))
    assert look_ahead(model, windows[:, :-1], 24) > 1e-3
    assert look_ahead(twin, windows[:, :-1], 24) < 1e-4
    assert causal_statistics_loss(model, windows) == pytest.approx(evaluate(twin, windows), abs=1e-6)
    assert not any(attention.gate is not None and attention.gate.causal for attention in model.attentions())
