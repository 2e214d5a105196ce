"""Blocks of a Gram are those of the whole Gram, and sums over parts tell what submatrices would."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.decomposition import PCA

from eddyscope.kernels.coherence import centred_rows, key_transform
from eddyscope.kernels.gram import field_pass
from eddyscope.kernels.gramblocks import PartSums, gram_block
from eddyscope.kernels.pairs import PairSums, field_pairs
from eddyscope.kernels.rank import participation_ratio
from eddyscope.lagfield import LagField, LagGeometry
from eddyscope.trust.scores import subgram

DOCUMENTS, CUTS = 37, (0, 10, 11, 29, 37)


@pytest.fixture(params=[(16, 16, True, None), (16, 16, False, None), (18, 18, True, 6), (12, 15, False, None)])
def geometry(request: pytest.FixtureRequest) -> LagGeometry:
    return LagGeometry(*request.param)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("min_query", [0, 3])
def test_blocks_are_those_of_the_whole_gram(geometry: LagGeometry, dtype: type, min_query: int) -> None:
    rng = np.random.default_rng(0)
    values = rng.random((DOCUMENTS, geometry.size)).astype(dtype)
    weights = rng.random((3, geometry.lags.size))
    weights[1, ::2] = 0
    passed = field_pass(values, geometry, weights, min_query)
    parts = [slice(a, b) for a, b in pairwise(CUTS)]
    for i in parts:
        for j in parts:
            block = gram_block(values[i], values[j], geometry, weights, min_query, passed.mean) / DOCUMENTS
            np.testing.assert_allclose(block, passed.grams[:, i, j], rtol=0, atol=1e-13 * passed.grams.max())


def test_a_block_of_the_diagonal_is_symmetric_whichever_way_it_is_asked_for() -> None:
    geometry, rng = LagGeometry(20, 20, True), np.random.default_rng(1)
    values, weights = rng.random((9, geometry.size)), np.ones((1, 20))
    mean = values.mean(axis=0)
    once = gram_block(values, values, geometry, weights, 0, mean)
    twice = gram_block(values, values.copy(), geometry, weights, 0, mean)
    np.testing.assert_allclose(once, twice, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(once, once.transpose(0, 2, 1))


def test_eigenvalues_of_a_gram_of_blocks_are_the_variances_that_scikit_learn_finds() -> None:
    geometry, rng = LagGeometry(14, 14, True), np.random.default_rng(2)
    values = rng.random((DOCUMENTS, geometry.size))
    window = np.exp(-np.arange(14) / 5.0)
    gram = np.empty((DOCUMENTS, DOCUMENTS))
    for a, b in pairwise(CUTS):
        for c, d in pairwise(CUTS):
            block = gram_block(values[a:b], values[c:d], geometry, window[None], 0, values.mean(axis=0))
            gram[a:b, c:d] = block[0] / DOCUMENTS
    found = np.linalg.eigvalsh(gram)[::-1][: DOCUMENTS - 1]
    oracle = PCA(svd_solver="full").fit(values * np.repeat(window, geometry.counts))
    expected = oracle.explained_variance_[: DOCUMENTS - 1] * (DOCUMENTS - 1) / DOCUMENTS
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.fixture(scope="module")
def centred() -> np.ndarray:
    points = np.random.default_rng(3).normal(size=(40, 60)) * np.arange(1, 61) ** -0.5
    points -= points.mean(axis=0)
    return points @ points.T / 40


def sums_of(gram: np.ndarray, members: np.ndarray) -> PartSums:
    sums = PartSums.empty(members)
    parts = [slice(0, 16), slice(16, 32), slice(32, 40)]
    for i, rows in enumerate(parts):
        for columns in parts[i:]:
            sums.add(gram[rows, columns], rows, columns)
    return sums


def test_sums_over_parts_give_trace_and_participation_ratio_of_submatrices(centred: np.ndarray) -> None:
    rng = np.random.default_rng(4)
    members = np.stack([np.ones(40, dtype=bool), rng.random(40) < 0.5, np.arange(40) % 15 != 3], axis=1)
    sums = sums_of(centred, members)
    for part in range(3):
        own = subgram(centred, np.flatnonzero(members[:, part]))
        assert sums.trace(part) == pytest.approx(np.trace(own), rel=1e-12)
        assert sums.participation_ratio(part) == pytest.approx(participation_ratio(own), rel=1e-9)


def test_energy_about_the_mean_of_others(centred: np.ndarray) -> None:
    points = np.random.default_rng(5).normal(size=(40, 7))
    gram = points @ points.T / 40
    train = np.arange(40) % 5 != 2
    sums = sums_of(gram, train[:, None])
    expected = ((points[~train] - points[train].mean(axis=0)) ** 2).sum()
    assert sums.energy_about(~train, 0) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-11), (np.float32, 2e-4)])
def test_statistics_of_pairs_are_the_same_from_blocks(causal: bool, dtype: type, tolerance: float) -> None:
    rng = np.random.default_rng(6)
    dense = rng.normal(size=(23, 20, 20))
    dense = (np.tril(dense) if causal else dense).astype(dtype)
    transform = key_transform(20, 3.0, 6.0)
    field = LagField.from_dense(dense[:, None], causal)
    values, geometry = field.values[:, 0], field.geometry
    sums = PairSums.empty(20, 20)
    for part in (values[:9], values[9:10], values[10:]):
        sums.add(centred_rows(part, geometry), len(part), transform)
    found, expected = sums.statistics(causal), field_pairs(values, geometry, transform)
    for name in ("coherence", "chance", "phase_consistency", "amplitude_correlation"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=tolerance, err_msg=name)
