"""The same capture and analysis on many processes or machines, with Dask as the engine.

Dask is imported in here alone, when workers are asked for. Shards of documents (and layers, in an analysis) are tasks;
statistics come together in a tree of merges. What runs on a worker is in :mod:`eddyscope.cluster.work` and its
neighbours; what stays with the caller is in :mod:`eddyscope.cluster.engine`, ``shards``, ``statistics``, ``analysis``.
"""

from __future__ import annotations
