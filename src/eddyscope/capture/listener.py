"""Who listens to attention modules while a model reads: gives each its layer's name, and its values their norms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from eddyscope.capture.blockwise import Room
from eddyscope.capture.source import Receiver, Site
from eddyscope.capture.values import Projections
from eddyscope.errors import CaptureError


class SiteListener:
    """Passes on what attention modules compute, under the names of the sites that they are or lie in.

    Parameters
    ----------
    sites : tuple of Site
    receive : callable
    calls : collections.Counter
        Calls of each site in this pass, by name: the second call is ``name#2``.
    projections : Projections, optional
        Where the norms of values are wanted.

    Attributes
    ----------
    room : Room
        Where modules that attend in blocks put them.
    """

    def __init__(
        self, sites: tuple[Site, ...], receive: Receiver, calls: Counter[str], projections: Projections | None
    ) -> None:
        self.room = Room()
        self._receive = receive
        self._calls = calls
        self._projections = projections
        self._sites: dict[int, Site] = {}
        self._spoken: dict[str, int] = {}  # of the sites whose calls are announced
        for site in sites:
            # A site may be a module around the one that attends (T5); the nearest counts.
            for module in site.module.modules():
                known = self._sites.get(id(module))
                if known is None or len(known.name) < len(site.name):
                    self._sites[id(module)] = site

    def enters(self, site: Site) -> None:
        """The module of a site is called."""
        self._spoken[site.name] = 0

    def spoke(self, site: Site) -> bool:
        """Whether the module of a site has attended since it was called."""
        return self._spoken.get(site.name, 0) > 0

    def begins(self, module: nn.Module) -> Callable[[Any], None]:
        """A module begins to attend; returns who takes its rows: nobody, where it lies in no site.

        Raises
        ------
        CaptureError
            Where it attends for the second time in one call, so that no map is the map of the layer.
        """
        site = self._sites.get(id(module))
        if site is None:
            return lambda given: None
        if site.name in self._spoken:
            self._spoken[site.name] += 1
        if self._spoken.get(site.name, 0) > 1:
            raise CaptureError(
                f"Layer '{site.name}' ({type(module).__name__}) attends more than once in a call, so its attention "
                "functions give no single map.",
                "Capture what the module gives in the end with way='hooks' (--way hooks).",
            )
        self._calls[site.name] += 1
        count = self._calls[site.name]
        name = site.name if count == 1 else f"{site.name}#{count}"
        return lambda given: self._receive(name, site, given)

    def value_norm(self, module: nn.Module, heads: int, value: Tensor) -> Tensor | None:
        """Norm of the values in the residual stream, shape (document, head, key), where that is wanted."""
        if self._projections is None or id(module) not in self._sites:
            return None
        return self._projections.norms(module, heads, value)

    def ends(self, module: nn.Module, output: Tensor) -> None:
        """A module has attended, with this output (document, query, head, feature)."""
        if self._projections is not None:
            self._projections.attended(module, output)
