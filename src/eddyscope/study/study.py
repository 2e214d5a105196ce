"""Study: every result of an analysis, labelled, with what produced it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from eddyscope.errors import InputError
from eddyscope.lagfield import LagGeometry
from eddyscope.schema import PACKED, attributes
from eddyscope.study.heads import heads_table
from eddyscope.study.summary import summary_table
from eddyscope.trust.coherence import debiased_coherence

if TYPE_CHECKING:
    from eddyscope.documents import Documents
    from eddyscope.interventions.windows.agreement import Agreement
    from eddyscope.report.plots import StudyPlots

#: Maps that are computed for the first band alone.
_OF_FIRST_BAND = ("coherence", "coherence_phase", "coherence_chance", "phase_consistency", "amplitude_correlation")


class Study:
    """Results of :func:`eddyscope.analyze`.

    Parameters
    ----------
    data : xarray.DataTree
        One node per layer, named by the qualified module name. Modes, mean field and coherence are packed by lag;
        :meth:`layer` expands them.
    provenance : dict
        JSON-able: versions, options, model and text identity, checks and their results.
    documents : Documents, optional
        What the model read.
    """

    def __init__(self, data: xr.DataTree, provenance: dict[str, Any], documents: Documents | None = None) -> None:
        self.data = data
        self.provenance = provenance
        self.documents = documents

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers, in reading order."""
        return tuple(sorted(self.data.children, key=lambda name: int(self.data[name].attrs["layer_index"])))

    def __repr__(self) -> str:
        first = self.data[self.layers[0]]
        model = (self.provenance.get("model") or {}).get("name") or "arrays"
        return f"<Study of {model}: {len(self.layers)} layers, {first.attrs['documents']} documents>"

    def layer_name(self, layer: str | int) -> str:
        """Resolve a layer's name or position; InputError names the layers that there are."""
        names = self.layers
        if isinstance(layer, (int, np.integer)) and -len(names) <= layer < len(names):
            return names[int(layer)]
        if isinstance(layer, str) and layer in names:
            return layer
        shown = ", ".join(names[:4]) + (" ..." if len(names) > 4 else "")
        raise InputError(f"Layer {layer!r} is not in this study.", f"It has {len(names)} layers: {shown}.")

    def packed(self, layer: str | int, head: str | int | None = None) -> xr.Dataset:
        """One layer's results as stored: maps packed by lag along ``entry``."""
        data = self.data[self.layer_name(layer)].to_dataset()
        if head is None:
            return data
        if "head" not in data.dims:
            raise InputError(
                f"Head {head!r} was asked for, but this study keeps the head mean.",
                "Capture with heads='each' (--heads each).",
            )
        labels = [str(label) for label in data["head"].values]
        wanted = str(head)
        if wanted not in labels:
            raise InputError(f"Head {head!r} is not in this study.", f"It has: {', '.join(labels)}.")
        return data.isel(head=labels.index(wanted))

    def layer(self, layer: str | int, head: str | int | None = None) -> xr.Dataset:
        """One layer's results, with modes and maps expanded to (query, key).

        Parameters
        ----------
        layer : str or int
            Qualified module name, or position in reading order.
        head : str or int, optional
            One head where each was kept; all of them, along the dimension ``head``, without it.

        Returns
        -------
        xarray.Dataset
            Entries that the mask forbids, and in modes the queries that were left out, are NaN.
        """
        data = self.packed(layer, head)
        geometry = layer_geometry(data)
        expanded: dict[str, xr.DataArray] = {}
        for packed, name in PACKED.items():
            if packed in data:
                expanded[name] = _expand(data[packed], geometry, name)
        for name in ("modes", "field_modes"):
            if name in expanded:
                expanded[name] = expanded[name].where(expanded[name]["query"] >= data.attrs["min_query"])
        for name in _OF_FIRST_BAND:
            if name in expanded:  # computed for the first band alone
                expanded[name] = expanded[name].where(data["coherence_scale"].notnull())
                expanded[name] = expanded[name].transpose(..., "band", "query", "key")
                expanded[name].attrs = dict(data[f"packed_{name}"].attrs)
        if "coherence_chance" in expanded:
            expanded["coherence_debiased"] = _debiased(expanded["coherence"], expanded["coherence_chance"])
        return data.drop_vars([p for p in PACKED if p in data]).assign(expanded)

    def __iter__(self) -> Iterator[tuple[str, xr.Dataset]]:
        """Names and expanded results, layer by layer."""
        for name in self.layers:
            yield name, self.layer(name)

    def summary(self) -> pd.DataFrame:
        """One row per layer (and head): where it works, how complex it is, what could not be resolved."""
        return summary_table({name: self.packed(name) for name in self.layers})

    def heads_table(self) -> pd.DataFrame:
        """Every head of the model at a glance, also where the head mean was kept.

        Measured on the last rows of the first documents, at most 64 rows of 16 documents (middle rows of two-sided
        layers), and, for induction, on random tokens that repeat themselves once.

        Returns
        -------
        pandas.DataFrame
            One row per layer and head: ``layer``, ``head``, ``median_lag`` (tokens; smallest distance with half of the
            mass at or below it), ``near_share`` (distance below 8) and ``far_share`` (at least half of the full range
            of lags), these three of the mass beside the first key; ``previous_token_share`` and ``sink_share`` (on
            the key before the query and on the first key, of all mass); ``induction_score`` (mass on the token that
            followed the query's token last time; NaN for two-sided layers and arrays), ``entropy`` (nats).

        Raises
        ------
        InputError
            Where the study holds nothing of single heads.
        """
        return heads_table({name: self.packed(name) for name in self.layers})

    @property
    def plot(self) -> StudyPlots:
        """Figures of single layers in matplotlib axes, such as ``study.plot.scalogram(layer=3)``."""
        from eddyscope.report.plots import StudyPlots

        return StudyPlots(self)

    def report(
        self, path: str | Path = "report.html", force: bool = False, windows: str | Path | Agreement | None = None
    ) -> Path:
        """Write the study as one HTML file to look at; see :func:`eddyscope.report.write_report`."""
        from eddyscope.report.page import write_report

        return write_report(self, path, force=force, windows=windows)

    def _repr_html_(self) -> str:
        """What a notebook shows: the answer, and the table."""
        from eddyscope.report.notebook import study_html

        return study_html(self)

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write the study as Zarr; see :func:`eddyscope.store.save_study`."""
        from eddyscope.store import save_study

        return save_study(self, path, force=force)


def _debiased(coherence: xr.DataArray, chance: xr.DataArray) -> xr.DataArray:
    """Squared coherence with chance taken off."""
    values = debiased_coherence(coherence.values, chance.values)
    return coherence.copy(data=values).assign_attrs(attributes("coherence_debiased"))


def layer_geometry(data: xr.Dataset) -> LagGeometry:
    """The packing of a layer's maps, from its attributes."""
    max_lag = data.attrs.get("max_lag")
    return LagGeometry(
        int(data.attrs["queries"]),
        int(data.attrs["keys"]),
        bool(data.attrs["causal"]),
        None if max_lag is None else int(max_lag),
    )


def _expand(packed: xr.DataArray, geometry: LagGeometry, name: str) -> xr.DataArray:
    values = geometry.unpack(packed.transpose(..., "entry").values, fill=np.nan)
    dims = [d for d in packed.dims if d != "entry"]
    coords = {d: packed.coords[d] for d in dims if d in packed.coords}
    return xr.DataArray(
        values,
        dims=(*dims, "query", "key"),
        coords={**coords, "query": np.arange(geometry.queries), "key": np.arange(geometry.keys)},
        attrs={**packed.attrs, **attributes(name)},
    )
