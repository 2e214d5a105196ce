"""The probe of a capture: short passes that find the layers of a model and check them before the work."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from eddyscope.capture.batches import Reading
from eddyscope.capture.checks import (
    MASKED,
    Probe,
    Seen,
    Verdict,
    causality_check,
    changed_later,
    layer_checks,
    outputs_check,
)
from eddyscope.capture.influence import influence_checks, key_value_checks
from eddyscope.capture.options import Options
from eddyscope.capture.source import Inputs, Source
from eddyscope.errors import CaptureError

#: Tokens that the probe reads: enough for the checks, and cheap beside the capture.
CHECK_TOKENS = 32
#: Tokens that it reads when no checks are wanted, to find out which layers show what.
LOOK_TOKENS = 8


def probe_layers(
    source: Source, reading: Reading, options: Options, verdict: Verdict, implementation: str
) -> tuple[dict[str, Seen], dict[str, str]]:
    """Let the model read the beginning of the first good document; find its layers and check them.

    Returns
    -------
    seen : dict
        By layer, in the order in which they are called.
    silent : dict
        Layers that gave no weights, with what they gave.
    """
    tokens = CHECK_TOKENS if options.checks else LOOK_TOKENS
    for document in range(reading.count):
        inputs = source.completed(reading.beginning(document, tokens, source.device))
        probe = Probe()
        with source.ready(), source.listening(probe):
            captured = source.outputs(inputs)
        _set_apart(probe, inputs)
        _expect_layers(source, probe)
        spoiled = next((name for name, seen in probe.seen.items() if not seen.finite), None)
        if spoiled is None:
            break
        if not options.drop_bad:
            raise not_finite(spoiled, document)
    else:
        raise CaptureError(
            f"All {reading.count} documents give NaN or Inf, nothing is left to analyse.",
            "Half precision overflows in some models: load the model in float32.",
        )
    if options.checks:
        _check_layers(source, probe, verdict)
        with _as_given(source):
            plain = source.outputs(inputs)
        if captured is not None and plain is not None:
            verdict.add([outputs_check(captured, plain, implementation, is_half(source))])
        del captured, plain
        _check_causality(source, probe, inputs, verdict)
        verdict.add(influence_checks(source, probe.seen, inputs))
        verdict.add(key_value_checks(source, probe.seen, inputs))
    return probe.seen, {
        name: f"{type(site.module).__name__} gave {what}" for name, (site, what) in probe.silent.items()
    }


@contextlib.contextmanager
def _as_given(source: Source) -> Iterator[None]:
    """The model as the user gave it, only in eval mode and without gradients."""
    from eddyscope.capture.state import evaluated

    with evaluated(source.model):
        yield


def _expect_layers(source: Source, probe: Probe) -> None:
    """At least one layer must have shown a map."""
    if probe.seen:
        return
    if not probe.silent:
        kinds = ", ".join(dict.fromkeys(type(site.module).__name__ for site in source.sites))
        raise CaptureError(
            f"None of the {len(source.sites)} attention modules ({kinds}) of {type(source.model).__name__} ran.",
            "Others may take their place for short documents (BigBird: set attention_type='original_full').",
        )
    name, (site, what) = next(iter(probe.silent.items()))
    if " queries and " in what:
        remedy = "Such attention is not between all positions of a document (but in windows, pooled, or to landmarks)."
    else:
        remedy = (
            "Set its attention implementation to 'eager' (model.set_attn_implementation('eager')), or load it with "
            "attn_implementation='eager', and try again."
        )
    raise CaptureError(
        f"No attention can be read from {type(source.model).__name__} ({source.way}): "
        f"{type(site.module).__name__} gave {what} instead of weights in layer '{name}'"
        + (f" and {len(probe.silent) - 1} more." if len(probe.silent) > 1 else "."),
        remedy,
    )


def _set_apart(probe: Probe, inputs: Inputs) -> None:
    """Move layers whose maps are not between the positions of the documents to those without attention.

    Attention in windows of an image, to landmarks or among pooled positions has no lag between tokens.
    """
    documents = next(iter(inputs.values())).shape[0]
    plain = all(not value.is_floating_point() for value in inputs.values())
    names = ("input_ids", "decoder_input_ids") if plain else ()
    tokens = {inputs[name].shape[1] for name in names if name in inputs}
    for name, seen in list(probe.seen.items()):
        count, _, queries, keys = seen.shape
        square = queries == keys or seen.site.kind == "cross"
        if count != documents or not square or (tokens and queries not in tokens):
            of = f" of {' and '.join(map(str, sorted(tokens)))} tokens" if tokens else ""
            given = "a map" if count == 1 else f"{count} maps"
            what = f"{given} of {queries} queries and {keys} keys for {documents} document{'s' * (documents > 1)}{of}"
            probe.silent[name] = (seen.site, what)
            del probe.seen[name]


def is_causal(seen: Seen) -> bool:
    """What the module states, and what the data show where it states nothing or calls itself two-sided.

    A module that states to be causal counts as causal, so that a lost mask fails the check instead of passing as
    two-sided attention. Others are causal where nothing at all lies above the diagonal.
    """
    return seen.site.kind == "self" and (seen.site.causal is True or seen.above <= MASKED)


def _check_layers(source: Source, probe: Probe, verdict: Verdict) -> None:
    stated = source.identity().get("heads")
    for name, seen in probe.seen.items():
        heads = seen.site.heads or (stated if isinstance(stated, int) else None)
        verdict.add(layer_checks(name, seen, is_causal(seen), heads, is_half(source)))


def _check_causality(source: Source, probe: Probe, inputs: Inputs, verdict: Verdict) -> None:
    """Read with the second half changed; causal layers must show the same in the first half.

    In a model without causal layers the same tokens are read again. Either way the pass is made as the capture will
    read, so it also shows that the short cut past the head gives the same attention; where it does not, the capture
    reads through the whole model.
    """
    causal = {name: is_causal(seen) for name, seen in probe.seen.items()}
    changed = changed_later(inputs) if any(causal.values()) else None
    for attempt in ("short", "full"):
        again = Probe()
        with source.ready(), source.listening(again):
            source.read(inputs if changed is None else changed)
        _set_apart(again, inputs)
        checks = [
            causality_check(name, seen, again.seen[name], causal[name] and changed is not None, is_half(source))
            for name, seen in probe.seen.items()
            if name in again.seen and (causal[name] or changed is None)
        ]
        if set(again.seen) == set(probe.seen) and all(c.passed for c in checks):
            break
        if attempt == "short":
            source.read_in_full()
    verdict.add(checks)


def is_half(source: Source) -> bool:
    """Whether the model computes in half precision."""
    return source.dtype in (torch.float16, torch.bfloat16)


def not_finite(layer: str, document: int) -> CaptureError:
    """The error for attention with NaN or Inf."""
    return CaptureError(
        f"Attention of layer '{layer}' has NaN or Inf in document {document}.",
        "Leave such documents out with drop_bad=True (--drop-bad).",
    )
