"""Training is a function of its settings: the same seed gives the same weights, killed or not."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from eddyscope.errors import InputError, StoreError, UsageError
from eddyscope.models import PAPER, Corpus, GPTConfig, Recipe, evaluate, evaluation_windows, load, train
from eddyscope.models.gpt import GPT
from eddyscope.models.training import batch_at

TINY: dict[str, Any] = {"layers": 2, "heads": 2, "width": 16, "context": 32, "dropout": 0.1}
SHORT = Recipe(steps=60, batch=4, warmup=5, seed=2)


def same_weights(first: GPT, second: GPT) -> bool:
    pairs = zip(first.state_dict().items(), second.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


def read_log(folder: Path) -> list[dict[str, str]]:
    with (folder / "training.csv").open() as lines:
        return list(csv.DictReader(lines))


def test_training_learns_and_writes_model_and_log(letters: Corpus, tmp_path: Path) -> None:
    seen: list[int] = []
    model = train(
        GPTConfig(variant="ega-1-causal", **TINY),
        letters,
        SHORT,
        tmp_path,
        evaluate_every=20,
        threads=1,
        report=lambda progress: seen.append(progress.step),
    )
    assert seen == list(range(1, 61))
    assert not model.training
    assert same_weights(model, load(tmp_path))
    rows = read_log(tmp_path)
    assert [row["step"] for row in rows] == ["20", "40", "60"]
    assert rows[-1]["tokens"] == str(60 * 4 * 32)
    assert float(rows[-1]["validation_loss"]) < float(rows[0]["validation_loss"]) < np.log(len(letters.vocabulary))


@pytest.mark.parametrize("optimiser", ["muon", "adamw"])
def test_equal_settings_give_equal_weights_and_another_seed_others(
    letters: Corpus, tmp_path: Path, optimiser: str
) -> None:
    config = GPTConfig(variant="ega-c", **TINY)
    runs = [
        train(config, letters, Recipe(steps=4, batch=2, optimiser=optimiser, seed=seed), tmp_path / name, threads=1)
        for name, seed in (("one", 0), ("two", 0), ("three", 1))
    ]
    assert same_weights(runs[0], runs[1])
    assert not same_weights(runs[0], runs[2])


CHILD = """
import sys, time
from eddyscope.models import Corpus, GPTConfig, Recipe, train
text = open(sys.argv[1]).read()
train(GPTConfig(variant="ega-2", layers=2, heads=2, width=16, context=32, dropout=0.1), Corpus("letters", text, ""),
      Recipe(steps=60, batch=4, warmup=5, seed=2), sys.argv[2], threads=1, checkpoint_every=9, evaluate_every=10,
      report=lambda progress: time.sleep(0.05 if progress.step > 20 else 0))
"""


def test_killed_training_resumes_to_the_weights_of_an_uninterrupted_run(letters: Corpus, tmp_path: Path) -> None:
    text, out = tmp_path / "letters.txt", tmp_path / "killed"
    text.write_text(letters.text)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(text), str(out)], env=environment)
    try:
        deadline = time.monotonic() + 120
        while not (out / "training.csv").exists() or len(read_log(out)) < 3:  # three rows: step 30 is done
            assert child.poll() is None, "the child ended before it was killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert child.returncode == -signal.SIGKILL
    assert (out / "checkpoint.safetensors").exists()
    assert not (out / "config.json").exists()

    config, every = GPTConfig(variant="ega-2", **TINY), {"checkpoint_every": 9, "evaluate_every": 10}
    steps: list[int] = []
    resumed = train(config, letters, SHORT, out, resume=True, threads=1, report=lambda p: steps.append(p.step), **every)
    assert 1 < steps[0] <= 37  # went on from a checkpoint, not from the start
    whole = train(config, letters, SHORT, tmp_path / "whole", threads=1, **every)
    assert same_weights(resumed, whole)
    assert losses(out) == losses(tmp_path / "whole")


def losses(folder: Path) -> list[tuple[str, str, str]]:
    return [(row["step"], row["training_loss"], row["validation_loss"]) for row in read_log(folder)]


def test_a_finished_run_can_be_resumed_without_harm(letters: Corpus, tmp_path: Path) -> None:
    config, recipe = GPTConfig(**TINY), Recipe(steps=3, batch=2)
    first = train(config, letters, recipe, tmp_path, threads=1)
    assert same_weights(first, train(config, letters, recipe, tmp_path, threads=1, resume=True))


def test_a_folder_with_a_run_is_not_overwritten(letters: Corpus, tmp_path: Path) -> None:
    config, recipe = GPTConfig(**TINY), Recipe(steps=3, batch=2)
    train(config, letters, recipe, tmp_path, threads=1)
    with pytest.raises(StoreError, match=r"holds a training run already .*Use --resume to go on with it"):
        train(config, letters, recipe, tmp_path, threads=1)
    with pytest.raises(StoreError, match=r"belongs to another run \(variant base there, ega-1 here, steps 3 there, 4"):
        train(GPTConfig(variant="ega-1", **TINY), letters, Recipe(steps=4, batch=2), tmp_path, resume=True)
    shuffled = Corpus("letters", letters.text[::-1], "made up")
    with pytest.raises(StoreError, match=r"belongs to another run \(another text\)"):
        train(config, shuffled, recipe, tmp_path, resume=True)
    (tmp_path / "checkpoint.safetensors").unlink()
    with pytest.raises(StoreError, match=r"holds a model but no checkpoint.safetensors, so its training cannot"):
        train(config, letters, recipe, tmp_path, resume=True)


def test_a_checkpoint_that_is_cut_is_named(letters: Corpus, tmp_path: Path) -> None:
    (tmp_path / "checkpoint.safetensors").write_bytes(b"\0" * 20)
    with pytest.raises(StoreError, match=r"checkpoint.safetensors' cannot be read"):
        train(GPTConfig(**TINY), letters, SHORT, tmp_path, resume=True)


def test_models_of_chosen_steps_are_kept(letters: Corpus, tmp_path: Path) -> None:
    config, recipe = GPTConfig(**TINY), Recipe(steps=6, batch=2)
    final = train(config, letters, recipe, tmp_path, threads=1, keep_steps=(0, 2, 6))
    folders = sorted((tmp_path / "steps").iterdir())
    assert [folder.name for folder in folders] == ["000000", "000002", "000006"]
    start, middle, end = (load(folder) for folder in folders)
    assert same_weights(end, final)
    assert not same_weights(start, middle)
    assert start.vocabulary == letters.vocabulary


def test_torchs_threads_and_random_state_are_left_as_they_were(letters: Corpus, tmp_path: Path) -> None:
    before, state = torch.get_num_threads(), torch.random.get_rng_state()
    train(GPTConfig(**TINY), letters, Recipe(steps=2, batch=2), tmp_path, threads=before + 1)
    assert torch.get_num_threads() == before
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    ids = torch.arange(1000, dtype=torch.int32)

    def batch(step: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        return batch_at(ids, step, batch=5, context=10, seed=seed)

    x, y = batch(3)
    assert x.shape == y.shape == (5, 10)
    assert torch.equal(y, x + 1)
    assert torch.equal(x, batch(3)[0])
    assert not torch.equal(x, batch(4)[0])
    assert not torch.equal(x, batch(3, seed=1)[0])


def test_batches_reach_both_ends_of_the_text() -> None:
    ids = torch.arange(12, dtype=torch.int32)
    drawn = [batch_at(ids, step, batch=8, context=10, seed=0) for step in range(20)]
    assert min(int(x.min()) for x, _ in drawn) == 0
    assert max(int(y.max()) for _, y in drawn) == 11


def test_evaluation_windows_are_fixed_and_do_not_overlap() -> None:
    ids = torch.arange(101)
    windows = evaluation_windows(ids, 10)
    assert windows.shape == (10, 11)
    assert torch.equal(windows[:, 0], torch.arange(0, 100, 10))
    assert torch.equal(evaluation_windows(ids, 10, 5)[:, 0], torch.arange(0, 100, 20))
    assert len(evaluation_windows(ids, 10, 64)) == 10
    with pytest.raises(InputError, match=r"has 9 characters; expected at least 11, the context and one"):
        evaluation_windows(ids[:9], 10)


def test_the_loss_of_a_model_that_knows_nothing_is_that_of_the_uniform_guess(letters: Corpus) -> None:
    from eddyscope.models import untrained

    model = untrained(GPTConfig(vocab_size=20, layers=1, heads=1, width=8, context=16))
    with torch.no_grad():
        model.tokens.weight.zero_()
    windows = torch.randint(0, 20, (5, 17))
    assert evaluate(model, windows, batch=2) == pytest.approx(np.log(20), abs=1e-5)


def test_the_rate_warms_up_and_decays_to_zero() -> None:
    linear = Recipe(steps=100, warmup=10)
    assert [linear.factor(step) for step in (0, 9, 10, 55)] == pytest.approx([0.1, 1, 1, 0.5])
    assert 0 < linear.factor(99) < 0.02
    cosine = Recipe(steps=100, warmup=10, decay="cosine")
    assert cosine.factor(55) == pytest.approx(0.5)
    assert 0 < cosine.factor(99) < 0.01


def test_the_paper_preset_is_the_published_recipe() -> None:
    assert (PAPER.optimiser, PAPER.rate, PAPER.betas, PAPER.weight_decay) == ("adamw", 3e-4, (0.9, 0.95), 0.1)
    assert (PAPER.warmup, PAPER.decay, PAPER.steps, PAPER.batch) == (300, "cosine", 5000, 64)


def test_settings_that_cannot_be_are_refused(letters: Corpus, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"steps is 0; expected at least 1"):
        Recipe(steps=0)
    with pytest.raises(UsageError, match=r"optimiser is 'sgd'; expected one of muon, adamw"):
        Recipe(optimiser="sgd")
    short = Corpus("short", "abc" * 9, "made up")
    with pytest.raises(
        InputError, match=r"training split of 'short' has 24 characters; expected more than the context"
    ):
        train(GPTConfig(**TINY), short, SHORT, tmp_path)
