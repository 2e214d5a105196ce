"""The self-checks of a capture: what could be wrong without anything being said.

A probe reads the beginning of one document three times: through the whole model with the hooks, through the whole
model as it was given, and, changed towards its end, in the way that the capture reads. Later the packed fields of all
documents are checked once more. Each check gives a value and the tolerance that it was held against.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from eddyscope.capture.source import Inputs, Rows, Site, is_attention
from eddyscope.errors import CheckError, EddyscopeWarning
from eddyscope.lagfield import LagField

#: Largest deviations, single precision first, then half precision.
ROWS = (1e-3, 1e-2)
CAUSALITY = (1e-5, 1e-2)
OUTPUTS = (1e-3, 5e-2)
#: Mass that a mask must leave on a key that it forbids.
MASKED = 1e-6

_REMEDY = {
    "shape": "The attention module does not return one map per query head; capture it with checks off only if you "
    "know why.",
    "rows sum to 1": "Weights that are not a softmax (or dropout at work) give other sums; see docs/capture.md.",
    "masked keys": "The attention function lost its causal mask: register its mask function too "
    "(AttentionMaskInterface.register), or set the implementation to 'eager'.",
    "causality": "Earlier tokens see later ones in some way; results over lags would mix past and future.",
    "outputs": "The model does not compute the same when its attention is captured; set its implementation to 'eager' "
    "and compare.",
    "influence": "What the module gives as attention may not be what the model uses; do not trust this layer.",
    "key-value map": "Query heads read other key-value heads than recorded; results per key-value head would be wrong.",
    "window": "The layer reaches beyond the sliding window of its config.",
}


@dataclass(frozen=True)
class Check:
    """One check of one layer (or of the model, where ``layer`` is None) and its result.

    Parameters
    ----------
    check : str
    layer : str or None
    passed : bool
    value : float
        What was measured.
    tolerance : float
        What it was held against: passed where value <= tolerance.
    note : str
    """

    check: str
    layer: str | None
    passed: bool
    value: float
    tolerance: float
    note: str = ""

    @classmethod
    def at_most(cls, check: str, layer: str | None, value: float, tolerance: float, note: str = "") -> Check:
        """A check that holds where the value does not exceed the tolerance; NaN fails."""
        return cls(check, layer, bool(value <= tolerance), float(value), tolerance, note)


@dataclass
class Seen:
    """What one pass of the probe showed of one layer.

    Parameters
    ----------
    site : Site
    shape : tuple of int
        (document, head, query, key).
    rows : float
        Largest deviation of a row sum from 1, over all heads; above 1 only where the layer has a sink of its own.
    negative : float
        Largest negative weight, as a positive number.
    above : float
        Largest weight on a key after its query.
    early : Tensor
        One random combination of the heads of the first half of queries and keys (of all of them for two-sided
        layers): where it is the same, so were the maps.
    finite : bool
    """

    site: Site
    shape: tuple[int, ...]
    rows: float
    negative: float
    above: float
    early: Tensor
    finite: bool


class Probe:
    """Receiver for the passes of the probe, which are short: looks at the attention of each layer.

    Parameters
    ----------
    keep : str, optional
        Layer whose maps are kept, as ``kept``.
    """

    def __init__(self, keep: str | None = None) -> None:
        self.keep = keep
        self.kept = torch.empty(0)
        self.seen: dict[str, Seen] = {}
        self.silent: dict[str, tuple[Site, str]] = {}
        self._begun: dict[str, Tensor] = {}

    def __call__(self, name: str, site: Site, given: Any) -> None:
        """Look at the attention of one layer; blocks of rows are put together."""
        if not isinstance(given, Rows) or not is_attention(given.weights):
            value = given.weights if isinstance(given, Rows) else given
            what = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            self.silent[name] = (site, what)
            return
        maps = given.weights.float()
        if given.first:
            maps = torch.cat([self._begun.pop(name), maps], dim=2)
        if given.total is not None and maps.shape[2] < given.total:
            self._begun[name] = maps.clone()  # the memory of a block is used again for the next, and by other layers
        else:
            self.seen[name] = _look(maps, site)
            if name == self.keep:
                self.kept = maps.clone()


def _look(maps: Tensor, site: Site) -> Seen:
    sums = maps.sum(-1)
    excess = (sums - 1).clamp_min(0) if site.own_sink else (sums - 1).abs()
    above = torch.ones(maps.shape[-2:], dtype=torch.bool, device=maps.device).triu(1)
    return Seen(
        site=site,
        shape=tuple(maps.shape),
        rows=float(excess.max()),
        negative=float((-maps).clamp_min(0).max()),
        above=float(maps.amax(dim=(0, 1)).masked_fill(~above, 0).max()),
        early=_combined(maps).cpu(),
        finite=bool(torch.isfinite(sums).all()),
    )


def _combined(maps: Tensor) -> Tensor:
    """One fixed random combination of the heads of each map, shape (document, query, key)."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(maps.shape[1], generator=generator).to(maps.device)
    return torch.einsum("bhij,h->bij", maps, weight)


def changed_later(inputs: Inputs) -> Inputs | None:
    """The same tokens in the first half, other ones in the second; None where the inputs hold no tokens.

    The other tokens are the document's own, one place further, so that the model surely knows them. A decoder's tokens
    are changed alone: of an encoder nothing is causal.
    """
    name = "decoder_input_ids" if "decoder_input_ids" in inputs else "input_ids"
    if name not in inputs:
        return None
    ids = inputs[name]
    half = ids.shape[1] // 2
    later = ids[:, half:].roll(1, dims=1)
    if torch.equal(later, ids[:, half:]):
        later = torch.where(ids[:, half:] == 0, 1, 0)
    return inputs | {name: torch.cat([ids[:, :half], later], dim=1)}


def layer_checks(name: str, seen: Seen, causal: bool, heads: int | None, half: bool) -> list[Check]:
    """Shape, rows and mask of one layer, from the pass through the whole model."""
    _, found, queries, keys = seen.shape
    fits = (heads is None or found == heads) and (queries == keys or seen.site.kind == "cross")
    shape = Check(
        "shape", name, fits, float(found), float(heads or found), f"{found} heads, {queries} queries, {keys} keys"
    )
    note = "the layer has a sink of its own, so rows may sum to less than 1" if seen.site.own_sink else ""
    checks = [shape, Check.at_most("rows sum to 1", name, max(seen.rows, seen.negative), ROWS[half], note)]
    if causal:
        checks.append(Check.at_most("masked keys", name, seen.above, MASKED, "largest weight above the diagonal"))
    return checks


def causality_check(name: str, before: Seen, after: Seen, causal: bool, half: bool) -> Check:
    """The maps of two passes are the same: where only later tokens changed, for the first half of the document."""
    first, second = before.early, after.early
    if causal:
        size = first.shape[-1] // 2
        first, second = first[:, :size, :size], second[:, :size, :size]
    value = float((first - second).abs().max()) if first.numel() else 0.0
    if causal and before.site.looks_ahead:
        note = "known of this kind of layer: attention of the first half moves so much when the second half changes"
        return Check.at_most("looks ahead", name, value, 1.0, note)
    note = "attention of the first half when the second half changes" if causal else "attention of two passes"
    return Check.at_most("causality" if causal else "repeatable", name, value, CAUSALITY[half], note)


def outputs_check(captured: Tensor, plain: Tensor, implementation: str, half: bool) -> Check:
    """The model computes the same with capture as it did when it was given."""
    first, second = captured.float(), plain.float()
    if torch.equal(first.isfinite(), second.isfinite()):
        # Outputs that are not finite (masked logits) are the model's own affair where they are the same.
        first, second = first[first.isfinite()], second[second.isfinite()]
    scale = float(second.abs().max()) if second.numel() else 1.0
    value = float((first - second).abs().max()) / max(scale, 1e-30) if second.numel() else 0.0
    note = f"largest difference from the model as it was given ({implementation}), over the largest output"
    return Check.at_most("outputs", None, value, OUTPUTS[half], note)


def padding_check(rows: int) -> Check:
    """Rows of padding that were left out before reading, over all documents: noted, as the model never sees them."""
    return Check("padding", None, True, float(rows), float(rows), "rows of padding left out before reading")


def field_checks(
    name: str,
    field: LagField,
    window: int | None,
    own_sink: bool,
    half: bool,
    whole: bool,
    value_weighted: bool = False,
) -> list[Check]:
    """Rows, mask and window of one layer over all documents, from what was kept.

    ``whole`` says that the documents were not longer than the field. Rows of value-weighted attention sum to anything,
    so only the probe can look at them; what is held against zero is taken over their mean sum.
    """
    assert field.row_sum is not None
    scale = float(field.row_sum.mean(dtype="float64")) or 1.0 if value_weighted else 1.0
    checks = [] if value_weighted else _row_checks(name, field, own_sink, half)
    geometry = field.geometry
    if geometry.max_lag is None and (whole or field.causal):
        # Weights are not negative, so what the packed entries lack of the row sums lies on keys that were not kept.
        kept = field.values.sum(axis=-1, dtype="float64")
        lost = float(abs(field.row_sum.sum(axis=-1, dtype="float64") - kept).max()) / geometry.queries / scale
        checks.append(Check.at_most("masked keys", name, lost, ROWS[half], "share of mass not kept, all documents"))
    if window is not None:
        beyond = field.lags >= window if field.causal else abs(field.lags) > window
        if beyond.any():
            outside = max(float(field.at_lag(int(lag)).max()) for lag in field.lags[beyond]) / scale
            note = f"largest weight beyond the window of {window} tokens; {_reach(field)} tokens are reached"
            checks.append(Check.at_most("window", name, outside, MASKED, note))
    return checks


def _row_checks(name: str, field: LagField, own_sink: bool, half: bool) -> list[Check]:
    """Rows sum to 1, or to less by what a sink of the layer's own takes."""
    assert field.row_sum is not None
    deviation = field.row_sum - 1
    rows = float(deviation.max() if own_sink else abs(deviation).max())
    checks = [Check.at_most("rows sum to 1", name, rows, ROWS[half], "all documents, as kept")]
    if own_sink:
        note = "mean mass on the layer's own sink, missing from the rows"
        checks.append(Check.at_most("missing mass", name, -float(deviation.mean()), 1.0, note))
    return checks


def _reach(field: LagField) -> int:
    """Farthest distance with any weight, the query's own position counted."""
    reached = [abs(int(lag)) for lag in field.lags if field.at_lag(int(lag)).max() > MASKED]
    return max(reached, default=-1) + 1


class Verdict:
    """Collects checks; the first that fails is an error, or a warning at the end where failures are allowed.

    Parameters
    ----------
    allow : bool
        Go on after a failure.
    """

    def __init__(self, allow: bool) -> None:
        self.allow = allow
        self.checks: list[Check] = []

    def add(self, checks: Iterable[Check]) -> None:
        """Take the results of some checks.

        Raises
        ------
        CheckError
            For the first that failed, unless failures are allowed.
        """
        checks = list(checks)
        self.checks += checks
        failed = [c for c in checks if not c.passed]
        if failed and not self.allow:
            raise _error(failed)

    @property
    def failed(self) -> list[str]:
        """Names of the checks that failed, each with its layer."""
        return [_label(c) for c in self.checks if not c.passed]

    def warn(self) -> None:
        """Say once that checks failed and the capture went on."""
        failed = self.failed
        if failed:
            more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
            message = f"The capture went on although checks failed: {failed[0]}{more}."
            warnings.warn(EddyscopeWarning(message, "failed-checks"), stacklevel=4)

    def records(self) -> list[dict[str, Any]]:
        """All checks, JSON-able."""
        return [asdict(c) for c in self.checks]


def _label(check: Check) -> str:
    return check.check if check.layer is None else f"{check.check} in layer '{check.layer}'"


def _error(failed: list[Check]) -> CheckError:
    first = failed[0]
    where = "" if first.layer is None else f" in layer '{first.layer}'"
    more = f" {len(failed) - 1} more failed." if len(failed) > 1 else ""
    note = f" ({first.note})" if first.note else ""
    return CheckError(
        f"Check '{first.check}' failed{where}: {first.value:.3g}, tolerance {first.tolerance:.3g}{note}.{more}",
        f"{_REMEDY.get(first.check, 'See docs/capture.md.')} To go on all the same, allow_failed_checks=True "
        "(--allow-failed-checks) marks the study.",
    )
