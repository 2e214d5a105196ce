import numpy as np
import pytest

from eddyscope.kernels.laggroups import LagGroups, lag_groups
from eddyscope.kernels.lagstats import lag_covariance, standardise, take_out_mean

LAGS, DOCUMENTS, ROWS = 6, 11, 4


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(LAGS, DOCUMENTS, ROWS)) + np.arange(LAGS)[:, None, None]


def covariance_of(rows):
    """Of the fluctuation, by the definition."""
    u = rows - rows.mean(axis=1, keepdims=True)
    return np.einsum("asi,bsi->ab", u, u) / (rows.shape[1] * rows.shape[2])


def test_total_is_mean_plus_fluctuation(rows):
    found = lag_covariance(rows.copy())
    np.testing.assert_allclose(found.fluctuation, covariance_of(rows), atol=1e-14)
    np.testing.assert_allclose(found.total, np.einsum("asi,bsi->ab", rows, rows) / (DOCUMENTS * ROWS), atol=1e-13)
    np.testing.assert_allclose(found.lag_mean, rows.mean(axis=(1, 2)), atol=1e-14)
    assert (found.documents, found.rows, found.without_group) == (DOCUMENTS, ROWS, None)


@pytest.mark.parametrize("groups", [np.arange(DOCUMENTS), np.array([0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 7])])
def test_a_replicate_is_the_covariance_of_the_others_about_their_own_mean(rows, groups):
    found = lag_covariance(rows.copy(), groups)
    np.testing.assert_allclose(found.fluctuation, covariance_of(rows), atol=1e-13)
    for replicate, group in zip(found.without_group, np.unique(groups), strict=True):
        np.testing.assert_allclose(replicate, covariance_of(rows[:, groups != group]), atol=1e-12)


def test_leaving_out_the_only_group_leaves_nothing(rows):
    assert np.isnan(lag_covariance(rows, np.zeros(DOCUMENTS, dtype=int)).without_group).all()


def test_float64_rows_are_split_in_place_and_float32_rows_are_left_alone(rows):
    single = rows.astype(np.float32)
    before = single.copy()
    found = lag_covariance(single)
    np.testing.assert_array_equal(single, before)
    np.testing.assert_allclose(found.fluctuation, covariance_of(before.astype(np.float64)), atol=1e-13)
    double = rows.copy()
    lag_covariance(double)
    np.testing.assert_allclose(double, rows - rows.mean(axis=1, keepdims=True), atol=1e-14)


@pytest.mark.parametrize("documents", [3, 7, 10, 150])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_documents_leave_exactly_nothing(documents, dtype):
    one = np.random.default_rng(1).uniform(size=(1, 400)).astype(dtype)
    snapshots = np.repeat(one, documents, axis=0)
    if dtype == np.float64:  # the plain mean would not do
        assert np.any(snapshots - snapshots.mean(axis=0))
    mean = take_out_mean(snapshots)
    assert not snapshots.any()
    np.testing.assert_array_equal(mean, one[0])


def test_no_row_gives_no_covariance():
    found = lag_covariance(np.zeros((LAGS, DOCUMENTS, 0)), np.arange(DOCUMENTS))
    assert np.isnan(found.total).all() and np.isnan(found.fluctuation).all()
    assert found.without_group is None


def test_standardised_covariance_has_a_diagonal_of_one(rows):
    rows[2] = 0.5  # a lag that does not fluctuate
    found = lag_covariance(rows)
    standard = standardise(found.fluctuation, np.diag(found.fluctuation))
    np.testing.assert_allclose(np.diag(standard), [1, 1, 0, 1, 1, 1])
    np.testing.assert_allclose(
        standard[0, 1], found.fluctuation[0, 1] / np.sqrt(np.prod(np.diag(found.fluctuation)[:2]))
    )


def test_groups_without_documents_have_no_moments_and_change_those_of_no_others(rows):
    u = rows - rows.mean(axis=1, keepdims=True)
    sums = lag_groups(u, np.arange(DOCUMENTS) % 3)
    empty = LagGroups(
        np.concatenate([sums.products, np.zeros((1, LAGS, LAGS))]),
        np.concatenate([sums.sums, np.zeros((1, LAGS, ROWS))]),
        np.append(sums.counts, 0),
    )
    alone, others = np.array([False, False, False, True]), np.array([True, True, False, True])
    expected = covariance_of(rows[:, np.arange(DOCUMENTS) % 3 < 2])
    assert np.isnan(empty.energy(alone)).all() and np.isnan(empty.covariance(alone)).all()
    np.testing.assert_allclose(empty.covariance(others), expected, atol=1e-12)
    np.testing.assert_allclose(empty.energy(others), np.diag(expected), atol=1e-12)
    np.testing.assert_allclose(empty.without_each[3], covariance_of(rows), atol=1e-12)
