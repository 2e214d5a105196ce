"""Cross-coherence of a layer at one scale, as labelled results."""

from __future__ import annotations

import numpy as np
import xarray as xr

from eddyscope.ensemble import AttentionEnsemble
from eddyscope.errors import InputError, UsageError
from eddyscope.kernels.coherence import key_transform, leakage_share, packed_coherence
from eddyscope.kernels.gram import mean_and_energy
from eddyscope.kernels.pairs import PairStatistics, field_pairs
from eddyscope.lagfield import ComplexArray, FloatArray, LagField
from eddyscope.schema import attributes
from eddyscope.study.published import OMEGA0

#: Within this many scales of the query the same wavelet sees the same noise.
NEAR_SCALES = 4

#: Leakage above this share of the power could pass for a coherence of 0.1, which is what chance gives at N = 100.
MAX_LEAKAGE = 0.01

#: Mean field and mean squared fluctuation, packed, in float64.
Moments = tuple[FloatArray, FloatArray]


def field_coherence(
    field: LagField,
    scale: float,
    *,
    omega0: float = 6.0,
    of: str = "fluctuation",
    length: int | None = None,
    moments: Moments | None = None,
) -> ComplexArray:
    """Complex coherence of one head's field, shape (query, key).

    NaN for keys the query may not see and, of the fluctuation, for keys where more than 1 % of the power is the
    wavelet's tail over louder keys. The raw field is left as the published script gives it. ``moments``: mean field
    and energy of the fluctuation where they are known already.

    Raises
    ------
    InputError
        Where the field is not square or keeps only a band of lags: rows along the key axis are then incomplete.
    """
    _refuse_incomplete(field)
    geometry, values = field.geometry, field.values[:, 0]
    transform = key_transform(geometry.keys, scale, omega0, length)
    if of != "fluctuation":
        return packed_coherence(values, geometry, transform)
    mean, energy = moments or mean_and_energy(values, geometry)
    gamma = packed_coherence(values, geometry, transform, mean)
    gamma[leakage_share(geometry.unpack(energy), transform, scale) > MAX_LEAKAGE] = np.nan
    return gamma


def field_pair_statistics(
    field: LagField, scale: float, *, omega0: float = 6.0, moments: Moments | None = None
) -> PairStatistics:
    """Coherence of one head's fluctuation with its chance level, phase consistency and amplitude correlation.

    The coherence is that of :func:`field_coherence`, and all four are NaN where it is.
    """
    _refuse_incomplete(field)
    geometry, values = field.geometry, field.values[:, 0]
    transform = key_transform(geometry.keys, scale, omega0, None)
    mean, energy = moments or mean_and_energy(values, geometry)
    pairs = field_pairs(values, geometry, transform, mean)
    leaking = leakage_share(geometry.unpack(energy), transform, scale) > MAX_LEAKAGE
    for map_ in (pairs.coherence, pairs.chance, pairs.phase_consistency, pairs.amplitude_correlation):
        map_[leaking] = np.nan
    return pairs


def _refuse_incomplete(field: LagField) -> None:
    geometry = field.geometry
    if not geometry.whole:
        raise InputError(
            f"Coherence needs square attention with all lags, got {geometry.queries} queries, {geometry.keys} keys "
            f"and max_lag={geometry.max_lag}.",
            "Capture without max_lag.",
        )


def coherence(
    ensemble: AttentionEnsemble,
    layer: str | int,
    scale: float,
    *,
    of: str = "fluctuation",
    head: str | int = 0,
    omega0: float = 6.0,
    preset: str | None = None,
) -> xr.Dataset:
    """Cross-coherence of one layer at any scale.

    ``gamma_ij(a) = |<W_i(i) conj W_i(j)>| / sqrt(<|W_i(i)|^2> <|W_i(j)|^2>)`` over documents, ``W_i`` the Morlet
    transform of row i along the key axis, zero beyond both ends: how steadily the pattern at key position j keeps its
    phase relation to the pattern at the query's own position.

    Parameters
    ----------
    ensemble : AttentionEnsemble
    layer : str or int
        Name or index.
    scale : float
        a, in tokens.
    of : {"fluctuation", "raw"}
    head : str or int
        Where each head was kept.
    omega0 : float
    preset : {"published"}, optional
        omega0 = 5, the raw field and a transform of length 2T, as the published script.

    Returns
    -------
    xarray.Dataset
        ``coherence`` and ``coherence_phase`` (scale, query, key), and ``near`` (scale, query, key): keys within
        4 scales, where chance alone gives ``exp(-(i - j)^2 / 4 a^2)``. Beyond it chance gives about 1/sqrt(N).

    Raises
    ------
    UsageError, InputError
    """
    if of not in ("fluctuation", "raw"):
        raise UsageError(f"of must be fluctuation or raw, got {of!r}.")
    if not scale > 0:
        raise UsageError(f"scale must be positive (tokens), got {scale!r}.")
    field = ensemble[layer].select_head(head)
    length = None
    if preset == "published":
        omega0, of, length = OMEGA0, "raw", 2 * field.geometry.keys
    elif preset is not None:
        raise UsageError(f"preset must be published or left out, got {preset!r}.")
    gamma = field_coherence(field, scale, omega0=omega0, of=of, length=length)
    apart = np.abs(np.arange(gamma.shape[0])[:, None] - np.arange(gamma.shape[1])[None, :])
    dims = ("scale", "query", "key")
    common = {"omega0": omega0, "field": of, "layer": ensemble.layer_name(layer), "documents": ensemble.count}
    return xr.Dataset(
        {
            "coherence": (dims, np.abs(gamma)[None], attributes("coherence", **common)),
            "coherence_phase": (dims, np.angle(gamma)[None], attributes("coherence_phase", **common)),
            "near": (dims, (apart < NEAR_SCALES * scale)[None]),
        },
        coords={"scale": [scale], "query": np.arange(gamma.shape[0]), "key": np.arange(gamma.shape[1])},
    )
