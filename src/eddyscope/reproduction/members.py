"""Which models take part: the bundled ones, and folders that training has written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eddyscope.errors import EddyscopeError, InputError
from eddyscope.models.config import BUNDLED, GPTConfig, names
from eddyscope.reproduction.evidence import LAYERS

#: Files that make a folder one of a training; the first is written at its end.
CONFIG, CHECKPOINT = "config.json", "checkpoint.safetensors"

#: Width of the bundled models, which labels do not repeat.
_PLAIN_WIDTH = 128


@dataclass(frozen=True)
class Member:
    """A trained model that takes part.

    Parameters
    ----------
    name : str
        Unique: the bundled name, or that of the folder.
    folder : Path
    config : GPTConfig
    vocabulary : tuple of str
    recipe : dict
        How it was trained; empty where the folder does not say.
    loss : float or None
        Validation loss, nats per character, as training recorded it.
    """

    name: str
    folder: Path
    config: GPTConfig
    vocabulary: tuple[str, ...]
    recipe: dict[str, Any]
    loss: float | None

    @property
    def budget(self) -> str:
        """The recipe but for its seed, as a key."""
        return json.dumps({k: v for k, v in self.recipe.items() if k != "seed"}, sort_keys=True)

    @property
    def seed(self) -> int | None:
        """Seed of weights and batches."""
        return self.recipe.get("seed")


@dataclass(frozen=True)
class Architecture:
    """Trainings that differ by their seed alone.

    Parameters
    ----------
    label : str
    members : tuple of Member
    """

    label: str
    members: tuple[Member, ...]

    @property
    def config(self) -> GPTConfig:
        """The same for all."""
        return self.members[0].config


def find_members(
    folder: str | Path | None = None, bundled: Sequence[str] | None = None
) -> tuple[list[Member], list[str]]:
    """The bundled models, and those in the folders directly below ``folder``.

    Parameters
    ----------
    folder : str or Path, optional
    bundled : sequence of str, optional
        Which bundled models take part; all by default.

    Returns
    -------
    members : list of Member
        The standard model first.
    notes : list of str
        Folders that were left out, and why: those whose weights cannot be used, too, before anything is measured.

    Raises
    ------
    InputError
        Where ``folder`` is not a folder or holds no model at all, or a bundled model is not there.
    """
    chosen = names() if bundled is None else list(bundled)
    missing = [name for name in chosen if name not in names()]
    if missing or not chosen:
        raise InputError(
            f"There is no bundled model '{missing[0]}'." if missing else "No bundled model was chosen.",
            f"Choose from {', '.join(names())}.",
        )
    members = [_read(BUNDLED / name, name) for name in chosen]
    notes: list[str] = []
    found = 0
    for place in _folders(folder):
        if not (place / CONFIG).is_file():
            notes.append(f"{place.name}: left out, its training has not ended.")
            continue
        try:
            member = _read(place, place.name)
            reason = _unfit(member, members) or _unusable(place)
        except (EddyscopeError, TypeError, KeyError, ValueError, AttributeError, RecursionError) as error:
            notes.append(f"{place.name}: left out, it cannot be read ({str(error).rstrip('.')}).")
            continue
        found += 1
        if reason:
            notes.append(f"{member.name}: left out, {reason}.")
        else:
            members.append(member)
    if folder is not None and not found:
        raise InputError(
            f"No model was found in '{folder}'; expected folders in it that 'eddyscope train' has written.",
            "Give the folder that holds the folders of the training runs.",
        )
    return sorted(members, key=lambda m: m.config.variant != "base"), notes


def architectures(members: list[Member]) -> list[Architecture]:
    """Members by architecture and budget, in the order of the first of each."""
    grouped: dict[tuple[str, str], list[Member]] = {}
    for member in members:
        grouped.setdefault((json.dumps(member.config.to_dict()), member.budget), []).append(member)
    made = [Architecture(_label(group[0]), tuple(group)) for group in grouped.values()]
    labels = [a.label for a in made]
    return [
        Architecture(_label(a.members[0], with_steps=True), a.members) if labels.count(a.label) > 1 else a for a in made
    ]


def _label(member: Member, with_steps: bool = False) -> str:
    """The variant, and in brackets what sets it apart; without a comma outside them, as labels stand in lists."""
    width = member.config.width
    apart = [] if width == _PLAIN_WIDTH else [f"width {width}"]
    if with_steps:
        apart.append(f"{member.recipe.get('steps', '?')} steps")
    return f"{member.config.variant} ({', '.join(apart)})" if apart else member.config.variant


def _folders(folder: str | Path | None) -> list[Path]:
    if folder is None:
        return []
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"'{folder}' is not a folder.", "Give the folder that holds the folders of training runs.")
    return [p for p in sorted(place.iterdir()) if (p / CONFIG).is_file() or (p / CHECKPOINT).is_file()]


def _read(folder: Path, name: str) -> Member:
    from eddyscope.models.folder import read_config

    content = read_config(folder)
    training = content.get("training") or {}
    loss = training.get("validation_loss")
    return Member(
        name=name,
        folder=folder,
        config=GPTConfig(**content["config"]),
        vocabulary=tuple(content.get("vocabulary") or ()),
        recipe=dict(training.get("recipe") or {}),
        loss=None if loss is None else float(loss),
    )


def _unusable(folder: Path) -> str:
    """Why the weights in a folder cannot take part; empty where they can.

    Raises
    ------
    StoreError
        Where they cannot be read.
    """
    from eddyscope.models.folder import read_model
    from eddyscope.models.shared import SharedGPT

    model = read_model(folder)
    if isinstance(model, SharedGPT):
        return "its heads share patterns, and no training gave it"
    if not all(bool(weights.isfinite().all()) for weights in model.state_dict().values()):
        return "its weights hold NaN or Inf"
    return ""


def _unfit(member: Member, others: list[Member]) -> str:
    """Why a model cannot take part; empty where it can."""
    if member.config.layers != LAYERS:
        return f"it has {member.config.layers} layers and the claims are about {LAYERS}"
    first = others[0]
    if member.vocabulary != first.vocabulary or member.config.context != first.config.context:
        return "it has another vocabulary or context than the others, which must read the same documents"
    for other in others:
        if other.name == member.name:
            return "there is a model of this name already"
        if other.config == member.config and member.recipe and other.recipe == member.recipe:
            return f"it is the same training as {other.name}"
    return ""
