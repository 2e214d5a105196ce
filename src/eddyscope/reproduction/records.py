"""What the tables show of one trained model, and what there is to distrust, measured on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eddyscope.ensemble import AttentionEnsemble
from eddyscope.lagfield import FloatArray, IntArray
from eddyscope.reproduction.evidence import Evidence
from eddyscope.reproduction.members import Member
from eddyscope.study.published import published_rows
from eddyscope.study.study import Study
from eddyscope.trust.differences import Difference
from eddyscope.trust.seeds import seeds_estimate

#: Documents on which the look ahead of a gate is tried, and from which token on the rest is replaced.
_TRIED = 16


@dataclass(frozen=True)
class Gate:
    """How far a model looks ahead.

    Parameters
    ----------
    looks_ahead : bool
        By its config.
    moved : float
        Largest change of a logit before the middle of the document when the tokens from there on are replaced.
    loss : float
        Mean over the documents, nats per character.
    deprived : Difference or None
        What the loss gains when the gates' mean and deviation are taken up to the key; None without such a gate.
    """

    looks_ahead: bool
    moved: float
    loss: float
    deprived: Difference | None


@dataclass(frozen=True)
class Record:
    """One trained model.

    Parameters
    ----------
    member : Member
    evidence : Evidence
    rows : tuple of dict
        One a layer: ``t_spec``, ``h`` and so on under ``published``, ``ahead`` and ``defaults``.
    gate : Gate
    fits : tuple of str
        Status of each published fit.
    """

    member: Member
    evidence: Evidence
    rows: tuple[dict[str, Any], ...]
    gate: Gate
    fits: tuple[str, ...]


def script_rank(rank: float, documents: int) -> float:
    """H* as the published script prints it: one too large, and at most the number of documents."""
    return float(min(rank + 1, documents))


def layer_rows(
    ensemble: AttentionEnsemble, published: Study, ahead: Study, defaults: Study, evidence: Evidence
) -> list[dict[str, Any]]:
    """Numbers of the tables, one dict a layer.

    Parameters
    ----------
    ensemble : AttentionEnsemble
        Head means.
    published, ahead, defaults : Study
        Preset ``published``; the same on the masked half; our defaults with intervals.
    evidence : Evidence
    """
    found = []
    for index, name in enumerate(ensemble.layers):
        own, masked, ours = published.packed(name), ahead.packed(name), defaults.packed(name)
        t_spec = seeds_estimate(np.array([evidence.t_spec.value[index]]), evidence.t_spec.replicates[:, index][None])
        clear = np.array([str(s) == "ok" for s in ours["scale_status"].values])
        read = published_rows(ensemble.fields[name], "ahead").values
        found.append(
            {
                "published": {
                    "t_spec": (t_spec.value, t_spec.low, t_spec.high),
                    "h": own["effective_rank"].values[0],
                    "energy": float(np.exp(evidence.energy.value[index])),
                    "scale": float(own["dominant_scale"].values[0]),
                },
                "ahead": {
                    "t_spec": float(masked["t_spec_published"].values[0]),
                    "h": masked["effective_rank"].values[0],
                    "scale": float(masked["dominant_scale"].values[0]),
                    **_read_ahead(read),
                },
                "defaults": {
                    "t_spec": _interval(ours, "field_t_spec_resolved"),
                    "t_spec_status": str(ours["field_t_spec_resolved_status"].values),
                    "lag_t_spec": _interval(ours, "lag_t_spec_resolved"),
                    "lag_t_spec_status": str(ours["lag_t_spec_resolved_status"].values),
                    "h_low": ours["field_effective_rank_low"].values,
                    "h_high": ours["field_effective_rank_high"].values,
                    "h_at": ours["field_effective_rank_at"].values[:, 0],
                    "documents_at": ours["documents_at"].values,
                    "capture": float(ours["field_greatest_capture"]),
                    "energy": float(ours["spectrum"].values[2, 0][clear].sum()),
                    "median_lag": float(ours["median_lag"]),
                },
            }
        )
    return found


def _read_ahead(read: FloatArray) -> dict[str, float]:
    """What the script finds in the masked half: zeros, the diagonal at s = 0, and the last query's end repeated.

    Parameters
    ----------
    read : array, shape (lag, document, query)
    """
    energy = read**2
    total = max(float(energy.sum()), np.finfo(float).tiny)
    return {
        "zeros": float((read == 0).mean()),
        "energy_at_0": float(energy[0, :, :-1].sum()) / total,
        "energy_of_last": float(energy[:, :, -1].sum()) / total,
    }


def fit_statuses(*studies: Study) -> list[str]:
    """Status of the published fit of every band and layer."""
    return [
        str(s)
        for study in studies
        for name in study.layers
        for s in study.packed(name)["t_spec_published_status"].values
    ]


def gate_of(model: Any, ids: IntArray, groups: IntArray) -> Gate:
    """How far a model looks ahead, on the documents of the study.

    Parameters
    ----------
    model : eddyscope.models.GPT
    ids : int array, shape (document, token)
    groups : int array, shape (document,)
    """
    import torch

    from eddyscope.models.release import causal_statistics, look_ahead
    from eddyscope.models.training import window_losses

    windows = torch.from_numpy(np.asarray(ids, dtype=np.int64))
    moved = look_ahead(model, windows[:_TRIED], windows.shape[1] // 2)
    losses = window_losses(model, windows).numpy()
    deprived = None
    if model.config.sees_later_tokens:
        with causal_statistics(model):
            deprived = _mean_change(window_losses(model, windows).numpy() - losses, groups)
    return Gate(bool(model.config.sees_later_tokens), moved, float(losses.mean()), deprived)


def _mean_change(change: FloatArray, groups: IntArray) -> Difference:
    replicates = np.array([change[groups != group].mean() for group in np.unique(groups)])
    return seeds_estimate(np.array([change.mean()]), replicates[None])


def _interval(data: Any, name: str) -> tuple[float, float, float]:
    return float(data[name]), float(data[f"{name}_low"]), float(data[f"{name}_high"])


def mean_row(values: Sequence[FloatArray]) -> FloatArray:
    """Mean over seeds, layer by layer."""
    return np.asarray(np.mean(np.stack(list(values)), axis=0))
