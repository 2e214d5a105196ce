"""What fits in a memory budget, and what to say where nothing does."""

from __future__ import annotations

import resource
import sys
from dataclasses import replace
from pathlib import Path

from eddyscope.errors import UsageError
from eddyscope.plans import GOALS, Plan, Work, cost, size


def fitted(plan: Plan, goal: str, free: tuple[str, ...] = ("batch", "way")) -> Plan:
    """The plan with the largest batch, and the way, that keep one goal within the budget.

    Parameters
    ----------
    plan : Plan
    goal : str
        One of :data:`GOALS`.
    free : tuple of str
        What may be changed: ``batch``, ``way``, ``shard``.

    Raises
    ------
    UsageError
        Where nothing that may be changed makes it fit; says what would.
    """
    if plan.budget is None or plan.costs[goal].total <= plan.budget:
        return plan
    for way in (plan.work.way, "blocks"):
        if way != plan.work.way and ("way" not in free or way not in plan.model.ways):
            continue
        for batch in _smaller(plan.work.batch) if "batch" in free else [plan.work.batch]:
            shards = [plan.work.shard]
            if "shard" in free:
                shards = [max(batch, shard - shard % batch) for shard in _smaller(plan.work.shard) if shard >= batch]
            for shard in shards:
                tried = replace(plan, work=replace(plan.work, way=way, batch=batch, shard=shard))
                if tried.costs[goal].total <= plan.budget:
                    return tried
    raise refusal(plan, goal, free)


def refusal(plan: Plan, goal: str, free: tuple[str, ...] = ()) -> UsageError:
    """The error for a budget that is too small, with what would fit."""
    least = replace(plan, work=replace(plan.work, batch=1 if "batch" in free else plan.work.batch))
    if "shard" in free:
        least = replace(least, work=replace(least.work, shard=least.work.batch))
    assert plan.budget is not None
    largest = max(least.costs[goal].memory.items(), key=lambda item: item[1])
    message = (
        f"'{GOALS[goal]}' takes up to {size(least.costs[goal].total)} of memory for {plan.work.documents} documents"
        f"{' read one at a time' if least.work.batch == 1 else ''}, more than the {size(plan.budget)} of the budget; "
        f"the largest part is {_PARTS[largest[0]]} ({size(largest[1])})."
    )
    found = list(_alternatives(least, goal))
    if not found:
        return UsageError(message, f"Give a larger budget (--memory-budget {_rounded_up(least.costs[goal].total)}).")
    return UsageError(message, f"What would fit: {'; '.join(found[:4])}.")


_PARTS = {
    "process": "the libraries",
    "model": "the model",
    "fields": "the fields",
    "statistics": "the statistics",
    "work": "what a pass and the analysis work with",
    "results": "the results",
    "reserve": "the reserve",
}


def _alternatives(plan: Plan, goal: str) -> list[str]:
    """What else would fit in the budget, in words."""
    budget, work = plan.budget or 0, plan.work
    found = []
    if plan.work.batch > 1 and _fits(plan, replace(work, batch=1), goal):
        found.append("--batch 1")
    if work.kept > 1 and _fits(plan, replace(work, kept=1), goal):
        found.append("--heads mean")
    if goal == "run":
        if plan.costs["statistics"].total <= budget:
            found.append(f"--keep statistics ({size(plan.costs['statistics'].total)})")
        both = [plan.costs[other].total for other in ("store", "analyze")]
        if max(both) <= budget:
            found.append(f"eddyscope capture --store ({size(both[0])}) and eddyscope analyze ({size(both[1])})")
    if "blocks" in plan.model.ways and work.way != "blocks" and _fits(plan, replace(work, way="blocks"), goal):
        found.append("--way blocks")
    shorter = next((m for m in _smaller(work.tokens // 2) if m > 7 and _fits(plan, replace(work, max_lag=m), goal)), 0)
    if shorter and (work.max_lag is None or shorter < work.max_lag):
        found.append(f"--max-lag {shorter}")
    fewer = next((n for n in _smaller(work.documents // 2) if n > 9 and _fits(plan, _of(work, n), goal)), 0)
    if fewer and goal != "store":
        found.append(f"--documents {fewer}")
    return found


def _fits(plan: Plan, work: Work, goal: str) -> bool:
    return cost(plan.model, work, plan.process, goal).total <= (plan.budget or 0)


def _of(work: Work, documents: int) -> Work:
    return replace(work, documents=documents, shard=min(work.shard, documents), batch=min(work.batch, documents))


def _smaller(number: int) -> list[int]:
    """A number and its halves, down to 1."""
    found = []
    while number >= 1:
        found.append(number)
        number //= 2
    return found


def budget_bytes(budget: int | float | str | None) -> int | None:
    """Bytes of a memory budget.

    Parameters
    ----------
    budget : number of bytes, or str such as ``"4GB"``, ``"800 MB"``, ``"2GiB"``

    Raises
    ------
    UsageError
        Where it is none of these.
    """
    if budget is None:
        return None
    factor, number = 1.0, str(budget).strip()
    for unit, value in _UNITS.items():
        if number.lower().endswith(unit):
            factor, number = value, number[: -len(unit)].strip()
            break
    try:
        found = int(float(number) * factor)
    except (ValueError, OverflowError):
        found = 0
    if found < 1:
        raise UsageError(f"The memory budget is {str(budget)!r}, expected an amount such as 4GB, 800MB or 2GiB.")
    return found


_UNITS = {
    "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40,
    "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
    "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "b": 1.0,
}  # fmt: skip


def resident_bytes() -> int:
    """Memory that this process takes now."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):  # not Linux: the most that it was so far
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _rounded_up(count: int) -> str:
    return f"{-(-count // 10**8) / 10:g}GB"
