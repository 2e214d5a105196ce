"""Small studies of known attention, made once."""

import numpy as np
import pytest
import xarray as xr

import eddyscope as es
import planted
from eddyscope.study.nulltable import comparisons, table_of
from eddyscope.study.study import Study

LENGTH = 48


def layers_of(documents: int, length: int = LENGTH, seed: int = 0) -> np.ndarray:
    """Three layers: a period of 5, a bump at distance 12, noise; shape (document, layer, query, key)."""
    return np.stack(
        [
            planted.periodic(documents, length, 5.0, seed),
            planted.bump(documents, length, 12.0, 3.0, seed + 1),
            planted.noise(documents, length, seed + 2),
        ],
        axis=1,
    )


def analyzed(attention, causal=True, **options):
    return es.analyze(es.AttentionEnsemble.from_arrays(attention, causal=causal), **options)


@pytest.fixture(scope="session")
def causal():
    return analyzed(layers_of(40, 96))


@pytest.fixture(scope="session")
def two_sided():
    attention = np.stack([planted.noise(20, 64, seed, causal=False) for seed in range(2)], axis=1)
    return analyzed(attention, causal=False)


@pytest.fixture(scope="session")
def by_head():
    return analyzed(np.stack([layers_of(12, 32, seed) for seed in (0, 10, 20, 30)], axis=2), intervals=False)


@pytest.fixture(scope="session")
def partly_still():
    """The second of three layers is the same in every document."""
    attention = layers_of(12)
    attention[:, 1] = attention[:1, 1]
    return analyzed(attention)


@pytest.fixture(scope="session")
def one_document():
    return analyzed(layers_of(1))


@pytest.fixture(scope="session")
def two_documents():
    return analyzed(layers_of(2))


@pytest.fixture(scope="session")
def shortest():
    return analyzed(layers_of(6, 8))


@pytest.fixture(scope="session")
def published():
    return analyzed(layers_of(12), preset="published")


@pytest.fixture(scope="session")
def octaves():
    return analyzed(layers_of(12), select="octaves", modes=2)


@pytest.fixture(scope="session")
def banded():
    """A band of lags was kept, so that there is no coherence."""
    ensemble = es.AttentionEnsemble.from_arrays(layers_of(10), max_lag=12)
    return es.analyze(ensemble)


@pytest.fixture(scope="session")
def on_the_sink():
    """In the second layer the first key holds nearly everything, so that no row is left for lag statistics."""
    attention = layers_of(12)
    attention[:, 1] = planted.add_sink(attention[:, 1], 0.99)
    return analyzed(attention)


@pytest.fixture(scope="session")
def thirty_layers():
    attention = np.stack([planted.noise(8, 24, seed) for seed in range(30)], axis=1)
    return analyzed(attention, intervals=False)


def beside_nulls(study, **nulls):
    """A study with null models: by label, an attention that plays the part."""
    causal = bool(study.packed(0, None if "head" not in study.data[study.layers[0]].dims else 0).attrs["causal"])
    others = {label.replace("_", " "): analyzed(attention, causal) for label, attention in nulls.items()}
    tables = {
        label: {name: table_of(other.data[name].to_dataset()) for name in study.layers}
        for label, other in others.items()
    }
    layers = comparisons({name: study.data[name].to_dataset() for name in study.layers}, tables)
    tree = {"/": study.data.to_dataset(inherit=False), **{f"/{name}": data for name, data in layers.items()}}
    return Study(xr.DataTree.from_dict(tree), study.provenance, study.documents)


@pytest.fixture(scope="session")
def with_nulls(causal):
    def like(seed, strength):
        return np.stack([planted.noise(40, 96, seed + k, strength) for k in range(3)], axis=1)

    return beside_nulls(causal, twin_0=like(50, 0.1), twin_1=like(60, 0.1), shuffled=like(70, 0.4))


@pytest.fixture(scope="session")
def heads_with_nulls():
    def like(seed):
        return np.stack([layers_of(12, 32, seed), layers_of(12, 32, seed + 10)], axis=2)

    return beside_nulls(analyzed(like(0)), twin_0=like(40), shuffled=like(80))


@pytest.fixture(scope="session")
def two_sided_with_nulls(two_sided):
    def like(seed):
        return np.stack([planted.noise(20, 64, seed + k, 0.2, causal=False) for k in range(2)], axis=1)

    return beside_nulls(two_sided, twin_0=like(50), twin_1=like(60))


STUDIES = (
    "causal",
    "two_sided",
    "by_head",
    "partly_still",
    "one_document",
    "two_documents",
    "shortest",
    "published",
    "octaves",
    "banded",
    "on_the_sink",
    "thirty_layers",
    "with_nulls",
    "heads_with_nulls",
    "two_sided_with_nulls",
)


@pytest.fixture(params=STUDIES)
def any_study(request):
    return request.getfixturevalue(request.param)
