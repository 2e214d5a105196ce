"""Figures of windows show the numbers of their tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

from eddyscope.interventions.windows.agreement import Agreement
from eddyscope.interventions.windows.plan import LayerWindow, WindowPlan
from eddyscope.report.windows import draw_agreement, draw_window_curve

SIZE = {"id": "x", "class": "GPT", "layers": 2, "heads": 4, "kv_heads": 4}


def curve(layers: int = 2) -> pd.DataFrame:
    rows = [
        {
            "layer": i,
            "name": f"l{i}",
            "head": "all",
            "window": w,
            "rise": 1 / (w + i),
            "low": 0.9 / (w + i),
            "high": 1.0,
        }
        for i in range(layers)
        for w in (1, 4, 16)
    ]
    return pd.DataFrame(rows)


def agreement(density: float = 1.0) -> Agreement:
    cells = [
        {"layer": i, "name": f"l{i}", "head": "all", "first": f, "last": f + 1, "share": 0.1 * (j + 1)}
        | {"density": density * (j + 1), "rise": 0.01 * (i + j), "low": 0.0, "high": 0.1}
        for i in range(2)
        for j, f in enumerate((0, 1, 3))
    ]
    ranks = [
        {"layer": "all", "head": "all", "energy": e, "correlation": 0.5, "low": 0.25, "high": 0.75, "cells": 6}
        for e in ("share", "density")
    ]
    return Agreement(pd.DataFrame(cells), pd.DataFrame(ranks), "nats")


def test_the_curve_of_each_layer_and_its_window_are_drawn() -> None:
    plan = WindowPlan(SIZE, 32, "keep", (LayerWindow("l0", 32), LayerWindow("l1", 8)))
    figure = draw_window_curve(curve(), plan)
    panels = figure.axes
    assert [axes.get_title() for axes in panels] == ["layer 0", "layer 1"]
    for i, axes in enumerate(panels):
        np.testing.assert_allclose(axes.lines[0].get_ydata(), [1 / (1 + i), 1 / (4 + i), 1 / (16 + i)])
        assert axes.lines[-1].get_xdata()[0] == (32, 8)[i]
        low, high = axes.get_xlim()
        assert low < 1
        assert high > 32


def test_layers_beyond_a_page_are_named_in_the_caption() -> None:
    figure = draw_window_curve(curve(60))
    assert len(figure.axes) == 48
    assert any("12 more layers are in curve.csv" in text.get_text() for text in figure.texts)


def test_each_cell_is_a_point_and_the_rank_correlation_is_in_the_title() -> None:
    found = agreement()
    figure = draw_agreement(found, "x")
    for axes, energy in zip(figure.axes, ("share", "density"), strict=False):
        assert "rank correlation 0.50 (0.25 to 0.75)" in axes.get_title()
        points = axes.collections[0].get_offsets()
        np.testing.assert_allclose(points, found.cells[[energy, "rise"]].to_numpy())


def test_where_nothing_fluctuates_it_says_so() -> None:
    figure = draw_agreement(agreement(density=float("nan")))
    assert [text.get_text() for text in figure.axes[1].texts] == ["no energy that fluctuates"]
