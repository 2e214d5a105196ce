"""One figure of what the claims rest on: trained models in colour, untrained twins in grey."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eddyscope.lagfield import FloatArray
from eddyscope.report.layout import Room, page
from eddyscope.report.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILION, house_style, whole_ticks
from eddyscope.reproduction.evidence import LAYERS, Evidence, Measured
from eddyscope.reproduction.pipeline import Reproduction
from eddyscope.trust.seeds import seeds_estimate

_COLOURS = (INK, BLUE, SKY, GREEN, ORANGE, VERMILION, PURPLE)
#: Title of each panel, what it shows, and how it is drawn.
_PANELS: tuple[tuple[str, Callable[[Evidence], Measured], bool], ...] = (
    ("C1: mean octave, log2(1 + distance)", lambda e: e.mean_octave, False),
    ("C2: T_spec, published form", lambda e: e.t_spec, False),
    ("C5: log scalogram energy, raw field", lambda e: e.energy, False),
    ("C6: participation ratio", lambda e: e.participation, True),
    ("C7: effective patterns over heads", lambda e: e.head_patterns, False),
)
_CAPTION = (
    "Coloured: trained models, the mean over seeds where there are several, with 95 % intervals of documents and "
    "seeds. Grey: the untrained twins of each architecture.",
    "H* (C4): in the sample, so at most N - 1.",
)


@house_style()
def draw_overview(found: Reproduction) -> Figure:
    """Numbers by layer that the claims are judged on.

    Parameters
    ----------
    found : Reproduction
    """
    laid = page(
        len(_PANELS) + 1,
        title="What the claims rest on",
        subtitle=f"{len(found.documents)} documents of {found.documents.context} characters, {found.description}",
        caption=_CAPTION,
        aspect=0.66,
        columns=3,
        room=Room(between=0.42, below=0.3, legend=0.24),
    )
    for (axes,), (title, pick, logarithmic) in zip(laid.cells, _PANELS, strict=False):
        axes.set_title(title)
        for index, architecture in enumerate(found.architectures):
            for twin in found.twins[architecture.label]:
                _line(axes, [pick(twin)], GREY, logarithmic, alone=True)
            _line(axes, [pick(r.evidence) for r in found.of(architecture)], _COLOURS[index % 7], logarithmic)
        if logarithmic:
            axes.set_yscale("log")
        whole_ticks(axes.xaxis, LAYERS)
    _ranks(found, laid.cells[-1][0])
    names = [a.label for a in found.architectures]
    laid.legend(
        [Line2D([], [], color=_COLOURS[k % 7], marker="o", markersize=3, label=n) for k, n in enumerate(names)]
        + [Line2D([], [], color=GREY, linewidth=0.6, label="untrained twins")]
    )
    laid.label_axes("layer", "")
    return laid.figure


def _line(axes: Axes, measured: list[Measured], colour: str, logarithmic: bool, alone: bool = False) -> None:
    values = np.stack([m.value for m in measured])
    found = [
        seeds_estimate(values[:, k], np.stack([m.replicates[:, k] for m in measured])) for k in range(values.shape[1])
    ]
    middle, low, high = (_shown([getattr(f, name) for f in found], logarithmic) for name in ("value", "low", "high"))
    x = np.arange(1, middle.size + 1)
    if alone:
        axes.plot(x, middle, color=colour, linewidth=0.6, alpha=0.7, zorder=1)
        return
    axes.plot(x, middle, color=colour, marker="o", markersize=2.5, zorder=3)
    axes.vlines(x, low, high, color=colour, linewidth=0.8, zorder=2)


def _shown(values: list[float], logarithmic: bool) -> FloatArray:
    shown = np.array(values)
    return np.exp(shown) if logarithmic else shown


def _ranks(found: Reproduction, axes: Axes) -> None:
    axes.set_title("C4: H*(0.10) in the sample")
    x = np.arange(1, LAYERS + 1)
    for index, architecture in enumerate(found.architectures):
        for twin in found.twins[architecture.label]:
            axes.plot(x, twin.rank_low[:, 0], color=GREY, linewidth=0.6, alpha=0.7, zorder=1)
        mean = np.mean([r.evidence.rank_low[:, 0] for r in found.of(architecture)], axis=0)
        axes.plot(x, mean, color=_COLOURS[index % 7], marker="o", markersize=2.5, zorder=3)
    axes.axhline(len(found.documents) - 1, color=GREY, linewidth=0.6, linestyle=(0, (3, 2)))
    whole_ticks(axes.xaxis, LAYERS)
