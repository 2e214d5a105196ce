"""Scale-selective POD: modes, eigenvalues and coefficients of every band from one pass over the field."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyscope.kernels.gram import FieldPass, field_pass
from eddyscope.kernels.pod import Decomposition, decompose, fix_signs, modes_of_windows
from eddyscope.lagfield import FloatArray, LagGeometry


@dataclass(frozen=True)
class Pod:
    """The POD of one windowed ensemble.

    Parameters
    ----------
    gram : array, shape (document, document)
        With the factor 1/N; empty where it is not held.
    eigenvalues : array, shape (rank,)
        N - 1 of them, descending, zero past the rank; of large ensembles the leading ones.
    coefficients : array, shape (document, mode)
    modes : array, shape (mode, entry)
        Packed, unit norm, zero for queries that were left out; NaN past the rank.
    profiles : array, shape (mode, lag)
        Mean of each mode over the queries used that have the lag; NaN where there are none.
    """

    gram: FloatArray
    eigenvalues: FloatArray
    coefficients: FloatArray
    modes: FloatArray
    profiles: FloatArray


def pod_of_windows(
    values: FloatArray, geometry: LagGeometry, weights: FloatArray, count: int, min_query: int
) -> tuple[list[Pod], FieldPass]:
    """POD of the fluctuation under each lag window.

    Parameters
    ----------
    values : array, shape (document, entry)
    geometry : LagGeometry
    weights : array, shape (window, lag)
    count : int
        Modes that are formed.
    min_query : int
        Queries before it are left out.

    Returns
    -------
    list of Pod, one a window
    FieldPass
        Mean field and fluctuation energy of all queries.
    """
    passed = field_pass(values, geometry, weights, min_query)
    used = geometry.query_mask(min_query)
    found = [decompose(gram) for gram in passed.grams]
    per_entry = np.where(used, weights[:, geometry.entry_lag - geometry.lags[0]], 0.0)
    patterns = modes_of_windows(values, found, per_entry, count, passed.mean)
    held = np.add.reduceat(used.astype(np.float64), geometry.offsets[:-1])
    pods = [assembled(*each, geometry, held) for each in zip(passed.grams, found, patterns, strict=True)]
    return pods, passed


def assembled(
    gram: FloatArray, decomposition: Decomposition, patterns: FloatArray, geometry: LagGeometry, held: FloatArray
) -> Pod:
    """The POD of one window from its eigenpairs and modes, whose signs are set; ``held`` as in :func:`lag_profile`."""
    sign = fix_signs(patterns)
    for row in np.flatnonzero(sign < 0):
        np.negative(patterns[row], out=patterns[row])
    coefficients = decomposition.coefficients[:, : sign.size] * sign
    return Pod(gram, decomposition.eigenvalues, coefficients, patterns, lag_profile(patterns, geometry, held))


def lag_profile(patterns: FloatArray, geometry: LagGeometry, held: FloatArray) -> FloatArray:
    """Mean of packed patterns over the queries used, at each lag.

    Parameters
    ----------
    patterns : array, shape (mode, entry)
        Zero at entries that are not used.
    geometry : LagGeometry
    held : array, shape (lag,)
        Number of queries used that have the lag.

    Returns
    -------
    array, shape (mode, lag)
    """
    total = np.add.reduceat(patterns, geometry.offsets[:-1], axis=1, dtype=np.float64)
    return np.divide(total, held, out=np.full_like(total, np.nan), where=held > 0)
