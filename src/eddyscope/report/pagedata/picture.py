"""The opening picture: a cell for each layer and octave of distance, in the colours of the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_hex

from eddyscope.report.lag_energy import octave_table
from eddyscope.report.nulls import null_kinds
from eddyscope.report.pagedata.facts import Facts
from eddyscope.report.style import DIVERGING, SEQUENTIAL
from eddyscope.report.views import View
from eddyscope.schema import SIDES
from eddyscope.study.summary import octave_labels

#: Densities beyond this factor from flat take the end colours.
_LARGEST = 8.0


@dataclass(frozen=True)
class Cell:
    """A coloured cell: what it says, in full, and its colours."""

    text: str
    title: str
    background: str
    ink: str


@dataclass(frozen=True)
class Picture:
    """A table of coloured cells.

    Parameters
    ----------
    columns : list of str
        Heads of the columns.
    rows : list of (str, int, str, list of Cell)
        Label, position among the layers and heads of the study (-1 for their mean), why it is empty, and cells.
    groups : list of (str, int)
        Heads over several columns; empty where one is enough.
    """

    columns: list[str]
    rows: list[tuple[str, int, str, list[Cell]]]
    groups: list[tuple[str, int]]


def octave_picture(shown: Sequence[View], variable: str = "octave_density") -> Picture | None:
    """Density of the fluctuation by layer and octave; of heads the mean of each layer's.

    ``null_octave_density`` gives the untrained twin's, None where there is none.
    """
    usable = [view for view in shown if "octave_share" in view.data]
    if not usable or (variable.startswith("null") and "twin" not in null_kinds(usable)):
        return None
    labels = max((octave_labels(view.data) for view in usable), key=len)
    two_sided = not all(view.causal for view in usable)
    sides: tuple[str | None, ...] = SIDES[::-1] if two_sided else (None,)
    density = np.hstack([_ordered(octave_table(usable, variable, side, len(labels)), side) for side in sides])
    share = np.hstack([_ordered(octave_table(usable, "octave_share", side, len(labels)), side) for side in sides])
    if variable.startswith("null"):
        share = np.full_like(share, np.nan)
    columns = [label for side in sides for label in (labels[::-1] if side == "ahead" else labels)]
    rows: list[tuple[str, int, str, list[Cell]]] = []
    for layer in dict.fromkeys(view.layer for view in usable):
        places = [i for i, view in enumerate(usable) if view.layer == layer]
        first = usable[places[0]]
        name = first.label if len(places) == 1 else f"layer {first.index}"
        missing = first.missing.replace("\n", " ") if len(places) == 1 else ""
        cells = [
            _density_cell(d, s, columns[i])
            for i, (d, s) in enumerate(zip(_mean(density[places]), _mean(share[places]), strict=True))
        ]
        rows.append((name, shown.index(first), missing, cells))
    groups = [("keys ahead of the query", len(labels)), ("keys behind it", len(labels))] if two_sided else []
    return Picture(columns, rows, groups)


def head_picture(found: Sequence[Facts], farthest: float) -> Picture | None:
    """Distance that holds half of the fluctuation, by layer and head; None where heads were not kept."""
    if all(one.head == "mean" for one in found):
        return None
    heads = list(dict.fromkeys(one.head for one in found))
    rows: list[tuple[str, int, str, list[Cell]]] = []
    for layer in dict.fromkeys(one.layer for one in found):
        ones = {one.head: (i, one) for i, one in enumerate(found) if one.layer == layer}
        cells = [_distance_cell(ones[h][1], farthest) if h in ones else Cell("", "", "", "") for h in heads]
        place, first = next(iter(ones.values()))
        rows.append((f"layer {first.index}", place, "", cells))
    return Picture(heads, rows, [])


def _ordered(table: np.ndarray, side: str | None) -> np.ndarray:
    return table[:, ::-1] if side == "ahead" else table


def _mean(rows: np.ndarray) -> np.ndarray:
    known = np.isfinite(rows)
    count = known.sum(axis=0)
    empty = np.full(rows.shape[1], np.nan)
    return np.asarray(np.divide(np.where(known, rows, 0).sum(axis=0), count, out=empty, where=count > 0))


def _density_cell(density: float, share: float, distances: str) -> Cell:
    if not np.isfinite(density):
        return Cell("–", "no value", "", "")
    limit = np.log2(_LARGEST)
    place = float(np.clip(np.log2(max(density, 1e-9)), -limit, limit)) / (2 * limit) + 0.5
    colour = mpl.colormaps[DIVERGING](place)
    text = f"{density:.1f}" if 0.05 <= density < 9.95 else f"{density:.0f}"
    title = f"distances {distances}: density {density:.3g}"
    if np.isfinite(share):
        title += f", {100 * share:.2g} % of the fluctuation"
    return Cell(text, title, to_hex(colour), readable_on(colour))


def readable_on(colour: Sequence[float]) -> str:
    """Black or white, whichever has more contrast (at least 4.5, as the guidelines ask)."""
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    luminance = float(np.dot(channels, (0.2126, 0.7152, 0.0722)))
    return "#000000" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "#ffffff"


def _distance_cell(one: Facts, farthest: float) -> Cell:
    if not np.isfinite(one.median_lag):
        return Cell("–", one.missing or "no value", "", "")
    place = np.log2(1 + one.median_lag) / max(1.0, np.log2(1 + farthest))
    colour = mpl.colormaps[SEQUENTIAL](float(np.clip(place, 0, 1)))
    title = f"{one.label}: half within {one.median_lag:.0f} tokens"
    return Cell(f"{one.median_lag:.0f}", title, to_hex(colour), readable_on(colour))
