"""Training: seeded batches by step, one recipe, and checkpoints from which a killed run goes on exactly."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn import functional as F

from eddyscope.errors import InputError, StoreError, UsageError
from eddyscope.models.config import GPTConfig
from eddyscope.models.corpus import Corpus
from eddyscope.models.folder import CONFIG, build, load_weights, save_model, write_tensors, write_whole
from eddyscope.models.gpt import GPT
from eddyscope.models.optim import Optimisers, build_optimisers

CHECKPOINT = "checkpoint.safetensors"
LOG = "training.csv"
# step_seconds is time on the wall, cpu_seconds that of all threads, both a step and without evaluation: on a busy
# machine the second says more.
LOG_COLUMNS = ("step", "tokens", "training_loss", "validation_loss", "rate_factor", "step_seconds", "cpu_seconds")
LOG_WINDOWS = 64  # validation windows of the log; the final loss is over all of them


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.

    Parameters
    ----------
    steps, batch, seed : int
        Number of updates, sequences of each, and the seed of weights and batches.
    optimiser : str
        ``muon`` (Muon for the matrices of the blocks, AdamW for the rest) or ``adamw``.
    matrix_rate, rate : float
        Peak learning rates of Muon and AdamW.
    betas : tuple of float
        AdamW's decay rates.
    weight_decay : float
        Decoupled weight decay of everything with two or more dimensions.
    warmup : int
        Steps of linear warm-up.
    decay : str
        ``linear`` or ``cosine`` decay to zero at the last step.
    clip : float
        Largest norm of the gradient; 0 leaves it alone.
    """

    steps: int = 1500
    batch: int = 8
    seed: int = 0
    optimiser: str = "muon"
    matrix_rate: float = 0.03
    rate: float = 3e-3
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    warmup: int = 30
    decay: str = "linear"
    clip: float = 0.0

    def __post_init__(self) -> None:
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise UsageError(f"The recipe's {name} is {getattr(self, name)}; expected at least 1.")
        for name, allowed in (("optimiser", ("muon", "adamw")), ("decay", ("linear", "cosine"))):
            if getattr(self, name) not in allowed:
                raise UsageError(
                    f"The recipe's {name} is '{getattr(self, name)}'; expected one of {', '.join(allowed)}."
                )

    def factor(self, step: int) -> float:
        """Return the learning rate of a step (0-based) relative to its peak."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        return 1 - progress if self.decay == "linear" else 0.5 * (1 + math.cos(math.pi * progress))


# The published study's: for a GPU. Gradient clipping is not mentioned there, so there is none.
PAPER = Recipe(
    steps=5000,
    batch=64,
    optimiser="adamw",
    rate=3e-4,
    betas=(0.9, 0.95),
    weight_decay=0.1,
    warmup=300,
    decay="cosine",
)
PAPER_SIZES: dict[str, Any] = {"width": 256, "layers": 6, "heads": 8, "context": 256, "dropout": 0.1}


@dataclass
class Progress:
    """Where a run stands; given to the ``report`` callback after every step.

    Parameters
    ----------
    step, steps : int
        Updates done and in all.
    training_loss : float
        Cross-entropy of the last batch, nats per character.
    validation_loss : float or None
        Of the last evaluation; None before it.
    """

    step: int
    steps: int
    training_loss: float
    validation_loss: float | None


@dataclass
class _State:
    """What a checkpoint keeps beside tensors."""

    step: int = 0
    rows: list[list[float]] = field(default_factory=list)
    loss_sum: float = 0.0  # since the last row of the log
    seconds_sum: float = 0.0
    cpu_sum: float = 0.0
    pending: int = 0


def batch_at(ids: Tensor, step: int, *, batch: int, context: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of a step, both (batch, context); a function of its arguments alone.

    Because no generator is carried from step to step, a resumed run sees the same batches.
    """
    starts = np.random.default_rng([seed, step]).integers(0, len(ids) - context, size=batch)
    rows = torch.stack([ids[start : start + context + 1] for start in starts.tolist()]).long()
    return rows[:, :-1], rows[:, 1:]


def evaluation_windows(ids: Tensor, context: int, count: int | None = None) -> Tensor:
    """Return the fixed windows of an evaluation, shape (window, context + 1).

    Non-overlapping windows that start at multiples of the context; with ``count``, that many evenly spaced ones.
    """
    available = (len(ids) - 1) // context
    if available < 1:
        raise InputError(
            f"The text to evaluate on has {len(ids)} characters; expected at least {context + 1}, the context and one."
        )
    count = available if count is None else min(count, available)
    starts = [available * index // count * context for index in range(count)]
    return torch.stack([ids[start : start + context + 1] for start in starts]).long()


@torch.no_grad()
def window_losses(model: GPT, windows: Tensor, *, batch: int = 8) -> Tensor:
    """Return the mean cross-entropy (nats per character) of each of the windows (window, context + 1), float64."""
    was_training = model.training
    model.eval()
    device = model.tokens.weight.device
    losses = []
    with fused_attention(model):
        for rows in torch.split(windows.to(device), batch):
            each = F.cross_entropy(model(rows[:, :-1]).transpose(1, 2), rows[:, 1:], reduction="none")
            losses.append(each.double().mean(1).cpu())
    model.train(was_training)
    return torch.cat(losses)


def evaluate(model: GPT, windows: Tensor, *, batch: int = 8) -> float:
    """Return the mean cross-entropy (nats per character) of a model over windows of (window, context + 1)."""
    return float(window_losses(model, windows, batch=batch).mean())


@contextmanager
def fused_attention(model: GPT) -> Iterator[None]:
    """Compute attention without forming its weights, for the time of a block."""
    attentions = model.attentions()
    before = [attention.fused for attention in attentions]
    for attention in attentions:
        attention.fused = True
    try:
        yield
    finally:
        for attention, value in zip(attentions, before, strict=True):
            attention.fused = value


def train(
    config: GPTConfig,
    corpus: Corpus,
    recipe: Recipe,
    out: str | Path,
    *,
    resume: bool = False,
    evaluate_every: int = 100,
    checkpoint_every: int = 100,
    keep_steps: Sequence[int] = (),
    threads: int | None = None,
    device: str = "cpu",
    report: Callable[[Progress], None] | None = None,
) -> GPT:
    """Train a model and write it, with its log, to a folder.

    Parameters
    ----------
    config : GPTConfig
        Architecture; ``vocab_size`` is replaced by the corpus's.
    corpus : Corpus
        Text; its first 90 % are trained on.
    recipe : Recipe
        Optimiser, budget, seed.
    out : str or Path
        Gets ``model.safetensors``, ``config.json``, ``training.csv``, and ``checkpoint.safetensors`` while training.
    resume : bool
        Go on from the checkpoint in ``out`` (from the start where there is none). At an equal number of threads the
        weights equal those of a run that was never interrupted, bit by bit.
    evaluate_every, checkpoint_every : int
        Steps between rows of the log, and between checkpoints.
    keep_steps : sequence of int
        Steps whose model is kept, each in ``steps/NNNNNN`` (0 = untrained).
    threads : int, optional
        Threads of torch for this run; the setting is restored afterwards.
    device : str
        ``cpu`` or a CUDA device. Exact resume holds on the CPU; CUDA kernels sum in an order of their own.
    report : callable, optional
        Called with a :class:`Progress` after every step.

    Returns
    -------
    GPT
        The trained model, in eval mode.

    Raises
    ------
    StoreError
        Where ``out`` holds a run and ``resume`` is False, or its checkpoint belongs to another run.
    InputError
        Where the text is too short.
    """
    config = replace(config, vocab_size=len(corpus.vocabulary))
    run = _Run(config, corpus, recipe, Path(out), torch.device(device))
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        run.open(resume)
        with fused_attention(run.model):
            while run.state.step < recipe.steps:
                if run.state.step in keep_steps:
                    run.keep()
                loss = run.advance()
                done = run.state.step
                if done % evaluate_every == 0 or done == recipe.steps:
                    run.log()
                if done % checkpoint_every == 0 or done == recipe.steps:
                    run.checkpoint()
                if report is not None:
                    last = run.state.rows[-1][3] if run.state.rows else None
                    report(Progress(done, recipe.steps, loss, last))
        if recipe.steps in keep_steps:
            run.keep()
        run.finish()
    finally:
        torch.set_num_threads(before)
    return run.model.cpu().eval()


class _Run:
    """A training run: model, optimisers, data and what has been done."""

    def __init__(self, config: GPTConfig, corpus: Corpus, recipe: Recipe, out: Path, device: torch.device) -> None:
        vocabulary = corpus.vocabulary
        self.config, self.recipe, self.out, self.corpus = config, recipe, out, corpus
        self.device = device
        self.model = build(config, vocabulary, seed=recipe.seed).to(device)
        self.optimisers: Optimisers = build_optimisers(
            self.model,
            optimiser=recipe.optimiser,
            matrix_rate=recipe.matrix_rate,
            rate=recipe.rate,
            betas=recipe.betas,
            weight_decay=recipe.weight_decay,
        )
        self.training = torch.tensor(self.model.encode(corpus.training), dtype=torch.int32)
        if len(self.training) <= config.context:
            raise InputError(
                f"The training split of '{corpus.name}' has {len(self.training)} characters; expected more than the "
                f"context of {config.context}.",
                "Use a longer text or a smaller --context.",
            )
        self.validation = torch.tensor(self.model.encode(corpus.validation), dtype=torch.int32)
        self.windows = evaluation_windows(self.validation, config.context, LOG_WINDOWS)
        self.state = _State()

    def identity(self) -> dict[str, Any]:
        """Return what must agree for a run to be resumed."""
        return json.loads(  # type: ignore[no-any-return]
            json.dumps(
                {"config": asdict(self.config), "recipe": asdict(self.recipe), "corpus_sha256": self.corpus.sha256}
            )
        )

    def open(self, resume: bool) -> None:
        """Make the folder, or take up the checkpoint in it."""
        held = [name for name in (CHECKPOINT, CONFIG) if (self.out / name).exists()]
        if held and not resume:
            raise StoreError(
                f"'{self.out}' holds a training run already ({', '.join(held)}).",
                "Use --resume to go on with it, or another --out.",
            )
        if held == [CONFIG]:
            raise StoreError(
                f"'{self.out}' holds a model but no {CHECKPOINT}, so its training cannot be resumed.",
                "Use another --out.",
            )
        self.out.mkdir(parents=True, exist_ok=True)
        if (self.out / CHECKPOINT).exists():
            self._restore(self.out / CHECKPOINT)

    def advance(self) -> float:
        """Take one step; returns the loss of its batch."""
        began, cpu_began = time.perf_counter(), time.process_time()
        step, recipe = self.state.step, self.recipe
        x, y = batch_at(self.training, step, batch=recipe.batch, context=self.config.context, seed=recipe.seed)
        self.model.train()
        on_gpu = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=on_gpu):  # dropout depends on the step alone, as the batch does
            torch.manual_seed(recipe.seed * 1_000_003 + step)
            logits = self.model(x.to(self.device))
            loss = F.cross_entropy(logits.flatten(0, 1), y.to(self.device).flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        if recipe.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip)
        self.optimisers.step(recipe.factor(step))
        self.state.step += 1
        self.state.pending += 1
        self.state.loss_sum += loss.item()
        self.state.seconds_sum += time.perf_counter() - began
        self.state.cpu_sum += time.process_time() - cpu_began
        return loss.item()

    def log(self) -> None:
        """Evaluate and add a row to the log."""
        state, recipe = self.state, self.recipe
        state.rows.append(
            [
                state.step,
                state.step * recipe.batch * self.config.context,
                round(state.loss_sum / state.pending, 5),
                round(evaluate(self.model, self.windows), 5),
                round(recipe.factor(state.step - 1), 5),
                round(state.seconds_sum / state.pending, 4),
                round(state.cpu_sum / state.pending, 4),
            ]
        )
        state.loss_sum, state.seconds_sum, state.cpu_sum, state.pending = 0.0, 0.0, 0.0, 0
        lines = [",".join(LOG_COLUMNS), *(",".join(str(value) for value in row) for row in state.rows)]
        write_whole(self.out / LOG, "\n".join(lines) + "\n")

    def checkpoint(self) -> None:
        """Write everything that the next step depends on, in one file."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for part, optimiser in self.optimisers.parts.items():
            for index, entries in optimiser.state_dict()["state"].items():
                for key, value in entries.items():
                    tensors[f"{part}.{index}.{key}"] = value
        metadata = {"identity": json.dumps(self.identity()), "state": json.dumps(asdict(self.state))}
        write_tensors(self.out / CHECKPOINT, tensors, metadata)

    def _restore(self, path: Path) -> None:
        """Take up a checkpoint."""
        try:
            with safe_open(path, framework="pt") as stored:
                metadata = stored.metadata() or {}
                tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise StoreError(
                f"The checkpoint '{path}' cannot be read ({error}).", "Remove it and train again."
            ) from error
        mine, theirs = self.identity(), json.loads(metadata.get("identity", "{}"))
        if mine != theirs:
            raise StoreError(
                f"The checkpoint '{path}' belongs to another run ({_differences(theirs, mine)}).",
                "Repeat the options of that run, or use another --out.",
            )
        load_weights(self.model, {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")})
        for part, optimiser in self.optimisers.parts.items():
            state: dict[int, dict[str, Tensor]] = {}
            for name, tensor in tensors.items():
                if name.startswith(f"{part}."):
                    _, index, key = name.split(".")
                    state.setdefault(int(index), {})[key] = tensor
            optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
        self.state = _State(**json.loads(metadata["state"]))

    def keep(self) -> None:
        """Save the model of this step into the series."""
        folder = self.out / "steps" / f"{self.state.step:06d}"
        save_model(self.model, folder, training={"step": self.state.step, **self.identity()})

    def finish(self) -> None:
        """Evaluate on all validation windows and write the model."""
        windows = evaluation_windows(self.validation, self.config.context)
        seconds = sorted(row[5] for row in self.state.rows)
        save_model(
            self.model,
            self.out,
            training={
                **self.identity(),
                "corpus": self.corpus.name,
                "validation_loss": evaluate(self.model, windows),
                "validation_windows": len(windows),
                "step_seconds": seconds[len(seconds) // 2],
                "threads": torch.get_num_threads(),
                "device": self.device.type,
                "torch": torch.__version__,
            },
        )


def _differences(theirs: dict[str, Any], mine: dict[str, Any]) -> str:
    """Say what differs between two runs, in words."""
    if not theirs:
        return "it names no run"
    found = []
    for part in ("config", "recipe"):
        for key, value in mine[part].items():
            other = theirs.get(part, {}).get(key)
            if other != value:
                found.append(f"{key} {other} there, {value} here")
    if theirs.get("corpus_sha256") != mine["corpus_sha256"]:
        found.append("another text")
    return ", ".join(found) or "of another format"
