"""Statistics that are merged say the same as those of all documents at once, whatever the shards and their order."""

import numpy as np
import pytest

from eddyscope.kernels.fieldmoments import field_moments
from eddyscope.kernels.lagstats import lag_covariance, lag_moments
from eddyscope.lagfield import LagGeometry

LAGS, DOCUMENTS, ROWS = 12, 130, 9


@pytest.fixture(scope="module")
def rows():
    """Rows whose mean is large beside the fluctuation, as attention's is."""
    rng = np.random.default_rng(0)
    return 1e-3 * rng.normal(size=(LAGS, DOCUMENTS, ROWS)) + 1 + np.arange(LAGS)[:, None, None]


@pytest.fixture(scope="module")
def groups():
    return np.random.default_rng(1).integers(0, 15, DOCUMENTS)


def merged(parts, order, join):
    parts = [parts[i] for i in order]
    while len(parts) > 1:  # a tree, as a cluster would merge them
        parts = [join(*parts[i : i + 2]) if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
    return parts[0]


def apart(first, second):
    """Distance over size, in the Frobenius norm."""
    return np.linalg.norm(first - second) / np.linalg.norm(second)


@pytest.mark.parametrize("shards", [1, 7, 64])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_lag_statistics_merged_from_shards_in_any_order_are_those_of_all_documents(rows, groups, shards, seed):
    whole = lag_moments(rows.copy(), groups).covariance()
    parts = [
        lag_moments(rows[:, index].copy(), groups[index]) for index in np.array_split(np.arange(DOCUMENTS), shards)
    ]
    order = np.random.default_rng(seed).permutation(shards)
    found = merged(parts, order, lambda a, b: a.merged(b)).covariance()
    assert (found.documents, found.rows) == (DOCUMENTS, ROWS)
    for name in ("mean", "fluctuation", "without_group", "lag_mean"):
        assert apart(getattr(found, name), getattr(whole, name)) < 1e-12, name
    assert apart(found.groups.products, whole.groups.products) < 1e-12
    np.testing.assert_allclose(found.groups.sums, whole.groups.sums, atol=1e-12)
    np.testing.assert_array_equal(found.groups.counts, whole.groups.counts)


def test_the_covariance_of_groups_is_that_of_their_documents_by_the_definition(rows, groups):
    found = lag_moments(rows.copy(), groups).covariance()
    u = rows - rows.mean(axis=1, keepdims=True)
    by_hand = np.einsum("asi,bsi->ab", u, u) / (DOCUMENTS * ROWS)
    assert apart(found.fluctuation, by_hand) < 1e-11
    plain = lag_covariance(rows.copy())
    assert apart(found.fluctuation, plain.fluctuation) < 1e-12 and plain.groups is None
    assert lag_moments(rows.copy(), groups).covariance(by_group=False).without_group is None


def test_rows_with_groups_are_left_as_they_are(rows, groups):
    before = rows.copy()
    lag_moments(rows, groups)
    np.testing.assert_array_equal(rows, before)


@pytest.mark.parametrize("shards", [1, 3, 10])
def test_equal_documents_have_exactly_no_fluctuation_however_they_are_split(shards):
    one = np.random.default_rng(2).uniform(size=(LAGS, 1, ROWS))
    many, labels = np.repeat(one, 10, axis=1), np.arange(10) % 4
    parts = [lag_moments(many[:, i].copy(), labels[i]) for i in np.array_split(np.arange(10), shards)]
    found = merged(parts, range(shards), lambda a, b: a.merged(b)).covariance()
    assert not found.fluctuation.any() and not found.without_group.any()


def test_groups_that_only_one_of_the_two_has_are_kept_apart(rows):
    first, second = lag_moments(rows[:, :5].copy(), np.full(5, 3)), lag_moments(rows[:, 5:9].copy(), np.full(4, 1))
    both = first.merged(second)
    assert both.labels.tolist() == [1, 3] and both.counts.tolist() == [4, 5]
    np.testing.assert_array_equal(both.means[1], first.means[0])
    np.testing.assert_array_equal(both.products[0], second.products[0])


@pytest.fixture(scope="module", params=[True, False], ids=["causal", "two-sided"])
def geometry(request):
    return LagGeometry(10, 10, request.param)


@pytest.mark.parametrize("shards", [1, 7, 64])
def test_field_statistics_merged_from_shards_are_those_of_all_documents(geometry, groups, shards):
    rng = np.random.default_rng(3)
    values = 1e-2 * rng.normal(size=(DOCUMENTS, geometry.size)) + rng.uniform(size=geometry.size)
    parts = [field_moments(values[i], geometry, groups[i]) for i in np.array_split(np.arange(DOCUMENTS), shards)]
    found = merged(parts, rng.permutation(shards), lambda a, b: a.merged(b, geometry))
    np.testing.assert_allclose(found.mean, values.mean(axis=0), rtol=1e-12)
    u = values - values.mean(axis=0)
    by_query = np.bincount(geometry.entry_query, weights=(u**2).mean(axis=0), minlength=10)
    np.testing.assert_allclose(found.energy_by_query(geometry), by_query, rtol=1e-12)


@pytest.mark.parametrize("chosen", [[0], [2, 5, 6], list(range(15))])
def test_the_fluctuation_level_of_some_groups_is_that_of_their_documents(geometry, groups, chosen):
    rng = np.random.default_rng(4)
    values = 0.1 * rng.normal(size=(DOCUMENTS, geometry.size)) + rng.uniform(size=geometry.size)
    used = geometry.query_mask(2)
    level = field_moments(values, geometry, groups).level(used, 2)
    part = values[np.isin(groups, chosen)][:, used]
    fluctuation = part.var(axis=0).sum()
    assert level.of(np.array(chosen)) == pytest.approx(fluctuation / (part**2).mean(axis=0).sum(), rel=1e-12)
