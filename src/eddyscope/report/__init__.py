"""Figures of a study."""

from __future__ import annotations

from eddyscope.report.complexity import draw_complexity
from eddyscope.report.figures import FIGURES, write_figures
from eddyscope.report.lag_energy import draw_lag_energy
from eddyscope.report.maps import draw_coherence, draw_modes
from eddyscope.report.profiles import draw_mode_profiles
from eddyscope.report.scalograms import draw_scalograms
from eddyscope.report.spectra import draw_eigenvalue_spectra

__all__ = [
    "FIGURES",
    "draw_coherence",
    "draw_complexity",
    "draw_eigenvalue_spectra",
    "draw_lag_energy",
    "draw_mode_profiles",
    "draw_modes",
    "draw_scalograms",
    "write_figures",
]
