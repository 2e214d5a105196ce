"""How a study came about, what was checked, and what was warned of."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from eddyscope.study.study import Study

#: What each warning means and what to do; the documentation says more.
EXPLAINED = {
    "beyond-context": "The documents are longer than the positions that the model was trained with, so attention there "
    "is an extrapolation. Choose --context within the model's limit.",
    "damaged-shard": "A shard of the capture was not as it had been written, and was captured again; the result is as "
    "if nothing had happened.",
    "dropped-documents": "Documents that gave NaN or Inf were left out of all layers. Half precision that overflows is "
    "the usual cause: read the model with --dtype float32.",
    "failed-checks": "A self-check of the capture failed and --allow-failed-checks went on. A layer whose rows do not "
    "sum to 1, or that sees later tokens, has no lag statistics that can be trusted.",
    "few-documents": "The text gave fewer windows than were asked for. Add text, shorten --context, or --overlap.",
    "little-space": "The fields may take more than the disk has free. The capture goes on as far as it gets; make "
    "room, or keep less (--heads mean, --half, --max-lag).",
    "masked-half": "lags='ahead' reads keys after the query, which carry no attention in a causal model. It is there "
    "to repeat what the published script computes.",
    "no-figures": "Something went wrong while the figures were drawn. This is a fault of Eddyscope; the results are "
    "whole.",
    "no-report": "Something went wrong while the report was written. This is a fault of Eddyscope; the results are "
    "whole.",
    "no-tokenizer": "The checkpoint comes without a tokenizer that can be read; token ids (--token-ids) need none.",
    "no-workers": "The cluster had no workers when the work was handed to it, and the work waited for some.",
    "other-versions": "Workers of the cluster had other versions of a library than the process that handed out the "
    "work. Sums may differ in their last bits between shards, which no result depends on.",
    "replaced-tokens": "Some tokens stand for something that the model's vocabulary does not have. A few do no harm; "
    "where there are many, the model was not made for this text.",
    "resumed-elsewhere": "The capture went on with another device, number of threads or library than it was begun "
    "with. Sums may differ in their last bits between shards, which no result depends on.",
    "rise-above-limit": "On documents that the plan has not seen the loss rises by more than was asked for. Ask for "
    "less, or give more documents.",
    "stopped-by-looking": "--documents auto read on until an interval was narrow enough. Such an interval is narrower, "
    "on average, than one at a number of documents fixed before: run once more with another --seed.",
    "strong-sink": "Some keys draw attention from everywhere, were not masked, and change the lag statistics by more "
    "than their intervals. The study keeps both results; --sink says which is in use.",
    "unequal-lengths": "Documents have different lengths, and the analysis uses the length of the shortest.",
}


@dataclass(frozen=True)
class CheckData:
    """One self-check over all layers: how often it passed, and its worst value."""

    name: str
    passed: int
    count: int
    worst: str
    tolerance: str
    failed: list[str]


@dataclass(frozen=True)
class ProvenanceData:
    """How the study came about.

    Parameters
    ----------
    rows : list of (str, str)
        What, and its value in words or JSON.
    checks : list of CheckData
    warnings : list of (str, str, str)
        Slug, message and explanation.
    notes : list of str
        What was left out.
    """

    rows: list[tuple[str, str]]
    checks: list[CheckData]
    warnings: list[tuple[str, str, str]]
    notes: list[str]


def provenance_data(study: Study) -> ProvenanceData:
    """From the study's own record."""
    kept = study.provenance
    warned = [(str(w.get("slug", "")), str(w.get("message", ""))) for w in kept.get("warnings", [])]
    return ProvenanceData(
        rows=list(_rows(kept)),
        checks=_checks(kept.get("checks", [])),
        warnings=[(slug, message, EXPLAINED.get(slug, "")) for slug, message in warned],
        notes=list(_notes(kept)),
    )


def _rows(kept: dict[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in (kept.get("model") or {}).items():
        yield f"model: {_plain(name)}", _text(value)
    text = dict(kept.get("text") or {})
    for source in text.pop("sources", []):
        size = f", {source['tokens']:,} tokens" if "tokens" in source else ""
        yield "text", f"{source.get('name', '')}{size}, sha256 {source.get('sha256', '')}"
    for name, value in text.items():
        yield f"documents: {_plain(name)}", _text(value)
    for group, title in (("file", "file"), ("options", "capture"), ("analysis", "analysis"), ("versions", "version")):
        for name, value in (kept.get(group) or {}).items():
            yield f"{title}: {_plain(name)}", _text(value)
    for name in ("source", "way", "device", "threads"):
        if kept.get(name) is not None:
            yield _plain(name), _text(kept[name])


def _notes(kept: dict[str, Any]) -> Iterable[str]:
    yield from map(str, kept.get("notes") or ())
    unread = kept.get("layers_without_attention") or {}
    if unread:
        yield f"Layers without attention to show: {', '.join(map(str, unread))}."
    if kept.get("documents_dropped"):
        yield f"Documents left out: {_text(kept['documents_dropped'])}."
    ahead = [float(c["value"]) for c in kept.get("checks", []) if c.get("check") == "looks ahead"]
    if ahead:
        yield (
            "Its layers see later tokens although their mask is causal: attention of earlier tokens moves by up to "
            f"{max(ahead):.2g} when later tokens change."
        )


def _checks(records: list[dict[str, Any]]) -> list[CheckData]:
    made = []
    for name in dict.fromkeys(str(r["check"]) for r in records):
        ones = [r for r in records if str(r["check"]) == name]
        values = [float(r["value"]) for r in ones if r.get("value") is not None]
        same = len({str(r.get("tolerance")) for r in ones}) == 1
        failed = [
            f"{r.get('layer') or 'the model'}: {r['value']} {r.get('note') or ''}" for r in ones if not r["passed"]
        ]
        made.append(
            CheckData(
                name,
                sum(bool(r["passed"]) for r in ones),
                len(ones),
                f"{max(values, key=abs):.3g}" if values else "–",
                f"{float(ones[0].get('tolerance') or 0):.3g}" if same else "each its own",
                failed,
            )
        )
    return made


def _plain(name: str) -> str:
    return str(name).replace("_", " ")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:,}" if isinstance(value, int) else f"{value:g}"
    return json.dumps(value, ensure_ascii=False, default=str)
