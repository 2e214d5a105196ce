"""Tables of null models: values, replicates, paired differences to the trained model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr

from eddyscope.kernels.decay import MIN_POINTS, fit_decay
from eddyscope.kernels.laggroups import LagGroups
from eddyscope.kernels.rank import effective_rank
from eddyscope.lagfield import FloatArray
from eddyscope.schema import attributes
from eddyscope.study.quantities import QUANTITIES
from eddyscope.study.trusted import MEASURES
from eddyscope.trust.differences import holm, paired_difference
from eddyscope.trust.spectrum import SCALES, lag_spectrum, lag_spectrum_measures

_RANKS = ("effective_rank_0", "effective_rank_1", "effective_rank_2")
#: What is kept of a null model, in the order of the coordinate ``null_measure``.
NULL_MEASURES = (
    "median_lag",
    *QUANTITIES,
    *(f"{prefix}{name}" for prefix in ("field_", "lag_") for name in MEASURES),
    *(f"{prefix}{name}" for prefix in ("field_", "lag_") for name in _RANKS),
)
#: Measures whose difference is one of logarithms, so a ratio.
RATIOS = tuple(f"{prefix}{name}" for prefix in ("field_", "lag_") for name, scale in SCALES.items() if scale == "log")
#: Columns of the summary, beside effective ranks, and which of these they are; T_spec follows from beta.
_COLUMNS = {
    "median_lag": "median_lag",
    "sink_mass": "sink_mass",
    "fluctuation_level": "fluctuation_level",
    "beta_published": "field_beta_published",
    "r2": "field_r2",
    "participation_ratio": "field_participation_ratio",
    "beta_resolved": "field_beta_resolved",
    "lag_beta_published": "lag_beta_published",
    "lag_participation_ratio": "lag_participation_ratio",
    "lag_beta_resolved": "lag_beta_resolved",
}


def table_of(data: xr.Dataset) -> xr.Dataset:
    """Values and replicates of one layer in the order of :data:`NULL_MEASURES`, and what figures draw.

    Parameters
    ----------
    data : xarray.Dataset
        Packed results of a layer that was analysed with intervals.
    """
    if "head" in data.dims:
        return xr.concat([table_of(data.isel(head=i)) for i in range(data.sizes["head"])], "head")
    groups = data.sizes["jackknife_group"] if "jackknife_group" in data.dims else 0
    values, replicates = np.full(len(NULL_MEASURES), np.nan), np.full((groups, len(NULL_MEASURES)), np.nan)
    for index, name in enumerate(NULL_MEASURES):
        values[index], parts = _entry(data, name)
        if parts is not None:
            replicates[:, index] = parts
    return _table(
        values,
        replicates,
        octave_density=data["octave_density"].variable,
        spectrum=data["spectrum"].variable[2, 0],
        eigenvalues=data["field_eigenvalues"].variable,
        lag_eigenvalues=data["lag_eigenvalues"].variable,
        curve=_curve(data, "field_"),
        lag_curve=_curve(data, "lag_"),
    )


def from_spectrum(sums: LagGroups, tolerances: tuple[float, ...]) -> xr.Dataset:
    """The same where there is a lag POD and nothing else."""
    groups = sums.counts.size
    full = lag_spectrum(sums.covariance(np.ones(groups, dtype=bool)))
    values, replicates = np.full(len(NULL_MEASURES), np.nan), np.full((groups, len(NULL_MEASURES)), np.nan)
    columns = [NULL_MEASURES.index(f"lag_{name}") for name in SCALES]
    values[columns] = lag_spectrum_measures(full)
    replicates[:, columns] = [lag_spectrum_measures(lag_spectrum(sums.without(g))) for g in range(groups)]
    for index, tolerance in enumerate(tolerances[: len(_RANKS)]):
        values[NULL_MEASURES.index(f"lag_{_RANKS[index]}")] = effective_rank(full, tolerance)
    return _table(values, replicates)


def _table(values: FloatArray, replicates: FloatArray, **more: xr.Variable) -> xr.Dataset:
    return xr.Dataset(
        {
            "value": (("null_measure",), values),
            "replicates": (("jackknife_group", "null_measure"), replicates),
            **more,
        }
    )


def _entry(data: xr.Dataset, name: str) -> tuple[float, FloatArray | None]:
    prefix = next((p for p in ("field_", "lag_") if name.startswith(p)), "")
    stem = name.removeprefix(prefix)
    if stem in _RANKS:
        ranks = data[f"{prefix}effective_rank"].values
        index = _RANKS.index(stem)
        return (float(ranks[index]) if index < ranks.size else float("nan")), None
    if name in QUANTITIES:
        index = list(QUANTITIES).index(name)
        return float(data[name]), np.asarray(data["quantity_replicates"].values[:, index])
    if stem in MEASURES:
        return float(data[name]), np.asarray(data[f"{prefix}measure_replicates"].values[:, MEASURES.index(stem)])
    return float(data[name]), None


def _curve(data: xr.Dataset, prefix: str) -> xr.Variable:
    """Resolved variances of all documents first, then of the replicates; cut at the window."""
    window = int(data[f"{prefix}resolved_window"])
    whole = data[f"{prefix}resolved_variances"].values
    parts = data[f"{prefix}resolved_variances_replicates"].values
    curve = np.vstack([whole, parts])
    curve[:, window:] = np.nan
    return xr.Variable(("curve_of", "resolved_rank"), curve)


def comparisons(
    layers: Mapping[str, xr.Dataset], tables: Mapping[str, Mapping[str, xr.Dataset]]
) -> dict[str, xr.Dataset]:
    """Layers with their null models and the differences to them.

    Parameters
    ----------
    layers : mapping of str to Dataset
        Packed results of the trained model.
    tables : mapping
        By label (``twin 0``, ``twin 1``, ``shuffled``) and layer: what :func:`table_of` gives.

    Returns
    -------
    dict
        Added are ``null_value(null, null_measure)`` and ``null_replicates``; ``null_octave_density``,
        ``null_spectrum``, ``null_eigenvalues``, ``null_lag_eigenvalues`` for figures; and for each ``comparison``
        (the twins together count as one) ``null_difference``, its 95 % interval, ``null_p`` and ``null_p_holm``,
        which is corrected for all layers, heads and measures of the comparison. Differences are paired over
        documents; those of participation ratios and other ranks are logarithms of ratios.
    """
    kinds = list(dict.fromkeys(label.split(" ")[0] for label in tables))
    made: dict[str, xr.Dataset] = {}
    for name, data in layers.items():
        own = table_of(data)
        nulls = xr.concat([tables[label][name] for label in tables], "null", join="outer").assign_coords(
            null=np.array(list(tables), dtype=object)
        )
        apart = _differences(own, nulls, kinds)
        made[name] = data.merge(_described(nulls, apart), compat="override")
    for index, _ in enumerate(kinds):
        corrected = holm(np.concatenate([made[n]["null_p"].isel(comparison=index).values.ravel() for n in made]))
        start = 0
        for data in made.values():
            p = data["null_p"].isel(comparison=index)
            data["null_p_holm"][{"comparison": index}] = corrected[start : start + p.size].reshape(p.shape)
            start += p.size
    return made


def _described(nulls: xr.Dataset, apart: xr.Dataset) -> xr.Dataset:
    names = {name: f"null_{name}" for name in nulls.data_vars if name not in ("curve", "lag_curve")}
    whole = nulls.drop_vars(["curve", "lag_curve"], errors="ignore").rename_vars(names).merge(apart)
    whole = whole.assign_coords(null_measure=np.array(NULL_MEASURES, dtype=object))
    for name in whole.data_vars:
        whole[name].attrs = attributes(str(name))
    order = ("head", "null", "comparison", "jackknife_group", "null_measure")
    return whole.transpose(*(d for d in order if d in whole.dims), ...)


def _differences(own: xr.Dataset, nulls: xr.Dataset, kinds: list[str]) -> xr.Dataset:
    """Difference, interval and probability for each comparison and measure (and head)."""
    if "head" in own.dims:
        parts = [_differences(own.isel(head=i), nulls.isel(head=i), kinds) for i in range(own.sizes["head"])]
        return xr.concat(parts, "head")
    labels = [str(label) for label in nulls["null"].values]
    found = np.full((4, len(kinds), len(NULL_MEASURES)), np.nan)
    for row, kind in enumerate(kinds):
        members = [i for i, label in enumerate(labels) if label.split(" ")[0] == kind]
        for column, name in enumerate(NULL_MEASURES):
            pair = _pair(own, nulls, members, column, name)
            if pair is None:
                continue
            apart = paired_difference(*pair)
            found[:, row, column] = apart.value, apart.low, apart.high, apart.p
    dims = ("comparison", "null_measure")
    return xr.Dataset(
        {
            "null_difference": (dims, found[0]),
            "null_difference_low": (dims, found[1]),
            "null_difference_high": (dims, found[2]),
            "null_p": (dims, found[3]),
            "null_p_holm": (dims, np.full(found[3].shape, np.nan)),
        },
        coords={"comparison": np.array(kinds, dtype=object)},
    )


def _pair(
    own: xr.Dataset, nulls: xr.Dataset, members: list[int], column: int, name: str
) -> tuple[float, FloatArray, FloatArray, FloatArray] | None:
    """Value and replicates of both sides, on the scale on which they are compared; None where there is nothing to."""
    if name.endswith("beta_resolved"):
        return _resolved_pair(own, nulls, members, "lag_curve" if name.startswith("lag_") else "curve")
    ours, ours_parts = float(own["value"][column]), own["replicates"].values[:, column]
    theirs = nulls["value"].values[members, column]
    parts = nulls["replicates"].values[members][:, :, column]
    if not (np.isfinite(ours_parts).all() and np.isfinite(parts).all() and parts.size and np.isfinite(theirs).all()):
        return None
    if name in RATIOS:
        return float(np.log(ours)), np.log(ours_parts), np.log(theirs), np.log(parts)
    return ours, ours_parts, theirs, parts


def _resolved_pair(
    own: xr.Dataset, nulls: xr.Dataset, members: list[int], curve: str
) -> tuple[float, FloatArray, FloatArray, FloatArray] | None:
    """Resolved exponents on the smallest of the windows; None where one of them is not resolved."""
    if curve not in own or curve not in nulls:
        return None
    curves = [own[curve].values, *nulls[curve].values[members]]
    slopes = resolved_slopes(curves)
    return None if slopes is None else (float(slopes[0, 0]), slopes[0, 1:], slopes[1:, 0], slopes[1:, 1:])


def resolved_slopes(curves: list[FloatArray]) -> FloatArray | None:
    """Resolved exponents of several ensembles on the smallest of their windows.

    Parameters
    ----------
    curves : list of array, shape (all documents and each replicate, rank)
        NaN beyond the window of each, as in the ``curve`` of :func:`table_of`.

    Returns
    -------
    array, shape (ensemble, all documents and each replicate), or None
        None where fewer than 8 ranks are resolved in all of them.
    """
    window = min(int(np.isfinite(c).all(axis=0).sum()) for c in curves)
    if window < MIN_POINTS:
        return None
    return np.array([[fit_decay(v[:window], ranks=window, relative_floor=0.0).beta for v in c] for c in curves])


def null_columns(data: xr.Dataset, ranks: Mapping[str, tuple[str, int]]) -> dict[str, float | str]:
    """Columns of the summary for each null model: its values, and in which measures the trained model differs.

    Parameters
    ----------
    data : xarray.Dataset
        One layer and head.
    ranks : mapping
        For each column of an effective rank its variable and its position among the tolerances.

    Returns
    -------
    dict
        ``twin_X`` (mean over seeds), ``shuffled_X``, ... and ``twin_differs``; empty where none was run.
    """
    if "null_value" not in data:
        return {}
    names = dict(_COLUMNS)
    names |= {column: f"{variable}_{index}" for column, (variable, index) in ranks.items() if index < len(_RANKS)}
    labels = np.array([str(label).split(" ")[0] for label in data["null"].values])
    row: dict[str, float | str] = {}
    for kind in (str(c) for c in data["comparison"].values):
        values = data["null_value"].values[labels == kind].mean(axis=0)
        for column, name in names.items():
            row[f"{kind}_{column}"] = float(values[NULL_MEASURES.index(name)])
            if "beta" in column:
                beta = row[f"{kind}_{column}"]
                assert isinstance(beta, float)
                row[f"{kind}_{column.replace('beta', 't_spec')}"] = 1 / beta if beta > 0 else float("nan")
        row[f"{kind}_differs"] = describe_differences(data, kind)
    return row


def describe_differences(data: xr.Dataset, comparison: str, level: float = 0.05) -> str:
    """Measures in which the trained model differs from a null beyond chance, with the direction, as words."""
    return ", ".join(f"{name} {sign}" for name, sign in differing(data, comparison, level))


def differing(data: xr.Dataset, comparison: str, level: float = 0.05) -> Iterable[tuple[str, str]]:
    """Names of those measures, each with ``higher`` or ``lower``, in the order of the table."""
    if "null_p_holm" not in data or comparison not in data["comparison"].values:
        return
    chosen = data.sel(comparison=comparison)
    for index, name in enumerate(NULL_MEASURES):
        if float(chosen["null_p_holm"].values[index]) < level:
            yield name, "higher" if float(chosen["null_difference"].values[index]) > 0 else "lower"
