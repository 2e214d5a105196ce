"""The POD of one field as variables, with what is drawn over queries and keys; or what stands in its place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eddyscope.kernels.gram import FieldPass
from eddyscope.kernels.pairs import PairStatistics
from eddyscope.lagfield import ComplexArray, FloatArray, LagField, LagGeometry
from eddyscope.study.bands import Band
from eddyscope.study.coherence import field_coherence, field_pair_statistics
from eddyscope.study.laganalysis import padded
from eddyscope.study.lagpart import Variables, measure_variables
from eddyscope.study.measures import NOT_KEPT, Measures, measure
from eddyscope.study.modes import Pod
from eddyscope.study.options import Options
from eddyscope.study.published import EIGENVALUE_FLOOR
from eddyscope.study.sample import Sample
from eddyscope.study.spectra import Spectra

#: Grams are kept in a study up to this many documents.
KEPT_GRAM = 4000


def pod_variables(pods: list[Pod], options: Options, sample: Sample, ranks: int) -> Variables:
    """Decompositions of every band, and of the field without a window."""
    return {
        **_decomposition_variables("", pods[1:], ("band",), options, sample, ranks),
        **_decomposition_variables("field_", pods[:1], (), options, sample, ranks),
    }


def _decomposition_variables(
    prefix: str, pods: list[Pod], dims: tuple[str, ...], options: Options, sample: Sample, ranks: int
) -> Variables:
    """Eigenvalues, modes, coefficients and measures; ``dims`` is ("band",), or () for the one without a window."""
    variables = decomposition_variables(
        prefix, pods, dims, options, ranks, [measured(p, options, sample) for p in pods]
    )
    if pods[0].gram.shape[0] <= KEPT_GRAM:
        grams = [p.gram for p in pods]
        variables[f"{prefix}gram"] = ((*dims, "document", "other_document"), np.stack(grams) if dims else grams[0])
    return variables


def measured(pod: Pod, options: Options, sample: Sample) -> Measures:
    """Measures of a decomposition of which all eigenvalues and the Gram are known."""
    return measure(
        pod.eigenvalues,
        options.tolerances,
        gram=sample.gram(pod.gram),
        absolute_floor=EIGENVALUE_FLOOR if options.preset == "published" else None,
        samples=max(1, sample.distinct.size - 1),
    )


def decomposition_variables(
    prefix: str, pods: list[Pod], dims: tuple[str, ...], options: Options, ranks: int, measures: list[Measures]
) -> Variables:
    """The same but for the Grams, where the measures are known already."""

    def stacked(arrays: list[FloatArray]) -> FloatArray:
        return np.stack(arrays) if dims else arrays[0]

    count = options.modes
    return {
        f"{prefix}eigenvalues": ((*dims, "rank"), stacked([padded(p.eigenvalues, ranks) for p in pods])),
        f"packed_{prefix}modes": ((*dims, "mode", "entry"), stacked([_filled(p.modes, count) for p in pods])),
        f"{prefix}mode_profile": ((*dims, "mode", "lag"), stacked([_filled(p.profiles, count) for p in pods])),
        f"{prefix}coefficients": (
            (*dims, "document", "mode"),
            stacked([_filled(p.coefficients.T, count).T for p in pods]),
        ),
        **measure_variables(prefix, measures, dims),
    }


def no_pod_variables(options: Options, bands: int, ranks: int, lags: int) -> Variables:
    """What stands in their place where the fields were not kept: everything NaN, with the status that says why.

    Modes, coefficients and Grams, which would be large, are left out.
    """
    nothing = measure(np.full(ranks, np.nan), options.tolerances, without_energy=NOT_KEPT)
    statuses = [NOT_KEPT] * len(options.tolerances)
    nothing = replace(nothing, effective_rank=np.full(len(statuses), np.nan), effective_rank_status=statuses)
    variables: Variables = {}
    for prefix, shape in (("field_", {}), ("", {"band": bands})):
        variables |= {
            f"{prefix}eigenvalues": ((*shape, "rank"), np.full((*shape.values(), ranks), np.nan)),
            f"{prefix}mode_profile": (
                (*shape, "mode", "lag"),
                np.full((*shape.values(), options.modes, lags), np.nan),
            ),
            **measure_variables(prefix, [nothing] * (bands if shape else 1), tuple(shape)),
        }
    return variables | {"early_share": ((), np.nan), "coherence_scale": (("band",), np.full(bands, np.nan))}


def field_variables(geometry: LagGeometry, mean: FloatArray, by_query: FloatArray, min_query: int) -> Variables:
    """Mean field and where the fluctuation is.

    Parameters
    ----------
    geometry : LagGeometry
    mean : array, shape (entry,)
        As it is to be kept.
    by_query : array, shape (query,)
        Fluctuation energy of each query.
    min_query : int
    """
    fluctuation = float(by_query[min_query:].sum())
    total = fluctuation + float((mean[geometry.query_mask(min_query)].astype(np.float64) ** 2).sum())
    whole = float(by_query.sum())
    return {
        "packed_mean_field": (("entry",), mean),
        "fluctuation_level": ((), fluctuation / total if total > 0 else np.nan),
        "energy_by_query": (("query",), by_query / whole if whole > 0 else np.full(geometry.queries, np.nan)),
    }


def early_share(geometry: LagGeometry, pod: Pod) -> float:
    """Share of the first mode's energy in the first eighth of the queries."""
    early = geometry.entry_query < max(1, geometry.queries // 8)
    return float((pod.modes[0].astype(np.float64)[early] ** 2).sum())


def coherence_variables(
    field: LagField,
    options: Options,
    bands: list[Band],
    found: Spectra,
    against_chance: bool,
    passed: FieldPass | None = None,
) -> Variables:
    """Coherence at the scale of the first band; of an octave band at the scale whose wavelength is its lag.

    ``passed``: where the field has been passed through already.
    """
    wanted = coherence_scale(field.geometry, bands, found)
    if np.isnan(wanted):
        return no_coherence(len(bands))
    published = options.preset == "published"
    moments = None if passed is None else (passed.mean, passed.energy)
    if against_chance and not published:
        pairs = field_pair_statistics(field, wanted, omega0=options.omega0, moments=moments)
        return coherence_maps(pairs, field.geometry, wanted, len(bands))
    gamma = field_coherence(
        field,
        wanted,
        omega0=options.omega0,
        of="raw" if published else "fluctuation",
        length=2 * field.geometry.keys if published else None,
        moments=moments,
    )
    return coherence_maps(gamma, field.geometry, wanted, len(bands))


def coherence_scale(geometry: LagGeometry, bands: list[Band], found: Spectra) -> float:
    """Scale at which coherence is computed; NaN where rows are incomplete along the key axis."""
    first = bands[0]
    if not geometry.whole or first.whole:
        return float("nan")
    if first.octaves:
        return float(found.scales[np.abs(np.log(found.wavelengths / max(first.lag, 1.0))).argmin()])
    return first.scale


def no_coherence(bands: int) -> Variables:
    """What stands in the place of coherence where there is none."""
    return {"coherence_scale": (("band",), np.full(bands, np.nan))}


def coherence_maps(pairs: PairStatistics | ComplexArray, geometry: LagGeometry, scale: float, bands: int) -> Variables:
    """Coherence as variables, with its chance level, phase consistency and amplitude correlation where these are known.

    Parameters
    ----------
    pairs : PairStatistics, or complex array of shape (query, key)
    geometry : LagGeometry
    scale : float
    bands : int
    """
    pack, beside = geometry.pack, {}
    gamma = pairs.coherence if isinstance(pairs, PairStatistics) else pairs
    if isinstance(pairs, PairStatistics):
        for name in ("coherence_chance", "phase_consistency", "amplitude_correlation"):
            values = getattr(pairs, name.removeprefix("coherence_"))
            beside[f"packed_{name}"] = (("entry",), pack(values).astype(np.float32))
    scales = np.full(bands, np.nan)
    scales[0] = scale
    return {
        **beside,
        "coherence_scale": (("band",), scales),
        "packed_coherence": (("entry",), pack(np.abs(gamma)).astype(np.float32)),
        "packed_coherence_phase": (("entry",), pack(np.angle(gamma)).astype(np.float32)),
    }


def _filled(patterns: FloatArray, count: int) -> FloatArray:
    """Bring (mode, ...) to ``count`` modes, NaN where the ensemble has fewer."""
    missing = count - patterns.shape[0]
    if missing <= 0:
        return patterns
    return np.concatenate([patterns, np.full((missing, *patterns.shape[1:]), np.nan, dtype=patterns.dtype)])
