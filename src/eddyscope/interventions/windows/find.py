"""From a model and documents to windows: curve, search, the loss on documents that the search has not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from eddyscope.capture import capture
from eddyscope.documents import Documents
from eddyscope.errors import InputError, UsageError
from eddyscope.interventions.layers import attention_layers
from eddyscope.interventions.losses import mean_interval
from eddyscope.interventions.windows.agreement import Agreement, agreement_of
from eddyscope.interventions.windows.cost import Cost, cost
from eddyscope.interventions.windows.curve import Progress, owed, owed_table, units_of
from eddyscope.interventions.windows.energy import energy_beyond
from eddyscope.interventions.windows.plan import LayerWindow, WindowPlan, describe_model
from eddyscope.interventions.windows.reader import Reader
from eddyscope.interventions.windows.removal import Removal, check_sink, keeps_first
from eddyscope.interventions.windows.search import (
    LEAST_MEASUREMENTS,
    MEASUREMENTS_A_UNIT,
    Found,
    Search,
    ladder,
    measured_windows,
    predicted,
    state_of,
    widen_by,
)
from eddyscope.lagfield import FloatArray, LagField

HEADS = ("all", "each")
#: Share of the documents that the search reads.
SEARCHED = 0.4
#: Called with the stage and how much of it is done: (name, done, in all).
StageProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Windows:
    """What was found.

    Parameters
    ----------
    plans : tuple of WindowPlan
        One for each rise that was asked for, ascending; the first is that of the smallest.
    curve : pandas.DataFrame
        Rise of the loss when one layer (or head) has a window: see :func:`owed_table`.
    agreement : Agreement, optional
        Where octaves were measured.
    notes : tuple of str
        What to know of the result.
    """

    plans: tuple[WindowPlan, ...]
    curve: pd.DataFrame
    agreement: Agreement | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def plan(self) -> WindowPlan:
        """That of the smallest rise."""
        return self.plans[0]


def find(
    model: Any,
    documents: Documents,
    *,
    max_loss_rise: float | Sequence[float] = 0.02,
    heads: str = "all",
    sink: str = "keep",
    windows: Sequence[int] | None = None,
    octaves: bool = False,
    measurements: int | None = None,
    seed: int = 0,
    batch: int | None = None,
    name: str | None = None,
    progress: StageProgress | None = None,
) -> Windows:
    """Find the smallest windows that together stay within a rise of the loss.

    Parameters
    ----------
    model : torch.nn.Module
        A Hugging Face model, causal or encoder, or one of the GPTs in ``eddyscope.models``. Left as it was.
    documents : Documents
        Without padding. Two fifths of them (whole source blocks) are for the curve and the search, the others for the
        loss that is reported.
    max_loss_rise : float or sequence of float
        Largest rise of the mean next-token loss, in nats; of encoders the largest mean distance, 1 - cosine, of the
        documents' embeddings.
    heads : {"all", "each"}
        One window a layer, or one a head.
    sink : {"keep", "drop"}
        Whether key 0 stays visible beyond a window.
    windows : sequence of int, optional
        Windows of the curve, in tokens; powers of two below the context by default. An empty one measures no curve, and
        the search goes by the energy alone. Windows shorter than the shortest of them are not tried.
    octaves : bool
        Measure also what each layer (or head) owes to each octave of the lag energy budget, and compare.
    measurements : int, optional
        Most measurements of windows together; 60 by default, or 4 for each layer or head if more.
    seed : int
        Of the division of the documents.
    batch : int, optional
        Documents read at a time.
    name : str, optional
        Name of the model in the plan.
    progress : callable, optional
        Called with (stage, done, in all).

    Returns
    -------
    Windows

    Raises
    ------
    UsageError
        For an option that cannot be.
    InputError
        For documents that are padded or cannot be divided.
    CaptureError
        Where the attention of the model cannot be edited.
    """
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    limits = _limits(max_loss_rise)
    check_sink(sink)
    if heads not in HEADS:
        raise UsageError(f"heads must be all or each, got {heads!r}.")
    context = documents.context
    chosen = measured_windows(context) if windows is None else sorted({int(w) for w in windows})
    if chosen and not 1 <= chosen[0] <= chosen[-1] < context:
        raise UsageError(f"windows must be 1 to {context - 1} tokens, got {chosen}.")
    shown = progress or (lambda stage, done, total: None)
    work = _Work(model, documents, heads, sink, chosen, seed, batch, shown)
    between = work.agreement() if octaves else None
    most = measurements or max(LEAST_MEASUREMENTS, MEASUREMENTS_A_UNIT * len(work.units))
    plans = work.plans(limits, most, name)
    return Windows(tuple(plans), work.curve_table, between, tuple(work.notes))


def divide(documents: Documents, share: float, seed: int) -> tuple[Documents, Documents]:
    """Divide documents into two parts made of whole source blocks.

    Parameters
    ----------
    documents : Documents
    share : float
        Wanted in the first part.
    seed : int

    Raises
    ------
    InputError
        Where all documents belong to one block.
    """
    blocks = np.unique(documents.blocks)
    if len(documents) < 2:
        raise InputError(
            "One document leaves none that the search has not seen.", "Give two or more, better 20 (--documents)."
        )
    if blocks.size < 2:
        raise InputError(
            f"The {len(documents)} documents are one stretch of text, so none is left that the search has not seen.",
            "Give a longer text, or fewer documents (--documents).",
        )
    order = np.random.default_rng(seed).permutation(blocks)
    sizes = np.array([(documents.blocks == block).sum() for block in order])
    cut = int(np.argmin(np.abs(np.cumsum(sizes)[:-1] - share * len(documents)))) + 1
    first = np.isin(documents.blocks, order[:cut])
    return documents.select(first), documents.select(~first)


def _limits(given: float | Sequence[float]) -> list[float]:
    values = sorted({float(v) for v in ([given] if isinstance(given, (int, float)) else given)})
    if not values or not all(np.isfinite(values)) or values[0] <= 0:
        raise UsageError(f"max_loss_rise must be positive, got {given!r}.")
    return values


class _Work:
    """The steps of :func:`find`, with what they share."""

    def __init__(
        self,
        model: Any,
        documents: Documents,
        heads: str,
        sink: str,
        windows: list[int],
        seed: int,
        batch: int | None,
        progress: StageProgress,
    ) -> None:
        self.model, self.heads, self.sink, self.seed, self.batch = model, heads, sink, seed, batch
        self.context, self.windows, self.progress = documents.context, windows, progress
        self.layers = attention_layers(model)
        self.searched, self.unseen = divide(documents, SEARCHED, seed)
        self.notes: list[str] = []
        progress("reading", 0, 1)
        self.reader = Reader(model, self.searched, sink=sink, batch=batch)
        self.units = units_of(self.reader, heads)
        self.fields = capture(model, self.searched, heads="each" if heads == "each" else "mean", checks=False)
        rises = owed(self.reader, self.units, [Removal(w) for w in windows], self._of("curve"))
        self.curve_table = owed_table(self.reader, self.units, [{"window": w} for w in windows], rises)
        # Below the shortest measured window energy alone would speak; where a rise drowns in noise it says nothing.
        self.steps = [step for step in ladder(self.context) if not windows or step >= windows[0]]
        self.predicted = np.stack(
            [
                predicted(windows, rises[i].mean(axis=-1), self._beyond(i), self.steps, self.context)
                for i in range(len(self.units))
            ]
        )

    def agreement(self) -> Agreement:
        """Energy against the loss owed to each octave."""
        return agreement_of(self.reader, self.units, self.fields, self._of("octaves"))

    def plans(self, limits: list[float], measurements: int, name: str | None) -> list[WindowPlan]:
        """A plan for each limit, the smallest first; each search starts from the one before."""
        unseen = Reader(self.model, self.unseen, sink=self.sink, batch=self.batch)
        made: list[WindowPlan] = []
        start: tuple[int, ...] | None = None
        for limit in limits:
            search = Search(
                self.reader, self.units, self.steps, self.predicted, limit, measurements, self._of("search")
            )
            found = search.run(start)
            start = found.steps
            made.append(self._plan(found, limit, unseen, name))
        return made

    def _plan(self, found: Found, limit: float, unseen: Reader, name: str | None) -> WindowPlan:
        steps, widened = found.steps, 0
        while True:
            self.progress("unseen", widened, widened + 1)
            after = unseen.measured(state_of(self.units, [self.steps[s] for s in steps], self.context))
            excess = float(after.mean()) - limit
            if excess <= 0:
                break
            longer = widen_by(steps, self.predicted, self.steps, excess)
            if longer == steps:  # nothing is removed any more, and what is left is rounding
                break
            steps, widened = longer, widened + sum(longer) - sum(steps)
        if not found.exhausted:
            self.notes.append(
                f"The search for a rise of {limit:g} ended after {found.measurements} measurements, before no window "
                "could be shortened."
            )
        layers = self._windows(steps)
        return WindowPlan(
            describe_model(self.model, self.layers, name),
            self.context,
            self.sink,
            layers,
            self._measured(layers, found, limit, unseen, after, widened),
        )

    def _windows(self, steps: Sequence[int]) -> tuple[LayerWindow, ...]:
        each: dict[int, list[int]] = {layer.index: [] for layer in self.layers}
        for unit, step in zip(self.units, steps, strict=True):
            each[unit.layer].append(self.steps[step])
        return tuple(
            LayerWindow(layer.name, max(each[layer.index]), tuple(each[layer.index]) if self.heads == "each" else None)
            for layer in self.layers
        )

    def _measured(
        self,
        layers: tuple[LayerWindow, ...],
        found: Found,
        limit: float,
        unseen: Reader,
        after: FloatArray,
        widened: int,
    ) -> dict[str, Any]:
        rise = mean_interval(after, self.unseen)
        bounds = [float(rise.low), float(rise.high)]
        before = cost(self.model, self.layers, self.context, [(self.context,)] * len(layers), self.sink)
        now = cost(self.model, self.layers, self.context, [layer.each for layer in layers], self.sink)
        return {
            "max_loss_rise": limit,
            "measure": unseen.measure,
            "unit": unseen.unit,
            "loss": {
                "before": float(unseen.before.mean()),
                "after": float((unseen.before + after).mean()),
                "rise": float(rise.estimate),
                "interval": bounds if np.isfinite(bounds).all() else None,
            },
            "cost": {"before": before.as_dict(), "after": now.as_dict(), **shares(before, now)},
            "documents": {"searched": len(self.searched), "unseen": len(self.unseen), "seed": self.seed},
            "search": {
                "rise": found.rise,
                "measurements": found.measurements,
                "exhausted": found.exhausted,
                "widened": widened,
            },
        }

    def _of(self, stage: str) -> Progress:
        return lambda done, total: self.progress(stage, done, total)

    def _field(self, unit: int) -> tuple[LagField, int]:
        own = self.units[unit]
        return self.fields[self.layers[own.layer].name], own.head or 0

    def _beyond(self, unit: int) -> FloatArray:
        field, head = self._field(unit)
        return energy_beyond(field, head, keeps_first(self.layers[self.units[unit].layer], self.sink))


def shares(before: Cost, after: Cost) -> dict[str, float | None]:
    """What is left of cache and arithmetic, as shares of what there was."""
    kept = before.cache_entries, after.cache_entries
    cache = None if kept[0] is None or kept[1] is None else kept[1] / kept[0]
    return {"cache_share": cache, "flops_share": after.flops / before.flops}
