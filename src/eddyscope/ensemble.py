"""AttentionEnsemble: the attention fields of all layers over the same documents, with their provenance."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eddyscope.errors import EddyscopeWarning, InputError
from eddyscope.lagfield import BoolArray, FloatArray, IntArray, LagField

if TYPE_CHECKING:
    from eddyscope.documents import Documents

#: Largest deviation of a row sum from 1, for single precision and for half precision.
ROW_TOLERANCE = 1e-3
ROW_TOLERANCE_HALF = 1e-2
#: What an entry that should be 0 may hold.
ROUNDING = 1e-6

_LAYOUT = (
    "(documents, layers, L, L), (documents, layers, heads, L, L), or a mapping from layer name to "
    "(documents, [heads,] L, L)"
)


@dataclass(frozen=True)
class LayerInfo:
    """What is known of a layer beside its field.

    Parameters
    ----------
    name : str
        Qualified module name; the key of the layer everywhere.
    index : int
        Position in reading order, from 0.
    kind : str
        ``"self"`` or ``"cross"``.
    attention_class : str
        Class of the attention module, empty for arrays.
    query_heads, key_value_heads : int
        Numbers of heads in the model (not of heads kept); equal without grouped queries; 0 where unknown.
    key_value_map : tuple of int
        For each query head the key-value head that it reads; empty where unknown.
    window : int, optional
        Sliding window that the model's config states for this layer, in tokens.
    """

    name: str
    index: int
    kind: str = "self"
    attention_class: str = ""
    query_heads: int = 0
    key_value_heads: int = 0
    key_value_map: tuple[int, ...] = ()
    window: int | None = None


@dataclass(frozen=True, repr=False)
class AttentionEnsemble:
    """All layers' attention over the same documents.

    Parameters
    ----------
    fields : mapping of str to LagField
        In reading order; the key is the qualified module name.
    info : mapping of str to LayerInfo
    documents : Documents, optional
        Token ids, character spans, sources and source blocks.
    provenance : dict
        JSON-able: model and text identity, options, versions, checks and their results, warnings.
    """

    fields: Mapping[str, LagField]
    info: Mapping[str, LayerInfo]
    documents: Documents | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.fields:
            raise InputError("An ensemble needs at least one layer, got none.")
        counts = self._counts()
        if len(set(counts.values())) != 1:
            raise InputError(f"Layers have different numbers of documents: {counts}.")
        for name in self.fields:
            if not name or "/" in name:
                raise InputError(
                    f"A layer is named {name!r}; a study keeps one node a layer, and '/' separates nodes.",
                    "Name layers without '/', for example 'layers.0.attention'.",
                )
        if self.documents is not None and len(self.documents) != self.count:
            raise InputError(
                f"There are {len(self.documents)} documents but attention of {self.count}; "
                "they must be the same, in the same order."
            )

    def __repr__(self) -> str:
        source = (self.provenance.get("model") or {}).get("name") or self.provenance.get("source", "unknown source")
        return f"<AttentionEnsemble of {source}: {len(self.layers)} layers, {self.count} documents, heads={self.heads}>"

    @property
    def count(self) -> int:
        """Number of documents (snapshots)."""
        return next(iter(self._counts().values()))

    @property
    def layers(self) -> tuple[str, ...]:
        """Qualified names of the layers, in reading order."""
        return tuple(self.fields)

    @property
    def heads(self) -> str:
        """``"mean"`` where head means were kept, else ``"each"``."""
        known: Mapping[str, tuple[str, ...]] | None = getattr(self.fields, "labels", None)
        labels = known or {name: f.heads for name, f in self.fields.items()}
        return "mean" if all(heads == ("mean",) for heads in labels.values()) else "each"

    def _counts(self) -> Mapping[str, int]:
        """Documents of each layer; fields on disk (``StoredFields``) know this without being read."""
        known: Mapping[str, int] | None = getattr(self.fields, "counts", None)
        return known or {name: f.documents for name, f in self.fields.items()}

    @property
    def blocks(self) -> IntArray:
        """Source block of each document, shape (document,); each its own where the documents are not known."""
        if self.documents is not None:
            return np.asarray(self.documents.blocks, dtype=np.int64)
        return np.arange(self.count, dtype=np.int64)

    def layer_name(self, layer: str | int) -> str:
        """Resolve a layer's name or index; InputError names the layers that there are."""
        numbered = isinstance(layer, (int, np.integer)) and not isinstance(layer, bool)
        if numbered and -len(self.layers) <= int(layer) < len(self.layers):
            return self.layers[int(layer)]
        if isinstance(layer, str) and layer in self.fields:
            return layer
        raise InputError(
            f"Layer {layer!r} is not in this ensemble.",
            f"It has {len(self.layers)} layers: {', '.join(self.layers[:4])}"
            + (" ..." if len(self.layers) > 4 else "")
            + ".",
        )

    def __iter__(self) -> Iterator[str]:
        """Names of the layers, in reading order."""
        return iter(self.fields)

    def __getitem__(self, layer: str | int) -> LagField:
        """The field of one layer, by name or index."""
        return self.fields[self.layer_name(layer)]

    def select_layers(self, layers: Sequence[str | int]) -> AttentionEnsemble:
        """The ensemble of some layers, in the order of the original."""
        names = {self.layer_name(layer) for layer in layers}
        keep = [name for name in self.layers if name in names]
        select = getattr(self.fields, "select", None)  # of fields on disk, which are not read for it
        fields = {n: self.fields[n] for n in keep} if select is None else select(keep)
        return replace(self, fields=fields, info={n: self.info[n] for n in keep})

    def select_documents(self, index: IntArray | BoolArray | Sequence[int]) -> AttentionEnsemble:
        """The ensemble of some documents."""
        chosen = np.asarray(index)
        if chosen.dtype == np.bool_:
            chosen = np.flatnonzero(chosen)
        return replace(
            self,
            fields={n: f.select_documents(chosen) for n, f in self.fields.items()},
            documents=None if self.documents is None else self.documents.select(chosen),
        )

    @classmethod
    def from_arrays(
        cls,
        attention: Any,
        causal: bool = True,
        *,
        max_lag: int | None = None,
        unnormalised: bool = False,
        drop_bad: bool = False,
        documents: Documents | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> AttentionEnsemble:
        """Take attention from arrays.

        Parameters
        ----------
        attention : array or mapping
            (documents, layers, L, L), (documents, layers, heads, L, L), or a mapping from layer name to
            (documents, [heads,] L, L). Rows are queries, columns are keys. NumPy arrays or torch tensors; float64
            stays float64, everything else is kept in float32.
        causal : bool
            True: keys after the query carry no mass, which is checked.
        max_lag : int, optional
            Keep a band of lags, see :class:`~eddyscope.lagfield.LagGeometry`.
        unnormalised : bool
            Take rows that do not sum to 1 (scores, logits). Negative entries are then allowed too.
        drop_bad : bool
            Leave out documents with NaN or Inf, with a warning, instead of refusing.
        documents : Documents, optional
        provenance : mapping, optional

        Returns
        -------
        AttentionEnsemble

        Raises
        ------
        InputError
            For another layout, NaN or Inf (named by document and layer), rows that do not sum to 1, negative
            weights, or mass above the diagonal of a causal field.
        """
        arrays, tolerances = _layers_of(attention)
        counts = {name: array.shape[0] for name, array in arrays.items()}
        if len(set(counts.values())) != 1:
            raise InputError(f"Layers have different numbers of documents: {counts}.")
        bad = _bad_documents(arrays)
        if bad and not drop_bad:
            name, index = next(iter(bad.items()))
            raise InputError(
                f"Attention of layer '{name}' has NaN or Inf in document {index[0]}"
                + (
                    f" ({len(bad)} layers, {len(set().union(*bad.values()))} documents in all)."
                    if len(bad) > 1 or len(index) > 1
                    else "."
                ),
                "Leave such documents out with drop_bad=True (--drop-bad).",
            )
        dropped: list[int] = sorted(set().union(*bad.values())) if bad else []
        if dropped:
            arrays, documents = _drop(arrays, documents, dropped)
        for name, array in arrays.items():
            _check_field(name, array, causal, unnormalised, tolerances[name])
        fields = {n: LagField.from_dense(a, causal, max_lag=max_lag) for n, a in arrays.items()}
        info = {
            n: LayerInfo(n, i, query_heads=0 if f.heads == ("mean",) else len(f.heads))
            for i, (n, f) in enumerate(fields.items())
        }
        made = dict(provenance or {})
        made.setdefault("source", "arrays")
        made["documents_dropped"] = dropped
        made["unnormalised"] = unnormalised
        return cls(fields, info, documents, made)


def _layers_of(attention: Any) -> tuple[dict[str, FloatArray], dict[str, float]]:
    """Bring every accepted layout to a mapping from layer name to (document, [head,] query, key).

    The second mapping holds the tolerance of each layer's row sums, which the precision of what came in sets.
    """
    if isinstance(attention, Mapping):
        for value in attention.values():  # also what a model returns, which is a mapping with tuples in it
            if isinstance(value, (list, tuple)):
                _refuse_sequence(value)
        arrays = {str(name): _as_float(value, f"layer '{name}'") for name, value in attention.items()}
        for name, array in arrays.items():
            if array.ndim not in (3, 4) or array.shape[-1] != array.shape[-2]:
                raise InputError(
                    f"Attention of layer '{name}' has shape {array.shape}, expected (documents, [heads,] L, L)."
                )
        if not arrays:
            raise InputError("The mapping of layers is empty.", f"Expected {_LAYOUT}.")
        return arrays, {str(name): _row_tolerance(value) for name, value in attention.items()}
    if isinstance(attention, (list, tuple)):
        _refuse_sequence(attention)
    array = _as_float(attention, "attention")
    if array.ndim not in (4, 5) or array.shape[-1] != array.shape[-2]:
        raise InputError(f"Attention has shape {array.shape}, expected {_LAYOUT}.")
    arrays = {f"layer{index}": array[:, index] for index in range(array.shape[1])}
    return arrays, dict.fromkeys(arrays, _row_tolerance(attention))


def _row_tolerance(value: Any) -> float:
    """How far row sums may be from 1: half precision rounds each weight to 3 digits."""
    half = str(getattr(value, "dtype", "")).endswith("float16")  # float16, torch.float16, torch.bfloat16
    return ROW_TOLERANCE_HALF if half else ROW_TOLERANCE


def _refuse_sequence(attention: Sequence[Any]) -> None:
    """Lists and tuples are refused, with the way to what was probably meant."""
    kind = type(attention).__name__
    if attention and isinstance(attention[0], (list, tuple)):
        raise InputError(
            f"Attention is a {kind} of {len(attention)} {type(attention[0]).__name__}s, which looks like the "
            "attentions of generate(output_attentions=True): ragged, one entry per generated token.",
            "Generate the text first, then capture the model on it: eddyscope.capture(model, documents).",
        )
    shape = tuple(getattr(attention[0], "shape", ())) if attention else ()
    raise InputError(
        f"Attention is a {kind} of {len(attention)} entries"
        + (f" of shape {shape}" if shape else "")
        + f", expected {_LAYOUT}.",
        "For one array per layer pass {f'layer{i}': a for i, a in enumerate(arrays)}.",
    )


def _as_float(value: Any, what: str) -> FloatArray:
    """A NumPy float array from an array or a torch tensor (recognised without importing torch)."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if value.is_floating_point() and str(value.dtype) != "torch.float64":
            value = value.float()  # NumPy has no bfloat16
    array = np.asarray(value)
    if array.dtype.kind != "f":
        if array.ndim == 0:  # None, the name of a file, a model
            raise InputError(f"The {what} is {type(value).__name__}, expected {_LAYOUT}.")
        raise InputError(
            f"The {what} has dtype {array.dtype}, expected floating-point attention weights.",
            "Pass what the softmax gives; where these are such weights, convert them to float32.",
        )
    if array.size == 0:
        raise InputError(f"The {what} is empty: shape {array.shape}.")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)


def _bad_documents(arrays: Mapping[str, FloatArray]) -> dict[str, list[int]]:
    """Documents with NaN or Inf, for each layer that has any."""
    bad: dict[str, list[int]] = {}
    for name, array in arrays.items():
        axes = tuple(range(1, array.ndim))
        with np.errstate(invalid="ignore", over="ignore"):  # Inf less Inf
            suspect = not np.isfinite(array.sum())
        finite = np.isfinite(array).all(axis=axes) if suspect else np.ones(array.shape[0], dtype=bool)
        if not finite.all():
            bad[name] = [int(i) for i in np.flatnonzero(~finite)]
    return bad


def _drop(
    arrays: dict[str, FloatArray], documents: Documents | None, dropped: list[int]
) -> tuple[dict[str, FloatArray], Documents | None]:
    count = next(iter(arrays.values())).shape[0]
    keep = np.setdiff1d(np.arange(count), dropped)
    if keep.size == 0:
        raise InputError(f"All {count} documents have NaN or Inf, nothing is left to analyse.")
    warnings.warn(
        EddyscopeWarning(
            f"Left out {len(dropped)} of {count} documents with NaN or Inf: {dropped}.", "dropped-documents"
        ),
        stacklevel=3,
    )
    return {n: a[keep] for n, a in arrays.items()}, None if documents is None else documents.select(keep)


def _check_field(name: str, array: FloatArray, causal: bool, unnormalised: bool, tolerance: float) -> None:
    """Rows sum to 1, weights are not negative, and a causal field has nothing above the diagonal."""
    if causal:
        above = np.triu(np.ones(array.shape[-2:], dtype=bool), 1)
        largest = float(np.abs(array[..., above]).max(initial=0.0))
        if largest > ROUNDING:
            raise InputError(
                f"Layer '{name}' has attention above the diagonal (largest {largest:.3g}), so it is not causal.",
                "Pass causal=False (--two-sided), or check that the causal mask was applied.",
            )
    if unnormalised:
        return
    remedy = "Pass attention after the softmax, or unnormalised=True (--unnormalised) to analyse scores as they are."
    lowest = float(array.min())
    if lowest < -ROUNDING:
        raise InputError(f"Layer '{name}' has negative weights (lowest {lowest:.3g}).", remedy)
    deviation = np.abs(array.sum(axis=-1, dtype=np.float64) - 1)
    if float(deviation.max()) > tolerance:
        where = np.unravel_index(int(deviation.argmax()), deviation.shape)
        total = float(array[where].sum(dtype=np.float64))
        raise InputError(
            f"Rows of layer '{name}' do not sum to 1: row {int(where[-1])} of document {int(where[0])} sums to "
            f"{total:.4g}.",
            remedy,
        )
