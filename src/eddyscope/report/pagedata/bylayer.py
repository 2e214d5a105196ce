"""Quantities by layer and head: what the figures over layers draw, and the rows of the sortable table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from eddyscope.errors import InputError
from eddyscope.report.nulls import null_values
from eddyscope.report.pagedata.answer import percent
from eddyscope.report.pagedata.encode import number
from eddyscope.report.pagedata.facts import Facts
from eddyscope.report.pagedata.values import array, value, word
from eddyscope.report.views import View
from eddyscope.study.study import Study


@dataclass(frozen=True)
class ByLayer:
    """Numbers of one layer and head with interval and status; ``twin`` is the mean of the untrained twin."""

    label: str
    layer: str
    index: int
    head: str
    median_lag: Any
    tolerance: Any
    limit: int
    measures: dict[str, dict[str, Any]]


#: Quantities over layers: the variable of each.
QUANTITIES = {
    "effective_rank": "field_effective_rank",
    "lag_effective_rank": "lag_effective_rank",
    "participation_ratio": "field_participation_ratio",
    "beta_published": "field_beta_published",
    "beta_resolved": "field_beta_resolved",
    "sink_mass": "sink_mass",
    "fluctuation_level": "fluctuation_level",
    "near_share": "near_share",
    "far_share": "far_share",
    "median_lag": "median_lag",
    "first_mode_energy": "field_first_mode_energy",
}


def by_layer(shown: Sequence[View]) -> list[ByLayer]:
    """One row a layer and head."""
    twins = {name: null_values(shown, "twin", variable) for name, variable in QUANTITIES.items()}
    made = []
    for place, view in enumerate(shown):
        data = view.data
        tolerances = array(data, "tolerance", "tolerance")
        made.append(
            ByLayer(
                label=view.short_label,
                layer=view.layer,
                index=view.index,
                head=view.head,
                median_lag=number(value(data, "median_lag")),
                tolerance=number(tolerances[0]) if tolerances.size else None,
                limit=max(0, int(data.attrs["documents"]) - 1),
                measures={
                    name: {
                        "value": number(value(data, variable)),
                        "low": number(value(data, f"{variable}_low")),
                        "high": number(value(data, f"{variable}_high")),
                        "status": word(data, f"{variable}_status"),
                        "twin": number(twins[name][place]),
                    }
                    for name, variable in QUANTITIES.items()
                },
            )
        )
    return made


@dataclass(frozen=True)
class TableData:
    """A table: for each column its name, its meaning, and whether it holds numbers; cells as written and as sorted."""

    columns: list[tuple[str, str, bool]]
    rows: list[list[tuple[str, Any]]]


_COLUMNS = (
    ("layer", "number of the layer in the model", True),
    ("head", "number of the head", True),
    ("half by", "distance in tokens within which half of the fluctuation lies", True),
    ("most at", "octave of largest density, in tokens", True),
    ("near", "share of the fluctuation at distances below 8 tokens", True),
    ("far", "share of the fluctuation in the farther half of the distances", True),
    ("wavelength", "strongest dominant wavelength in tokens, where there is one", True),
    ("first mode", "share of the fluctuation in its first mode", True),
    ("fluctuation level", "share of the squared attention that changes from document to document", True),
    ("sink", "share of the attention that goes to the first token", True),
)

#: Meaning of columns that :meth:`eddyscope.Study.heads_table` may have.
_HEAD_COLUMNS = {
    "layer": "number of the layer in the model",
    "head": "number of the head",
    "median_lag": "distance in tokens within which half of the attention lies, the first key left aside",
    "near_share": "share of the attention at distances below 8 tokens",
    "far_share": "share of the attention in the farther half of the distances",
    "previous_token_share": "share of the attention that goes to the token before",
    "sink_share": "share of the attention that goes to the first token",
    "induction_score": "attention to what followed the same token the last time",
    "entropy": "how spread out the attention of a query is, in nats",
}


def layer_table(found: Sequence[Facts]) -> TableData:
    """Every layer and head, sortable."""
    heads = any(one.head != "mean" for one in found)
    columns = [c for c in _COLUMNS if heads or c[0] != "head"]
    rows = []
    for one in found:
        octave = one.peak_octave.split("-")[0]
        cells = [
            _cell(one.index, f"{one.index}"),
            *([_cell(_sortable(one.head), one.head)] if heads else []),
            _cell(one.median_lag, f"{one.median_lag:.0f}"),
            _cell(float(octave) if octave else np.nan, one.peak_octave),
            _share(one.near),
            _share(one.far),
            _cell(one.wavelengths[0] if one.wavelengths else np.nan, f"{(one.wavelengths or (0.0,))[0]:.3g}"),
            _share(one.first_share),
            _share(one.level),
            _share(one.sink),
        ]
        rows.append(cells)
    return TableData(columns, rows)


def heads_table(study: Study) -> TableData | None:
    """The table of heads, where the study has one."""
    try:
        table = study.heads_table()
    except InputError:  # nothing of single heads is held
        return None
    index = {name: int(study.data[name].attrs["layer_index"]) for name in study.layers}
    table = table.assign(layer=[index[name] for name in table["layer"]])
    columns = []
    for name in table.columns:
        written = str(name).replace("_", " ")
        columns.append((written, _HEAD_COLUMNS.get(str(name), written), _is_numeric(table[name])))
    rows = [
        [_any(cell, name, numeric) for cell, (name, _, numeric) in zip(row, columns, strict=True)]
        for row in table.itertuples(index=False, name=None)
    ]
    return TableData(columns, rows)


def _is_numeric(column: pd.Series[Any]) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column))


def _any(cell: Any, name: str, numeric: bool) -> tuple[str, Any]:
    if not numeric:
        return ("" if cell is None else str(cell)), _sortable(str(cell))
    return _share(float(cell)) if name.endswith("share") else _cell(float(cell), f"{float(cell):.3g}")


def _cell(key: Any, text: str) -> tuple[str, Any]:
    if isinstance(key, float) and not np.isfinite(key):
        return "–", None
    return text, number(key) if isinstance(key, (int, float, np.number)) else key


def _share(share: float) -> tuple[str, Any]:
    return _cell(share, percent(share))


def _sortable(text: str) -> Any:
    return int(text) if text.isdecimal() else text
