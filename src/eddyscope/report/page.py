"""The report: one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from eddyscope import __version__
from eddyscope.errors import StoreError
from eddyscope.report.pagedata import PageData, page_data
from eddyscope.report.pagedata.glossary import Glossary
from eddyscope.report.style import DIVERGING, SEQUENTIAL, colormap
from eddyscope.runs import REPORT
from eddyscope.study.study import Study

if TYPE_CHECKING:
    from eddyscope.interventions.windows.agreement import Agreement

_SCRIPTS = ("core.js", "tables.js", "thumbnails.js", "scales.js", "modes.js", "layers.js", "text.js", "start.js")
#: Only where windows were given; before the last, which starts them all.
_OWED_SCRIPT = "owed.js"
#: Colours of a map sent to the page.
_STOPS = 33


def write_report(
    studies: Study | Sequence[Study],
    path: str | Path,
    *,
    names: Sequence[str] | None = None,
    windows: str | Path | Agreement | None = None,
    force: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Path:
    """Write the report of a study, or of several beside each other, as one HTML file.

    Parameters
    ----------
    studies : Study or sequence of Study
    path : str or Path
        The file, or a folder that is there, which then gets ``report.html``.
    names : sequence of str, optional
        What each study is called; the model's name by default.
    windows : str, Path or Agreement, optional
        The folder that ``eddyscope windows --octaves`` wrote for the model of the one study, or what
        ``es.windows.open_agreement`` reads from it: adds what the loss owes to each distance.
    force : bool
        Replace the file if it is there.
    progress : callable, optional
        Called with (layer, layers done, layers in all).

    Returns
    -------
    Path
        The file. The same studies give the same bytes, apart from the time at which it was written.

    Raises
    ------
    StoreError
        Where the file is there already, or cannot be written; where ``windows`` holds no octaves.
    InputError
        Where there is no study, names and studies do not match, or ``windows`` are of another model.
    UsageError
        Where ``windows`` are given for several studies.
    """
    place = Path(path)
    if place.is_dir():
        place = place / REPORT
    if place.exists() and not force:
        raise StoreError(f"The file '{place}' exists.", "Choose another name, or replace it with force=True (--force).")
    page = page_data([studies] if isinstance(studies, Study) else list(studies), names, progress, windows)
    text = render(page, datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=place.parent, prefix=".report-", suffix=".html")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            Path(beside).chmod(0o644)
            Path(beside).replace(place)
        finally:
            Path(beside).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"'{place}' cannot be written: {error.strerror or error}.", "Choose another place.") from error
    return place


def render(page: PageData, stamp: str) -> str:
    """The page as HTML.

    Parameters
    ----------
    page : PageData
    stamp : str
        When it was written, the only part that is not of the studies.
    """
    environment = Environment(
        loader=PackageLoader("eddyscope.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    glossary = Glossary()
    scripts = _SCRIPTS if page.owed is None else (*_SCRIPTS[:-1], _OWED_SCRIPT, _SCRIPTS[-1])

    @pass_context  # so that constant texts are not explained when the template is compiled, out of order
    def explained(context: Context, text: str) -> Markup:
        return glossary(text)

    environment.filters["explained"] = explained
    return environment.get_template("report.html.j2").render(
        page=page,
        stamp=stamp,
        version=__version__,
        style=Markup(_static("report.css")),
        script=Markup("\n".join(_static(name) for name in scripts)),
        plotly=Markup(_plotly()),
        data=[Markup(as_json(_shared(page)))],
        texts=[Markup(as_json(study.texts)) for study in page.studies],
        layers=[[Markup(as_json(layer)) for layer in study.layers] for study in page.studies],
    )


def _shared(page: PageData) -> dict[str, Any]:
    """What the scripts need of all layers; each layer's own data are read when it is shown."""
    return {
        "studies": [
            {
                "name": study.name,
                "layers": [{"label": one.label, "index": one.index, "head": one.head} for one in study.layers],
                "byLayer": study.by_layer,
                "lines": study.lines,
                "noText": study.no_text,
            }
            for study in page.studies
        ],
        "start": _start(page),
        "sequential": _colours(SEQUENTIAL),
        "diverging": _colours(DIVERGING),
        **({} if page.owed is None else {"owed": {"unit": page.owed.unit, "rows": page.owed.rows}}),
    }


def _start(page: PageData) -> int:
    """The layer that is shown first: the nearest, where there is one."""
    known = [(one.median_lag, place) for place, one in enumerate(page.studies[0].facts) if np.isfinite(one.median_lag)]
    return min(known)[1] if known else 0


def as_json(value: Any) -> str:
    """JSON that can stand in a script element whatever text it holds."""
    text = json.dumps(value, default=vars, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _colours(name: str) -> list[list[int]]:
    return [[round(255 * c) for c in colormap(name)(k / (_STOPS - 1))[:3]] for k in range(_STOPS)]


def _static(name: str) -> str:
    return (files("eddyscope.report") / "static" / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _plotly() -> str:
    """The charting library, packed: a quarter of its size, and not read before a chart comes into view."""
    from plotly.offline import get_plotlyjs

    return base64.b64encode(zlib.compress(get_plotlyjs().encode("utf-8"), 9)).decode("ascii")


__all__ = ["render", "write_report"]
