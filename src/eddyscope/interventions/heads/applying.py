"""A plan on a model: applied and taken off, saved and loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eddyscope.errors import StoreError
from eddyscope.interventions.editing import AppliedEdits
from eddyscope.interventions.heads.plan import FILE, Plan, check_fits, read_plan, sharing_edits
from eddyscope.models.gpt import GPT
from eddyscope.models.shared import SharedGPT


def apply(model: Any, plan: Plan | str | Path) -> AppliedEdits:
    """Let a model's heads share patterns as a plan says, until it is taken off again.

    Parameters
    ----------
    model : torch.nn.Module
        The model that the plan was made for: a GPT of ``eddyscope.models`` or a Hugging Face model.
    plan : Plan, str or Path
        A plan, or where its ``heads.json`` lies.

    Returns
    -------
    AppliedEdits
        ``applied.remove()``, or the end of ``with apply(model, plan):``, leaves the model as it was.

    Raises
    ------
    InputError
        Where the plan was made for another model, with the reason.

    Notes
    -----
    Sharing is within a layer, over all its heads: with grouped queries also across groups, as a pattern is a map of
    queries to keys and does not care whose keys made it. Values stay those of each head's own group. The keys of a
    group are needed as long as one of its heads is kept.
    """
    found = plan if isinstance(plan, Plan) else read_plan(plan)
    check_fits(model, found)
    return AppliedEdits(model, sharing_edits(found))


def save(model: Any, plan: Plan, folder: str | Path, tokenizer: Any = None) -> None:
    """Write a model and its plan to a folder that :func:`load` reads.

    Parameters
    ----------
    model : torch.nn.Module
        A GPT of ``eddyscope.models`` (whole, or rebuilt by :func:`rebuild`) or a Hugging Face model.
    plan : Plan
        Made for the model; of a rebuilt one, what it was rebuilt by.
    folder : str or Path
        Missing or empty.
    tokenizer : object, optional
        Of a Hugging Face model, written beside it.

    Raises
    ------
    StoreError
        Where the folder holds something.
    InputError
        Where the plan was made for another model.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StoreError(f"'{folder}' exists and is not an empty folder.", "Choose another one.")
    if not isinstance(model, SharedGPT):
        check_fits(model, plan)
    target.mkdir(parents=True, exist_ok=True)
    if isinstance(model, GPT):
        from eddyscope.models.folder import save_model

        save_model(model, target)
    else:
        model.save_pretrained(target)
        if tokenizer is not None:
            tokenizer.save_pretrained(target)
    plan.write(target / FILE)


def load(folder: str | Path) -> Any:
    """Read a model that :func:`save` wrote, with its plan applied.

    Returns
    -------
    torch.nn.Module
        In eval mode: a rebuilt GPT, or a model whose heads share patterns until the process ends.

    Raises
    ------
    StoreError
        Where the folder holds no model with a plan.
    """
    plan = read_plan(Path(folder))
    from eddyscope.capture import load_model

    model, _ = load_model(str(Path(folder).absolute()))
    if not isinstance(model, SharedGPT):
        apply(model, plan)
    return model
