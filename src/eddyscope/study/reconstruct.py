"""Fields rebuilt from their leading modes: what the first patterns hold, and what they miss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from eddyscope.ensemble import AttentionEnsemble
from eddyscope.errors import InputError, UsageError
from eddyscope.kernels.gram import field_pass
from eddyscope.kernels.lagstats import take_out_mean
from eddyscope.kernels.pod import Decomposition, decompose
from eddyscope.lagfield import FloatArray, IntArray, LagField
from eddyscope.study.laganalysis import allowed_lags
from eddyscope.study.options import Options, make_options
from eddyscope.study.rows import mask_first_keys
from eddyscope.study.study import Study, layer_geometry

#: Largest difference between the mean field of the ensemble and that of the study.
SAME_FIELD = 1e-5


@dataclass(frozen=True)
class _Windowed:
    """The snapshots that a decomposition of the study was made from, and its window."""

    values: FloatArray  # (document, entry)
    field: LagField
    window: FloatArray  # (lag,)
    min_query: int


def reconstruct(
    study: Study,
    ensemble: AttentionEnsemble,
    layer: str | int,
    rank: int,
    band: int | None = None,
    head: str | int | None = None,
    documents: Sequence[int] | IntArray | None = None,
) -> xr.DataArray:
    """Rebuild the attention of documents from the first modes of a decomposition.

    Without a band, the mean field plus the first ``rank`` modes of the field POD without a window,
    ``Abar + sum_{k <= rank} a_k[s] phi_k``. With a band, the band's windowed fluctuation alone,
    ``sum_{k <= rank} a_k[s] phi_k``, which approaches ``w u_s``.

    Parameters
    ----------
    study : Study
    ensemble : AttentionEnsemble
        The one that the study was made from; a study does not hold its snapshots.
    layer : str or int
        Name or position.
    rank : int
        0 to N - 1; not only the modes that the study keeps. At N - 1 the field comes back as it was.
    band : int, optional
        Position of a band.
    head : str or int, optional
        Needed where each head was kept.
    documents : sequence of int, optional
        Which to rebuild; all by default.

    Returns
    -------
    xarray.DataArray, dimensions (document, query, key)
        NaN where the decomposition does not reach: keys that the query may not see, queries before ``min_query``,
        and without a band lags beyond ``max_lag``. With ``sink_pod="mask"`` it is the masked field that is rebuilt.

    Raises
    ------
    UsageError
        For a rank, band or document that there is not.
    InputError
        For an ensemble that is not the study's, or a head that is missing.

    Notes
    -----
    Over all documents the mean squared error, summed over entries, is ``sum_{k > rank} lambda_k``, and no other basis
    of this rank has a smaller one. The modes are not needed: with ``psi_k`` the eigenvectors of the snapshot Gram,
    ``sum_{k <= rank} a_k[s] phi_k = sum_s' (sum_{k <= rank} psi_k[s] psi_k[s']) v_s'``.
    """
    name = study.layer_name(layer)
    data = study.packed(name, head)
    if "head" in data.dims:
        raise InputError("This study keeps each head; one must be named.", f"Heads: {', '.join(data['head'].values)}.")
    options = make_options(**study.provenance["analysis"])
    source = _snapshots(ensemble, name, data, options, band)
    decomposition = _decomposition(data, source, band)
    if not 0 <= rank <= decomposition.eigenvalues.size:
        raise UsageError(f"rank must be 0 to {decomposition.eigenvalues.size}, got {rank}.")
    chosen = _chosen(documents, source.values.shape[0])
    leading = decomposition.vectors[:, : min(rank, decomposition.rank)]
    packed, mean = _rebuild(source, leading[chosen] @ leading.T, with_mean=band is None)
    _same_field(mean, data["packed_mean_field"].values, name)
    geometry = source.field.geometry
    return xr.DataArray(
        geometry.unpack(packed, fill=np.nan),
        dims=("document", "query", "key"),
        coords={"document": chosen, "query": np.arange(geometry.queries), "key": np.arange(geometry.keys)},
        name="reconstruction",
        attrs={
            "long_name": "attention rebuilt from the mean field and the first modes"
            if band is None
            else "windowed fluctuation rebuilt from the first modes",
            "units": "1",
            "layer": name,
            "rank": rank,
            "field": "raw" if options.sink_pod == "keep" else "masked",
        }
        | ({} if band is None else {"band": str(data["band_label"].values[band])}),
    )


def _snapshots(
    ensemble: AttentionEnsemble, name: str, data: xr.Dataset, options: Options, band: int | None
) -> _Windowed:
    field = ensemble[name].select_head(str(data["head"].values) if "head" in data.coords else 0)
    if field.geometry != layer_geometry(data) or field.documents != data.sizes["document"]:
        raise InputError(
            f"Layer '{name}' has {field!r} in the ensemble, but the study was made from {data.sizes['document']} "
            f"documents of {data.attrs['queries']} x {data.attrs['keys']}.",
            "Pass the ensemble that was analysed.",
        )
    if band is None:
        window = allowed_lags(field.lags, field.causal, options)
    elif 0 <= band < data.sizes["band"] and str(data["status"].values[band]) != "absent":
        window = data["window"].values[band]
    else:
        raise UsageError(f"band must be 0 to {int((data['status'] != 'absent').sum()) - 1}, got {band}.")
    values = mask_first_keys(field, options.sink_pod)[0]
    return _Windowed(values, field, window, int(data.attrs["min_query"]))


def _decomposition(data: xr.Dataset, source: _Windowed, band: int | None) -> Decomposition:
    """From the Gram that the study keeps, or a new one where N was too large to keep it."""
    if "gram" not in data:
        passed = field_pass(source.values, source.field.geometry, source.window[None], source.min_query)
        return decompose(passed.grams[0])
    return decompose(data["field_gram"].values if band is None else data["gram"].values[band])


def _chosen(documents: Sequence[int] | IntArray | None, count: int) -> IntArray:
    chosen = np.arange(count) if documents is None else np.atleast_1d(np.asarray(documents, dtype=np.int64))
    if chosen.size and not (chosen.min() >= 0 and chosen.max() < count):
        raise UsageError(f"documents must be 0 to {count - 1}, got {chosen.tolist()}.")
    return chosen


def _rebuild(source: _Windowed, mixing: FloatArray, with_mean: bool) -> tuple[FloatArray, FloatArray]:
    """Packed reconstruction, shape (document, entry), and the mean field, both NaN where no query is used.

    ``mixing`` is the projector on the leading coefficients, shape (document to rebuild, document).
    """
    geometry = source.field.geometry
    dtype = np.float64 if source.values.dtype == np.float64 else np.float32
    packed = np.full((mixing.shape[0], geometry.size), np.nan, dtype=dtype)
    mean = np.full(geometry.size, np.nan)
    for lag, weight in zip(geometry.lags, source.window, strict=True):
        run = geometry.run(int(lag), source.min_query)
        fluctuation = source.values[:, run].astype(np.float64)
        mean[run] = take_out_mean(fluctuation)
        if not with_mean:
            packed[:, run] = weight * (mixing @ fluctuation)
        elif weight > 0:
            packed[:, run] = mean[run] + mixing @ fluctuation
    return packed, mean


def _same_field(mean: FloatArray, of_study: FloatArray, name: str) -> None:
    difference = float(np.nanmax(np.abs(mean - of_study)))
    if difference > SAME_FIELD:
        raise InputError(
            f"The mean field of layer '{name}' differs from the study's by up to {difference:.3g}.",
            "Pass the ensemble that was analysed.",
        )
