"""A plan in words, for the terminal."""

from __future__ import annotations

from eddyscope.plans import GOALS, Plan, size

_ROWS = {
    "process": "Python and libraries",
    "model": "weights of the model",
    "fields": "fields",
    "statistics": "statistics",
    "work": "a pass, or the analysis of a layer",
    "results": "results",
    "reserve": "reserve, a tenth",
    "memory": "memory, at most",
    "disk": "disk, at most",
}


def in_words(plan: Plan) -> str:
    """What is read, in lines, and a table of what each way takes."""
    work, model = plan.work, plan.model
    causal = sum(model.layers)
    kinds = "causal" if causal == len(model.layers) else "two-sided" if not causal else f"{causal} of them causal"
    kept = "the head mean" if work.kept == 1 else f"{work.kept} heads of each"
    band = "" if work.max_lag is None else f", lags below {work.max_lag}"
    lines = [
        ("model", f"{model.name}: {len(model.layers)} layers of {model.heads} heads, {kinds}; kept: {kept}{band}"),
        ("documents", f"{work.documents:,} of {work.tokens} tokens, {work.documents * work.tokens:,} tokens in all"),
        ("passes", f"{plan.passes:,} of {work.batch} documents ({_WAYS.get(work.way, work.way)})"),
        ("shards", f"{plan.shards:,} of {work.shard} documents, where fields go to disk"),
    ]
    if plan.seconds is not None:
        each = plan.seconds / work.documents
        shared = plan.seconds / (plan.workers or 1)
        lines.append(("time", f"{duration(shared)} to read all ({each:.2g} s a document), analysis aside"))
    if plan.workers is not None:
        lines += _sharing(plan, plan.workers)
    if plan.budget is not None:
        fits = [name for goal, name in GOALS.items() if plan.costs[goal].total <= plan.budget]
        lines.append(("budget", f"{size(plan.budget)}: enough for {', '.join(fits) if fits else 'none of these'}"))
    wide = max(len(name) for name, _ in lines)
    return "\n".join([*(f"{name:<{wide}}  {text}" for name, text in lines), "", *_table(plan)])


def _sharing(plan: Plan, workers: int) -> list[tuple[str, str]]:
    """What each worker takes, and what goes between them and the caller."""
    each, travels = -(-plan.shards // workers), plan.travels
    idle = f" ({plan.shards:,} shards are fewer than the workers)" if plan.shards < workers else ""
    return [
        (
            "workers",
            f"{workers}, each with a model of its own and up to {each:,} shards: up to "
            f"{size(plan.costs['store'].total)} for fields on disk, {size(plan.costs['statistics'].total)} for "
            f"statistics{idle}",
        ),
        (
            "travels",
            f"to workers up to {size(travels['tokens'])} of token ids; back up to {size(travels['statistics'])} of "
            f"statistics, or {size(travels['receipts'])} where workers write fields",
        ),
    ]


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 90:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


_WAYS = {
    "hooks": "hooks under eager attention",
    "function": "an attention function around eager",
    "blocks": "attention in blocks of query rows",
}


def _table(plan: Plan) -> list[str]:
    table = plan.table()
    body = [
        [_ROWS[str(name)], *("-" if value == 0 else size(value) for value in row)]
        for name, row in zip(table.index, table.to_numpy().tolist(), strict=True)
    ]
    rows = [["", *map(str, table.columns)], *body]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
