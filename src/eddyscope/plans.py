"""What a capture and its analysis will take: passes, memory and disk, from sizes alone, before any work.

Everything here is arithmetic on the sizes of a model and of its documents. The estimates are upper ones: what is
known exactly (weights, fields, statistics) is counted exactly, and what depends on the inside of libraries (a forward
pass, an analysis) by a bound that was measured to hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

#: What can be done with the attention, in the order of the columns of a plan.
GOALS = {
    "run": "run",
    "statistics": "run --keep statistics",
    "store": "capture --store",
    "analyze": "analyze STORE",
}
#: Maps of one layer that eager attention holds at a time: scores, masked scores, softmax.
_MAPS = 3
#: Bytes of a block of query rows, see :mod:`eddyscope.capture.blockwise`, and how often it is held.
_BLOCKS = 3 * (16 << 20)
#: What a pass holds whatever its size: first use of libraries, threads, blocks of memory that are not given back.
_PASS = 32 << 20
#: Arrays of the width of the residual stream, and of the width inside the MLP, that a layer holds at a time.
_STREAMS, _INNER = 10, 3
#: Groups of the jackknife, for which statistics are kept apart.
_GROUPS = 15
#: Measured on the analysis of one head of one layer: copies of its field, Grams, arrays of one map, and the rest.
_FIELD_COPIES, _GRAMS, _MAP_ARRAYS, _REST = 5, 20, 200, 64 << 20
#: What a study keeps of each head: maps in single precision (modes, mean field, coherence), and Grams of the documents.
_KEPT_MAPS, _KEPT_GRAMS = 50, 5
_GRAMS_KEPT_UP_TO = 4000
#: Shards from which on documents go to the workers of a cluster by their group, so that the statistics of a shard are
#: those of a group or two and not of all.
BY_GROUP = 256
#: Least number of shards whose statistics are merged before they travel, and most such blocks; bytes of a receipt.
_MERGED, _BLOCKS_MERGED, _RECEIPT = 4, 256, 10_000
#: Allocators hold more than is used: so much of all the rest, as a divisor.
_RESERVE = 10


#: What takes memory.
PARTS = ("process", "model", "fields", "statistics", "work", "results", "reserve")


@dataclass(frozen=True)
class ModelSize:
    """Sizes of a model that a plan depends on.

    Parameters
    ----------
    name : str
    layers : tuple of bool
        For each layer that is captured whether it is causal; False where that is not known.
    heads : int
        Query heads of a layer.
    weights : int
        Bytes of the parameters.
    width, inner : int
        Width of the residual stream, and inside the MLP.
    outputs : int
        Values per token that a pass ends with; 0 where the language-model head is left out.
    item : int
        Bytes of a value of an activation.
    ways : tuple of str
        Ways in which its attention can be seen.
    way : str
        The way among them that is taken, whatever memory it needs.
    """

    name: str
    layers: tuple[bool, ...]
    heads: int
    weights: int
    width: int
    inner: int
    outputs: int = 0
    item: int = 4
    ways: tuple[str, ...] = ("hooks",)
    way: str = "hooks"


@dataclass(frozen=True)
class Work:
    """What is to be read and kept.

    Parameters
    ----------
    documents, tokens : int
        Number of documents, and of tokens of each.
    kept : int
        Heads that are kept of each layer, 1 for the head mean.
    batch : int
        Documents read at a time.
    shard : int
        Documents of a shard, where the fields go to disk.
    max_lag : int, optional
    item : int
        Bytes of a value of a field.
    way : str
    """

    documents: int
    tokens: int
    kept: int
    batch: int
    shard: int
    max_lag: int | None = None
    item: int = 4
    way: str = "hooks"

    def entries(self, causal: bool) -> int:
        """Entries of one packed map."""
        length = self.tokens
        lags = length if self.max_lag is None else min(self.max_lag, length)
        one_side = lags * length - lags * (lags - 1) // 2
        if causal:
            return one_side
        lags = length if self.max_lag is None else min(self.max_lag + 1, length)
        return 2 * (lags * length - lags * (lags - 1) // 2) - length


@dataclass(frozen=True)
class Cost:
    """What one way to a study takes, in bytes.

    Parameters
    ----------
    memory : dict of str to int
        What is held at the same time, by what it is.
    disk : int
        What is written, at most.
    """

    memory: Mapping[str, int]
    disk: int

    @property
    def total(self) -> int:
        """Memory of all."""
        return sum(self.memory.values())


@dataclass(frozen=True)
class Plan:
    """What a capture and its analysis will take.

    Parameters
    ----------
    model : ModelSize
    work : Work
    process : int
        Bytes that the process takes without the model.
    budget : int, optional
        Bytes that may be taken.
    seconds : float, optional
        Time that reading all documents takes, from a first shard that was read.
    workers : int, optional
        Processes that share the shards, each with a model of its own.
    """

    model: ModelSize
    work: Work
    process: int
    budget: int | None = None
    seconds: float | None = None
    workers: int | None = None
    costs: Mapping[str, Cost] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "costs", {goal: cost(self.model, self.work, self.process, goal) for goal in GOALS})

    @property
    def passes(self) -> int:
        """Forward passes over batches of documents."""
        return -(-self.work.documents // self.work.batch)

    @property
    def shards(self) -> int:
        """Shards of a store."""
        return -(-self.work.documents // self.work.shard)

    @property
    def travels(self) -> Mapping[str, int]:
        """Bytes that go to workers (``tokens``) and back (``statistics``, ``receipts``), at most.

        Fields never travel: workers write them. Statistics are merged on the workers, some shards at a time, before
        they do. The model goes as its name where it has one.
        """
        work = self.work
        blocks = -(-self.shards // merged_shards(self.shards))
        groups = _GROUPS if self.shards < BY_GROUP else 1 + -(-_GROUPS // blocks)
        block = replace(work, documents=min(groups, work.documents))
        return {
            "tokens": 4 * work.documents * work.tokens,
            "statistics": blocks * sum(_statistics(block, causal) for causal in self.model.layers),
            "receipts": self.shards * _RECEIPT,
        }

    def table(self) -> pd.DataFrame:
        """Bytes: a row for each thing that takes memory, then ``memory`` and ``disk``; a column for each way."""
        import pandas as pd

        there = {name for c in self.costs.values() for name in c.memory}
        rows = [name for name in PARTS if name in there]
        columns = {
            GOALS[goal]: [*(c.memory.get(name, 0) for name in rows), c.total, c.disk] for goal, c in self.costs.items()
        }
        return pd.DataFrame(columns, index=pd.Index([*rows, "memory", "disk"], name="bytes"))

    def line(self, goal: str) -> str:
        """One way in one line."""
        work, c = self.work, self.costs[goal]
        parts = [
            f"{_count(self.passes, 'pass', 'passes')} of {_count(work.batch, 'document')}",
            f"up to {size(c.total)} of memory",
        ]
        if goal == "store":
            parts += [f"up to {size(c.disk)} on disk in {_count(self.shards, 'shard')}"]
        if self.workers is not None:
            parts[1] += f" in each of {_count(self.workers, 'worker')}"
        return ", ".join(parts)

    def __str__(self) -> str:
        from eddyscope.planwords import in_words

        return in_words(self)


def cost(model: ModelSize, work: Work, process: int, goal: str) -> Cost:
    """What one of :data:`GOALS` takes.

    Parameters
    ----------
    model : ModelSize
    work : Work
    process : int
        Bytes that the process takes without the model.
    goal : str
    """
    entries = [work.entries(causal) for causal in model.layers]
    of_layer = [work.kept * (n * work.item + 8 * work.tokens) for n in entries]
    most, layer = max(entries, default=0), max(of_layer, default=0)
    results = sum(work.kept * _KEPT_MAPS * 4 * n for n in entries)
    if goal in ("run", "analyze") and work.documents <= _GRAMS_KEPT_UP_TO:
        results += len(entries) * work.kept * _KEPT_GRAMS * 8 * work.documents**2
    analysis = int(
        _FIELD_COPIES * work.documents * most * 4 + _GRAMS * 8 * work.documents**2 + _MAP_ARRAYS * 8 * most + _REST
    )
    reading = _reading(model, work)
    fields, shard = work.documents * sum(of_layer), work.shard * sum(of_layer)
    statistics = sum(_statistics(work, causal) for causal in model.layers)
    memory = {"process": process, "model": model.weights}
    if goal == "run":
        memory |= {"fields": fields, "work": max(reading, analysis), "results": results}
    elif goal == "statistics":
        streaming = reading + shard + 2 * max((_statistics(work, causal) for causal in model.layers), default=0)
        memory |= {"statistics": statistics, "work": max(streaming, _MAP_ARRAYS * 8 * most + _REST), "results": results}
    elif goal == "store":
        memory |= {"fields": shard, "work": max(reading, 2 * work.shard * layer)}
    else:
        memory = {"process": process, "fields": work.documents * layer + work.shard * layer, "work": analysis}
        memory |= {"results": results}
    memory |= {"reserve": sum(memory.values()) // _RESERVE}
    disk = {"run": results, "statistics": results, "store": fields, "analyze": results}[goal]
    return Cost(memory, disk)


def _reading(model: ModelSize, work: Work) -> int:
    """Memory of one pass, beyond the weights: one layer's maps, what is kept of them, and the activations."""
    tokens = work.batch * work.tokens
    activations = tokens * model.item * (_STREAMS * model.width + _INNER * model.inner) + 4 * tokens * model.outputs
    most = max((work.entries(causal) for causal in model.layers), default=0)
    reduced = 4 * work.batch * work.kept * (most + work.tokens**2)
    activations += _PASS
    maps = _MAPS * 4 * work.batch * model.heads * work.tokens**2
    if work.way == "blocks":  # which are no larger than the maps
        return activations + min(_BLOCKS, maps) + 4 * work.batch * work.kept * most
    return activations + maps + reduced


def _statistics(work: Work, causal: bool) -> int:
    """Statistics of one layer: mean fields and, for two treatments of sinks, mean rows and lag covariances by group."""
    reach = work.tokens // (2 if causal else 4)
    reach = reach if work.max_lag is None else min(work.max_lag, reach)
    lags, rows = (reach, work.tokens - reach) if causal else (2 * reach + 1, work.tokens - 2 * reach)
    by_group = work.entries(causal) + 2 * lags * (lags + rows) + 4 * work.tokens
    return work.kept * 8 * (min(_GROUPS, work.documents) * by_group + work.tokens)


def merged_shards(shards: int) -> int:
    """Shards of a capture on a cluster whose statistics are merged on its workers before they travel; a power of 2."""
    wanted = max(_MERGED, -(-shards // _BLOCKS_MERGED))
    return 1 << (wanted - 1).bit_length()


def size(count: float) -> str:
    """Bytes in words, two or three digits."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            value = count / factor
            return f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"
    return f"{count:.0f} B"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
