import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyscope import LagField, LagGeometry
from eddyscope.errors import InputError

GEOMETRIES = {
    "causal": LagGeometry(7, 7, True),
    "two-sided": LagGeometry(7, 7, False),
    "more keys": LagGeometry(4, 9, False),
    "more queries": LagGeometry(9, 4, False),
    "causal band": LagGeometry(9, 9, True, 4),
    "two-sided band": LagGeometry(9, 9, False, 3),
    "rectangular band": LagGeometry(5, 9, False, 2),
}


def existing(geometry):
    """(query, key) entries that a field has, from the definition alone."""
    lag = np.arange(geometry.queries)[:, None] - np.arange(geometry.keys)[None, :]
    found = lag >= 0 if geometry.causal else np.ones(lag.shape, dtype=bool)
    if geometry.max_lag is not None:
        found &= lag < geometry.max_lag if geometry.causal else np.abs(lag) <= geometry.max_lag
    return found, lag


@st.composite
def geometries(draw):
    causal = draw(st.booleans())
    queries = draw(st.integers(1, 12))
    keys = queries if causal else draw(st.integers(1, 12))
    return LagGeometry(queries, keys, causal, draw(st.none() | st.integers(1, 14)))


@settings(deadline=None)
@given(geometries(), st.sampled_from([np.float16, np.float32, np.float64]), st.integers(0, 3))
def test_packing_and_unpacking_keeps_every_entry_that_exists(geometry, dtype, documents):
    rng = np.random.default_rng(geometry.queries)
    dense = rng.normal(size=(documents, 2, geometry.queries, geometry.keys)).astype(dtype)
    packed = geometry.pack(dense)
    found, _ = existing(geometry)
    assert packed.shape == (documents, 2, found.sum()) == (documents, 2, geometry.size)
    assert packed.dtype == dtype
    np.testing.assert_array_equal(geometry.unpack(packed), np.where(found, dense, 0))
    unpacked = geometry.unpack(packed, fill=np.nan)
    assert unpacked.dtype == dtype
    np.testing.assert_array_equal(np.isnan(unpacked), np.broadcast_to(~found, unpacked.shape))


@settings(deadline=None)
@given(geometries())
def test_runs_of_ascending_lags_follow_each_other_and_ascend_in_query(geometry):
    found, lag = existing(geometry)
    np.testing.assert_array_equal(geometry.lags, np.unique(lag[found]))
    order = np.lexsort((np.nonzero(found)[0], lag[found]))
    np.testing.assert_array_equal(geometry.entry_lag, lag[found][order])
    np.testing.assert_array_equal(geometry.entry_query, np.nonzero(found)[0][order])
    np.testing.assert_array_equal(geometry.entry_key, np.nonzero(found)[1][order])
    np.testing.assert_array_equal(geometry.flat_index, np.flatnonzero(found)[order])
    for each in geometry.lags:
        np.testing.assert_array_equal(np.flatnonzero(geometry.entry_lag == each), np.r_[geometry.run(int(each))])


@settings(deadline=None)
@given(geometries(), st.data())
def test_a_run_can_be_cut_to_a_range_of_queries(geometry, data):
    first = data.draw(st.integers(0, geometry.queries))
    stop = data.draw(st.integers(first, geometry.queries))
    lag = int(data.draw(st.sampled_from(list(geometry.lags))))
    wanted = (geometry.entry_lag == lag) & (geometry.entry_query >= first) & (geometry.entry_query < stop)
    np.testing.assert_array_equal(np.r_[geometry.run(lag, first, stop)].astype(int), np.flatnonzero(wanted))
    np.testing.assert_array_equal(geometry.query_mask(first), geometry.entry_query >= first)


def field_of(geometry, documents=3, heads=2):
    rng = np.random.default_rng(1)
    found, _ = existing(LagGeometry(geometry.queries, geometry.keys, geometry.causal))
    dense = rng.uniform(size=(documents, heads, geometry.queries, geometry.keys)) * found
    dense /= dense.sum(axis=-1, keepdims=True)
    return LagField.from_dense(dense, geometry.causal, max_lag=geometry.max_lag), dense


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_a_lag_is_the_diagonal_of_the_matrix_and_a_view(geometry):
    field, dense = field_of(geometry)
    for lag in geometry.lags:
        at_lag = field.at_lag(int(lag))
        np.testing.assert_array_equal(at_lag, np.diagonal(dense, -int(lag), axis1=-2, axis2=-1))
        assert np.shares_memory(at_lag, field.values)


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
@pytest.mark.parametrize("head", [0, 1])
def test_rows_are_the_weights_at_each_lag_and_say_which_exist(geometry, head):
    field, dense = field_of(geometry)
    found, _ = existing(geometry)
    lags, first, stop = np.arange(-4, 6), 1, geometry.queries - 1
    rows, valid = field.rows(lags, first, stop, head)
    assert rows.shape == (lags.size, 3, stop - first)
    for row, lag in enumerate(lags):
        for column, query in enumerate(range(first, stop)):
            key = query - lag
            exists = 0 <= key < geometry.keys and bool(found[query, key])
            assert valid[row, column] == exists
            expected = dense[:, head, query, key] if exists else 0
            np.testing.assert_array_equal(rows[row, :, column], expected)


def test_heads_and_documents_are_chosen_without_copying():
    field, dense = field_of(GEOMETRIES["causal"])
    for chosen in (field.select_head(1), field.select_head("1")):
        assert np.shares_memory(chosen.values, field.values)
        assert chosen.heads == ("1",)
        np.testing.assert_array_equal(chosen.dense()[:, 0], dense[:, 1])
        np.testing.assert_array_equal(chosen.first_key[:, 0], dense[:, 1, :, 0])
    assert np.shares_memory(field.select_documents(slice(1, 3)).values, field.values)
    np.testing.assert_array_equal(field.select_documents(np.array([2, 0])).dense(), dense[[2, 0]])
    np.testing.assert_array_equal(field.select_documents(np.array([False, True, False])).dense(), dense[[1]])


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_row_sums_and_the_mass_on_the_first_key_count_all_keys(geometry):
    field, dense = field_of(geometry)
    np.testing.assert_array_equal(field.first_key, dense[..., 0])
    np.testing.assert_allclose(field.row_sum, 1, atol=1e-15)
    single = LagField.from_dense(dense.astype(np.float32), geometry.causal, max_lag=geometry.max_lag)
    np.testing.assert_array_equal(single.first_key, dense.astype(np.float32)[..., 0])
    np.testing.assert_allclose(single.row_sum, 1, atol=1e-6)


def test_a_band_of_lags_needs_the_sums_over_all_keys_from_whoever_packed_it():
    whole, _ = field_of(GEOMETRIES["causal band"])
    band = whole.geometry
    for given_, missing in ((None, "first_key"), (whole.first_key, "row_sum")):
        with pytest.raises(
            InputError, match=rf"^A field with a band of lags needs {missing} of shape \(3, 2, 9\), got None\.$"
        ):
            LagField(whole.values, band, whole.heads, given_)
    with pytest.raises(InputError, match=r"needs row_sum of shape \(3, 2, 9\), got \(3, 9\)\.$"):
        LagField(whole.values, band, whole.heads, whole.first_key, whole.row_sum[:, 0])
    assert LagField(whole.values, band, whole.heads, whole.first_key, whole.row_sum).lags.tolist() == [0, 1, 2, 3]


def test_what_lies_above_the_diagonal_of_a_causal_field_is_dropped():
    dense = np.ones((1, 4, 4))
    field = LagField.from_dense(dense, causal=True)
    np.testing.assert_array_equal(field.dense()[0, 0], np.tril(np.ones((4, 4))))
    np.testing.assert_array_equal(field.row_sum[0, 0], [1, 2, 3, 4])
    np.testing.assert_array_equal(LagField.from_dense(dense, True, max_lag=2).row_sum[0, 0], [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: LagGeometry(0, 4, False),
            r"^A field needs at least one query and one key, got 0 queries and 4 keys\.$",
        ),
        (
            lambda: LagGeometry(4, 5, True),
            r"^A causal field has as many keys as queries, got 4 queries and 5 keys\. Pass causal=False for cross",
        ),
        (lambda: LagGeometry(4, 4, True, 0), r"^max_lag must be at least 1 token, a whole number, got 0\.$"),
        (lambda: LagGeometry(4, 4, True, 2.5), r"^max_lag must be at least 1 token, a whole number, got 2\.5\.$"),  # type: ignore[arg-type]
        (lambda: LagGeometry(4, 4, True).position(4), r"^Lag 4 is not in this field, which has lags 0 to 3\.$"),
        (lambda: LagGeometry(4, 4, True).position(-1), r"^Lag -1 is not in this field, which has lags 0 to 3\.$"),
        (
            lambda: LagGeometry(4, 4, True).pack(np.zeros((2, 4, 5))),
            r"^Dense attention has shape \(2, 4, 5\), expected \(\.\.\., 4, 4\)\.$",
        ),
        (
            lambda: LagGeometry(4, 4, True).unpack(np.zeros((2, 9))),
            r"^Packed attention has shape \(2, 9\), expected \(\.\.\., 10\)\.$",
        ),
        (
            lambda: LagField(np.zeros((2, 10)), LagGeometry(4, 4, True)),
            r"^Packed attention has shape \(2, 10\), expected \(documents, 1, 10\)\.$",
        ),
        (
            lambda: LagField.from_dense(np.zeros((4, 4)), True),
            r"^Dense attention has shape \(4, 4\), expected \(documents, \[heads,\] queries, keys\)\.$",
        ),
        (lambda: field_of(GEOMETRIES["causal"])[0].select_head(2), r"^Head 2 is not in this field\. It has: 0, 1\.$"),
        (lambda: field_of(GEOMETRIES["causal"])[0].select_head("mean"), r"^Head 'mean' is not in this field\."),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_field_says_what_it_is():
    assert repr(field_of(GEOMETRIES["causal"])[0]) == "<LagField: 3 documents, 2 heads, 7 x 7, causal>"
    banded = LagField.from_dense(np.zeros((2, 5, 5)), False, max_lag=2)
    assert repr(banded) == "<LagField: 2 documents, the head mean, 5 x 5, two-sided, lags -2 to 2>"
