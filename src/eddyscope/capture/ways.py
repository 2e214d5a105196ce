"""The ways in which attention is seen: by hooks, by an attention function, in blocks of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from eddyscope.capture.listener import SiteListener
from eddyscope.capture.source import Receiver, Site, Wants
from eddyscope.capture.values import Projections
from eddyscope.errors import CaptureError

#: What the provenance says of the ways that compute attention themselves.
WAYS = {"function": "attention function around eager", "blocks": "attention in blocks of query rows"}

#: Bytes of one layer's whole weights of one document, in float32, above which ``auto`` goes over to blocks of rows
#: where only a band of lags is kept.
WHOLE_BYTES = 1 << 30


def chosen_way(wants: Wants) -> str:
    """Hooks, where nothing else is asked for; a function where values are needed, which hooks don't see.

    Raises
    ------
    CaptureError
        Where values are needed and hooks were asked for.
    """
    if wants.way == "auto":
        return "function" if wants.value_norm else "hooks"
    if wants.way == "hooks" and wants.value_norm:
        raise CaptureError(
            "Hooks see the weights of attention and not its values, which weight='value-norm' needs.",
            "Leave out the way, or capture with way='function' (--way function).",
        )
    return wants.way


def suits_blocks(heads: int | None, length: int, max_lag: int | None) -> bool:
    """Whether ``auto`` goes over to blocks of rows: a band of lags is kept, and whole weights would be large."""
    return max_lag is not None and heads is not None and 4 * heads * length * length > WHOLE_BYTES


def implementation(way: str) -> str:
    """The name of a way in the attention interface of transformers."""
    from eddyscope.capture.interface import BLOCKS, FUNCTION  # registers both, when it is first asked for

    return FUNCTION if way == "function" else BLOCKS


@contextmanager
def heard(
    sites: tuple[Site, ...], receive: Receiver, calls: Counter[str], projections: Projections | None
) -> Iterator[None]:
    """Listen to the attention functions of a model of transformers.

    Parameters
    ----------
    sites : tuple of Site
    receive : callable
    calls : collections.Counter
        Calls of each site in this pass.
    projections : Projections, optional
        Where the norms of values are wanted.

    Raises
    ------
    CaptureError
        Where a site runs without calling its attention function, or calls it more than once.
    """
    from eddyscope.capture.interface import told

    listener = SiteListener(sites, receive, calls, projections)
    with ExitStack() as stack:
        for site in sites:
            stack.callback(site.module.register_forward_pre_hook(_enters(site, listener)).remove)
            stack.callback(site.module.register_forward_hook(_spoke(site, listener)).remove)
        if projections is not None:
            stack.enter_context(projections.checking())
        stack.enter_context(told(listener))
        yield


def _enters(site: Site, listener: SiteListener) -> Callable[[nn.Module, Any], None]:
    return lambda module, arguments: listener.enters(site)


def _spoke(site: Site, listener: SiteListener) -> Callable[[nn.Module, Any, Any], None]:
    def check(module: nn.Module, arguments: Any, output: Any) -> None:
        if not listener.spoke(site):
            raise CaptureError(
                f"Layer '{site.name}' ({type(module).__name__}) does not take part in the attention interface of "
                "transformers.",
                "Capture it with way='hooks' (--way hooks).",
            )

    return check
