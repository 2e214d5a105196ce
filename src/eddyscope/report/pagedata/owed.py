"""What the loss owes to each distance, beside where the energy sits, as ``eddyscope windows --octaves`` measured it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.colors import to_hex

from eddyscope.errors import InputError
from eddyscope.report.pagedata.answer import Sentence, percent
from eddyscope.report.pagedata.encode import number
from eddyscope.report.pagedata.picture import Cell, Picture, readable_on
from eddyscope.report.style import SEQUENTIAL
from eddyscope.study.study import Study

if TYPE_CHECKING:
    from eddyscope.interventions.windows.agreement import Agreement

_ENERGIES = ("share", "density")
_COLUMNS = ("layer", "head", "first", "last", "share", "density", "rise", "low", "high")
#: Colours are linear in the loss below it, and logarithmic above, as in the figure.
_LINEAR = 1e-3
#: Layers that are named; of more the first, and how many more.
_NAMED = 8
_REMEDY = "Measure this model: eddyscope windows MODEL --text FILE --octaves --out DIR."


@dataclass(frozen=True)
class Owed:
    """Energy against the loss owed.

    Parameters
    ----------
    sentences : list of Sentence
    picture : Picture
        Loss owed by layer (or head) and octave, and the rank correlations within each row.
    unit : str
        Of the loss.
    rows : list of list
        For each cell layer, head, first and last distance, share, density, loss owed and its interval.
    """

    sentences: list[Sentence]
    picture: Picture
    unit: str
    rows: list[list[Any]]


def owed_data(study: Study, windows: str | Path | Agreement) -> Owed:
    """Collect what the section shows.

    Parameters
    ----------
    study : Study
    windows : str, Path or Agreement
        The folder that ``eddyscope windows --octaves`` wrote, or what ``es.windows.open_agreement`` reads from it. Of
        the latter only the layers can be compared with the study's, as it does not hold the class of the model.

    Raises
    ------
    StoreError
        Where the folder does not hold what layers owe to octaves.
    InputError
        Where it was measured on another class of model, or on other layers.
    """
    agreement = _opened(study, windows)
    cells = agreement.cells.astype({"head": str})
    ranks = agreement.correlations.astype({"head": str, "layer": str})
    _check_layers(study, list(dict.fromkeys(cells["name"])))
    rows = [
        [one if isinstance(one, str) else number(one) for one in row]
        for row in cells[list(_COLUMNS)].itertuples(index=False, name=None)
    ]
    said = [_overall(ranks, len(cells)), _misleading(ranks)]
    return Owed(said, _picture(cells, ranks, agreement.unit), agreement.unit, rows)


def _opened(study: Study, windows: str | Path | Agreement) -> Agreement:
    if not isinstance(windows, (str, Path)):
        return windows
    from eddyscope.windows import load, open_agreement  # torch, which a report does without

    agreement, made_for = open_agreement(windows), load(windows).model["class"]
    own = (study.provenance.get("model") or {}).get("class")
    if own and own != made_for:
        raise InputError(f"The windows in '{windows}' are of a {made_for}, the study is of a {own}.", _REMEDY)
    return agreement


def _check_layers(study: Study, measured: Sequence[str]) -> None:
    """A study of all layers must have those that were measured; one of chosen layers, some of them."""
    own = [name for name in study.layers if study.data[name].attrs.get("kind") != "cross"]
    chosen = (study.provenance.get("options") or {}).get("layers") is not None
    odd = [name for name in own if name not in measured]
    odd += [] if chosen else [name for name in measured if name not in own]
    if odd:
        where = "the windows do not have" if odd[0] in own else "the study does not have"
        raise InputError(
            f"The windows are of {len(measured)} layers and the study of {len(own)}: {where} '{odd[0]}'.", _REMEDY
        )


def _overall(ranks: pd.DataFrame, cells: int) -> Sentence:
    parts, numbers = [], {}
    for energy, row in _of(ranks, "all").items():
        numbers[energy] = (row["correlation"], row["low"], row["high"])
        parts.append(f"{_correlation(row, '95 % interval ')} for its {_term(energy)}")
    text = (
        f"Over {cells} layers and [[octave|octaves]] of distance, the rank correlation of the loss owed with the "
        f"[[energy]] is {' and '.join(parts)}."
    )
    return Sentence("agreement", text, numbers)


def _misleading(ranks: pd.DataFrame) -> Sentence:
    """Where more energy does not go with more loss, by the interval."""
    single = ranks[ranks["layer"] != "all"]
    wrong, unknown = {}, {}
    for energy in _ENERGIES:
        own = single[single["energy"] == energy]
        wrong[energy] = [_label(row) for _, row in own[own["low"] <= 0].iterrows()]
        unknown[energy] = [_label(row) for _, row in own[~np.isfinite(own["low"])].iterrows()]
    numbers = {"misleading": wrong, "unknown": unknown}
    if all(len(unknown[energy]) == (single["energy"] == energy).sum() for energy in _ENERGIES):
        text = "Within a layer nothing can be said: the rank correlations have no intervals, which few documents give."
        return Sentence("misleading", text, numbers)
    found = [f"by its {energy} in {_names(wrong[energy])}" for energy in _ENERGIES if wrong[energy]]
    text = "Within no layer does energy mislead: the rank correlation is above 0 by its interval wherever it has one."
    if found:
        text = (
            f"Energy misleads {' and '.join(found)}: the rank correlation over the octaves there is not above 0 by "
            "its interval."
        )
    open_ = [f"the {energy} in {_names(unknown[energy])}" for energy in _ENERGIES if unknown[energy]]
    text += f" Not known: {' and '.join(open_)}." if open_ else ""
    return Sentence("misleading", text, numbers)


def _picture(cells: pd.DataFrame, ranks: pd.DataFrame, unit: str) -> Picture:
    octaves = sorted(set(zip(cells["first"], cells["last"], strict=True)))
    labels = [str(a) if a == b else f"{a}-{b}" for a, b in octaves]
    top = max(float(cells["rise"].max()), _LINEAR)
    rows: list[tuple[str, int, str, list[Cell]]] = []
    for (layer, head), own in cells.groupby(["layer", "head"], sort=False):
        by_octave = {(row["first"], row["last"]): row for _, row in own.iterrows()}
        shown = [
            _owed_cell(by_octave.get(octave), label, top, unit) for octave, label in zip(octaves, labels, strict=True)
        ]
        for energy, row in _of(ranks, str(layer), str(head)).items():
            told = f"rank correlation of the {energy} with the loss owed: {_correlation(row)}"
            shown.append(Cell(_two(row["correlation"]), told, "", ""))
        rows.append((_label({"layer": layer, "head": head}), -1, "", shown))
    return Picture([*labels, *_ENERGIES], rows, [("distance in tokens", len(labels)), ("rank correlation", 2)])


def _owed_cell(row: Any, distances: str, top: float, unit: str) -> Cell:
    if row is None or not np.isfinite(row["rise"]):
        return Cell("–", "no value", "", "")
    rise = float(row["rise"])
    colour = mpl.colormaps[SEQUENTIAL](np.log1p(max(rise, 0.0) / _LINEAR) / np.log1p(top / _LINEAR))
    text = f"{rise:.2f}" if abs(rise) >= 0.0995 else f"{rise:.3f}"
    title = f"distances {distances}: {rise:.3g}{_interval(row, '.3g')} {unit}"
    if np.isfinite(row["share"]):
        title += f", {percent(row['share'])} of the energy, density {row['density']:.3g}"
    return Cell("0.000" if text == "-0.000" else text, title, to_hex(colour), readable_on(colour))


def _of(ranks: pd.DataFrame, layer: str, head: str = "all") -> dict[str, Any]:
    """The row of each energy."""
    own = ranks[(ranks["layer"] == layer) & (ranks["head"] == head)]
    return {energy: own[own["energy"] == energy].iloc[0] for energy in _ENERGIES}


def _correlation(row: Any, called: str = "") -> str:
    return f"{_two(row['correlation'])}{_interval(row, '.2f', called)}"


def _interval(row: Any, digits: str, called: str = "") -> str:
    return f" ({called}{row['low']:{digits}} to {row['high']:{digits}})" if np.isfinite(row["low"]) else ""


def _two(correlation: float) -> str:
    return f"{correlation:.2f}" if np.isfinite(correlation) else "–"


def _term(energy: str) -> str:
    return "[[density]]" if energy == "density" else energy


def _label(row: Any) -> str:
    return f"layer {row['layer']}" + ("" if row["head"] == "all" else f", head {row['head']}")


def _names(labels: Sequence[str]) -> str:
    """``layer 3``, ``layers 0, 2 and 5``, ``layer 0, head 1``; of many the first and their number."""
    if len(labels) == 1:
        return labels[0]
    layers = not any("head" in label for label in labels)
    parts = [label.removeprefix("layer ") if layers else label for label in labels[:_NAMED]]
    parts += [f"{len(labels) - _NAMED} more"] if len(labels) > _NAMED else []
    return f"{'layers ' if layers else ''}{(', ' if layers else '; ').join(parts[:-1])} and {parts[-1]}"
