"""How figures look: one style whatever the caller's settings are, in colours that most eyes can tell apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

#: Dots per inch of PNG files and of the images inside PDF files.
DPI = 150

SETTINGS: dict[str, Any] = {
    "figure.dpi": DPI,
    "savefig.dpi": DPI,
    "figure.facecolor": "white",
    "font.family": ["DejaVu Sans"],  # comes with matplotlib: the same on every machine
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.titlepad": 3.0,
    "axes.titley": 1.0,  # fixed, or every draw measures all tick labels to place the titles
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.pad": 2.0,
    "ytick.major.pad": 2.0,
    "lines.linewidth": 1.0,
    "legend.frameon": False,
    "legend.fontsize": 7.0,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 3,  # subsetting for type 42 takes a fifth of the time of all figures
    "svg.hashsalt": "eddyscope",
}

INK = "#222222"
GREY = "#777777"
PALE = "#e4e4e4"

#: Okabe and Ito's palette without its yellow, which is too pale for lines.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"

SEQUENTIAL = "viridis"
DIVERGING = "PuOr_r"

#: Settings of figures for papers, over those of the house style: fonts that journals take, of the size of a caption.
PAPER: dict[str, Any] = {
    "font.size": 7.0,
    "axes.titlesize": 7.0,
    "axes.labelsize": 7.0,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "pdf.fonttype": 42,  # journals refuse type 3
}
#: Colour maps in the place of those that have two dark ends, which look the same in grey.
_IN_GREY = {DIVERGING: "cividis"}
_replaced: ContextVar[dict[str, str]] = ContextVar("replaced colour maps", default={})  # noqa: B039 - never written to


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in the house style, from matplotlib's defaults; the caller's settings come back afterwards."""
    with matplotlib.style.context(["default", SETTINGS]):
        yield


@contextmanager
def paper_style() -> Iterator[None]:
    """The house style for papers: smaller, and in colours whose order shows in grey too."""
    with matplotlib.style.context(["default", SETTINGS, PAPER]):
        token = _replaced.set(_IN_GREY)
        try:
            yield
        finally:
            _replaced.reset(token)


def colormap(name: str, bad: str = PALE) -> Colormap:
    """A colour map that shows missing values in grey."""
    return mpl.colormaps[_replaced.get().get(name, name)].with_extremes(bad=bad)


def band_colours(count: int) -> list[Any]:
    """A colour for each band: distinct ones up to four, from dark to light beyond."""
    if count <= 4:
        return [BLUE, GREEN, PURPLE, SKY][:count]  # vermilion is kept for fits
    return [mpl.colormaps["viridis"](x) for x in np.linspace(0.0, 0.9, count)]


def ink_on(colour: Any) -> str:
    """Dark or white ink, whichever can be read on the colour (RGBA, 0..1)."""
    luminance = float(np.dot(np.asarray(colour)[:3] ** 2.2, (0.2126, 0.7152, 0.0722)))
    return INK if luminance > 0.2 else "white"


def fix_ticks(axis: Any, positions: Any, labels: Any) -> None:
    """Put ticks at these positions with these labels, and no others."""
    axis.set_major_locator(FixedLocator(list(positions)))
    axis.set_major_formatter(FixedFormatter([str(label) for label in labels]))
    axis.set_minor_locator(NullLocator())


def whole_ticks(axis: Any, most: int = 4) -> None:
    """Few ticks, at whole numbers only."""
    axis.set_major_locator(MaxNLocator(most, integer=True, steps=[1, 2, 4, 5, 10], min_n_ticks=1))


def log_ticks(axes: Axes, least: float, largest: float) -> None:
    """A logarithmic y axis in tokens, with ticks at doublings, or closer ones where the range is short."""
    axes.set_yscale("log")
    axes.set_ylim(least, largest)
    doublings, closer = 2.0 ** np.arange(12), np.array([1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128])
    for candidates, enough in ((doublings, 3), (closer, 2), (np.arange(1, 129, 0.25), 1)):
        ticks = [float(t) for t in candidates if least <= t <= largest]
        if len(ticks) >= enough:
            break
    ticks = ticks[:: max(1, len(ticks) // 4)]
    fix_ticks(axes.yaxis, ticks, [f"{t:g}" for t in ticks])


def plain(value: float) -> str:
    """A number with three digits, without an exponent where it can be avoided: 0.012, 1.5, 120."""
    if not np.isfinite(value):
        return "n/a"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.2g}"
    digits = max(0, 2 - int(np.floor(np.log10(abs(value))))) if value else 0
    text = f"{value:.{min(digits, 4)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
