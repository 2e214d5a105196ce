"""The POD of one window whose Gram lies on disk: all eigenpairs where it fits in memory, else the leading ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from eddyscope.errors import InputError
from eddyscope.kernels.decay import FIT_RANKS
from eddyscope.kernels.gramblocks import PartSums
from eddyscope.kernels.lanczos import leading_pairs
from eddyscope.kernels.pod import RANK_TOLERANCE, Decomposition, decompose
from eddyscope.lagfield import FloatArray
from eddyscope.study.blockfields import GramFiles
from eddyscope.study.leadingtrust import Parts, trust_leading
from eddyscope.study.measures import APPROXIMATE, LEADING, Measures, measure, measure_leading
from eddyscope.study.options import Options
from eddyscope.study.podpart import KEPT_GRAM
from eddyscope.study.published import EIGENVALUE_FLOOR
from eddyscope.study.sample import Sample
from eddyscope.study.trusted import Trusted, trust_gram

_NO_GRAM = np.empty((0, 0))


@dataclass(frozen=True)
class BlockPod:
    """The POD of one window.

    Parameters
    ----------
    decomposition : Decomposition
    gram : array, shape (document, document)
        Empty where it is not kept.
    energy : float
        Sum of all eigenvalues, exact.
    measures : Measures
    trusted : Trusted, or None
        None without groups.
    leading : bool
        Whether these are the leading eigenpairs alone.
    residual : float
        Largest ``|K psi - lambda psi|`` as a share of the first eigenvalue; 0 of a full eigenproblem. Of a sketch the
        largest relative difference from exact eigenvalues on a sample.
    checked : int
        Documents of that sample; 0 where the eigenpairs are exact.
    """

    decomposition: Decomposition
    gram: FloatArray
    energy: float
    measures: Measures
    trusted: Trusted | None
    leading: bool
    residual: float = 0.0
    checked: int = 0


def ranks_known(documents: int, options: Options) -> int:
    """Eigenvalues of the field POD that are computed: N - 1 up to 4,000 documents, else the leading 200."""
    every = documents <= KEPT_GRAM and options.pod == "exact"
    return documents - 1 if every else min(LEADING, documents - 1)


def decomposed(
    files: GramFiles,
    window: int,
    sums: PartSums,
    parts: Parts,
    options: Options,
    sample: Sample,
    *,
    entries: int,
    keep_gram: bool,
) -> BlockPod:
    """Eigenpairs, measures, and what can be said of them.

    Parameters
    ----------
    files : GramFiles
    window : int
        0 is the one without a window.
    sums : PartSums
        Of this window.
    parts : Parts
        Whose sums they are.
    options : Options
    sample : Sample
    entries : int
        Entries that vary.
    keep_gram : bool
    """
    floor = EIGENVALUE_FLOOR if options.preset == "published" else None
    if files.documents > KEPT_GRAM:
        return _leading(files, window, sums, parts, options, sample, entries)
    gram = files.whole(window)
    found = decompose(gram)
    measures = measure(
        found.eigenvalues,
        options.tolerances,
        gram=sample.gram(gram),
        absolute_floor=floor,
        samples=max(1, sample.distinct.size - 1),
    )
    trusted = None
    if sample.groups is not None:
        trusted = trust_gram(
            gram,
            sample,
            entries=entries,
            tolerances=options.tolerances,
            seed=options.seed,
            floor=floor,
            follow_resolved=window == 0,
        )
    energy = float(np.trace(gram))
    return BlockPod(found, gram if keep_gram else _NO_GRAM, energy, measures, trusted, leading=False)


def _leading(
    files: GramFiles, window: int, sums: PartSums, parts: Parts, options: Options, sample: Sample, entries: int
) -> BlockPod:
    energy = float(sums.diagonal.sum())
    apply: Callable[[FloatArray], FloatArray] = lambda vectors: files.apply(window, vectors)  # noqa: E731
    pairs = leading_pairs(apply, files.documents, LEADING, seed=options.seed)
    if pairs.values.size < min(FIT_RANKS, files.documents):
        raise InputError(
            f"Only {pairs.values.size} leading eigenpairs of {files.documents} documents converged.",
            "Analyse fewer documents, or ask for pod='randomized' (--pod randomized), which is approximate.",
        )
    largest = max(float(pairs.values[0]), 0.0)
    values = np.where(pairs.values > RANK_TOLERANCE * largest * files.documents, pairs.values, 0.0)
    return leading_pod(
        Decomposition(values, pairs.vectors),
        energy,
        sums,
        parts,
        options,
        sample,
        entries=entries,
        follow_resolved=window == 0,
        residual=float(pairs.residuals.max(initial=0.0)) / largest if largest else 0.0,
    )


def leading_pod(
    found: Decomposition,
    energy: float,
    sums: PartSums,
    parts: Parts,
    options: Options,
    sample: Sample,
    *,
    entries: int,
    follow_resolved: bool,
    residual: float,
    checked: int = 0,
) -> BlockPod:
    """What can be said of leading eigenpairs, however they were found; see :class:`BlockPod`."""
    status = APPROXIMATE if checked else "ok"
    floor = EIGENVALUE_FLOOR if options.preset == "published" else None
    measures = measure_leading(
        found.eigenvalues,
        energy,
        options.tolerances,
        ratio=sums.participation_ratio(0),
        documents=sample.distinct.size,
        absolute_floor=floor,
        status=status,
    )
    trusted = None
    if sample.groups is not None:
        trusted = trust_leading(
            found.vectors,
            found.eigenvalues,
            sums,
            parts,
            sample,
            entries=entries,
            tolerances=options.tolerances,
            seed=options.seed,
            floor=floor,
            follow_resolved=follow_resolved,
        )
        if checked and trusted.resolved_status == "ok":
            trusted = replace(trusted, resolved_status=APPROXIMATE)
    return BlockPod(found, _NO_GRAM, energy, measures, trusted, leading=True, residual=residual, checked=checked)
