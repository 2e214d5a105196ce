"""Maps over queries and keys: the first modes, and the coherence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import FuncNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from eddyscope.report.layout import Page, Room, name_panels, page, say
from eddyscope.report.style import DIVERGING, INK, SEQUENTIAL, colormap, fix_ticks, house_style, plain, whole_ticks
from eddyscope.report.views import MOST_PAIRS, MOST_PANELS, NO_FLUCTUATION, View, views
from eddyscope.study.coherence import NEAR_SCALES
from eddyscope.study.study import Study

FloatArray = npt.NDArray[np.floating[Any]]

#: Share of the entries that the colours of modes resolve; the largest few take the end colours.
_RESOLVED = 0.99

#: Colour of keys so near to the query that coherence means nothing.
_NEAR = "#a8a8a8"
#: Maps narrower than this, in pixels, have fewer ticks.
_NARROW = 165

_MODES_CAPTION = (
    "Above: mode 1 of the first band, whose wavelength λ or lags the title gives. Below: mode 1 without a window. Both "
    "have unit norm; the sign is free.",
    "The colours go by the root of the modulus, one scale for all maps. The percentage is the mode's share of the "
    "energy. Grey: keys that the query may not see, and early queries that the POD leaves out.",
)
_COHERENCE_CAPTION = (
    "How steadily, over documents, the pattern at a key keeps its phase relation to the pattern at the query's own "
    f"position. Dark grey: within {NEAR_SCALES} scales of the query, where the same wavelet sees the same noise.",
    "Beyond it, chance gives about the level marked on the colour bar{level}; a gain shared within a document gives "
    "more. Pale grey: keys that the query may not see, or where nothing fluctuates.",
)


@house_style()
def draw_modes(
    study: Study, layers: Sequence[str | int] | None = None, heads: Sequence[str | int] | None = None
) -> Figure:
    """First mode of the first band, and first mode without a window, as maps over queries and keys.

    Parameters
    ----------
    study : Study
    layers : sequence of str or int, optional
    heads : sequence of str or int, optional

    Returns
    -------
    Figure
        Two panels a layer (or head); the images hold ``modes`` and ``field_modes``.
    """
    chosen = views(study, layers, heads, MOST_PAIRS)
    laid = page(
        len(chosen.shown),
        title="Patterns that recur: the first modes as maps",
        subtitle=chosen.about,
        caption=(*_MODES_CAPTION, chosen.note),
        aspect=_map_aspect(chosen.shown),
        stack=2,
        columns=_columns_of_pairs(len(chosen.shown)),
        widest=2.6,
        room=Room(left=0.72, right=0.9),
    )
    norm = root_norm([first_mode(view, prefix) for view in chosen.shown for prefix in ("", "field_")])
    name_panels(laid, chosen.shown, [view.first_band for view in chosen.shown])
    image = None
    for index, (stack, view) in enumerate(zip(laid.cells, chosen.shown, strict=True)):
        for axes, prefix in zip(stack, ("", "field_"), strict=True):
            image = plot_mode(view, axes, prefix, norm) or image
            if laid.at_left(index):
                axes.set_ylabel("first band" if prefix == "" else "no window")
    laid.outer_labels()
    laid.label_axes("key, token", "query, token")
    if image is not None:
        _bar_of_modes(laid, image, norm)
    return laid.figure


@house_style()
def draw_coherence(
    study: Study, layers: Sequence[str | int] | None = None, heads: Sequence[str | int] | None = None
) -> Figure:
    """Coherence of each key with the query's own position, at the scale of the first band.

    Parameters
    ----------
    study : Study
    layers : sequence of str or int, optional
    heads : sequence of str or int, optional

    Returns
    -------
    Figure
        One panel a layer (or head); the images hold ``coherence``. The level of chance is the median over them of
        :func:`chance_level`; of a study without intervals, 1/√N.
    """
    chosen = views(study, layers, heads, MOST_PANELS)
    documents = int(chosen.shown[0].data.attrs["documents"])
    levels = np.array([chance_level(view) for view in chosen.shown])
    known = levels[np.isfinite(levels)]
    chance = float(np.median(known)) if known.size else 1 / np.sqrt(documents)
    whence = "" if known.size else "1/√N = "
    level = " (of independent phases with these amplitudes, the median over the panels)" if known.size else ""
    laid = page(
        len(chosen.shown),
        title=f"Coherence with the query's own position (chance: about {whence}{chance:.2g})",
        subtitle=chosen.about,
        caption=(*(line.format(level=level) for line in _COHERENCE_CAPTION), chosen.note),
        aspect=_map_aspect(chosen.shown),
        columns=chosen.columns,
        room=Room(right=0.85),
    )
    name_panels(laid, chosen.shown, [_scale_of(v, c) for v, c in zip(chosen.shown, levels, strict=True)])
    image = None
    for (axes,), view in zip(laid.cells, chosen.shown, strict=True):
        image = plot_coherence(view, axes) or image
    laid.outer_labels()
    laid.label_axes("key, token", "query, token")
    if image is not None:
        bar = laid.colour_bar(image, "coherence")
        bar.ax.axhline(chance, color="white", linewidth=1.0)
        bar.ax.plot(
            [-0.35], [chance], ">", color=INK, markersize=4, transform=bar.ax.get_yaxis_transform(), clip_on=False
        )
    return laid.figure


def root_norm(modes: Sequence[FloatArray | None]) -> FuncNorm:
    """Symmetric colour scale by the signed root of the values, common to all modes."""
    values = [np.abs(mode[np.isfinite(mode)]) for mode in modes if mode is not None]
    values = [v[v > 0] for v in values if (v > 0).any()]
    limit = float(np.quantile(np.concatenate(values), _RESOLVED)) if values else 1.0

    def root(value: Any) -> Any:
        return np.sign(value) * np.sqrt(np.abs(value))

    def square(value: Any) -> Any:
        return np.sign(value) * np.square(value)

    return FuncNorm((root, square), -limit, limit)


def plot_map(values: FloatArray, axes: Axes, norm: Normalize, colours: str) -> AxesImage:
    """A (query, key) map, first query on top, NaN in grey."""
    image = axes.imshow(values, norm=norm, cmap=colormap(colours), aspect="auto")
    few = 3 if axes.bbox.width < _NARROW else 4
    for axis in (axes.xaxis, axes.yaxis):
        whole_ticks(axis, few)
    return image


def plot_coherence(view: View, axes: Axes) -> AxesImage | None:
    """Coherence of one layer or head; None where there is none, which the panel then says."""
    scale = float(view.data["coherence_scale"].values[0])
    if view.no_modes:
        say(axes, view.no_modes)
        axes.set(xticks=[], yticks=[])
        return None
    if "packed_coherence" not in view.data or not np.isfinite(scale):
        say(axes, "not computed: needs square\nattention with all lags")
        axes.set(xticks=[], yticks=[])
        return None
    gamma = view.expand(view.data["packed_coherence"].values)
    image = plot_map(gamma, axes, Normalize(0.0, 1.0), SEQUENTIAL)
    query = np.array([-0.5, gamma.shape[0] - 0.5])
    near = NEAR_SCALES * scale
    axes.fill_betweenx(
        query, query - near, query + 1 if view.causal else query + near,
        facecolor=_NEAR, linewidth=0.0,
    )  # fmt: skip
    axes.set_xlim(-0.5, gamma.shape[1] - 0.5)
    axes.set_ylim(gamma.shape[0] - 0.5, -0.5)
    return image


def chance_level(view: View) -> float:
    """Coherence that independent phases give: root of the mean of ``coherence_chance`` beyond four scales.

    NaN where the study has none, or no key is so far from its query.
    """
    scale = float(view.data["coherence_scale"].values[0])
    if "packed_coherence_chance" not in view.data or not np.isfinite(scale) or not view.fluctuates:
        return float("nan")
    chance = view.expand(view.data["packed_coherence_chance"].values)
    query, key = np.indices(chance.shape)
    far = chance[(np.abs(query - key) > NEAR_SCALES * scale) & np.isfinite(chance)]
    return float(np.sqrt(far.mean(dtype=np.float64))) if far.size else float("nan")


def _scale_of(view: View, chance: float) -> str:
    scale = float(view.data["coherence_scale"].values[0])
    if not (view.fluctuates and np.isfinite(scale)):
        return ""
    return f"scale {plain(scale)}" + (f", chance {chance:.2g}" if np.isfinite(chance) else "")


def plot_mode(view: View, axes: Axes, prefix: str = "", norm: Normalize | None = None) -> AxesImage | None:
    """First mode of the first band (prefix ``""``) or without a window (``"field_"``) of one layer or head.

    None where there is no mode, which the panel then says. The colour scale is the mode's own by default.
    """
    mode = first_mode(view, prefix)
    if mode is None:
        say(axes, view.no_modes or NO_FLUCTUATION)
        axes.set(xticks=[], yticks=[])
        return None
    image = plot_map(mode, axes, norm or root_norm([mode]), DIVERGING)
    share = float(view.data[f"{prefix}first_mode_energy"].values.ravel()[0])
    axes.text(
        0.97, 0.96, f"{100 * share:.0f} %", transform=axes.transAxes, ha="right", va="top", fontsize=6, color=INK,
        bbox={"facecolor": (1, 1, 1, 0.8), "edgecolor": "none", "pad": 1.0},
    )  # fmt: skip
    return image


def first_mode(view: View, prefix: str) -> FloatArray | None:
    """The first mode as a (query, key) map; None where there is none."""
    if view.no_modes:
        return None
    data = view.data[f"packed_{prefix}modes"].isel(mode=0)
    values = (data.isel(band=0) if "band" in data.dims else data).values
    return view.expand(values, from_first_query=True) if np.isfinite(values).any() else None


def _map_aspect(shown: Sequence[View]) -> float:
    """Height over width of the largest map, within bounds that can be drawn."""
    queries = max(int(view.data.attrs["queries"]) for view in shown)
    keys = max(int(view.data.attrs["keys"]) for view in shown)
    return float(np.clip(queries / keys, 0.4, 1.6))


def _columns_of_pairs(count: int) -> int:
    """Columns where a cell is two maps high."""
    return count if count <= 4 else 6 if count <= 18 else 8


def _bar_of_modes(laid: Page, image: AxesImage, norm: FuncNorm) -> None:
    bar = laid.colour_bar(image, "mode (unit norm)", extend="both")
    limit = float(norm.vmax or 1.0)
    ticks = [part * limit for part in (-1.0, -0.25, 0.0, 0.25, 1.0)]
    fix_ticks(bar.ax.yaxis, ticks, [plain(t).replace("-", "−") for t in ticks])


__all__ = [
    "chance_level",
    "draw_coherence",
    "draw_modes",
    "first_mode",
    "plot_coherence",
    "plot_map",
    "plot_mode",
    "root_norm",
]
