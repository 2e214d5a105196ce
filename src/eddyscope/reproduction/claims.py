"""The claims of the published study, each with the rule that decides on it, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eddyscope.reproduction.criteria import (
    ABOUT,
    AGREED,
    LEAST_OCTAVES,
    RANK,
    T_SPEC,
    Finding,
    complexity,
    concentration,
    distances,
    effective_ranks,
    energies,
    patterns,
    provision,
)


@dataclass(frozen=True)
class Claim:
    """A claim of the published study.

    Parameters
    ----------
    name : str
        ``C1`` to ``C7``.
    published : str
        What the study says.
    rule : str
        When it counts as supported, as not supported, or as neither.
    judge : callable
        Gets (trained, twins) or, where ``against`` names another architecture, (trained, twins, others, their twins).
    against : str or None
        Variant that the claim compares with.
    about : tuple of str
        Variants that the claim is about.
    """

    name: str
    published: str
    rule: str
    judge: Callable[..., Finding]
    against: str | None = None
    about: tuple[str, ...] = ("base", "ega-1", "ega-4", "ega-c")


CLAIMS = (
    Claim(
        "C1",
        "Early layers (1-2) concentrate energy at fine scales, a ≤ 7; late layers (5-6) at coarse ones, a ≥ 20.",
        "Supported when the energy-weighted mean octave of layers 5-6 exceeds that of layers 1-2 by more than the"
        " interval of the difference, and by more than untrained twins show. Not supported when it is lower, when"
        f" the difference is known to be below {LEAST_OCTAVES} octaves, or when twins show it too.",
        distances,
    ),
    Claim(
        "C2",
        "T_spec is about 1.0 in layers 1-2.",
        f"Supported when the interval of T_spec (published form, strongest scale) lies within {T_SPEC / ABOUT:g} "
        f"to {T_SPEC * ABOUT:g} in both layers and differs from the twins'. Not supported when an interval lies "
        "outside, when a resolved exponent does, or when twins give it too. Like is compared with like: the "
        "published form has a bias that depends on N, and N is the same. A failed fit is no 1.",
        concentration,
    ),
    Claim(
        "C3",
        "Modes: layer 2 oscillates at lags 2-10, layer 4 peaks at 10-35, layer 6 has several peaks over 10-40.",
        "On the first mode of the lag POD. Layer 2: two changes of sign at lags 2-10, which hold half of the "
        "energy. Layer 4: the largest modulus at 10-35. Layer 6: two maxima above half of the largest at 10-40. "
        f"Supported when each holds in {AGREED:.0%} of the jackknife replicates and the twins do not show all "
        f"three; not supported when one of them fails in {AGREED:.0%}.",
        patterns,
    ),
    Claim(
        "C4",
        "H*(0.10) > 150 in layers 1-2 (by definition at most 149 here, so read: not reached), about 91 in layers 3-6.",
        "On the bracket of H*(0.10), from its value in the sample to that from documents held out. Supported when"
        f" the upper bound is infinite in layers 1-2 and the bracket lies within {RANK / ABOUT:.0f} to "
        f"{RANK * ABOUT:.0f} in layers 3-6, and twins do not give that. Not supported when the upper bound is "
        "finite in layer 1 or 2, or when a bracket of layers 3-6 lies outside.",
        effective_ranks,
    ),
    Claim(
        "C5",
        "The scalogram energy of the gated models is higher in every layer.",
        "Supported when the ratio to the standard model (raw field, all scales and positions, paired over "
        "documents) is above 1 beyond its interval in every layer. Not supported when it is below 1 in some layer"
        " after Holm's correction.",
        energies,
        against="base",
        about=("ega-1", "ega-4", "ega-c"),
    ),
    Claim(
        "C6",
        "The EGA-1 model is slightly more complex than the standard one in layers 3-4, and less in layers 5-6.",
        "Supported when the participation ratio over that of the standard model (paired, mean of the logarithms) "
        "is above 1 in layers 3-4 and below 1 in layers 5-6, both beyond the interval, and twins do not differ "
        "so. Not supported when one of them is the other way round beyond its interval.",
        complexity,
        against="base",
        about=("ega-1",),
    ),
    Claim(
        "C7",
        "Uniform head counts over-provide deep layers and under-provide early ones.",
        "Supported when the effective number of patterns over heads falls with depth: the interval of its rank "
        "correlation with the layer lies below 0, and that of the twins does not. Not supported when it rises, or"
        " when it falls in twins too.",
        provision,
    ),
)
