"""The text of the demo: Shakespeare where it can be had without asking anybody, else English prose."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from eddyscope.errors import InputError

PACKAGE = "shksprdata"

#: Share 26 to 82 % of their runs of eight words with the training text of the bundled models.
OVERLAPPING = (
    "coriolanus",
    "henry_vi_part_3",
    "measure_for_measure",
    "richard_ii",
    "richard_iii",
    "romeo_and_juliet",
    "taming_of_the_shrew",
    "winters_tale",
)
#: Validation text of the bundled models.
VALIDATION = "tempest"


@dataclass(frozen=True)
class DemoText:
    """What the demo reads.

    Parameters
    ----------
    paths : tuple of Path
        Text files.
    description : str
        What they are, in words, with what the bundled models saw of them.
    """

    paths: tuple[Path, ...]
    description: str


def demo_text(folder: Path) -> DemoText:
    """The first of these that is there; nothing is downloaded.

    Shakespeare's works of the package ``shakespeare`` (read as files, never imported), without the texts that the
    bundled models saw in training or validation; the validation split of TinyShakespeare; the help topics of the
    standard library.

    Parameters
    ----------
    folder : Path
        Where a text is written that is not in a file of its own.
    """
    return _works() or _validation_split(folder) or _help_topics(folder)


def _works() -> DemoText | None:
    try:
        package = importlib.util.find_spec(PACKAGE)
    except (ImportError, ValueError):
        return None
    if package is None or not package.submodule_search_locations:
        return None
    files = sorted(Path(package.submodule_search_locations[0], "texts").glob("*_gut.txt"))
    seen = {f"{name}_gut.txt" for name in (*OVERLAPPING, VALIDATION)}
    used = tuple(f for f in files if f.name not in seen)
    if not used:
        return None
    return DemoText(
        used,
        f"{len(used)} works of Shakespeare (package 'shakespeare'), without those that the models saw in training or "
        "validation",
    )


def _validation_split(folder: Path) -> DemoText | None:
    from eddyscope.models.corpus import find_corpus

    try:
        corpus = find_corpus(download=False)
    except InputError:
        return None
    path = folder / "tinyshakespeare-validation.txt"
    path.write_text(corpus.validation, encoding="utf-8", newline="")
    return DemoText((path,), "the validation split of TinyShakespeare, by which the models' training was judged")


def _help_topics(folder: Path) -> DemoText:
    from pydoc_data.topics import topics

    path = folder / "python-help-topics.txt"
    path.write_text("\n".join(topics[name] for name in sorted(topics)), encoding="utf-8", newline="")
    return DemoText((path,), "the help topics of Python's standard library: English, but far from the models' training")
