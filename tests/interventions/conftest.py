"""Models and texts to intervene on."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "capture"))  # tiny models of many families
