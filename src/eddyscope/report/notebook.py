"""What a notebook shows of a study and of a field."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from eddyscope.report.pagedata.answer import answer
from eddyscope.report.pagedata.bylayer import TableData, layer_table
from eddyscope.report.pagedata.facts import facts
from eddyscope.report.pagedata.glossary import Glossary
from eddyscope.report.views import about, views

if TYPE_CHECKING:
    from eddyscope.lagfield import LagField
    from eddyscope.study.study import Study

#: Rows of a table in a notebook.
_MOST_ROWS = 60


def study_html(study: Study) -> str:
    """The answer in sentences and the table of layers and heads."""
    shown = views(study).shown
    found = [facts(view) for view in shown]
    explained = Glossary()
    sentences = answer(found, shown, int(shown[0].data.attrs["documents"]))
    said = "".join(f"<p>{explained(sentence.text)}</p>" for sentence in sentences)
    return f"<div><p><b>Study</b> · {escape(about(study))}</p>{said}{table_html(layer_table(found))}</div>"


def table_html(table: TableData) -> str:
    """A table, with the meaning of each column where the pointer rests on its name."""
    head = "".join(f'<th title="{escape(meaning)}">{escape(name)}</th>' for name, meaning, _ in table.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text, _ in row) + "</tr>" for row in table.rows[:_MOST_ROWS]
    )
    left = len(table.rows) - _MOST_ROWS
    more = f"<p>{left} more rows: study.summary() has all.</p>" if left > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"


def field_html(field: LagField) -> str:
    """A field's size, and the mean attention at each octave of distance."""
    geometry = field.geometry
    rows = [
        ("documents", f"{field.documents:,}"),
        ("heads", "the mean over heads" if field.heads == ("mean",) else ", ".join(field.heads)),
        ("queries × keys", f"{geometry.queries:,} × {geometry.keys:,}"),
        ("kind", "causal" if geometry.causal else "two-sided"),
        ("lags", f"{geometry.lags[0]} to {geometry.lags[-1]} tokens"),
        ("stored", f"{field.values.nbytes / 1e6:,.1f} MB, {field.values.dtype}"),
        *_by_octave(field),
    ]
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<div><p><b>LagField</b></p><table><tbody>{cells}</tbody></table></div>"


def _by_octave(field: LagField) -> list[tuple[str, str]]:
    """Mean weight at each octave of distance, from a few documents at most."""
    geometry, few = field.geometry, field.values[: min(field.documents, 16)]
    octave = np.floor(np.log2(1 + np.abs(geometry.lags))).astype(int)
    made = []
    for number in np.unique(octave):
        lags = geometry.lags[octave == number]
        weight = [few[..., geometry.run(int(lag))].mean(dtype=np.float64) for lag in lags]
        distances = sorted({abs(int(lag)) for lag in lags})
        span = str(distances[0]) if len(distances) == 1 else f"{distances[0]}-{distances[-1]}"
        made.append((f"mean weight at {span}", f"{np.mean(weight):.3g}"))
    return made
