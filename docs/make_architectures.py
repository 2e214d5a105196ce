"""Write ``docs/architectures.md``: which architectures of transformers are captured, from the table of the tests.

Run it with ``python docs/make_architectures.py`` after the table, a source or transformers changed; a test compares.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import transformers

HERE = Path(__file__).parent
TESTS = str(HERE.parent / "tests" / "capture")
if TESTS not in sys.path:
    sys.path.insert(0, TESTS)

if TYPE_CHECKING:
    from architectures import Architecture, Outcome

NOTE = "<!-- Written by docs/make_architectures.py from tests/capture/architectures.py; do not edit. -->"

GROUPS = {
    "decoder": "Decoders",
    "encoder": "Encoders",
    "encoder-decoder": "Encoder-decoders",
    "speech": "Speech",
    "vision": "Vision",
}

_INTRODUCTION = """\
# Architectures

Each row was captured from a tiny random model of transformers {version} and compared, head by head, with
`output_attentions=True` under the eager implementation: *captured* means equal within 1e-5. *asked* means that the
class does not state where its attention can be seen, and is asked for it layer by layer with `output_attentions`. Where
only a part of the layers has maps between the positions of a document, the table says how many, and what the others
give. What is not in the table is treated by the same rules: a model is captured and checked, or refused with its class
and the reason.

{count} rows: {captured} captured, {refused} refused.
"""


def page() -> str:
    """The whole page."""
    from architectures import ARCHITECTURES, outcome

    found = {name: outcome(name) for name in ARCHITECTURES}
    refused = sum(bool(o.refusal) for o in found.values())
    parts = [NOTE, _INTRODUCTION.format(version=transformers.__version__, count=len(found), refused=refused,
                                        captured=len(found) - refused)]  # fmt: skip
    for group, title in GROUPS.items():
        rows = [_row(row, found[row.name]) for row in ARCHITECTURES.values() if row.group == group]
        parts.append(f"## {title}\n\n| model type | class | result |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _row(row: Architecture, found: Outcome) -> str:
    return f"| {row.name} | `{row.model}` | {_result(found)} |"


def _result(found: Outcome) -> str:
    if found.refusal:
        reason = found.refusal.partition(" pass it as arrays")[0].rpartition(". Where ")[0] or found.refusal
        return f"refused: {reason.partition('can be read from ')[2].partition(': ')[2] or reason}".replace("|", "\\|")
    how = ", asked" if "asked" in found.way else ""
    if not found.left:
        hybrid = f"; no attention in {', '.join(sorted(set(found.others.values())))}" if found.others else ""
        return f"captured{how}{hybrid}"
    others = ", ".join(sorted({_short(text) for text in found.others.values()}))
    return f"captured{how}: {found.captured} of {found.captured + found.left} layers; others: {others}"


def _short(text: str) -> str:
    return text.replace(" gave ", " gives ")


def main() -> None:
    """Write the page."""
    (HERE / "architectures.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
