"""The documentation keeps up with the code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def slugs_in_code() -> set[str]:
    """The last argument of every EddyscopeWarning that the package makes."""
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for call in re.findall(r"EddyscopeWarning\((.*?)\n?\s*\)[,\n]", path.read_text(), re.DOTALL):
            found.update(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', call))
    return found


def test_every_warning_is_explained() -> None:
    page = (ROOT / "docs" / "warnings.md").read_text()
    explained = set(re.findall(r"^## ([a-z-]+)$", page, re.MULTILINE))
    assert slugs_in_code() == explained
