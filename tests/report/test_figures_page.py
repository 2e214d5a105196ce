"""Every figure of every kind of study can be read: nothing overlaps, nothing is cut off, all is labelled."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

import eddyscope as es
import planted
from eddyscope.report import FIGURES, draw_complexity, draw_lag_energy, draw_scalograms
from eddyscope.report.views import MOST_PANELS


@contextmanager
def recorded() -> Iterator[list[Text]]:
    """Every text that is drawn meanwhile; ticks beyond the limits of an axis exist but are not drawn."""
    found: list[Text] = []
    draw = Text.draw

    def recording(self, renderer, *args, **kwargs):
        found.append(self)
        draw(self, renderer, *args, **kwargs)

    Text.draw = recording
    try:
        yield found
    finally:
        Text.draw = draw


def texts(figure: Figure) -> list[tuple[str, np.ndarray]]:
    """Every text that is drawn, with its box in pixels: left, bottom, right, top."""
    canvas = FigureCanvasAgg(figure)
    with recorded() as found:
        figure.draw_without_rendering()
    shown = {id(text): text for text in found if text.get_text().strip() and text.get_visible()}
    renderer = canvas.get_renderer()
    return [(text.get_text(), np.array(text.get_window_extent(renderer).extents)) for text in shown.values()]


def overlapping(boxes: np.ndarray, slack: float) -> np.ndarray:
    """Pairs of boxes that overlap by more than the slack, shape (pair, 2)."""
    boxes = boxes + np.array([1, 1, -1, -1]) * slack
    across = (boxes[:, None, 0] < boxes[None, :, 2]) & (boxes[None, :, 0] < boxes[:, None, 2])
    down = (boxes[:, None, 1] < boxes[None, :, 3]) & (boxes[None, :, 1] < boxes[:, None, 3])
    return np.argwhere(np.triu(across & down, 1))


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_overlaps_and_all_is_on_a_page_no_larger_than_paper(any_study, name):
    figure = FIGURES[name](any_study)
    width, height = figure.get_size_inches()
    assert 7 <= width < 10.01 and height < 12.5
    found = texts(figure)
    for text, (left, bottom, right, top) in found:
        on_page = left >= 0 and bottom >= 0 and right <= width * figure.dpi and top <= height * figure.dpi
        assert on_page, f"{text!r} is cut off"
    pairs = overlapping(np.array([box for _, box in found]), 1.0)
    assert [(found[a][0], found[b][0]) for a, b in pairs] == []
    panels = np.array([axes.get_position().extents for axes in figure.axes])
    assert (panels >= 0).all() and (panels <= 1).all()
    assert overlapping(panels, 1e-6).size == 0


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_says_what_it_shows_and_of_what(causal, name):
    written = " ".join(text for text, _ in texts(FIGURES[name](causal)))
    assert "40 documents" in written and "96 tokens" in written and "causal" in written
    assert "layer" in written
    assert any(unit in written for unit in ("tokens", "token", "modes", "rank"))


@pytest.mark.slow
def test_maps_of_many_heads_can_be_read():
    attention = np.stack([planted.noise(3, 128, seed) for seed in range(40)], axis=1).reshape(3, 4, 10, 128, 128)
    study = es.analyze(es.AttentionEnsemble.from_arrays(attention), intervals=False)
    for name, draw in FIGURES.items():
        found = texts(draw(study))
        pairs = overlapping(np.array([box for _, box in found]), 1.0)
        assert [(name, found[a][0], found[b][0]) for a, b in pairs] == []


def test_axes_name_their_units(causal):
    written = {text for text, _ in texts(draw_scalograms(causal))}
    assert {"lag, tokens (positive looks back)", "wavelength, tokens"} <= written


def test_layers_that_do_not_fit_are_left_out_at_even_steps_and_the_figure_says_so(thirty_layers, monkeypatch):
    monkeypatch.setattr("eddyscope.report.scalograms.MOST_PANELS", 7)
    figure = draw_scalograms(thirty_layers)
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert [title.split(" · ")[0] for title in titles] == [f"layer {k}" for k in (0, 5, 10, 14, 19, 24, 29)]
    written = " ".join(text for text, _ in texts(figure))
    assert "Shows 7 of 30 layers, at even steps; choose others with layers= and heads=." in written


def test_heads_that_do_not_fit_are_left_out_and_the_figure_says_so(by_head, monkeypatch):
    assert "Shows" not in " ".join(text for text, _ in texts(draw_scalograms(by_head)))
    monkeypatch.setattr("eddyscope.report.scalograms.MOST_PANELS", 8)
    figure = draw_scalograms(by_head)
    titles = [axes.get_title().split(" · ")[0] for axes in figure.axes if axes.get_title()]
    assert titles == [f"layer {layer}, head {head}" for layer in range(3) for head in range(2)]
    written = " ".join(text for text, _ in texts(figure))
    assert "Shows 6 of 12 layer and head pairs, the first heads of each layer" in written


def test_a_page_holds_as_many_panels_as_can_be_read():
    assert MOST_PANELS == 48


def test_rows_and_points_by_layer_leave_nothing_out(by_head):
    share = draw_lag_energy(by_head).axes[0].images[0].get_array()
    assert share.shape[0] == 3 * 4
    ranks = draw_complexity(by_head).axes[0]
    drawn = sum(line.get_xdata().size for line in ranks.lines if line.get_marker() == "o")
    assert drawn == 3 * 4


def test_layers_and_heads_can_be_chosen(by_head):
    figure = draw_scalograms(by_head, layers=["layer2", 0], heads=[3, "1"])
    titles = [axes.get_title().split(" · ")[0] for axes in figure.axes if axes.get_title()]
    assert titles == ["layer 2, head 3", "layer 2, head 1", "layer 0, head 3", "layer 0, head 1"]


@pytest.mark.parametrize("chosen", [{"layers": [9]}, {"layers": ["layer9"]}, {"heads": [7]}])
def test_an_unknown_layer_or_head_is_named(by_head, chosen):
    with pytest.raises(es.EddyscopeError, match=r"(9|layer9|7)'? is not in this study"):
        draw_scalograms(by_head, **chosen)


def test_heads_of_a_head_mean_are_refused(causal):
    with pytest.raises(es.EddyscopeError, match="keeps the head mean"):
        draw_scalograms(causal, heads=[0])


def test_no_layers_are_refused(causal):
    with pytest.raises(es.EddyscopeError, match="needs at least one"):
        draw_scalograms(causal, layers=[])
