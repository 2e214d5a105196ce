"""Sphinx settings: Markdown pages, no network address loaded by the built pages."""

from __future__ import annotations

import tomllib
from pathlib import Path

_METADATA = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "Eddyscope"
author = "The Eddyscope developers"
copyright = author
release = version = _METADATA["version"]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = True

myst_heading_anchors = 3

html_theme = "furo"
html_title = f"Eddyscope {release}"
html_copy_source = False
html_show_sphinx = False
