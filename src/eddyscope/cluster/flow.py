"""Shards on their way through a cluster: a few at a time, so that documents and results never pile up."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from eddyscope.capture.session import Session, versions
from eddyscope.cluster.engine import Engine
from eddyscope.cluster.job import Receipt, sent
from eddyscope.cluster.outcome import Outcome
from eddyscope.cluster.work import Shard
from eddyscope.errors import ClusterError, EddyscopeWarning
from eddyscope.lagfield import IntArray

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


def shard_of(session: Session, number: int, index: IntArray, groups: IntArray | None = None) -> Shard:
    """Documents of a session as a task takes them."""
    own = None if groups is None else groups[index]
    return Shard(number, int(index[0]), session.reading.count, sent(session.reading, index), own)


def take(session: Session, receipt: Receipt, said: set[str]) -> None:
    """What a receipt says of the capture as a whole: where it runs, and what was seen of the first documents.

    Parameters
    ----------
    session : Session
    receipt : Receipt
    said : set of str
        What has been warned about.
    """
    place, own = receipt.place, versions()
    theirs = dict(place["versions"])
    if theirs.get("eddyscope") != own.get("eddyscope"):
        raise ClusterError(
            f"A worker has eddyscope {theirs.get('eddyscope')}, this is {own.get('eddyscope')}.",
            "Install the same version on all machines.",
        )
    other = [
        f"{name} {theirs.get(name)} instead of {number}" for name, number in own.items() if theirs.get(name) != number
    ]
    message = f"Workers have other versions of libraries than this process: {', '.join(other)}."
    if other and message not in said:
        said.add(message)
        warnings.warn(EddyscopeWarning(message, "other-versions"), stacklevel=4)
    session.device, session.threads = place["device"], place["threads"]
    if receipt.glance is not None:
        session.glance.sums = dict(receipt.glance)
        session.glance.seen = set(range(session.reading.count))
