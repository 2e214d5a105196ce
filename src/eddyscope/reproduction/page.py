"""The page of the study: verdicts first, then each claim, what to distrust, tables and figures."""

from __future__ import annotations

import pandas as pd

from eddyscope.reproduction.blocks import Block, Heading, Image, Paragraph, Table
from eddyscope.reproduction.doubts import doubt_blocks
from eddyscope.reproduction.judgement import Judged
from eddyscope.reproduction.pipeline import TWINS, Reproduction
from eddyscope.reproduction.tables import energy_table, model_table, rank_table, t_spec_table
from eddyscope.trust.seeds import MIN_SEEDS

#: Figures of each study, with what they are called.
DRAWN = {
    "scalograms": "Scalograms by layer",
    "mode_profiles": "Mode profiles of layers 2, 4 and 6",
    "coherence": "Coherence maps",
}
PRESETS = {"published": "preset published", "defaults": "our defaults"}


def page_blocks(found: Reproduction, figures: dict[tuple[str, str, str], str], overview: str | None) -> list[Block]:
    """The page as data.

    Parameters
    ----------
    found : Reproduction
    figures : dict
        Path of each figure relative to the page, by model, preset and name.
    overview : str or None
        Path of the figure of what the claims rest on.
    """
    return [
        Heading(1, "The published study, repeated and judged"),
        *_introduction(found),
        Heading(2, "Verdicts"),
        Table(
            ("claim", "published", "verdict", "why"),
            tuple((j.claim.name, j.claim.published, f"**{j.verdict}**", j.why) for j in found.judged),
        ),
        Paragraph(
            "A claim that the study makes of several models is supported when it is in each of them, and not supported "
            "when one of them says otherwise beyond its interval. *Not resolved* means that these documents and seeds "
            "cannot tell. The criteria are code (`eddyscope/reproduction/criteria.py`) and were fixed before looking."
        ),
        *([Image(overview, "What the claims rest on, layer by layer")] if overview else []),
        *_models(found),
        Heading(2, "Claim by claim"),
        *(block for judged in found.judged for block in _claim(judged)),
        *doubt_blocks(found),
        *_tables(found),
        *_figures(found, figures),
    ]


def _introduction(found: Reproduction) -> list[Block]:
    return [
        Paragraph(
            "The study is *Multiscale POD of Transformer Attention Fields* (arXiv 2606.06573). Here "
            f"{len(found.records)} trained models, and {TWINS} untrained twins of each architecture, read "
            f"{len(found.documents)} documents of {found.documents.context} characters: {found.description}. Intervals "
            "are 95 %, by the jackknife over groups of documents; differences are paired over documents. Layers are "
            "counted from 1, as in the study."
        ),
        Paragraph(_basis(found)),
    ]


def _basis(found: Reproduction) -> str:
    many = [a.label for a in found.architectures if len(a.members) >= MIN_SEEDS]
    few = [a.label for a in found.architectures if len(a.members) < MIN_SEEDS]
    said = []
    if many:
        said.append(
            f"Verdicts on {', '.join(many)} are about the architecture: they rest on at least {MIN_SEEDS} training "
            "seeds, and their intervals include the spread between them."
        )
    if few:
        said.append(
            f"Verdicts on {', '.join(few)} are about single models: they compare these trainings, and another "
            f"seed of the same architecture may differ (an architecture needs {MIN_SEEDS})."
        )
    return " ".join(said)


def _models(found: Reproduction) -> list[Block]:
    notes = [Paragraph(" ".join(found.notes))] if found.notes else []
    return [Heading(2, "Models"), frame(model_table(found)), *notes]


def _claim(judged: Judged) -> list[Block]:
    claim = judged.claim
    rows = tuple(
        (
            row.label if row.counts else f"{row.label} (not in the study)",
            row.basis,
            row.finding.measured,
            row.finding.null,
            row.finding.verdict,
            row.finding.why,
        )
        for row in judged.rows
    )
    return [
        Heading(3, f"{claim.name}: {judged.verdict}"),
        Paragraph(f"Published: {claim.published}"),
        Paragraph(f"Criterion: {claim.rule}"),
        Table(("architecture", "rests on", "measured", "untrained twins", "verdict", "why"), rows),
    ]


def _tables(found: Reproduction) -> list[Block]:
    return [
        Heading(2, "Tables"),
        Heading(3, "T_spec"),
        Paragraph(
            "*published*: first 30 eigenvalues at the strongest scale, with the interval of the documents. *ours*: the "
            "resolved exponent of the field POD, a number only where two halves of the documents agree on 8 patterns."
        ),
        frame(t_spec_table(found)),
        Heading(3, "H*"),
        Paragraph(
            "*published*: in the sample, by its definition (the script prints one more). *ours, bracket*: from the "
            "value in the sample to the one from documents held out; ∞ where no number of patterns holds so much of "
            "their energy."
        ),
        frame(rank_table(found)),
        Heading(3, "Scalogram energy"),
        Paragraph(
            "*published*: raw field, summed over scales and positions, a mean over documents and rows. *ours*: "
            "fluctuation, key 0 masked, mean over the cone of influence, summed over the scales that neither Nyquist "
            "nor the edges touch. The two have different units; compare models within a convention."
        ),
        frame(energy_table(found)),
    ]


def _figures(found: Reproduction, figures: dict[tuple[str, str, str], str]) -> list[Block]:
    """The three figures of the standard model in both conventions, and where those of the others are."""
    if not figures:
        return []
    shown = found.records[0].member.name
    blocks: list[Block] = [
        Heading(2, "Figures"),
        Paragraph(
            f"Of `{shown}`; layers are named from 0 in them. Those of every model are in `figures/`, by model and "
            "convention."
        ),
    ]
    for name, title in DRAWN.items():
        blocks.append(Heading(3, title))
        for preset, words in PRESETS.items():
            blocks.append(Image(figures[shown, preset, name], f"{title}, {shown}, {words}"))
    return blocks


def frame(table: pd.DataFrame) -> Table:
    """A table of strings as a block."""
    rows = tuple(tuple(str(cell) for cell in row) for row in table.itertuples(index=False))
    return Table(tuple(map(str, table.columns)), rows)
