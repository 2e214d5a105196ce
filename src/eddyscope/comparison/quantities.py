"""What is compared of a layer: numbers with their replicates, on the scale on which differences are taken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from eddyscope.lagfield import FloatArray
from eddyscope.study.nulltable import NULL_MEASURES, RATIOS, resolved_slopes, table_of
from eddyscope.trust.differences import Difference
from eddyscope.trust.seeds import seeds_difference, seeds_estimate

#: Compared numbers, by the name in tables, with their name in the study. ``mean_octave`` is made of octave shares.
COMPARED = {
    "mean_octave": "mean_octave",
    "near_share": "near_share",
    "far_share": "far_share",
    "sink_mass": "sink_mass",
    "fluctuation_level": "fluctuation_level",
    "participation_ratio": "field_participation_ratio",
    "lag_participation_ratio": "lag_participation_ratio",
    "beta_published": "field_beta_published",
    "lag_beta_published": "lag_beta_published",
    "beta_resolved": "field_beta_resolved",
    "lag_beta_resolved": "lag_beta_resolved",
}
#: Shown beside them, without an interval: whole numbers and places.
BESIDE = ("median_lag", "dominant_wavelength", "h_10")

#: Values and replicates of some seeds, shapes (seed,) and (seed, group).
Sample = tuple[FloatArray, FloatArray]


def is_ratio(name: str) -> bool:
    """Whether differences of this number are ratios."""
    return COMPARED[name] in RATIOS


class LayerNumbers:
    """The numbers of one layer (and head) of some seeds.

    Parameters
    ----------
    layers : sequence of xarray.Dataset
        Packed results, one a seed.
    """

    def __init__(self, layers: Sequence[xr.Dataset]) -> None:
        self.layers = list(layers)
        self.tables = [table_of(data) if "field_measure_replicates" in data else None for data in self.layers]

    def sample(self, name: str) -> Sample:
        """Values and replicates of one number, as they are; without intervals there are no replicates."""
        parts = [self._one(data, table, name) for data, table in zip(self.layers, self.tables, strict=True)]
        return np.array([p[0] for p in parts]), np.stack([p[1] for p in parts])

    def _one(self, data: xr.Dataset, table: xr.Dataset | None, name: str) -> tuple[float, FloatArray]:
        if name == "mean_octave":
            return mean_octave(data)
        source = COMPARED[name]
        if table is None:
            return (float(data[source]) if source in data else float("nan")), np.zeros(0)
        column = NULL_MEASURES.index(source)
        return float(table["value"][column]), np.asarray(table["replicates"].values[:, column])

    def curves(self, name: str) -> list[FloatArray] | None:
        """Resolved variances of each seed, for an exponent that is fitted on a window that all sides share."""
        curve = "lag_curve" if COMPARED[name].startswith("lag_") else "curve"
        return None if any(t is None for t in self.tables) else [t[curve].values for t in self.tables if t is not None]


def shares(data: xr.Dataset) -> tuple[FloatArray, FloatArray]:
    """Octave shares, both sides together, and their replicates (group, octave); none of these without intervals."""
    share = data["octave_share"]
    parts = data.get("octave_share_replicates")
    if "side" in share.dims:
        share = share.sum("side", skipna=False)
        parts = None if parts is None else parts.sum("side", skipna=False)
    size = share.sizes["octave"]
    replicates = np.zeros((0, size)) if parts is None else parts.transpose("jackknife_group", "octave").values
    return np.asarray(share.values), np.asarray(replicates)


def mean_octave(data: xr.Dataset) -> tuple[float, FloatArray]:
    """Energy-weighted mean octave ``sum_j j share_j``, and its replicates."""
    share, replicates = shares(data)
    octave = np.arange(share.size)
    return float(share @ octave), np.asarray(replicates @ octave)


def difference(numbers: LayerNumbers, reference: LayerNumbers, name: str, paired: bool) -> Difference:
    """Difference of one number to the reference; of ratios that of the logarithms.

    Resolved exponents are fitted on the smallest window of all that take part.
    """
    if name.endswith("_resolved"):
        return _resolved(numbers, reference, name, paired)
    ours, theirs = numbers.sample(name), reference.sample(name)
    if is_ratio(name):
        with np.errstate(divide="ignore", invalid="ignore"):
            ours, theirs = (np.log(ours[0]), np.log(ours[1])), (np.log(theirs[0]), np.log(theirs[1]))
    return seeds_difference(*ours, *theirs, paired=paired)


def _resolved(numbers: LayerNumbers, reference: LayerNumbers, name: str, paired: bool) -> Difference:
    undefined = Difference(*(float("nan"),) * 6)
    ours, theirs = numbers.curves(name), reference.curves(name)
    if ours is None or theirs is None:
        return undefined
    if len({c.shape[0] for c in (*ours, *theirs)}) > 1:  # other numbers of groups: fitted one by one, on one window
        return undefined
    slopes = resolved_slopes([*ours, *theirs])
    if slopes is None:
        return undefined
    count = len(ours)
    return seeds_difference(slopes[:count, 0], slopes[:count, 1:], slopes[count:, 0], slopes[count:, 1:], paired=paired)


def estimate(numbers: LayerNumbers, name: str) -> Difference:
    """Mean over seeds with its interval, as in the summary; of ratios the interval is on the logarithm."""
    values, replicates = numbers.sample(name)
    if not is_ratio(name):
        return seeds_estimate(values, replicates)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = seeds_estimate(np.log(values), np.log(replicates))
    ends = np.exp([found.value, found.low, found.high])
    return Difference(float(ends[0]), found.error, found.freedom, float(ends[1]), float(ends[2]), found.p)
