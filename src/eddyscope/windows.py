"""How short each layer's attention may be, and what the loss owes to a distance, a band or a mode.

``find(model, documents, max_loss_rise=0.02)`` gives the smallest windows, ``apply(model, plan)`` puts them on a model
and takes them off again. Torch is imported on the first use of a name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from eddyscope.errors import MissingDependencyError

if TYPE_CHECKING:
    from eddyscope.interventions.windows.agreement import Agreement, owed_to_octaves
    from eddyscope.interventions.windows.apply import apply
    from eddyscope.interventions.windows.cost import Cost, cost
    from eddyscope.interventions.windows.find import Windows, find
    from eddyscope.interventions.windows.modes import owed_to_modes
    from eddyscope.interventions.windows.modestudy import modes_owed
    from eddyscope.interventions.windows.native import config
    from eddyscope.interventions.windows.plan import LayerWindow, WindowPlan, load, save
    from eddyscope.interventions.windows.reader import Reader
    from eddyscope.interventions.windows.removal import Removal
    from eddyscope.interventions.windows.write import open_agreement

_FROM = {
    "Agreement": "agreement",
    "Cost": "cost",
    "LayerWindow": "plan",
    "Reader": "reader",
    "Removal": "removal",
    "WindowPlan": "plan",
    "Windows": "find",
    "apply": "apply",
    "config": "native",
    "cost": "cost",
    "find": "find",
    "load": "plan",
    "modes_owed": "modestudy",
    "open_agreement": "write",
    "owed_to_modes": "modes",
    "owed_to_octaves": "agreement",
    "save": "plan",
}

__all__ = [
    "Agreement",
    "Cost",
    "LayerWindow",
    "Reader",
    "Removal",
    "WindowPlan",
    "Windows",
    "apply",
    "config",
    "cost",
    "find",
    "load",
    "modes_owed",
    "open_agreement",
    "owed_to_modes",
    "owed_to_octaves",
    "save",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for."""
    if name not in _FROM:
        raise AttributeError(f"module 'eddyscope.windows' has no attribute '{name}'")
    try:
        module = import_module(f"eddyscope.interventions.windows.{_FROM[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise MissingDependencyError("torch", f"eddyscope.windows.{name}", "hf") from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
