"""Pages of small multiples, measured in inches so that nothing overlaps at any number of panels."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from eddyscope.report.style import GREY, INK
from eddyscope.report.views import View

#: Width of a page in inches, and least width where there are few panels.
PAGE_WIDTH = 10.0
LEAST_WIDTH = 7.0
#: Height of a page in inches that panels shrink for; long captions may add to it.
PAGE_HEIGHT = 11.0

_TITLE_SIZE, _TEXT_SIZE = 10.5, 7.5
_LINE = 0.145  # height of a line of caption, inches
_CHARACTERS = 18.5  # characters of caption in an inch
_HEAD = 0.62  # title and subtitle
_MARGIN = 0.2
_STACKED = 0.06  # between the panels of a cell


@dataclass(frozen=True)
class Room:
    """Inches around panels.

    Parameters
    ----------
    left, right, bottom : float
        Around all panels: tick labels and the labels of axes; the colour bar on the right.
    above : float
        Above each panel, for its title.
    between : float
        Between columns.
    below : float
        Between rows, beside the room for titles.
    legend : float
        Under the subtitle.
    """

    left: float = 0.62
    right: float = 0.2
    bottom: float = 0.46
    above: float = 0.2
    between: float = 0.14
    below: float = 0.1
    legend: float = 0.0


@dataclass(frozen=True)
class Page:
    """A figure with its cells; each cell is a stack of panels, top first.

    Parameters
    ----------
    figure : Figure
    cells : list of list of Axes
    columns : int
    room : Room
    """

    figure: Figure
    cells: list[list[Axes]]
    columns: int
    room: Room

    @property
    def width(self) -> float:
        """Inches."""
        return float(self.figure.get_figwidth())

    @property
    def height(self) -> float:
        """Inches."""
        return float(self.figure.get_figheight())

    def at_left(self, index: int) -> bool:
        """Whether the cell is the first of its row."""
        return index % self.columns == 0

    def at_bottom(self, index: int) -> bool:
        """Whether no cell lies below this one."""
        return index + self.columns >= len(self.cells)

    def outer_labels(self) -> None:
        """Keep tick labels only where no panel lies to the left or below."""
        for index, stack in enumerate(self.cells):
            for level, axes in enumerate(stack):
                bottom = self.at_bottom(index) and level == len(stack) - 1
                axes.tick_params(labelleft=self.at_left(index), labelbottom=bottom)

    def label_axes(self, x: str, y: str) -> None:
        """Write the labels that all panels share."""
        left = min(axes.get_position().x0 for stack in self.cells for axes in stack)
        right = max(axes.get_position().x1 for stack in self.cells for axes in stack)
        low = min(axes.get_position().y0 for stack in self.cells for axes in stack)
        high = max(axes.get_position().y1 for stack in self.cells for axes in stack)
        under = low - (self.room.bottom - 0.13) / self.height
        self.figure.text((left + right) / 2, under, x, ha="center", va="center", color=INK)
        self.figure.text(0.16 / self.width, (low + high) / 2, y, ha="center", va="center", rotation=90, color=INK)

    def legend(self, handles: Sequence[Artist]) -> None:
        """One legend for all panels, in a line under the subtitle."""
        self.figure.legend(
            handles=list(handles),
            loc="upper left",
            bbox_to_anchor=(_MARGIN / self.width, 1 - 0.6 / self.height),
            ncols=len(handles),
            borderpad=0,
            borderaxespad=0,
            handlelength=1.8,
            columnspacing=1.6,
        )

    def colour_bar(self, mappable: ScalarMappable, label: str, extend: str = "neither") -> Colorbar:
        """One colour bar for all panels, on the right."""
        low = min(axes.get_position().y0 for stack in self.cells for axes in stack)
        high = max(axes.get_position().y1 for stack in self.cells for axes in stack)
        tall = min(high - low, 3.6 / self.height)
        right = max(axes.get_position().x1 for stack in self.cells for axes in stack)
        axes = self.figure.add_axes((right + 0.14 / self.width, high - tall, 0.13 / self.width, tall))
        bar = self.figure.colorbar(mappable, cax=axes, extend=extend)
        bar.set_label(label)
        bar.ax.yaxis.set_minor_formatter(NullFormatter())
        bar.outline.set_linewidth(0.5)
        return bar


def columns_for(count: int) -> int:
    """Columns for so many panels: one for one, eight beyond 36."""
    for most, columns in ((1, 1), (2, 2), (6, 3), (12, 4), (20, 5), (36, 6)):
        if count <= most:
            return columns
    return 8


def page(
    count: int,
    *,
    title: str,
    subtitle: str,
    caption: Sequence[str],
    aspect: float,
    stack: int = 1,
    columns: int | None = None,
    widest: float = 4.4,
    room: Room | None = None,
) -> Page:
    """Lay out a page of panels.

    Parameters
    ----------
    count : int
        Number of cells.
    title, subtitle : str
    caption : sequence of str
        Sentences on how to read the figure; empty ones are dropped.
    aspect : float
        Height of a panel over its width.
    stack : int
        Panels in a cell, one above the other.
    columns : int, optional
    widest : float
        Largest width of a panel, inches.
    room : Room, optional

    Returns
    -------
    Page
    """
    room = room or Room()
    columns, panel = _fit(count, columns, aspect, stack, widest, room)
    rows = -(-count // columns)
    gaps = room.left + room.right + room.between * (columns - 1)
    width = max(LEAST_WIDTH, gaps + panel * columns)
    tall = panel * aspect
    lines = wrap(caption, width)
    cell = room.above + stack * tall + (stack - 1) * _STACKED
    height = _HEAD + room.legend + rows * cell + (rows - 1) * room.below + room.bottom + caption_height(lines)
    figure = Figure(figsize=(width, height))
    write_head(figure, title, subtitle)
    write_caption(figure, lines)
    cells = []
    for index in range(count):
        row, column = divmod(index, columns)
        x = room.left + column * (panel + room.between)
        top = height - _HEAD - room.legend - row * (cell + room.below) - room.above
        levels = [top - (level + 1) * tall - level * _STACKED for level in range(stack)]
        cells.append([figure.add_axes((x / width, y / height, panel / width, tall / height)) for y in levels])
    return Page(figure, cells, columns, room)


def _fit(count: int, columns: int | None, aspect: float, stack: int, widest: float, room: Room) -> tuple[int, float]:
    """Columns, and the largest width of a panel at which they fit the page.

    Columns that were asked for (the heads of a layer) may be doubled and so on, where that makes panels larger.
    """
    candidates = [columns * times for times in range(1, 1 + 10 // columns)] if columns else [columns_for(count)]
    best = (candidates[0], 0.0)
    for across in candidates:
        rows = -(-count // across)
        width = PAGE_WIDTH - room.left - room.right - room.between * (across - 1)
        fixed = rows * room.above + (rows - 1) * room.below + rows * (stack - 1) * _STACKED
        down = PAGE_HEIGHT - _HEAD - room.legend - room.bottom - fixed
        panel = min(widest, width / across, down / (rows * stack) / aspect)
        if panel > best[1] + 1e-9:
            best = (across, panel)
    return best


def wrap(sentences: Sequence[str], width: float) -> list[str]:
    """Lines of a caption for a figure of this width in inches."""
    text = " ".join(s.strip() for s in sentences if s.strip())
    return textwrap.wrap(text, int((width - 2 * _MARGIN) * _CHARACTERS)) or [""]


def caption_height(lines: Sequence[str]) -> float:
    """Inches that a caption takes at the foot of a figure."""
    return _MARGIN + _LINE * len(lines)


def write_head(figure: Figure, title: str, subtitle: str) -> None:
    """Title and subtitle at the top left."""
    width, height = figure.get_size_inches()
    x = _MARGIN / width
    figure.text(x, 1 - 0.17 / height, title, fontsize=_TITLE_SIZE, weight="bold", va="top", color=INK)
    figure.text(x, 1 - 0.39 / height, subtitle, fontsize=_TEXT_SIZE, va="top", color=GREY)


def write_caption(figure: Figure, lines: Sequence[str]) -> None:
    """How to read the figure, at the bottom left."""
    width, height = figure.get_size_inches()
    for number, line in enumerate(lines):
        y = (0.1 + _LINE * (len(lines) - number)) / height
        figure.text(_MARGIN / width, y, line, fontsize=_TEXT_SIZE, va="top", color=INK)


def name_panels(laid: Page, shown: Sequence[View], details: Sequence[str]) -> None:
    """Titles of the panels: the layer, and what is shown of it; all shortened alike where the panels are narrow."""
    room = laid.cells[0][0].get_position().width * laid.width + 0.5 * laid.room.between
    brief = [d.replace("wavelength ", "λ ").replace("no dominant", "none") for d in details]
    labels, short = [view.label for view in shown], [view.short_label for view in shown]
    least = [b.removeprefix("lags ").removeprefix("lag ").partition(", chance")[0] for b in brief]
    for names, what in (
        (labels, details),
        (short, details),
        (short, brief),
        (short, least),
        (short, [""] * len(short)),
    ):
        titles = [" · ".join(part for part in pair if part) for pair in zip(names, what, strict=True)]
        for size in (7.5, 6.5):
            # A character of DejaVu Sans is about 0.56 em wide.
            if max(map(len, titles)) * 0.56 * size / 72 <= room:
                break
        else:
            continue
        break
    for (axes, *_), title in zip(laid.cells, titles, strict=True):
        axes.set_title(title, fontsize=size)


def say(axes: Axes, text: str) -> None:
    """Write in the middle of a panel that has nothing to show, and leave its axes empty."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=7, color=GREY, wrap=True)


__all__ = [
    "PAGE_WIDTH",
    "Page",
    "Room",
    "caption_height",
    "columns_for",
    "name_panels",
    "page",
    "say",
    "wrap",
    "write_caption",
    "write_head",
]
