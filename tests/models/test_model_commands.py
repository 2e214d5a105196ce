"""The train and sample commands do what the Python calls do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner

from eddyscope.cli.sample import sample_command
from eddyscope.cli.train import choose_device, parse_steps, settings, train_command
from eddyscope.errors import UsageError
from eddyscope.models import PAPER, Corpus, GPTConfig, Recipe, find_corpus, load, sample, save_model, train, untrained

SIZES = ["--width", "16", "--layers", "1", "--heads", "2", "--context", "32", "--threads", "1"]


@pytest.fixture
def app() -> typer.Typer:
    commands = typer.Typer()
    commands.command("train")(train_command)
    commands.command("sample")(sample_command)
    return commands


def test_train_equals_the_python_call(app: typer.Typer, letters: Corpus, tmp_path: Path) -> None:
    text = tmp_path / "letters.txt"
    text.write_text(letters.text)
    line = ["train", "ega-1", "--corpus", str(text), "--steps", "6", "--batch", "2", "--seed", "4"]
    line += [
        *SIZES,
        "--dropout",
        "0.1",
        "--keep-steps",
        "0,3",
        "--evaluate-every",
        "2",
        "--out",
        str(tmp_path / "line"),
    ]
    result = CliRunner().invoke(app, line, catch_exceptions=False)
    assert result.exit_code == 0
    assert "The gate of ega-1 normalises over the whole sequence, so this model sees later tokens." in result.output
    assert "ega-1: 6 steps of 2 x 32 characters of letters.txt" in result.output
    assert "step 4 of 6: loss " in result.output
    config = GPTConfig(variant="ega-1", width=16, layers=1, heads=2, context=32, dropout=0.1)
    recipe = Recipe(steps=6, batch=2, seed=4)
    called = train(config, find_corpus(text), recipe, tmp_path / "call", threads=1, evaluate_every=2)
    typed = load(tmp_path / "line")
    assert all(torch.equal(a, b) for a, b in zip(called.parameters(), typed.parameters(), strict=True))
    assert sorted(path.name for path in (tmp_path / "line" / "steps").iterdir()) == ["000000", "000003"]


def test_train_resumes(app: typer.Typer, letters: Corpus, tmp_path: Path) -> None:
    text = tmp_path / "letters.txt"
    text.write_text(letters.text)
    line = [
        "train",
        "base",
        "--corpus",
        str(text),
        "--steps",
        "3",
        "--batch",
        "2",
        *SIZES,
        "--out",
        str(tmp_path / "m"),
    ]
    assert CliRunner().invoke(app, line).exit_code == 0
    again = CliRunner().invoke(app, line)
    assert again.exit_code != 0
    assert "holds a training run already" in str(again.exception)
    resumed = CliRunner().invoke(app, [*line, "--resume"])
    assert resumed.exit_code == 0
    assert f"The model is in {tmp_path / 'm'}." in resumed.output
    assert "sees later tokens" not in resumed.output


def test_sample_equals_the_python_call(app: typer.Typer, tmp_path: Path) -> None:
    letters = list("\n abcdefghijklmnopqrstuvwxyz:")
    model = untrained(
        GPTConfig(vocab_size=len(letters), width=16, layers=1, heads=2, context=12), seed=1, vocabulary=letters
    )
    save_model(model, tmp_path)
    line = ["sample", str(tmp_path), "--length", "30", "--temperature", "0.7", "--seed", "5", "--prompt", "romeo:"]
    result = CliRunner().invoke(app, line, catch_exceptions=False)
    expected = sample(model, 30, prompt="romeo:", temperature=0.7, seed=5)
    assert result.output == f"romeo:{expected}\n"
    assert len(expected) == 30


def test_sample_counts_what_the_prompt_loses(app: typer.Typer, tmp_path: Path) -> None:
    save_model(untrained(GPTConfig(vocab_size=3, width=8, layers=1, heads=1, context=8), vocabulary=" ab"), tmp_path)
    result = CliRunner().invoke(app, ["sample", str(tmp_path), "--length", "1", "--prompt", "a[b]["])
    assert "3 characters of the prompt are not in the vocabulary: '[', ']'." in result.output


def test_sampling_depends_on_seed_and_temperature() -> None:
    model = untrained(GPTConfig(vocab_size=3, width=8, layers=1, heads=1, context=8), vocabulary=" ab")
    assert sample(model, 40, prompt="a", seed=1) == sample(model, 40, prompt="a", seed=1)
    assert sample(model, 40, prompt="a", seed=1) != sample(model, 40, prompt="a", seed=2)
    assert sample(model, 40, prompt="a", temperature=0, seed=1) == sample(model, 40, prompt="a", temperature=0, seed=2)
    with pytest.raises(UsageError, match=r"The prompt is empty; expected at least one character"):
        sample(model, 4, prompt="")
    with pytest.raises(UsageError, match=r"length is -1 and temperature 0.8; expected 0 or more"):
        sample(model, -1)


def test_the_paper_preset_gives_way_to_options() -> None:
    none = dict.fromkeys(("width", "layers", "heads", "context", "dropout"))
    config, recipe = settings("ega-1", "paper", sizes=none, budget={"steps": None, "batch": None, "seed": 0})
    assert config == GPTConfig(variant="ega-1", width=256, layers=6, heads=8, context=256, dropout=0.1)
    assert recipe == PAPER
    config, recipe = settings("base", "paper", sizes={**none, "width": 64}, budget={"steps": 10, "batch": None})
    assert (config.width, config.dropout, recipe.steps, recipe.batch) == (64, 0.1, 10, 64)
    with pytest.raises(UsageError, match=r"Unknown preset 'papers'; expected 'paper'"):
        settings("base", "papers", sizes=none, budget={})


def test_options_that_cannot_be_are_refused() -> None:
    assert parse_steps("0, 10,100") == [0, 10, 100]
    assert parse_steps("") == []
    with pytest.raises(UsageError, match=r"--keep-steps has '1e3'; expected whole numbers joined by commas"):
        parse_steps("0,1e3")
    with pytest.raises(UsageError, match=r"Unknown device 'gpu'; expected auto, cpu or cuda"):
        choose_device("gpu")
