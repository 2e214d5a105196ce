"""The reader gives what reading everything anew gives, and reads less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from windows_help import documents, model_named

from eddyscope.interventions.editing import edited
from eddyscope.interventions.layers import attention_layers
from eddyscope.interventions.losses import LOSS, Yardstick
from eddyscope.interventions.windows import reader as module
from eddyscope.interventions.windows.reader import Reader, blocks_of
from eddyscope.interventions.windows.removal import Removal, without

STATES: list[dict[int, Any]] = [
    {1: (Removal(2),)},
    {0: (Removal(3, 7),)},
    {},
    {0: (None, None, Removal(1), None), 1: (Removal(4),)},
]


def read_anew(model: Any, state: dict[int, Any], sink: str) -> np.ndarray:
    yardstick = Yardstick(model, documents())
    edits = {
        layer.name: (lambda w, own: without(w, own, state[own.index], sink))
        for layer in attention_layers(model)
        if layer.index in state
    }
    with edited(model, edits):
        return yardstick.now() - yardstick.before


@pytest.mark.parametrize("name", ["gpt-base", "gpt-ega-c", "gpt2", "llama", "bert", "modernbert", "albert"])
def test_rises_equal_those_of_reading_everything_anew(name: str) -> None:
    model = model_named(name)
    reader = Reader(model, documents(), batch=10)
    for state in STATES:
        expected = read_anew(model, state, "keep")
        np.testing.assert_allclose(reader.measured(state), expected, atol=1e-5)
        reader.settle(state)
        np.testing.assert_allclose(reader.measured(state), expected, atol=1e-5)
        np.testing.assert_allclose(
            reader.measured({1: (Removal(1),)}), read_anew(model, {1: (Removal(1),)}, "keep"), atol=1e-5
        )
    assert "forward" not in {key for part in model.modules() for key in part.__dict__}


@pytest.mark.parametrize("name", ["gpt-base", "gpt2", "llama", "bert"])
def test_blocks_before_a_change_are_not_read_again(name: str) -> None:
    model = model_named(name)
    reader = Reader(model, documents())
    assert len(blocks_of(model, reader.layers)) == 2
    calls = []
    handles = [layer.module.register_forward_hook(lambda m, a, o: calls.append(m)) for layer in reader.layers]
    reader.measured({1: (Removal(2),)})
    assert calls == [reader.layers[1].module] * len(reader._batches)
    for handle in handles:
        handle.remove()


def test_where_the_outputs_are_too_large_everything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 100)
    model = model_named("gpt-base")
    reader = Reader(model, documents())
    assert not reader._kept
    np.testing.assert_allclose(reader.measured(STATES[0]), read_anew(model, STATES[0], "keep"), atol=1e-5)


def test_blocks_that_depend_on_more_than_the_one_before_are_read_in_full() -> None:
    model = model_named("gpt-base")
    count = iter(range(10_000))

    def drift(block: Any, arguments: Any, output: Any) -> Any:
        return output + 0.01 * next(count)  # as if the block read something else

    handle = model.norm.register_forward_hook(drift)
    drifting = Reader(model, documents(4))
    handle.remove()
    assert not drifting._kept


@pytest.mark.parametrize(("name", "measure"), [("gpt-base", LOSS), ("bert", "embedding distance")])
def test_nothing_removed_is_no_rise(name: str, measure: str) -> None:
    reader = Reader(model_named(name), documents())
    assert reader.measure == measure
    np.testing.assert_allclose(reader.measured({0: (None,)}), 0.0, atol=1e-9)
