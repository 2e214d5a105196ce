import warnings

import numpy as np
import pytest

from eddyscope import AttentionEnsemble, EddyscopeWarning, LagField
from eddyscope.documents import Documents
from eddyscope.errors import InputError
from planted import noise

N, L = 5, 12
CAUSAL = noise(N, L, seed=1)
TWO_SIDED = noise(N, L, seed=2, causal=False)
LAYOUT = (
    r"\(documents, layers, L, L\), \(documents, layers, heads, L, L\), or a mapping from layer name to "
    r"\(documents, \[heads,\] L, L\)"
)


def stacked(*layers):
    return np.stack(layers, axis=1)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layers_of_head_means(causal, dtype):
    attention = stacked(*(noise(N, L, seed, causal=causal) for seed in range(3))).astype(dtype)
    ensemble = AttentionEnsemble.from_arrays(attention, causal=causal)
    assert ensemble.layers == ("layer0", "layer1", "layer2")
    assert (ensemble.count, ensemble.heads, len(ensemble.fields)) == (N, "mean", 3)
    for index in range(3):
        assert ensemble[index].values.dtype == dtype
        assert ensemble[index].heads == ("mean",)
        assert ensemble[index].causal == causal
        np.testing.assert_array_equal(ensemble[f"layer{index}"].dense()[:, 0], attention[:, index])
        assert (ensemble.info[f"layer{index}"].index, ensemble.info[f"layer{index}"].query_heads) == (index, 0)


def test_layers_of_single_heads():
    attention = np.stack([stacked(CAUSAL, CAUSAL[::-1]), stacked(CAUSAL[::-1], CAUSAL)], axis=1)
    ensemble = AttentionEnsemble.from_arrays(attention)
    assert (ensemble.heads, ensemble[1].heads) == ("each", ("0", "1"))
    assert ensemble.info["layer1"].query_heads == 2
    np.testing.assert_array_equal(ensemble[1].dense(), attention[:, 1])


def test_a_mapping_names_its_layers_which_may_keep_means_or_heads():
    ensemble = AttentionEnsemble.from_arrays({"b.attn": CAUSAL, "a.attn": stacked(CAUSAL, CAUSAL, CAUSAL)})
    assert ensemble.layers == ("b.attn", "a.attn")  # in the order given
    assert (ensemble["b.attn"].heads, ensemble["a.attn"].heads) == (("mean",), ("0", "1", "2"))
    assert ensemble.heads == "each"


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_torch_tensors_of_any_precision(dtype):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(stacked(CAUSAL), requires_grad=True).to(getattr(torch, dtype))
    ensemble = AttentionEnsemble.from_arrays(tensor)
    assert ensemble[0].values.dtype == (np.float64 if dtype == "float64" else np.float32)
    np.testing.assert_array_equal(ensemble[0].dense()[:, 0], tensor.detach().double().numpy()[:, 0])
    assert AttentionEnsemble.from_arrays({"x": tensor[:, 0]}).layers == ("x",)


def test_half_precision_rows_may_miss_1_by_a_hundredth_and_single_precision_by_a_thousandth():
    off = stacked(CAUSAL) * (1 + 4e-3)
    assert AttentionEnsemble.from_arrays(off.astype(np.float16)).count == N
    with pytest.raises(InputError, match="do not sum to 1"):
        AttentionEnsemble.from_arrays(off)
    with pytest.raises(InputError, match="do not sum to 1"):
        AttentionEnsemble.from_arrays((stacked(CAUSAL) * 1.02).astype(np.float16))


def test_a_band_of_lags_is_kept_with_the_sums_over_all_keys():
    ensemble = AttentionEnsemble.from_arrays(stacked(CAUSAL), max_lag=4)
    assert ensemble[0].lags.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(ensemble[0].first_key[:, 0], CAUSAL[:, :, 0])
    np.testing.assert_allclose(ensemble[0].row_sum, 1, atol=1e-12)


def test_the_arrays_given_are_left_as_they_were():
    attention = stacked(CAUSAL, CAUSAL)
    attention[2, 1, 3, 0] = np.nan
    before = attention.copy()
    with pytest.warns(EddyscopeWarning):
        AttentionEnsemble.from_arrays(attention, drop_bad=True)
    np.testing.assert_array_equal(attention, before)


@pytest.mark.parametrize(
    ("attention", "message"),
    [
        (CAUSAL, rf"^Attention has shape \(5, 12, 12\), expected {LAYOUT}\.$"),
        (stacked(CAUSAL)[..., None], rf"^Attention has shape \(5, 1, 12, 12, 1\), expected {LAYOUT}\.$"),
        (stacked(CAUSAL)[..., :9], rf"^Attention has shape \(5, 1, 12, 9\), expected {LAYOUT}\.$"),
        ([CAUSAL, CAUSAL], rf"^Attention is a list of 2 entries of shape \(5, 12, 12\), expected {LAYOUT}\. For one"),
        ((CAUSAL,), r"pass \{f'layer\{i\}': a for i, a in enumerate\(arrays\)\}\.$"),
        ([], rf"^Attention is a list of 0 entries, expected {LAYOUT}\."),
        ({}, rf"^The mapping of layers is empty\. Expected {LAYOUT}\.$"),
        (
            {"a": CAUSAL[0]},
            r"^Attention of layer 'a' has shape \(12, 12\), expected \(documents, \[heads,\] L, L\)\.$",
        ),
        ({"a": [CAUSAL]}, r"^Attention is a list of 1 entries of shape \(5, 12, 12\), expected"),
        (
            stacked(CAUSAL) > 0,
            r"^The attention has dtype bool, expected floating-point attention weights\. .* convert them to float32\.$",
        ),
        ({"a": np.eye(4, dtype=int)[None]}, r"^The layer 'a' has dtype int64, expected floating-point"),
        (np.zeros((0, 2, 4, 4)), r"^The attention is empty: shape \(0, 2, 4, 4\)\.$"),
        ({"a": CAUSAL, "b": CAUSAL[:3]}, r"^Layers have different numbers of documents: \{'a': 5, 'b': 3\}\.$"),
        (
            {"a/b": CAUSAL},
            r"^A layer is named 'a/b'; a study keeps one node a layer, and '/' separates nodes\. Name layers without",
        ),
        ({"": CAUSAL}, r"^A layer is named ''; a study"),
    ],
)
def test_another_layout_is_refused_and_named(attention, message):
    with pytest.raises(InputError, match=message) as caught:
        AttentionEnsemble.from_arrays(attention)
    assert "\n" not in str(caught.value)


def test_integers_of_torch_are_refused_as_numpys_are():
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match="has dtype int64, expected floating-point"):
        AttentionEnsemble.from_arrays(torch.ones((2, 1, 4, 4), dtype=torch.long))


@pytest.mark.parametrize("wrap", [lambda a: a, lambda a: {"sequences": None, "attentions": a}, lambda a: [list(a[0])]])
def test_what_generate_returns_is_refused_with_the_way_to_capture(wrap):
    def step(length, first):
        return tuple(np.ones((1, 2, length if first else 1, length)) for _ in range(3))

    attentions = tuple(step(5 + n, n == 0) for n in range(4))
    with pytest.raises(
        InputError, match=r"^Attention is a .* of . (tuple|list)s, which looks like the attentions of gen"
    ) as e:
        AttentionEnsemble.from_arrays(wrap(attentions))
    assert "Generate the text first, then capture the model on it: eddyscope.capture(model, documents)." in str(e.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_none_is_named_by_document_and_layer(value):
    attention = stacked(CAUSAL, CAUSAL)
    attention[3, 1, 5, 2] = value
    with pytest.raises(
        InputError,
        match=r"^Attention of layer 'layer1' has NaN or Inf in document 3\. Leave such documents out with",
    ):
        AttentionEnsemble.from_arrays(attention)


def test_many_bad_documents_are_counted():
    attention = stacked(CAUSAL, CAUSAL)
    attention[3, 1, 5, :2] = np.inf, -np.inf
    attention[4, 0, 5, 2] = np.nan
    with pytest.raises(
        InputError, match=r"'layer0' has NaN or Inf in document 4 \(2 layers, 2 documents in all\)\. Leave"
    ):
        AttentionEnsemble.from_arrays(attention)


def test_bad_documents_are_dropped_from_all_layers_with_a_warning():
    attention = stacked(CAUSAL, TWO_SIDED)
    attention[1, 0, 5, 2] = np.nan
    documents = Documents.from_ids(np.arange(N * L).reshape(N, L))
    with pytest.warns(EddyscopeWarning, match=r"^Left out 1 of 5 documents with NaN or Inf: \[1\]\.") as caught:
        ensemble = AttentionEnsemble.from_arrays(attention, causal=False, drop_bad=True, documents=documents)
    assert caught[0].message.slug == "dropped-documents"
    assert ensemble.count == 4
    assert ensemble.provenance["documents_dropped"] == [1]
    np.testing.assert_array_equal(ensemble["layer1"].dense()[:, 0], TWO_SIDED[[0, 2, 3, 4]])
    np.testing.assert_array_equal(ensemble.documents.ids, documents.ids[[0, 2, 3, 4]])


def test_where_every_document_is_bad_nothing_is_left():
    with pytest.raises(InputError, match=r"^All 5 documents have NaN or Inf, nothing is left to analyse\.$"):
        AttentionEnsemble.from_arrays(stacked(CAUSAL) * np.nan, drop_bad=True)


def test_drop_bad_does_nothing_where_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert AttentionEnsemble.from_arrays(stacked(CAUSAL), drop_bad=True).provenance["documents_dropped"] == []


def test_rows_that_do_not_sum_to_1_are_refused_unless_they_are_said_to_be_scores():
    attention = stacked(CAUSAL, CAUSAL)
    attention[2, 1, 7] *= 1.5
    with pytest.raises(
        InputError,
        match=r"^Rows of layer 'layer1' do not sum to 1: row 7 of document 2 sums to 1\.5\. Pass attention after the "
        r"softmax, or unnormalised=True \(--unnormalised\) to analyse scores as they are\.$",
    ):
        AttentionEnsemble.from_arrays(attention)
    ensemble = AttentionEnsemble.from_arrays(attention, unnormalised=True)
    assert ensemble.provenance["unnormalised"]
    np.testing.assert_allclose(ensemble["layer1"].row_sum[2, 0, 7], 1.5)


def test_scores_may_be_negative_and_attention_may_not():
    attention = stacked(CAUSAL)
    attention[0, 0, 3, :2] += [0.9, -0.9]
    with pytest.raises(InputError, match=r"^Layer 'layer0' has negative weights \(lowest -0\.\d+\)\. Pass attention"):
        AttentionEnsemble.from_arrays(attention)
    assert AttentionEnsemble.from_arrays(attention, unnormalised=True).count == N


def test_rounding_below_0_and_above_the_diagonal_is_none_of_these():
    attention = stacked(CAUSAL)
    attention[0, 0, 3, 4] = -1e-9
    assert AttentionEnsemble.from_arrays(attention).count == N


@pytest.mark.parametrize("unnormalised", [False, True])
def test_mass_above_the_diagonal_of_a_causal_field_is_refused(unnormalised):
    with pytest.raises(
        InputError,
        match=r"^Layer 'layer1' has attention above the diagonal \(largest 0\.\d+\), so it is not causal\. Pass "
        r"causal=False \(--two-sided\), or check that the causal mask was applied\.$",
    ):
        AttentionEnsemble.from_arrays(stacked(CAUSAL, TWO_SIDED), unnormalised=unnormalised)


def test_layers_are_found_by_name_and_index_and_chosen_in_order():
    ensemble = AttentionEnsemble.from_arrays(stacked(*[CAUSAL] * 6))
    assert ensemble.layer_name(-1) == "layer5"
    assert ensemble.select_layers([4, "layer1"]).layers == ("layer1", "layer4")
    assert ensemble.select_layers([4]).info["layer4"].index == 4
    for missing in (6, -7, "layer6"):
        with pytest.raises(
            InputError,
            match=rf"^Layer {missing!r} is not in this ensemble\. It has 6 layers: layer0, layer1, layer2, layer3 \.",
        ):
            ensemble[missing]


@pytest.mark.parametrize("index", [[3, 0], np.array([True, False, False, True, False]), np.array([3, 0])])
def test_documents_are_chosen_in_all_layers(index):
    documents = Documents.from_ids(np.arange(N * L).reshape(N, L))
    chosen = AttentionEnsemble.from_arrays(stacked(CAUSAL, CAUSAL), documents=documents).select_documents(index)
    expected = np.arange(N)[np.asarray(index)]
    np.testing.assert_array_equal(chosen["layer1"].dense()[:, 0], CAUSAL[expected])
    np.testing.assert_array_equal(chosen.documents.ids, documents.ids[expected])


def test_documents_and_fields_must_be_as_many():
    with pytest.raises(InputError, match=r"^There are 3 documents but attention of 5; they must be the same"):
        AttentionEnsemble.from_arrays(stacked(CAUSAL), documents=Documents.from_ids(np.arange(36).reshape(3, 12)))
    with pytest.raises(InputError, match=r"^An ensemble needs at least one layer, got none\.$"):
        AttentionEnsemble({}, {})


def test_without_documents_each_snapshot_is_a_block_of_its_own():
    assert AttentionEnsemble.from_arrays(stacked(CAUSAL)).blocks.tolist() == [0, 1, 2, 3, 4]
    same = Documents.from_ids(np.repeat(np.arange(L)[None], N, axis=0))  # equal sequences are one block
    assert len(set(AttentionEnsemble.from_arrays(stacked(CAUSAL), documents=same).blocks.tolist())) == 1


@pytest.mark.parametrize("given", [None, "attention.npy"])
def test_what_is_no_array_is_told_by_its_type(given):
    with pytest.raises(InputError, match=rf"^The attention is {type(given).__name__}, expected \(documents, layers"):
        AttentionEnsemble.from_arrays(given)


def test_an_ensemble_says_what_it_is():
    ensemble = AttentionEnsemble.from_arrays(stacked(CAUSAL, CAUSAL))
    assert repr(ensemble) == "<AttentionEnsemble of arrays: 2 layers, 5 documents, heads=mean>"
    named = AttentionEnsemble.from_arrays(stacked(CAUSAL), provenance={"model": {"name": "gpt2"}})
    assert repr(named) == "<AttentionEnsemble of gpt2: 1 layers, 5 documents, heads=mean>"
    assert isinstance(ensemble[0], LagField)
