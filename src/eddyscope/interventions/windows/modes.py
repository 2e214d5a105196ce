"""What the loss owes to a band or a mode: attention rebuilt without it, against as much energy taken at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import Tensor

from eddyscope.capture import capture
from eddyscope.documents import Documents
from eddyscope.ensemble import AttentionEnsemble
from eddyscope.errors import InputError, UsageError
from eddyscope.interventions.editing import Edit
from eddyscope.interventions.layers import AttentionLayer
from eddyscope.interventions.windows.curve import interval_row
from eddyscope.interventions.windows.reader import Reader
from eddyscope.kernels.gram import field_pass
from eddyscope.kernels.pod import decompose, modes
from eddyscope.lagfield import FloatArray, LagField
from eddyscope.study.laganalysis import allowed_lags
from eddyscope.study.options import make_options
from eddyscope.study.study import Study, layer_geometry

#: What is taken out of a fluctuation, both (document, entry).
Part = Callable[[Tensor], Tensor]
FIELD = "field"


@dataclass(frozen=True)
class _Layer:
    """One layer as the study has it, on the entries that its POD uses.

    ``index`` are their places in the flattened (query, key) matrix, ``mean`` is the mean field on them, ``head`` the
    head of the field, None for the head mean.
    """

    index: Tensor
    mean: Tensor
    head: int | None

    def fluctuation(self, weights: Tensor) -> Tensor:
        """(document, entry) of weights (document, head, query, key)."""
        field = weights.mean(1) if self.head is None else weights[:, self.head]
        return field.flatten(1)[:, self.index].float() - self.mean

    def edit(self, part: Part) -> Edit:
        """Take a part of the fluctuation out of the weights; what falls below 0 is 0, rows keep their mass."""

        def take_out(weights: Tensor, layer: AttentionLayer) -> Tensor:
            taken = torch.zeros_like(weights[:, 0])
            taken.view(len(taken), -1)[:, self.index] = part(self.fluctuation(weights)).to(weights.dtype)
            changed = weights.clone()
            chosen = slice(None) if self.head is None else slice(self.head, self.head + 1)
            changed[:, chosen] -= taken[:, None]
            changed.clamp_min_(0)
            left = changed.sum(-1, keepdim=True)
            mass = weights.sum(-1, keepdim=True)
            return torch.where(left > 0, changed * (mass / left.clamp_min(torch.finfo(left.dtype).tiny)), weights)

        return take_out


def owed_to_modes(
    model: Any,
    study: Study,
    ensemble: AttentionEnsemble,
    documents: Documents,
    layer: str | int,
    *,
    count: int = 3,
    head: int | None = None,
    controls: int = 5,
    seed: int = 0,
    batch: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Rise of the loss when attention is rebuilt without one band or one mode of a study.

    A mode ``phi_k`` of a window w is taken out of the attention of a document as ``A - a_k phi_k`` with
    ``a_k = <w (A - Abar), phi_k>``; a band as ``A - w (A - Abar)``. Where the study holds the head mean, what is taken
    out of it is taken out of every head. What falls below 0 is set to 0 and rows are brought back to their mass.

    Each stands against controls that take out as much energy (mean over the documents of what is subtracted, squared):
    of a mode, random directions of the span of the study's snapshots, one after the other until the energy is
    reached, the last in part; of a band, the fluctuation of entries drawn at random. So a rise beyond the control is
    owed to the pattern or the distance, and not to the energy.

    Parameters
    ----------
    model : torch.nn.Module
    study : Study
        Of this model.
    ensemble : AttentionEnsemble
        The one that the study was made from.
    documents : Documents
        What the loss is measured on, best not those of the study: of the study's own tokens a document.
    layer : str or int
    count : int
        Leading modes that are taken out, of the field without a window and of each band.
    head : int, optional
        Needed where the study keeps each head.
    controls : int
        Random controls of each.
    seed : int
    batch : int, optional
    progress : callable, optional
        Called with (measured, in all).

    Returns
    -------
    pandas.DataFrame
        ``layer, name, head, band`` (label; ``field`` without a window), ``mode`` (1, 2, ...; 0 for the whole band),
        ``share`` of the fluctuation energy of these documents that was taken out, ``rise, low, high``, ``random_rise``
        (mean of the controls), ``random_least``, ``random_most``, ``random_share`` (less than ``share`` where the span
        holds less), ``beyond, beyond_low, beyond_high`` (rise minus mean control, paired).

    Raises
    ------
    InputError
        For documents of another length, or an ensemble or study that is not of this model.
    UsageError
        For counts that cannot be.
    """
    if count < 1 or controls < 1:
        raise UsageError(f"count={count}, controls={controls}: expected at least 1 of each.")
    name = study.layer_name(layer)
    data = study.packed(name, head)
    if "head" in data.dims:
        raise InputError("This study keeps each head; one must be named.", f"Heads: {', '.join(data['head'].values)}.")
    geometry = layer_geometry(data)
    if not geometry.whole or documents.context != geometry.queries:
        raise InputError(
            f"The study has {geometry.queries} tokens a document and these documents {documents.context}.",
            "Read documents of the study's length, with all lags kept.",
        )
    reader = Reader(model, documents, batch=batch)
    found = [own for own in reader.layers if own.name == name]
    if not found:
        raise InputError(f"Layer '{name}' of the study is not in this {type(model).__name__}.")
    heads = "mean" if head is None else [head]
    field = ensemble[name].select_head(0 if head is None else str(head))
    unseen = capture(model, documents, heads=heads, layers=[name], checks=False)[name]
    work = _Parts(study, data, field, unseen, head, next(model.parameters()).device)
    things = list(work.things(count))
    rows = []
    rng = np.random.default_rng(seed)
    total = len(things) * (1 + controls)
    for i, thing in enumerate(things):
        measured = []
        parts = [thing.part, *(work.control(thing, rng) for _ in range(controls))]
        for j, part in enumerate(parts):
            measured.append(reader.measured({found[0].index: work.layer.edit(part)}))
            if progress is not None:
                progress(i * (1 + controls) + j + 1, total)
        rows.append(
            {"layer": found[0].index, "name": name, "head": "all" if head is None else str(head)}
            | {"band": thing.band, "mode": thing.mode}
            | _row(reader, work, parts, measured)
        )
    return pd.DataFrame(rows)


def _row(reader: Reader, work: _Parts, parts: Sequence[Part], measured: Sequence[FloatArray]) -> dict[str, float]:
    random = np.mean(measured[1:], axis=0)
    means = [float(each.mean()) for each in measured[1:]]
    beyond = interval_row(reader.rise(measured[0] - random))
    return {
        "share": work.share(parts[0]),
        **interval_row(reader.rise(measured[0])),
        "random_rise": float(random.mean()),
        "random_least": min(means),
        "random_most": max(means),
        "random_share": float(np.mean([work.share(part) for part in parts[1:]])),
        "beyond": beyond["rise"],
        "beyond_low": beyond["low"],
        "beyond_high": beyond["high"],
    }


@dataclass(frozen=True)
class _Thing:
    """A band or a mode that is taken out."""

    band: str
    mode: int
    part: Part


class _Parts:
    """What can be taken out of one layer, with its energy on the documents of the measurement."""

    def __init__(
        self,
        study: Study,
        data: xr.Dataset,
        field: LagField,
        unseen: LagField,
        head: int | None,
        device: torch.device,
    ) -> None:
        geometry = layer_geometry(data)
        if field.geometry != geometry or field.documents != data.sizes["document"]:
            raise InputError(
                f"The study's layer was made from {data.sizes['document']} documents of {geometry.queries} tokens; the "
                f"ensemble has {field!r}.",
                "Pass the ensemble that was analysed.",
            )
        self._data, self._geometry, self._device = data, geometry, device
        self._values = field.values[:, 0]
        options = make_options(**study.provenance["analysis"])
        self._open = allowed_lags(geometry.lags, geometry.causal, options)
        self._min_query = int(data.attrs["min_query"])
        used = geometry.query_mask(self._min_query)
        self._used = np.flatnonzero(used)
        self._used_lag = np.searchsorted(geometry.lags, geometry.entry_lag[self._used])
        mean = self._values[:, self._used].astype(np.float64).mean(axis=0)
        index = torch.from_numpy(geometry.flat_index[self._used])
        self.layer = _Layer(index.to(device), self._tensor(mean), head)
        self._fluctuation = self._tensor(unseen.values[:, 0][:, self._used].astype(np.float64) - mean)
        self._energy = float((self._fluctuation**2).sum(1).mean())
        self._span = self._patterns(self._open, len(self._values) - 1)

    def things(self, count: int) -> Iterator[_Thing]:
        """The leading modes of the field; then each band and its leading modes."""
        for k, pattern in enumerate(self._span[:count]):
            yield _Thing(FIELD, k + 1, _projection(pattern[None]))
        for band, window in enumerate(self._data["window"].values):
            label = str(self._data["band_label"].values[band])
            if str(self._data["status"].values[band]) == "absent":
                continue
            weight = self._tensor(window[self._used_lag])
            yield _Thing(label, 0, _scaling(weight))
            for k, pattern in enumerate(self._patterns(window, count)):
                yield _Thing(label, k + 1, _projection(pattern[None], weight))

    def share(self, part: Part) -> float:
        """Share of the fluctuation energy of the documents that a part has."""
        return self._mean_square(part(self._fluctuation)) / self._energy if self._energy > 0 else float("nan")

    def control(self, thing: _Thing, rng: np.random.Generator) -> Part:
        """As much energy, at random."""
        wanted = self._mean_square(thing.part(self._fluctuation))
        return self._random_entries(wanted, rng) if thing.mode == 0 else self._random_directions(wanted, rng)

    def _random_directions(self, wanted: float, rng: np.random.Generator) -> Part:
        rank = len(self._span)
        mixing, upper = np.linalg.qr(rng.standard_normal((rank, rank)))
        patterns = self._tensor(mixing * np.sign(np.diag(upper))).T @ self._span
        energy = ((self._fluctuation @ patterns.T) ** 2).mean(0).cpu().numpy().astype(np.float64)
        return _projection(patterns * self._tensor(_amplitudes(energy, wanted))[:, None].sqrt())

    def _random_entries(self, wanted: float, rng: np.random.Generator) -> Part:
        energy = (self._fluctuation**2).mean(0).cpu().numpy().astype(np.float64)
        order = rng.permutation(energy.size)
        amplitude = np.empty(energy.size)
        amplitude[order] = _amplitudes(energy[order], wanted)
        return _scaling(self._tensor(amplitude))

    def _patterns(self, window: FloatArray, count: int) -> Tensor:
        """Leading modes under a window, (mode, entry); fewer where the rank is smaller."""
        passed = field_pass(self._values, self._geometry, np.asarray(window, dtype=np.float64)[None], self._min_query)
        decomposition = decompose(passed.grams[0])
        per_entry = np.zeros(self._geometry.size)
        per_entry[self._used] = window[self._used_lag]
        found = modes(self._values, decomposition, per_entry, min(count, decomposition.rank))
        return self._tensor(found[:, self._used])

    def _mean_square(self, part: Tensor) -> float:
        return float((part.double() ** 2).sum(1).mean())

    def _tensor(self, values: FloatArray) -> Tensor:
        return torch.as_tensor(np.asarray(values, dtype=np.float32), device=self._device)


def _projection(patterns: Tensor, weight: Tensor | None = None) -> Part:
    """``sum_k <w u, phi_k> phi_k``, of patterns (mode, entry); patterns shorter than 1 give that much less."""
    return lambda u: ((u if weight is None else u * weight) @ patterns.T) @ patterns


def _scaling(factor: Tensor) -> Part:
    """Each entry's fluctuation times a factor of its own."""
    return lambda u: factor * u


def _amplitudes(energy: FloatArray, wanted: float) -> FloatArray:
    """Amplitude of each part in order, 1 until the wanted energy is reached, the last in part, then 0."""
    before = np.concatenate([[0.0], np.cumsum(energy)[:-1]])
    share = np.divide(wanted - before, energy, out=np.zeros_like(energy), where=energy > 0)
    return np.asarray(np.sqrt(np.clip(share, 0.0, 1.0)))
