"""Heads at a glance: a few numbers of every head of the model, whatever was kept of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from eddyscope.errors import InputError
from eddyscope.kernels.headmeasures import DOCUMENTS, MEASURES, HeadSums, far_from, looked_at
from eddyscope.lagfield import FloatArray, LagField
from eddyscope.schema import attributes


def with_heads(data: xr.Dataset, recorded: Mapping[str, Any] | None, field: LagField | None) -> xr.Dataset:
    """A layer with its heads at a glance.

    Parameters
    ----------
    data : xarray.Dataset
        Results of the layer.
    recorded : mapping, optional
        What the capture recorded of this layer: by measure a list over heads.
    field : LagField, optional
        Where nothing was recorded and single heads were kept whole, they are looked at themselves.
    """
    if recorded:
        measures = {m: np.array([np.nan if v is None else v for v in recorded[m]], dtype=float) for m in MEASURES}
        labels = [str(head) for head in range(len(measures["entropy"]))]
    elif field is not None and field.heads != ("mean",) and field.geometry.max_lag is None:
        measures, labels = _measured(field), list(field.heads)
    else:
        return data
    return data.assign(
        {f"head_{name}": ("query_head", values, attributes(f"head_{name}")) for name, values in measures.items()}
    ).assign_coords(query_head=("query_head", np.array(labels, dtype=object), attributes("query_head")))


def _measured(field: LagField) -> dict[str, FloatArray]:
    geometry = field.geometry
    few = field.select_documents(slice(0, DOCUMENTS))
    first, stop = looked_at(geometry.queries, geometry.causal)
    sums = HeadSums.empty(len(field.heads), geometry.queries, geometry.keys)
    for index, label in enumerate(field.heads):
        sums.add(index, few.select_head(label).dense()[:, 0, first:stop].astype(np.float32), first)
    sums.rows = few.documents * (stop - first)
    measures = sums.measures(far_from(geometry.keys, geometry.causal))
    return measures | {"induction_score": np.full(len(field.heads), np.nan)}


def heads_table(layers: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """One row per layer and head of the model.

    Parameters
    ----------
    layers : mapping of str to Dataset

    Returns
    -------
    pandas.DataFrame
        ``layer``, ``head`` and the measures; see :meth:`eddyscope.Study.heads_table`.

    Raises
    ------
    InputError
        Where no layer has them.
    """
    rows = [
        {"layer": name, "head": str(head)} | {m: float(data[f"head_{m}"].values[index]) for m in MEASURES}
        for name, data in layers.items()
        if "query_head" in data.dims
        for index, head in enumerate(data["query_head"].values)
    ]
    if not rows:
        raise InputError(
            "This study holds nothing of single heads: it was made from head means, or captured without checks.",
            "Capture the model with its checks, or give arrays of shape (documents, layers, heads, L, L).",
        )
    return pd.DataFrame(rows)
