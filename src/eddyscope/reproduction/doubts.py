"""What to distrust in the study as published, each with what this run measured."""

from __future__ import annotations

from collections import Counter

import numpy as np

from eddyscope.reproduction.blocks import Block, Heading, Paragraph, Table
from eddyscope.reproduction.evidence import LAYERS
from eddyscope.reproduction.pipeline import Reproduction
from eddyscope.reproduction.records import Record, script_rank
from eddyscope.reproduction.tables import number

_LAYERS = tuple(f"layer {k + 1}" for k in range(LAYERS))


def doubt_blocks(found: Reproduction) -> list[Block]:
    """The section of the page."""
    return [
        Heading(2, "What to distrust"),
        *_masked_half(found),
        *_ranks(found),
        *_fits(found),
        *_gates(found),
    ]


def _masked_half(found: Reproduction) -> list[Block]:
    records, documents = found.records, len(found.documents)
    zeros, at_0, last = (
        np.mean([row["ahead"][name] for r in records for row in r.rows])
        for name in ("zeros", "energy_at_0", "energy_of_last")
    )
    late = [script_rank(row["ahead"]["h"][0], documents) for r in records for row in r.rows[2:]]
    early = [script_rank(row["ahead"]["h"][0], documents) for r in records for row in r.rows[:2]]
    rows = []
    for record in records:
        for what, cells in (
            ("T_spec, masked half", [number(r["ahead"]["t_spec"]) for r in record.rows]),
            ("T_spec, allowed half", [number(r["published"]["t_spec"][0]) for r in record.rows]),
            ("H*(0.10) as printed, masked half", [_printed(r["ahead"], documents) for r in record.rows]),
            ("H*(0.10) as printed, allowed half", [_printed(r["published"], documents) for r in record.rows]),
        ):
            rows.append((record.member.name, what, *cells))
    return [
        Heading(3, "The script reads the masked half"),
        Paragraph(
            "The published script takes `A[i, i + s]`: keys after the query, which a causal mask forbids. Of what it "
            f"reads here {zeros:.1%} is exactly zero. The rest is the attention of each token to itself, at s = 0 "
            f"({at_0:.0%} of the energy), and that of the last token to itself, which the script repeats along the "
            f"whole axis because no key is left ({last:.0%}). So its scalogram is that of an impulse and a constant, "
            "and its POD one of the diagonal. What it then gives: H*(0.10), as printed, of "
            f"{min(early):.0f} to {max(early):.0f} in layers 1-2 and {min(late):.0f} to {max(late):.0f} in layers 3-6, "
            "where the study reports more than 150 and about 91. All other tables here read the allowed half, also "
            "those of the preset `published`."
        ),
        Table(("model", "", *_LAYERS), tuple(rows)),
    ]


def _printed(row: dict[str, np.ndarray], documents: int) -> str:
    return f"{script_rank(row['h'][0], documents):.0f}"


def _ranks(found: Reproduction) -> list[Block]:
    documents = len(found.documents)
    rows = []
    for record in found.records:
        at = np.stack([r["defaults"]["h_at"] for r in record.rows])
        read = record.rows[0]["defaults"]["documents_at"]
        for column in range(at.shape[1]):
            shares = [f"{h:.0f} ({h / read[column]:.0%})" for h in at[:, column]]
            rows.append((record.member.name, f"{read[column]:.0f} documents", *shares))
    capture = [r["defaults"]["capture"] for record in found.records for r in record.rows]
    return [
        Heading(3, "H* is off by one, capped, and says how many documents were read"),
        Paragraph(
            "The script adds 1 to an index that already counts patterns, and cuts at N: it prints "
            f'`min(H* + 1, {documents})`. By definition H* is at most N - 1 = {documents - 1}, so "> 150" cannot be '
            "measured with 150 documents. And where H* grows with N it is no property of the model: below, H*(0.10) "
            "by our defaults at a quarter, a half and all of the documents, in brackets its share of them. Patterns "
            f"of 80 % of the documents hold {min(capture):.0%} to {max(capture):.0%} of the energy of the others."
        ),
        Table(("model", "", *_LAYERS), tuple(rows)),
    ]


def _fits(found: Reproduction) -> list[Block]:
    counted = Counter(status for record in found.records for status in record.fits)
    total = sum(counted.values())
    failed = {s: n for s, n in counted.items() if s not in ("ok", "not a power law")}
    listed = "none failed" if not failed else ", ".join(f"{n} {s}" for s, n in failed.items())
    return [
        Heading(3, "A failed fit silently becomes T_spec = 1"),
        Paragraph(
            "Where the script cannot fit a power law it goes on with T_spec = 1, the value that claim C2 reports. Of "
            f"the {total} published fits of this run (each model and layer, on both halves) {listed}; "
            f"{counted['not a power law']} are not a power law. To see one fail: with {len(found.documents)} times "
            f"the same document there is nothing to fit, Eddyscope says `{found.failed_fit}` and gives no number, and "
            "the script gives 1."
        ),
    ]


def _gates(found: Reproduction) -> list[Block]:
    rows = [_gate(record) for record in found.records]
    return [
        Heading(3, "The published gate sees the future"),
        Paragraph(
            "The published gates normalise their energies over the whole sequence, so attention and logits of a "
            "token depend on later ones, and the loss of such a model is not that of a causal language model. Below: "
            "the largest change of a logit before the middle of 16 documents when the tokens after it are replaced "
            "(rounding gives below 0.001); the loss on the documents of this study (nats per character); and what it "
            "gains when the same model's gates take mean and deviation up to the key."
        ),
        Table(("model", "looks ahead", "earlier logits move by", "loss", "loses without the look ahead"), tuple(rows)),
    ]


def _gate(record: Record) -> tuple[str, ...]:
    gate = record.gate
    deprived = gate.deprived
    cost = "" if deprived is None else f"{deprived.value:+.4f} ({deprived.low:+.4f} to {deprived.high:+.4f})"
    return record.member.name, "yes" if gate.looks_ahead else "no", f"{gate.moved:.1e}", f"{gate.loss:.4f}", cost
