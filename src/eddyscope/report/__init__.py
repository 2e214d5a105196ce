"""Figures and the report of a study."""

from __future__ import annotations

from eddyscope.report.complexity import draw_complexity, plot_by_layer
from eddyscope.report.figures import FIGURES, write_figures
from eddyscope.report.lag_energy import draw_lag_energy, plot_octave_density, plot_octave_share
from eddyscope.report.maps import draw_coherence, draw_modes, plot_coherence, plot_mode
from eddyscope.report.page import write_report
from eddyscope.report.paper import write_paper_figures
from eddyscope.report.plots import StudyPlots
from eddyscope.report.profiles import draw_mode_profiles, plot_mode_profiles
from eddyscope.report.scalograms import draw_scalograms, plot_scalogram
from eddyscope.report.spectra import draw_eigenvalue_spectra, plot_eigenvalue_spectra
from eddyscope.report.views import View, view_of

__all__ = [
    "FIGURES",
    "StudyPlots",
    "View",
    "draw_coherence",
    "draw_complexity",
    "draw_eigenvalue_spectra",
    "draw_lag_energy",
    "draw_mode_profiles",
    "draw_modes",
    "draw_scalograms",
    "plot_by_layer",
    "plot_coherence",
    "plot_eigenvalue_spectra",
    "plot_mode",
    "plot_mode_profiles",
    "plot_octave_density",
    "plot_octave_share",
    "plot_scalogram",
    "view_of",
    "write_figures",
    "write_paper_figures",
    "write_report",
]
