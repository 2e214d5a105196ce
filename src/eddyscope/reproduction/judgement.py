"""From evidence to verdicts: each claim for each architecture it is about, and over all of them."""

from __future__ import annotations

from dataclasses import dataclass

from eddyscope.reproduction.claims import CLAIMS, Claim
from eddyscope.reproduction.criteria import OPEN, REFUTED, SUPPORTED, Finding
from eddyscope.reproduction.evidence import Evidence
from eddyscope.trust.seeds import MIN_SEEDS


@dataclass(frozen=True)
class Witness:
    """The trainings of one architecture and its untrained twins.

    Parameters
    ----------
    label : str
    variant : str
    size : str
        Key of everything but the variant; only equal sizes are compared with each other.
    trained, twins : tuple of Evidence
        One a seed.
    """

    label: str
    variant: str
    size: str
    trained: tuple[Evidence, ...]
    twins: tuple[Evidence, ...]


@dataclass(frozen=True)
class Row:
    """A verdict on one claim for one architecture.

    Parameters
    ----------
    label : str
    basis : str
        ``architecture (3 seeds)``, or that single models stand for it.
    finding : Finding
    counts : bool
        Whether the claim is about this architecture.
    """

    label: str
    basis: str
    finding: Finding
    counts: bool


@dataclass(frozen=True)
class Judged:
    """A claim with its verdicts.

    Parameters
    ----------
    claim : Claim
    rows : tuple of Row
    verdict : str
        Over all architectures that the claim is about.
    why : str
    """

    claim: Claim
    rows: tuple[Row, ...]
    verdict: str
    why: str


def judge(witnesses: list[Witness]) -> list[Judged]:
    """Judge every claim.

    Over several architectures a claim is supported when it is for each that it is about, and not supported when it is
    not for one of them, because the study says it of all.
    """
    return [_judged(claim, witnesses) for claim in CLAIMS]


def _judged(claim: Claim, witnesses: list[Witness]) -> Judged:
    rows = [row for witness in witnesses if (row := _row(claim, witness, witnesses)) is not None]
    counted = [row for row in rows if row.counts]
    verdicts = [row.finding.verdict for row in counted]
    if not counted:
        return Judged(claim, tuple(rows), OPEN, "No model that the claim is about took part.")
    against = [row.label for row in counted if row.finding.verdict == REFUTED]
    if against:
        where = f"{', '.join(against)} ({len(against)} of {len(counted)})"
        return Judged(claim, tuple(rows), REFUTED, f"Not supported in {where}: {_why(counted, REFUTED)}")
    if all(v == SUPPORTED for v in verdicts):
        return Judged(claim, tuple(rows), SUPPORTED, f"In all {len(counted)}: {_why(counted, SUPPORTED)}")
    unclear = [row.label for row in counted if row.finding.verdict == OPEN]
    return Judged(claim, tuple(rows), OPEN, f"Not resolved in {', '.join(unclear)}: {_why(counted, OPEN)}")


def _why(rows: list[Row], verdict: str) -> str:
    """The reason of the first row with this verdict; an architecture comes before a single model."""
    chosen = [row for row in rows if row.finding.verdict == verdict]
    return min(chosen, key=lambda row: not row.basis.startswith("architecture")).finding.why


def _row(claim: Claim, witness: Witness, witnesses: list[Witness]) -> Row | None:
    """None where the claim compares with another architecture that is not there, or is this one."""
    counts = witness.variant in claim.about
    if claim.against is None:
        finding = claim.judge(witness.trained, witness.twins)
        return Row(witness.label, _basis(len(witness.trained)), finding, counts)
    others = [w for w in witnesses if w.variant == claim.against and w.size == witness.size]
    if witness.variant == claim.against or not others or not _comparable(claim, witness):
        return None
    other = others[0]
    finding = claim.judge(witness.trained, witness.twins, other.trained, other.twins)
    seeds = min(len(witness.trained), len(other.trained))
    basis = (
        _basis(seeds)
        if seeds >= MIN_SEEDS
        else f"compares {_models(len(witness.trained))} with {_models(len(other.trained))}"
    )
    return Row(witness.label, basis, finding, counts)


def _comparable(claim: Claim, witness: Witness) -> bool:
    """The causal form of a variant is judged beside it."""
    return witness.variant.removesuffix("-causal") in claim.about


def _basis(seeds: int) -> str:
    if seeds >= MIN_SEEDS:
        return f"architecture ({seeds} seeds)"
    return f"{_models(seeds)}, not the architecture"


def _models(count: int) -> str:
    return "one model" if count == 1 else f"{count} models"
