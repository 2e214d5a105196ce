"""Write English prose that every Python has: the help topics of ``pydoc``, one text file per topic.

python examples/topics_text.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from pydoc_data.topics import topics


def main(folder: Path) -> None:
    """Write one ``.txt`` per topic; what stands there under the same names is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in topics.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    print(f"{len(topics)} texts, {sum(map(len, topics.values())):,} characters, in {folder}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Expected one argument, the folder to write to: python examples/topics_text.py FOLDER")
    main(Path(sys.argv[1]))
