"""Shards as they are handed to workers, and what their receipts say of the capture as a whole."""

from __future__ import annotations

import warnings

from eddyscope.capture.session import Session, versions
from eddyscope.cluster.job import Receipt, sent
from eddyscope.cluster.work import Shard
from eddyscope.errors import ClusterError, EddyscopeWarning
from eddyscope.lagfield import IntArray


def shard_of(session: Session, number: int, index: IntArray, groups: IntArray | None = None) -> Shard:
    """Documents of a session as a task takes them."""
    own = None if groups is None else groups[index]
    return Shard(number, index, session.reading.count, sent(session.reading, index), own)


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
