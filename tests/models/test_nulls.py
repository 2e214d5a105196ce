"""Null models of a model: twins from several seeds, shuffled documents, reading on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eddyscope as es
from eddyscope import models
from eddyscope.documents import Documents
from eddyscope.models.config import GPTConfig
from eddyscope.study.auto import read_on
from eddyscope.study.nulls import run_nulls
from eddyscope.study.nulltable import NULL_MEASURES

CONTEXT = 32


def documents(count: int, seed: int = 0) -> Documents:
    return Documents.from_ids(np.random.default_rng(seed).integers(0, 12, size=(count, CONTEXT)))


@pytest.fixture(scope="module")
def model() -> Any:
    return models.untrained(GPTConfig("base", 12, CONTEXT, 2, 2, 16), seed=9)


def test_an_untrained_model_does_not_differ_from_its_twins(model: Any) -> None:
    ensemble = es.capture(model, documents(40))
    study = run_nulls(es.analyze(ensemble), ensemble, ["twin", "shuffled", "phases"], model=model)
    data = study.layer(0)
    assert data["null"].values.tolist() == ["twin 0", "twin 1", "twin 2", "shuffled", "phases"]
    assert data["comparison"].values.tolist() == ["twin", "shuffled", "phases"]
    corrected = data["null_p_holm"].sel(comparison="twin").values
    assert np.nanmin(corrected) > 0.05
    assert np.isfinite(corrected[NULL_MEASURES.index("field_participation_ratio")])
    table = study.summary()
    assert {"twin_participation_ratio", "shuffled_sink_mass", "twin_differs"} <= set(table.columns)
    assert table["twin_differs"].tolist() == ["", ""]
    assert study.provenance["nulls"] == {"names": ["twin", "shuffled", "phases"], "seeds": 3}


def test_a_twin_is_what_capturing_it_gives(model: Any) -> None:
    read = documents(40)
    ensemble = es.capture(model, read)
    study = run_nulls(es.analyze(ensemble), ensemble, "twin", model=model, seeds=1)
    alone = es.analyze(es.capture(models.untrained_twin(model, 0), read)).layer(1)
    values = study.layer(1)["null_value"].sel(null="twin 0").values
    for name in ("near_share", "field_participation_ratio", "lag_beta_published", "median_lag"):
        assert values[NULL_MEASURES.index(name)] == pytest.approx(float(alone[name]), rel=1e-6), name


def test_reading_on_stops_at_the_first_doubling_that_is_precise_enough(model: Any) -> None:
    counts: list[int] = []

    def read(count: int) -> Documents:
        counts.append(count)
        return documents(count)

    with pytest.warns(es.EddyscopeWarning, match=r"^Stopped by looking, 1 times, at 100 documents: .* as asked for"):
        _, study = read_on(read, lambda d: es.capture(model, d, checks=False), analysis={}, precision=0.5)
    assert counts == [100]
    assert study.provenance["auto"]["reached"]
    with pytest.warns(es.EddyscopeWarning, match=r"at 200 documents: .* and not to 0\.0%: there was no more to read"):
        _, study = read_on(read, lambda d: es.capture(model, d, checks=False), analysis={}, precision=0.0001, most=200)
    assert counts == [100, 100, 200]
    assert [look["documents"] for look in study.provenance["auto"]["looks"]] == [100, 200]


def test_reading_on_needs_a_measure_with_an_interval(model: Any) -> None:
    with pytest.raises(es.EddyscopeError, match=r"measure must be among beta_resolved, .*, got 'height'\."):
        read_on(documents, lambda d: es.capture(model, d), analysis={}, measure="height")
