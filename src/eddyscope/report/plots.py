"""Panels of single layers in matplotlib axes: ``study.plot.scalogram(layer=3)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from eddyscope.errors import InputError
from eddyscope.report.lag_energy import octave_table
from eddyscope.report.maps import first_mode, plot_coherence, plot_map, root_norm
from eddyscope.report.nulls import members, null_kinds
from eddyscope.report.profiles import plot_mode_profiles
from eddyscope.report.scalograms import plot_scalogram, share_axes
from eddyscope.report.spectra import log_log, plot_eigenvalue_spectra, spectrum_limits
from eddyscope.report.style import BLUE, DIVERGING, GREY, house_style
from eddyscope.report.views import View, view_of
from eddyscope.study.summary import octave_labels

if TYPE_CHECKING:
    from eddyscope.study.study import Study


class StudyPlots:
    """Panels of one layer (and head), each drawn into axes, which it returns.

    Every method takes ``layer`` (name or position), ``head`` (needed where each was kept) and ``ax`` (matplotlib axes;
    a new figure by default). In a notebook a new figure shows itself.

    Examples
    --------
    >>> import eddyscope as es, numpy as np
    >>> weights = np.tril(np.random.default_rng(0).random((10, 1, 16, 16)))
    >>> weights /= weights.sum(axis=-1, keepdims=True)
    >>> study = es.analyze(es.AttentionEnsemble.from_arrays(weights, causal=True))
    >>> study.plot.octaves(layer=0).get_xlabel()
    'distance, tokens'
    """

    def __init__(self, study: Study) -> None:
        self._study = study

    def __repr__(self) -> str:
        return "<Plots of a study: scalogram, modes, profiles, spectrum, octaves, coherence (layer, head, ax)>"

    def scalogram(self, layer: str | int = 0, head: str | int | None = None, ax: Axes | None = None) -> Axes:
        """Energy of the fluctuation by lag and wavelength, with the cone of influence and dominant wavelengths."""
        view, axes = self._begin(layer, head, ax)
        with house_style():
            mesh = plot_scalogram(view, axes)
            if mesh is not None:
                share_axes([axes], [view])
                axes.figure.colorbar(mesh, ax=axes, label="energy")
        return _named(axes, view, "lag, tokens", "wavelength, tokens")

    def modes(
        self,
        layer: str | int = 0,
        head: str | int | None = None,
        ax: Axes | None = None,
        *,
        mode: int = 1,
        band: int | None = None,
    ) -> Axes:
        """A mode as a map over queries and keys.

        ``mode`` counts from 1; ``band`` is the number of a band, or None for the decomposition without a window.
        """
        view, axes = self._begin(layer, head, ax)
        values = _mode(view, mode, band)
        with house_style():
            image = plot_map(values, axes, root_norm([values]), DIVERGING)
            axes.figure.colorbar(image, ax=axes, label=f"mode {mode}")
        return _named(axes, view, "key, token", "query, token")

    def profiles(self, layer: str | int = 0, head: str | int | None = None, ax: Axes | None = None) -> Axes:
        """Lag profiles of the first modes of the first band, and dashed of the first mode without a window."""
        view, axes = self._begin(layer, head, ax)
        with house_style():
            plot_mode_profiles(view, axes)
        return _named(axes, view, "lag, tokens", "mode over its largest value")

    def spectrum(self, layer: str | int = 0, head: str | int | None = None, ax: Axes | None = None) -> Axes:
        """Eigenvalues by rank, without a window and of each band, with the published fit."""
        view, axes = self._begin(layer, head, ax)
        with house_style():
            if plot_eigenvalue_spectra(view, axes):
                height = axes.figure.bbox.height / axes.figure.dpi
                log_log(axes, float(height), int(view.data.attrs["documents"]), *spectrum_limits([view]))
        return _named(axes, view, "rank", "eigenvalue")

    def octaves(self, layer: str | int = 0, head: str | int | None = None, ax: Axes | None = None) -> Axes:
        """Density of the fluctuation by octave of distance, with its interval; grey the untrained twin."""
        view, axes = self._begin(layer, head, ax)
        labels = octave_labels(view.data)
        sides = ("back",) if view.causal else ("back", "ahead")
        with house_style():
            for place, side in enumerate(sides):
                wanted = None if view.causal else side
                density = octave_table([view], "octave_density", wanted, len(labels))[0]
                x = np.arange(density.size) + (0.0 if view.causal else 0.2 * (2 * place - 1))
                axes.bar(x, density, 0.8 / len(sides), color=(BLUE, GREY)[place], label=side)
                if "octave_density_low" in view.data:
                    ends = [
                        octave_table([view], f"octave_density_{e}", wanted, len(labels))[0] for e in ("low", "high")
                    ]
                    axes.vlines(x, *ends, color="black", linewidth=0.8)
            if "twin" in null_kinds([view]) and view.causal:
                twin = members(view.data["null_octave_density"], "twin").mean("null").values
                axes.plot(np.arange(twin.size), twin, "o-", color=GREY, markersize=3, label="untrained twin")
            axes.axhline(1.0, color=GREY, linewidth=0.6, linestyle=(0, (4, 2)))
            axes.set_xticks(range(len(labels)), labels)
            if len(axes.get_legend_handles_labels()[0]) > 1:
                axes.legend()
        return _named(axes, view, "distance, tokens", "density (1 is flat)")

    def coherence(self, layer: str | int = 0, head: str | int | None = None, ax: Axes | None = None) -> Axes:
        """Coherence of each key with the query's own position, at the scale of the first band."""
        view, axes = self._begin(layer, head, ax)
        with house_style():
            image = plot_coherence(view, axes)
            if image is not None:
                axes.figure.colorbar(image, ax=axes, label="coherence")
        return _named(axes, view, "key, token", "query, token")

    def _begin(self, layer: str | int, head: str | int | None, ax: Axes | None) -> tuple[View, Axes]:
        view = view_of(self._study, layer, head)
        if ax is None:
            import matplotlib.pyplot as plt

            with house_style():
                ax = plt.subplots(figsize=(4.5, 3.4), layout="constrained")[1]
        return view, ax


def _mode(view: View, mode: int, band: int | None) -> np.ndarray:
    if first_mode(view, "field_") is None:
        raise InputError(f"{view.label} has no modes: nothing fluctuates.")
    data = view.data["packed_field_modes" if band is None else "packed_modes"]
    count = data.sizes["mode"]
    if not 1 <= mode <= count:
        raise InputError(f"Mode {mode} is not in this study.", f"It has modes 1 to {count}.")
    if band is not None:
        if band not in view.bands:
            raise InputError(f"Band {band} is not in {view.label}.", f"It has bands {view.bands}.")
        data = data.isel(band=band)
    return view.expand(data.isel(mode=mode - 1).values, from_first_query=True)


def _named(axes: Axes, view: View, x: str, y: str) -> Axes:
    axes.set(title=view.label, xlabel=x, ylabel=y)
    return axes


__all__ = ["StudyPlots"]
