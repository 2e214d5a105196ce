"""Whether the layers of an ensemble fit in memory, and how large the blocks may be where they do not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eddyscope.budget import budget_bytes, resident_bytes
from eddyscope.ensemble import AttentionEnsemble
from eddyscope.errors import UsageError
from eddyscope.fieldstore import StoredFields
from eddyscope.kernels.gramblocks import TILE
from eddyscope.kernels.lanczos import BLOCK, basis_size
from eddyscope.lagfield import LagGeometry
from eddyscope.plans import ModelSize, Work, cost
from eddyscope.plans import size as in_words
from eddyscope.study.blockpasses import GramMaker
from eddyscope.study.measures import LEADING
from eddyscope.study.options import Options
from eddyscope.study.podpart import KEPT_GRAM

#: Measured on analyses in blocks: copies of one whole Gram, of one map by group, of one map (whatever the modes, at
#: least, and for each mode of each window); and the rest.
_GRAMS, _MAPS_BY_GROUP, _MAPS, _LEAST_MAPS, _MAPS_BY_MODE, _REST = 9, 8, 20, 60, 2.5, 160 << 20
#: Copies of the modes of one head while they are formed in memory.
_MODE_COPIES = 3
#: Groups of the jackknife, whose statistics are kept apart.
_GROUPS = 15
#: Parts of the documents whose sums are taken, and doubles of a document that block Lanczos holds.
_PARTS, _BASIS = 40, basis_size(LEADING) + LEADING + 8 * BLOCK
#: Maps (beside the modes) and Grams of a head that a study keeps, see :mod:`eddyscope.plans`.
_KEPT_MAPS, _KEPT_GRAMS = 10, 5
#: Most blocks of documents that are held: more would save no reading worth the memory.
_MOST_HELD = 8


@dataclass(frozen=True)
class BlockPlan:
    """How an analysis in blocks goes about it.

    Parameters
    ----------
    estimate : int
        Bytes that the process takes, at most.
    held : int
        Blocks of documents that are held while Grams are formed.
    keep_grams : bool
        Whether the study keeps Grams.
    scratch : Path, optional
        Where scratch files are written; the folder for temporary files by default.
    grams : GramMaker, optional
        What forms blocks of Grams in the place of this process.
    run : str
        Of workers that may be killed: what their scratch folders are known by.
    """

    estimate: int
    held: int
    keep_grams: bool
    scratch: Path | None = None
    grams: GramMaker | None = None
    run: str = ""


@dataclass(frozen=True)
class _Layer:
    geometry: LagGeometry
    heads: int
    item: int


def plan_blocks(
    ensemble: AttentionEnsemble,
    options: Options,
    memory_budget: int | float | str | None = None,
    scratch: str | Path | None = None,
) -> BlockPlan | None:
    """How to analyse an ensemble in blocks, or None where each layer is analysed in memory.

    In memory where the estimate of :func:`eddyscope.plans.cost` (goal ``analyze``: five copies of the layer's field in
    single precision, twenty N x N matrices, results) stays within the budget; without a budget, within the memory that
    the machine has left. Fields on disk of more than 4,000 documents are analysed in blocks in any case, and so is
    everything where randomized POD is asked for.

    Parameters
    ----------
    ensemble : AttentionEnsemble
    options : Options
    memory_budget : int, float or str, optional
        Bytes, or such as ``"2GB"``.
    scratch : str or Path, optional

    Returns
    -------
    BlockPlan or None

    Raises
    ------
    UsageError
        Where not even blocks fit in the budget; says what would.
    """
    given, place = budget_bytes(memory_budget), _place(scratch)
    stored = isinstance(ensemble.fields, StoredFields)
    asked = options.pod == "randomized"
    if given is None and not stored and not asked:
        return None  # the fields are there already
    layers = _layers(ensemble)
    count, process = ensemble.count, resident_bytes()
    in_memory = max(_whole(layer, count, options, len(layers), process, _shard(ensemble)) for layer in layers)
    budget = given if given is not None else _free_bytes(process)
    if in_memory <= budget and not (stored and count > KEPT_GRAM) and not asked:
        return None
    tiles = -(-count // TILE)
    for keep in (count <= KEPT_GRAM, False):
        for held in (_MOST_HELD, 4, 2, 1):
            held = min(held, tiles)
            parts = [_blocks(layer, count, options, len(layers), held, keep, _shard(ensemble)) for layer in layers]
            if process + max(parts) <= budget:
                return BlockPlan(process + max(parts), held, keep, place)
    if given is None:  # nothing was asked for: as little as there can be
        return BlockPlan(process + max(parts), 1, False, place)
    raise UsageError(
        f"The analysis takes up to {in_words(process + max(parts))} of memory in the smallest blocks, more than the "
        f"{in_words(given)} of the budget ({in_words(process)} are taken by the process before it begins).",
        "Give a larger budget (--memory-budget), fewer layers (--layers) or fewer --modes.",
    )


def _place(scratch: str | Path | None) -> Path | None:
    """Where scratch files go, whatever folder a worker is in."""
    if scratch is None:
        return None
    if not isinstance(scratch, str | Path) or not str(scratch):
        raise UsageError(f"scratch is {scratch!r}, expected a folder (--scratch).")
    return Path(scratch).absolute()


def window_count(options: Options, geometry: LagGeometry) -> int:
    """Most windows that an analysis can have, the one without a window included."""
    if not isinstance(options.select, str):
        return 1 + len(options.select)
    octaves = 1 + int(np.log2(max(geometry.queries, geometry.keys)))
    return 1 + max(octaves if options.select == "octaves" else max(options.dominant, 3), 1)


def scratch_bytes(geometry: LagGeometry, heads: int, documents: int, item: int, options: Options) -> int:
    """Bytes of the scratch files of one layer: its fields as they are, and the Grams of one head, if any are formed."""
    fields = documents * heads * (item * geometry.size + 16 * geometry.queries)
    if options.pod == "randomized":
        return fields
    tile = min(TILE, documents)
    tiles = -(-documents // tile)
    return fields + window_count(options, geometry) * 8 * tile**2 * tiles * (tiles + 1) // 2


def _layers(ensemble: AttentionEnsemble) -> list[_Layer]:
    """Sizes of the layers; values on disk count as single precision."""
    fields = ensemble.fields
    if isinstance(fields, StoredFields):
        stored = [fields.store.layers[name] for name in ensemble.layers]
        return [_Layer(s.geometry, len(s.heads), 4) for s in stored]
    return [_Layer(f.geometry, len(f.heads), f.values.dtype.itemsize) for f in fields.values()]


def _shard(ensemble: AttentionEnsemble) -> int:
    fields = ensemble.fields
    return min(fields.store.size, ensemble.count) if isinstance(fields, StoredFields) else 64


def _whole(layer: _Layer, documents: int, options: Options, layers: int, process: int, shard: int) -> int:
    """Estimate of the analysis in memory; that of a plan counts the modes that are kept by default."""
    g = layer.geometry
    model = ModelSize("", (g.causal,) * layers, 0, 0, 0, 0)
    work = Work(documents, max(g.queries, g.keys), layer.heads, 1, shard, g.max_lag, layer.item)
    beyond = window_count(options, g) * max(0, min(options.modes, documents) - Options.modes)
    modes = beyond * g.size * (4 * layers * layer.heads + _MODE_COPIES * layer.item)
    return cost(model, work, process, "analyze").total + modes


def _blocks(
    layer: _Layer, documents: int, options: Options, layers: int, held: int, keep_grams: bool, shard: int
) -> int:
    """Estimate of the analysis in blocks, beyond what the process takes."""
    g, n, windows = layer.geometry, documents, window_count(options, layer.geometry)
    entries, tile = g.size, min(TILE, n)
    statistics = 8 * (min(_GROUPS, n) * (_MAPS_BY_GROUP * entries)) * 2
    shards = 2 * shard * layer.heads * entries * layer.item
    grams = (held + 2) * tile * entries * layer.item + 4 * windows * 8 * tile**2
    known = n if n <= KEPT_GRAM else 0
    pairs = _GRAMS * 8 * known**2 + (0 if known else 8 * n * (_BASIS + windows * (LEADING + _PARTS)))
    kept_vectors = 8 * windows * n * (n if known else 0)  # eigenvectors of all windows until the modes are formed
    patterns = windows * min(options.modes, known or LEADING)
    kept_maps = (_KEPT_MAPS + patterns) * 4 * entries
    results = layers * layer.heads * (kept_maps + (_KEPT_GRAMS * 8 * n**2 if keep_grams else 0))
    maps = max(_LEAST_MAPS, _MAPS + _MAPS_BY_MODE * patterns) * 8 * entries
    return int(statistics + max(shards, grams, pairs) + kept_vectors + results + maps + _REST)


def _free_bytes(process: int) -> int:
    """Memory that this process may have: what it takes, and nine tenths of what the machine has left."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return np.iinfo(np.int64).max  # not Linux: nothing is known, and nothing changes
    return process + free * 9 // 10
