"""Everything that a page shows, from one study or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eddyscope.errors import InputError, UsageError
from eddyscope.report.pagedata.answer import Sentence, answer
from eddyscope.report.pagedata.budget import Shipping, plan
from eddyscope.report.pagedata.bylayer import ByLayer, TableData, by_layer, heads_table, layer_table
from eddyscope.report.pagedata.coincidence import coincidences, sentence
from eddyscope.report.pagedata.facts import Facts, facts
from eddyscope.report.pagedata.layers import LayerData, fluctuation_energy, layer_data
from eddyscope.report.pagedata.owed import Owed, owed_data
from eddyscope.report.pagedata.picture import Picture, head_picture, octave_picture
from eddyscope.report.pagedata.provenance import ProvenanceData, provenance_data
from eddyscope.report.pagedata.texts import Texts, TokenText
from eddyscope.report.views import View, about, model_name, views
from eddyscope.study.study import Study

if TYPE_CHECKING:
    from eddyscope.interventions.windows.agreement import Agreement

#: Decades below the largest energy that the codes of scalograms span; their colours span fewer.
_DECADES = 10.0


@dataclass(frozen=True)
class StudyData:
    """One study of the page.

    Parameters
    ----------
    name, about : str
        Name of the model, and the study in a line.
    sentences : list of Sentence
        The answer.
    facts : list of Facts
        One a layer and head; the same order in ``by_layer`` and ``layers``.
    picture, twin_picture, head_picture : Picture or None
    table, heads : TableData
        All layers and heads; the table of heads where the study has one.
    by_layer : list of ByLayer
    layers : list of LayerData
    lines : list of dict
        For each layer and head, by ``band/mode``, what the mode's peaks coincide with.
    texts : list of TokenText
        Documents that are shown.
    no_text : str
        Why there are none.
    nulls : bool
        Whether null models stand beside the numbers.
    provenance : ProvenanceData
    """

    name: str
    about: str
    sentences: list[Sentence]
    facts: list[Facts]
    picture: Picture | None
    twin_picture: Picture | None
    head_picture: Picture | None
    table: TableData
    heads: TableData | None
    by_layer: list[ByLayer]
    layers: list[LayerData]
    lines: list[dict[str, str]]
    texts: list[TokenText]
    no_text: str
    nulls: bool
    provenance: ProvenanceData


@dataclass(frozen=True)
class PageData:
    """The whole page; ``owed`` where windows were given."""

    title: str
    studies: list[StudyData]
    shipping: Shipping
    owed: Owed | None = None


def page_data(
    studies: Sequence[Study],
    names: Sequence[str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    windows: str | Path | Agreement | None = None,
) -> PageData:
    """Collect what the page shows.

    Parameters
    ----------
    studies : sequence of Study
    names : sequence of str, optional
        What each is called; the model's name by default, numbered where two are the same.
    progress : callable, optional
        Called with (layer, layers done, layers in all).
    windows : str, Path or Agreement, optional
        What the loss owes to each distance, see :func:`eddyscope.report.pagedata.owed.owed_data`; of one study.
    """
    if not studies:
        raise InputError("A report needs at least one study.")
    called = _distinct([model_name(s) for s in studies] if names is None else list(names))
    if len(called) != len(studies):
        raise InputError(f"There are {len(called)} names for {len(studies)} studies.", "Give one name for each.")
    if windows is not None and len(studies) != 1:
        raise UsageError(
            f"Windows are of one model, and there are {len(studies)} studies.", "Write the report of that study alone."
        )
    owed = None if windows is None else owed_data(studies[0], windows)
    shown = [views(study).shown for study in studies]
    shipping = _plan(shown)
    low, high = _energies([view for group in shown for view in group])
    total, done = sum(len(group) for group in shown), 0
    made = []
    for study, name, group in zip(studies, called, shown, strict=True):
        layers = []
        for view in group:
            if progress is not None:
                progress(view.label, done, total)
            layers.append(layer_data(view, shipping, low, high))
            done += 1
        made.append(_study(study, name, group, layers))
    if progress is not None:
        progress("", total, total)
    return PageData(f"Attention of {' and '.join(called)}", made, shipping, owed)


def _study(study: Study, name: str, shown: Sequence[View], layers: list[LayerData]) -> StudyData:
    found = [facts(view) for view in shown]
    texts = None if study.documents is None else Texts(study.documents)
    wanted = sorted({top.document for layer in layers for pod in layer.pods for m in pod.modes for top in m.top})
    no_text = _no_text(texts, wanted, all(one.kept for one in found))
    far = max((float(np.abs(view.data["lag"].values).max()) for view in shown), default=1.0)
    first = shown[0].data.attrs
    return StudyData(
        name=name,
        about=about(study),
        sentences=answer(found, shown, int(first["documents"])),
        facts=found,
        picture=octave_picture(shown),
        twin_picture=octave_picture(shown, "null_octave_density"),
        head_picture=head_picture(found, far / 2),
        table=layer_table(found),
        heads=heads_table(study),
        by_layer=by_layer(shown),
        layers=layers,
        lines=[] if texts is None else [_lines(v, layer, texts) for v, layer in zip(shown, layers, strict=True)],
        texts=[] if texts is None or no_text else [texts.token_text(number) for number in wanted],
        no_text=no_text,
        nulls=any("null_value" in view.data for view in shown),
        provenance=provenance_data(study),
    )


def _lines(view: View, layer: LayerData, texts: Texts) -> dict[str, str]:
    """What each mode that is shown coincides with."""
    lines = {}
    for pod in layer.pods:
        prefix, at = ("field_", {}) if pod.key == "field" else ("", {"band": int(pod.key)} if pod.key != "lag" else {})
        for mode, one in enumerate(pod.modes):
            if one.top:
                found = coincidences(view.data, prefix, at, mode, texts)
                line = sentence(found, min(5, int(view.data.attrs["documents"])))
                if line:
                    lines[f"{pod.key}/{mode}"] = line
    return lines


def _no_text(texts: Texts | None, wanted: list[int], kept: bool) -> str:
    if not kept:
        return "The study kept statistics along the distance, and not the attention that words could be found in."
    if texts is None:
        return "The study was made from arrays: it knows no text."
    if not wanted:
        return "The study does not hold which tokens take part in its modes; analyse again to have them."
    if max(wanted) >= len(texts.documents):
        return "The study's documents are not those that were analysed."
    return ""


def _plan(shown: Sequence[Sequence[View]]) -> Shipping:
    everything = [view for group in shown for view in group]
    attrs = [view.data.attrs for view in everything]
    return plan(
        len(everything),
        max((len(view.bands) if "status" in view.data else 0) for view in everything),
        max(view.data.sizes.get("mode", 1) for view in everything),
        max(max(int(a["queries"]), int(a["keys"])) for a in attrs),
        all(view.causal for view in everything),
    )


def _energies(shown: Sequence[View]) -> tuple[float, float]:
    """Decimal logarithms at the ends of the codes that all scalograms share."""
    found = [energy for energy in (fluctuation_energy(view.data)[1] for view in shown) if (energy > 0).any()]
    if not found:
        return -1.0, 0.0
    high = max(float(np.log10(e.max())) for e in found)
    low = min(float(np.log10(e[e > 0].min())) for e in found)
    return max(low, high - _DECADES), high


def _distinct(names: list[str]) -> list[str]:
    counts: dict[str, int] = {}
    made: list[Any] = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        made.append(name if names.count(name) == 1 else f"{name} ({counts[name]})")
    return made
