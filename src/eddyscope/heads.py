"""Which heads are needed, and what it costs to let the others share their patterns.

``plan(model, documents, budget=0.5)`` makes a plan and measures it, ``apply(model, plan)`` puts it on a model
reversibly, ``rebuild(model, plan)`` builds a GPT of ``eddyscope.models`` without the queries and keys that are not
needed, ``save`` and ``load`` keep either. Torch is imported on the first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from eddyscope.errors import MissingDependencyError

if TYPE_CHECKING:
    from eddyscope.interventions.heads.applying import apply, load, save
    from eddyscope.interventions.heads.curve import layers_alone, loss_curve
    from eddyscope.interventions.heads.healing import heal
    from eddyscope.interventions.heads.plan import LayerPlan, Plan, read_plan
    from eddyscope.interventions.heads.planning import gather_evidence, make_plan, part_documents
    from eddyscope.interventions.heads.rebuild import rebuild
    from eddyscope.interventions.heads.redundancy import Redundancy, measure_redundancy
    from eddyscope.interventions.heads.study import HeadStudy, plan

_LAZY = {
    "HeadStudy": "study",
    "LayerPlan": "plan",
    "Plan": "plan",
    "Redundancy": "redundancy",
    "apply": "applying",
    "gather_evidence": "planning",
    "heal": "healing",
    "layers_alone": "curve",
    "load": "applying",
    "loss_curve": "curve",
    "make_plan": "planning",
    "measure_redundancy": "redundancy",
    "part_documents": "planning",
    "plan": "study",
    "read_plan": "plan",
    "rebuild": "rebuild",
    "save": "applying",
}

__all__ = [
    "HeadStudy",
    "LayerPlan",
    "Plan",
    "Redundancy",
    "apply",
    "gather_evidence",
    "heal",
    "layers_alone",
    "load",
    "loss_curve",
    "make_plan",
    "measure_redundancy",
    "part_documents",
    "plan",
    "read_plan",
    "rebuild",
    "save",
]


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    try:
        return getattr(import_module(f"eddyscope.interventions.heads.{_LAZY[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name in ("torch", "safetensors"):
            raise MissingDependencyError(error.name, "Sharing heads", "hf") from error
        raise


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
