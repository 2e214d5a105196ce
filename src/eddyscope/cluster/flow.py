"""Shards on their way through a cluster: a few at a time, so that documents and results never pile up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from eddyscope.cluster.engine import Engine
from eddyscope.cluster.outcome import Outcome

Item = TypeVar("Item")


def flow(
    engine: Engine, items: Iterable[Item], submit: Callable[[Item], Iterable[tuple[Any, Any]]], spare: int = 2
) -> Iterator[tuple[Any, Outcome]]:
    """Hand items to a cluster and give back what is done, in the order in which it is done.

    Parameters
    ----------
    engine : Engine
    items : iterable
        Made one by one as there is room: two for each slot of the cluster and ``spare`` more are on their way.
    submit : callable
        Hands an item over; gives futures to wait for, each with what it is to be known by.
    spare : int

    Yields
    ------
    object, Outcome
        What a future is known by, and its outcome.
    """
    rest, waiting = iter(items), dict[Any, Any]()
    more = True
    while more or waiting:
        while more and len(waiting) < 2 * engine.slots + spare:
            item = next(rest, None)
            more = item is not None
            if item is not None:
                with engine.watched():
                    waiting.update(submit(item))
        if waiting:
            for future, outcome in engine.done(waiting):
                yield waiting.pop(future), outcome
