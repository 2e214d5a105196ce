"""A page as data: headings, paragraphs, tables and images, rendered as Markdown or as one HTML file."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Heading:
    """A heading of level 1, 2 or 3."""

    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    """Text; what stands between backticks is code, between asterisks emphasis, double ones bold."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table with one header row."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Image:
    """An image, by its path relative to the page."""

    path: str
    alt: str


Block = Heading | Paragraph | Table | Image


def markdown(blocks: Sequence[Block]) -> str:
    """The page in Markdown; HTML in what was read from disk is escaped."""
    return "\n".join(_markdown(block) for block in blocks).rstrip() + "\n"


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_plain(block.text)}\n"
    if isinstance(block, Paragraph):
        return f"{_plain(block.text)}\n"
    if isinstance(block, Image):
        return f"![{_plain(block.alt)}]({block.path})\n"
    lines = [block.header, ("---",) * len(block.header), *block.rows]
    return "".join(f"| {' | '.join(_plain(cell).replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _plain(text: str) -> str:
    """Text for Markdown: no HTML, and the star of H* is no emphasis (in code it is none anyway)."""
    parts = text.replace("&", "&amp;").replace("<", "&lt;").split("`")
    return "`".join(part if index % 2 else part.replace("H*", "H\\*") for index, part in enumerate(parts))


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }}
h1, h2, h3 {{ line-height: 1.25; }}
h2 {{ margin-top: 2.5rem; border-top: 1px solid #ccc; padding-top: 1rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: 13px; }}
th, td {{ border: 1px solid #ccc; padding: .25rem .5rem; text-align: left; vertical-align: top; }}
th {{ background: #f3f3f3; }}
img {{ max-width: 100%; height: auto; }}
code {{ background: #f3f3f3; padding: 0 .2em; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def one_file(blocks: Sequence[Block], folder: Path) -> str:
    """The page as one HTML file that loads nothing: images are in it.

    Parameters
    ----------
    blocks : sequence of Heading, Paragraph, Table or Image
    folder : Path
        Where the images are.
    """
    title = next((b.text for b in blocks if isinstance(b, Heading)), "")
    return _PAGE.format(title=html.escape(title), body="\n".join(_html(block, folder) for block in blocks))


def _html(block: Block, folder: Path) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{_inline(block.text)}</h{block.level}>"
    if isinstance(block, Paragraph):
        return f"<p>{_inline(block.text)}</p>"
    if isinstance(block, Image):
        data = base64.b64encode((folder / block.path).read_bytes()).decode("ascii")
        return f'<p><img alt="{html.escape(block.alt)}" src="data:image/png;base64,{data}"></p>'
    head = "".join(f'<th scope="col">{_inline(cell)}</th>' for cell in block.header)
    rows = "\n".join(f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in row)}</tr>" for row in block.rows)
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>'


def _inline(text: str) -> str:
    escaped = html.escape(text).replace("H*", "H&#42;")
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    escaped = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", escaped)
    return re.sub(r"\*([^*]+)\*", r"<em>\1</em>", escaped)
