"""Which layers and heads a figure shows, and what it says about those it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import xarray as xr

from eddyscope.errors import InputError
from eddyscope.study.measures import APPROXIMATE, NOT_KEPT
from eddyscope.study.rows import CROSS
from eddyscope.study.study import Study, layer_geometry

#: Most panels on one page of small multiples.
MOST_PANELS = 48
#: The same where each is a pair of panels.
MOST_PAIRS = 40

NO_FLUCTUATION = "no fluctuation"
#: Names of folders that say little without the one they are in.
_PLAIN_NAMES = ("model", "checkpoint", "final", "best", "weights")
#: A fluctuation level below it is what rounding leaves of equal documents.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class View:
    """One layer, or one head of it.

    Parameters
    ----------
    layer : str
        Qualified module name.
    index : int
        Position of the layer in the model.
    head : str
        ``"mean"``, or the label of the head.
    data : xarray.Dataset
        Packed results of this head.
    """

    layer: str
    index: int
    head: str
    data: xr.Dataset

    @property
    def label(self) -> str:
        """Short name: ``layer 3``, or ``layer 3, head 5``."""
        return f"layer {self.index}" if self.head == "mean" else f"layer {self.index}, head {self.head}"

    @property
    def short_label(self) -> str:
        """The same in little room: ``L3``, or ``L3 H5``."""
        return f"L{self.index}" if self.head == "mean" else f"L{self.index} H{self.head}"

    @property
    def causal(self) -> bool:
        """True where no query sees later keys."""
        return bool(self.data.attrs["causal"])

    @property
    def fluctuates(self) -> bool:
        """False where all documents have the same attention, so that there is nothing to decompose."""
        level = float(self.data["fluctuation_level"])
        return str(self.data["field_stable_rank_status"].values) != NO_FLUCTUATION and not level < _ROUNDING

    @property
    def no_modes(self) -> str:
        """Why there are no modes; empty where there are some."""
        if str(self.data["field_stable_rank_status"].values) == NOT_KEPT:
            return NOT_KEPT
        return "" if self.fluctuates else NO_FLUCTUATION

    @property
    def missing(self) -> str:
        """Why there are no lag statistics; empty where there are some."""
        if self.data.attrs.get("kind") == "cross":
            return CROSS
        if int(self.data.attrs["full_rows"]) == 0:
            left_out = int(self.data["queries_left_out"])
            return "no rows left:\nthe sink holds nearly\nall attention" if left_out else "no full rows"
        return "" if np.isfinite(self.data["median_lag"]) and self.fluctuates else NO_FLUCTUATION

    @property
    def bands(self) -> list[int]:
        """Positions of the bands that this head has."""
        return [i for i, status in enumerate(self.data["status"].values) if str(status) != "absent"]

    @property
    def first_band(self) -> str:
        """What the first band is, ``wavelength 12`` or ``lags 3-6``; empty where nothing fluctuates."""
        return str(self.data["band_label"].values[0]) if self.fluctuates else ""

    def expand(self, packed: np.ndarray, *, from_first_query: bool = False) -> np.ndarray:
        """Packed entries as a (query, key) map, NaN where there is none.

        ``from_first_query``: queries that the POD left out are NaN too.
        """
        dense = layer_geometry(self.data).unpack(packed, fill=np.nan)
        if from_first_query:
            dense[..., : int(self.data.attrs["min_query"]), :] = np.nan
        return dense


@dataclass(frozen=True)
class Views:
    """What a figure shows.

    Parameters
    ----------
    shown : tuple of View
    note : str
        Sentence about what was left out; empty where nothing was.
    about : str
        The study in a line: model, documents, context, layers, heads.
    """

    shown: tuple[View, ...]
    note: str
    about: str

    @property
    def columns(self) -> int | None:
        """Columns that put each layer's heads in a row; None where the page may choose."""
        layers = len({view.layer for view in self.shown})
        heads, rest = divmod(len(self.shown), layers)
        return heads if not rest and layers > 1 and 2 <= heads <= 8 else None

    @property
    def by_head(self) -> bool:
        """True where heads are shown, not their mean."""
        return any(view.head != "mean" for view in self.shown)

    @property
    def two_sided(self) -> bool:
        """True where any of the layers sees later keys."""
        return not all(view.causal for view in self.shown)


def views(
    study: Study,
    layers: Sequence[str | int] | None = None,
    heads: Sequence[str | int] | None = None,
    most: int | None = None,
) -> Views:
    """Layers and heads to show, in reading order.

    Parameters
    ----------
    study : Study
    layers : sequence of str or int, optional
        Names or positions; all by default.
    heads : sequence of str or int, optional
        Labels, where each head was kept; all by default.
    most : int, optional
        Most views. Where there are more, layers keep the same number of heads, the first ones; where even one head a
        layer is too much, layers are taken at even steps.
    """
    names = study.layers if layers is None else [study.layer_name(layer) for layer in layers]
    if not names:
        raise InputError("No layer was chosen, a figure needs at least one.")
    labels = {name: _head_labels(study, name, heads) for name in names}
    kept, few = list(names), max(len(found) for found in labels.values())
    total = sum(len(found) for found in labels.values())
    if most is not None and total > most:
        if len(kept) > most:
            kept = [kept[i] for i in np.unique(np.linspace(0, len(kept) - 1, most).round().astype(int))]
        few = max(1, most // len(kept))
    shown = tuple(
        View(name, int(study.data[name].attrs["layer_index"]), label, _packed(study, name, label))
        for name in kept
        for label in labels[name][:few]
    )
    return Views(shown, _note(len(names), len(kept), total, len(shown)), about(study))


def view_of(study: Study, layer: str | int, head: str | int | None = None) -> View:
    """One layer of a study, as the panels take it: ``plot_scalogram(view_of(study, 3), axes)``.

    Parameters
    ----------
    study : Study
    layer : str or int
        Name or position.
    head : str or int, optional
        Needed where each head was kept.
    """
    heads = None if head is None else [head]
    shown = views(study, [layer], heads).shown
    if len(shown) > 1:
        raise InputError(
            f"Layer {layer!r} has {len(shown)} heads and a panel shows one.",
            f"Pass head=, one of: {', '.join(view.head for view in shown)}.",
        )
    return shown[0]


def _head_labels(study: Study, name: str, heads: Sequence[str | int] | None) -> list[str]:
    data = study.data[name]
    if "head" not in data.dims:
        if heads is not None:
            study.packed(name, heads[0] if heads else 0)  # says that this study keeps the head mean
        return ["mean"]
    if heads is None:
        return [str(label) for label in data["head"].to_numpy()]
    return [str(head) for head in heads]


def _packed(study: Study, name: str, label: str) -> xr.Dataset:
    return study.packed(name, None if "head" not in study.data[name].dims else label)


def _note(layers: int, layers_kept: int, total: int, shown: int) -> str:
    """What was left out, as a sentence; empty where nothing was."""
    if shown == total:
        return ""
    what = "layers" if total == layers else "layer and head pairs"
    how = "at even steps" if layers_kept < layers else "the first heads of each layer"
    return f"Shows {shown} of {total} {what}, {how}; choose others with layers= and heads=."


def about(study: Study) -> str:
    """The study in a line: model, documents, context, layers, heads."""
    first = study.data[study.layers[0]]
    count = int(first.attrs["documents"])
    queries, keys = int(first.attrs["queries"]), int(first.attrs["keys"])
    heads = first.sizes["head"] if "head" in first.dims else 0
    parts = [
        model_name(study),
        "1 document" if count == 1 else f"{count} documents",
        f"{queries} tokens" if queries == keys else f"{queries} queries, {keys} keys",
        "1 layer" if len(study.layers) == 1 else f"{len(study.layers)} layers",
        f"each of {heads} heads" if heads else "mean over heads",
        "causal" if first.attrs["causal"] else "two-sided",
    ]
    if study.provenance.get("analysis", {}).get("preset"):
        parts.append(f"preset {study.provenance['analysis']['preset']}")
    if first.attrs.get("pod") == APPROXIMATE:
        parts.append(f"POD {APPROXIMATE} (randomized)")
    return "  ·  ".join(parts)


def model_name(study: Study) -> str:
    """Name of the model: its id, or the end of the path it came from; ``arrays`` without a model."""
    model = study.provenance.get("model", {})
    name = str(model.get("id") or model.get("name") or "")
    if not name:
        return str(model.get("class") or study.provenance.get("source") or "arrays")
    parts = PurePath(name).parts
    if len(parts) <= 2 and not PurePath(name).is_absolute():
        return name
    return "/".join(parts[-2:]) if parts[-1] in _PLAIN_NAMES else parts[-1]
