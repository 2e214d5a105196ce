"""Studies of planted attention, small enough to analyse in a moment."""

from __future__ import annotations

from comparison_help import bumps, read

__all__ = ["bumps", "read"]
