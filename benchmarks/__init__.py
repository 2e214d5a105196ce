"""Benchmarks of Eddyscope against what a careful user would write without it: ``python -m benchmarks --help``."""
