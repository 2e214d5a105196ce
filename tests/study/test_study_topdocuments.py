"""Which tokens take part in a mode: shares of its coefficient in the documents that show it most."""

import numpy as np
import pytest

import eddyscope as es
import planted
from eddyscope.study.topdocuments import TOP_DOCUMENTS, TOP_MODES


@pytest.fixture(scope="module")
def attention():
    """Uniform attention with noise; query 20 looks at key 11 in documents 3 and, half as much, 7."""
    noisy = planted.noise(16, 32, seed=3, strength=0.05)
    for document, share in ((3, 0.8), (7, 0.4)):
        noisy[document, 20] *= 1 - share
        noisy[document, 20, 11] += share
    return noisy


@pytest.fixture(scope="module")
def study(attention):
    return es.analyze(es.AttentionEnsemble.from_arrays(attention[:, None], causal=True), intervals=False)


def test_the_planted_pair_is_found_in_the_planted_documents(study):
    data = study.layer(0)
    assert data["field_top_document"].values[0, :2].tolist() == [3, 7]
    assert data["field_top_query_share"].values[0, 0].argmax() == 20
    assert data["field_top_key_share"].values[0, 0].argmax() == 11
    assert data["field_top_key"].values[0, 0, 20] == 11
    assert data["field_top_pair_share"].values[0, 0, 20] > 0.9


def test_shares_of_queries_and_of_keys_add_up_to_one(study):
    data = study.packed(0)
    for prefix in ("", "field_"):
        for name, along in (("top_query_share", "query"), ("top_key_share", "key")):
            total = data[f"{prefix}{name}"].sum(along, skipna=False).values
            known = np.isfinite(total)
            assert known.any()
            np.testing.assert_allclose(total[known], 1, atol=1e-4)


def test_shares_are_those_of_the_expanded_mode(study, attention):
    """Against the dense arithmetic, without the packing."""
    data = study.layer(0)
    fluctuation = attention - attention.mean(axis=0)
    for mode in range(TOP_MODES):
        pattern = np.nan_to_num(data["field_modes"].values[mode])
        order = np.argsort(-np.abs(data["field_coefficients"].values[:, mode]))[:TOP_DOCUMENTS]
        np.testing.assert_array_equal(data["field_top_document"].values[mode], order)
        part = fluctuation[order] * pattern
        part /= part.sum(axis=(1, 2), keepdims=True)
        np.testing.assert_allclose(data["field_top_query_share"].values[mode], part.sum(axis=2), atol=1e-4)
        np.testing.assert_allclose(data["field_top_key_share"].values[mode], part.sum(axis=1), atol=1e-4)


def test_without_fluctuation_there_are_no_documents_to_show():
    still = np.repeat(planted.noise(1, 16, seed=1), 4, axis=0)
    data = es.analyze(es.AttentionEnsemble.from_arrays(still[:, None], causal=True)).packed(0)
    assert np.isnan(data["field_top_document"].values).all()


def test_each_head_has_documents_of_its_own(attention):
    both = np.stack([attention, attention[::-1]], axis=1)[:, None]
    study = es.analyze(es.AttentionEnsemble.from_arrays(both, causal=True), intervals=False)
    assert [int(study.packed(0, head)["field_top_document"][0, 0]) for head in (0, 1)] == [3, 12]
