"""Bands and modes taken out: what is left is what the decomposition says, and controls have the same energy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from windows_help import documents, gpt, model_named, outputs

import eddyscope as es
from eddyscope.errors import InputError, UsageError
from eddyscope.interventions.editing import edited
from eddyscope.interventions.layers import attention_layers
from eddyscope.interventions.windows.modes import _amplitudes, _Parts
from eddyscope.study.study import layer_geometry

LAYER = "blocks.1.attention"


def studied(model: Any, heads: str = "mean", **options: Any) -> tuple[es.Study, es.AttentionEnsemble]:
    ensemble = es.capture(model, documents(16), heads=heads, checks=False)
    return es.analyze(ensemble, intervals=False, select="octaves", **options), ensemble


def parts(study: es.Study, ensemble: es.AttentionEnsemble, read: Any, model: Any) -> _Parts:
    unseen = es.capture(model, read, layers=[LAYER], checks=False)[LAYER]
    return _Parts(study, study.packed(LAYER), ensemble[LAYER], unseen, None, torch.device("cpu"))


def attention_under(model: Any, read: Any, edit: Any) -> np.ndarray:
    layer = next(own for own in attention_layers(model) if own.name == LAYER)
    seen: list[torch.Tensor] = []
    with edited(model, {LAYER: edit}):
        handle = layer.module.register_forward_hook(lambda m, a, out: seen.append(out[1]))
        outputs(model, torch.from_numpy(read.ids))
        handle.remove()
    return seen[0].numpy()


def test_without_all_modes_the_mean_field_is_left() -> None:
    model = gpt(heads=1)
    study, ensemble = studied(model, min_query=0)
    work = parts(study, ensemble, documents(16), model)
    every = [thing.part for thing in work.things(15) if thing.band == "field"]
    assert len(every) == 15
    found = attention_under(model, documents(16), work.layer.edit(lambda u: sum(part(u) for part in every)))
    mean = ensemble[LAYER].dense().mean(0)[0]
    np.testing.assert_allclose(found[:, 0], np.broadcast_to(mean, found[:, 0].shape), atol=1e-5)


def test_without_a_band_its_fluctuation_is_gone() -> None:
    model = gpt(heads=1)
    study, ensemble = studied(model)
    data = study.packed(LAYER)
    geometry = layer_geometry(data)
    work = parts(study, ensemble, documents(16), model)
    band = next(thing for thing in work.things(1) if thing.mode == 0)
    found = attention_under(model, documents(16), work.layer.edit(band.part))[:, 0]
    dense = ensemble[LAYER].dense()[:, 0]
    weight = geometry.unpack(np.repeat(data["window"].values[0], geometry.counts))
    weight[: data.attrs["min_query"]] = 0
    expected = np.clip(dense - weight * (dense - dense.mean(0)), 0, None)
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_energy_of_a_mode_is_its_eigenvalue() -> None:
    model = gpt()
    study, ensemble = studied(model)
    work = parts(study, ensemble, documents(16), model)
    data = study.packed(LAYER)
    total = float(data["field_eigenvalues"].sum())
    things = list(work.things(2))
    field = [work.share(thing.part) for thing in things if thing.band == "field"]
    np.testing.assert_allclose(field, data["field_eigenvalues"].values[:2] / total, rtol=1e-4)
    first = [work.share(thing.part) for thing in things if thing.mode == 1][1:]
    np.testing.assert_allclose(first, data["eigenvalues"].values[:, 0] / total, rtol=1e-4)


@pytest.mark.parametrize("index", [0, 2, 3])
def test_controls_have_the_energy_of_what_they_stand_against(index: int) -> None:
    model = gpt()
    study, ensemble = studied(model)
    work = parts(study, ensemble, documents(16), model)
    thing = list(work.things(2))[index]
    rng = np.random.default_rng(0)
    controls = [work.control(thing, rng) for _ in range(3)]
    assert [work.share(part) for part in controls] == pytest.approx([work.share(thing.part)] * 3, rel=1e-3)
    one, other = (part(work._fluctuation) for part in controls[:2])
    assert not torch.allclose(one, other)


def test_amplitudes_stop_where_the_energy_is_reached() -> None:
    np.testing.assert_allclose(_amplitudes(np.array([4.0, 0.0, 4.0, 4.0]), 5.0), [1.0, 0.0, 0.5, 0.0])
    np.testing.assert_allclose(_amplitudes(np.array([1.0, 1.0]), 5.0), [1.0, 1.0])


@pytest.mark.parametrize(
    ("name", "heads"), [("gpt-base", "mean"), ("gpt-base", "each"), ("llama", "mean"), ("bert", "mean")]
)
def test_every_band_and_mode_has_a_rise_and_a_control(name: str, heads: str) -> None:
    model = model_named(name)
    study, ensemble = studied(model, heads)
    unseen = documents(40).select(np.arange(16, 40))
    head = 2 if heads == "each" else None
    table = es.windows.owed_to_modes(model, study, ensemble, unseen, 1, count=2, controls=2, head=head)
    bands = int(study.packed(1).sizes["band"])
    assert len(table) == 2 + 3 * bands
    assert list(table["mode"][:5]) == [1, 2, 0, 1, 2]
    assert np.isfinite(table.drop(columns=["name", "head", "band"]).to_numpy(float)).all()
    np.testing.assert_allclose(table["beyond"], table["rise"] - table["random_rise"], atol=1e-9)
    assert (table["random_least"] <= table["random_rise"] + 1e-12).all()
    assert (table["random_share"] <= table["share"] * 1.001).all()
    again = es.windows.owed_to_modes(model, study, ensemble, unseen, 1, count=2, controls=2, head=head)
    assert again.equals(table)


def test_from_a_model_and_documents() -> None:
    table = es.windows.modes_owed(gpt(), documents(40), [0, LAYER], count=1, controls=1)
    assert list(table["layer"].unique()) == [0, 1]
    assert (table["rise"] != 0).any()


def test_what_does_not_fit_is_refused() -> None:
    model = gpt()
    study, ensemble = studied(model)
    with pytest.raises(InputError, match="20 tokens a document and these documents 12"):
        es.windows.owed_to_modes(model, study, ensemble, documents(8, 12), 1)
    with pytest.raises(UsageError, match="at least 1 of each"):
        es.windows.owed_to_modes(model, study, ensemble, documents(8), 1, count=0)
    with pytest.raises(InputError, match="is not in this GPT2LMHeadModel"):
        es.windows.owed_to_modes(model_named("gpt2"), study, ensemble, documents(8), 1)
    each, _ = studied(model, "each")
    with pytest.raises(InputError, match="one must be named"):
        es.windows.owed_to_modes(model, each, ensemble, documents(8), 1)
