import json
import warnings
from dataclasses import fields
from itertools import pairwise
from pydoc_data.topics import topics

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyscope.documents import Documents, read_documents
from eddyscope.errors import EddyscopeWarning, InputError, UsageError
from eddyscope.tokenizers import CharTokenizer
from tokenizers_to_try import byte_level, minilm

PROSE = "\r\n".join(topics[name] for name in sorted(topics)[:12])
STRANGE = "<script>alert('&amp;')</script> e\u0301 \U0001f600 \u05e9\u05dc\u05d5\u05dd \x00"
LETTERS = CharTokenizer("abcdefghijklmnopqrstuvwxyz .\n", fallback=".")


@pytest.fixture(scope="module")
def prose(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "prose.txt"
    path.write_bytes(PROSE.encode())
    return path


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Write texts as JSON Lines; returns the path."""
    path = tmp_path_factory.mktemp("records") / "texts.jsonl"

    def write(texts):
        path.write_text("\n".join(json.dumps({"text": t}) for t in texts))
        return path

    return write


def equal(a, b):
    """Whether two sets of documents agree in every value and type."""
    pairs = [(getattr(a, f.name), getattr(b, f.name)) for f in fields(Documents)]
    return all(x.dtype == y.dtype and np.array_equal(x, y) if isinstance(x, np.ndarray) else x == y for x, y in pairs)


def test_windows_are_cut_from_the_text_that_their_tokens_say(prose):
    tokenizer = minilm()
    documents = read_documents(prose, tokenizer, context=64, count=20, seed=3)
    assert documents.ids.shape == (20, 64)
    assert documents.ids.dtype == np.int64
    assert documents.spans.dtype == np.int32
    whole = tokenizer(PROSE, add_special_tokens=False, verbose=False)["input_ids"]
    for d in range(20):
        start, text = documents.starts[d], documents.texts[d]
        assert documents.ids[d].tolist() == [101, *whole[start : start + 62], 102]
        assert documents.special[d].tolist() == [True] + [False] * 62 + [True]
        assert documents.spans[d, [0, -1]].tolist() == [[-1, -1], [-1, -1]]
        assert (documents.spans[d, 1, 0], documents.spans[d, -2, 1]) == (0, len(text))
        assert text in PROSE
        pieces = tokenizer.convert_ids_to_tokens(documents.ids[d, 1:-1].tolist())
        for piece, (a, b) in zip(pieces, documents.spans[d, 1:-1], strict=True):
            assert text[a:b].lower() == piece.removeprefix("##")
    assert set(documents.sources) == {"prose.txt"}


def test_without_special_tokens_the_window_is_text_alone(prose):
    documents = read_documents(prose, minilm(), context=64, count=20, special="none")
    assert not documents.special.any()
    assert (documents.spans >= 0).all()
    assert not np.isin(documents.ids, [101, 102]).any()


def test_tokens_that_share_a_character_keep_it_also_at_the_border(tmp_path):
    (tmp_path / "a.txt").write_text("\U0001f600\u05d0" * 50, encoding="utf-8")
    documents = read_documents(tmp_path / "a.txt", byte_level(["<a>"]), context=6, count=30, overlap=True)
    assert (documents.ids[:, 0] == 0).all()
    for text, spans in zip(documents.texts, documents.spans, strict=True):
        assert all(text[a:b] in ("\U0001f600", "\u05d0") for a, b in spans[1:])  # bytes stand for their character
        assert text in "\U0001f600\u05d0" * 50


def test_text_with_markup_nul_and_all_scripts_is_read_and_found_again(tmp_path):
    (tmp_path / "a.txt").write_bytes((STRANGE * 10).encode())
    documents = read_documents(tmp_path / "a.txt", byte_level(), context=40, count=10)
    assert all(text in STRANGE * 10 for text in documents.texts)
    assert "\x00" in "".join(documents.texts)


words = st.lists(st.text(alphabet="abcde \n\U0001f600", max_size=60), min_size=1, max_size=5)


@settings(deadline=None)
@given(words, st.integers(2, 9), st.integers(1, 12), st.integers(0, 9), st.booleans(), st.booleans())
def test_what_holds_for_all_windows(records, texts, context, count, seed, pack, overlap):
    path = records(texts)
    options = {"context": context, "count": count, "seed": seed, "pack": pack, "overlap": overlap, "field": "text"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EddyscopeWarning)
        try:
            documents = read_documents(path, LETTERS, **options)
        except InputError:
            longest = len("".join(texts)) if pack else max(map(len, texts))
            assert longest < context
            return
        assert equal(documents, read_documents(path, LETTERS, **options))
    assert documents.ids.shape == (len(documents), context)
    assert len(documents) <= count
    position = {"".join(texts): 0} if pack else {f"texts.jsonl:{n + 1}": t for n, t in enumerate(texts)}
    for d in range(len(documents)):
        source = "".join(texts) if pack else position[documents.sources[d]]
        start = documents.starts[d]
        assert documents.texts[d] == source[start : start + context]  # one character is one token
        assert documents.ids[d].tolist() == LETTERS.encode(documents.texts[d])[0].tolist()
        assert documents.spans[d].tolist() == [[i, i + 1] for i in range(context)]
    places = list(zip(documents.sources, documents.starts.tolist(), documents.blocks.tolist(), strict=True))
    for (source, start, block), (later_source, later, later_block) in pairwise(places):
        if pack or source == later_source:
            assert later > start if overlap else later >= start + context
            assert block == later_block or later > start + context
    groups = documents.groups(4)
    assert all(len(set(groups[documents.blocks == b])) == 1 for b in documents.blocks)


def test_the_seed_decides_where_windows_lie(prose):
    first = read_documents(prose, LETTERS, context=50, count=10, seed=1)
    assert equal(first, read_documents(prose, LETTERS, context=50, count=10, seed=1))
    assert not np.array_equal(first.starts, read_documents(prose, LETTERS, context=50, count=10, seed=2).starts)


def test_no_window_crosses_from_one_source_to_the_next_unless_packed(records):
    texts = ["aaaaa", "bbb", "ccccccc"]
    with pytest.warns(EddyscopeWarning):
        apart = read_documents(records(texts), LETTERS, context=3, count=9, field="text")
    assert sorted(apart.texts) == ["aaa", "bbb", "ccc", "ccc"]
    packed = read_documents(records(texts), LETTERS, context=15, count=1, field="text", pack=True)
    assert packed.texts == ("aaaaabbbccccccc",)
    assert packed.sources == ("texts.jsonl:1 + texts.jsonl:2 + texts.jsonl:3",)


def test_copies_of_a_text_are_one_source_to_the_blocks(records):
    letters = "abcdefghijklmnopqrstuvwxy"  # two windows of 13 in 25 tokens must overlap
    path = records([letters, letters, letters[::-1]])
    documents = read_documents(path, LETTERS, context=13, count=3, field="text", seed=2)
    assert documents.starts[0] != documents.starts[1]
    assert documents.blocks.tolist() == [0, 0, 1]


def test_equal_windows_share_a_block(records):
    documents = read_documents(
        records(["aaaaa", "fghij", "aaaaaaa"]), LETTERS, context=5, count=3, field="text", seed=0
    )
    assert documents.texts == ("aaaaa", "fghij", "aaaaa")
    assert documents.blocks.tolist() == [0, 1, 0]


def test_the_identity_says_what_was_read_and_how(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"abc? def!" * 10)
    (tmp_path / "b.txt").write_bytes(b"xyz" * 10)
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    identity = read_documents(paths, LETTERS, context=8, count=5, seed=7).identity
    assert json.loads(json.dumps(identity)) == identity
    sources = identity.pop("sources")
    assert [s["name"] for s in sources] == ["a.txt", "b.txt"]
    assert [(s["bytes"], s["characters"], s["tokens"], s["replaced"]) for s in sources] == [
        (90, 90, 90, 20),
        (30, 30, 30, 0),
    ]
    assert all(len(s["sha256"]) == 64 for s in sources)
    assert identity == {
        "kind": "text",
        "tokenizer": "characters",
        "vocabulary_size": 29,
        "special_before": [],
        "special_after": [],
        "skipped": [],
        "encoding": "utf-8",
        "context": 8,
        "count_asked": 5,
        "count": 5,
        "seed": 7,
        "pack": False,
        "overlap": False,
        "special": "auto",
        "replaced": 20,
    }


def test_little_text_gives_fewer_documents_and_a_warning_never_overlap(tmp_path):
    (tmp_path / "a.txt").write_text("a" * 1005)
    message = (
        r"^10 of 150 documents: the text has 1,005 tokens in 1 source, and windows take 100 tokens each\. "
        r"Give more text, or a smaller context or overlap=True \(--overlap\)\. \[few-documents\]$"
    )
    with pytest.warns(EddyscopeWarning, match=message) as caught:
        documents = read_documents(tmp_path / "a.txt", LETTERS, context=100)
    assert caught[0].filename == __file__
    assert len(documents) == 10
    assert len(read_documents(tmp_path / "a.txt", LETTERS, context=100, overlap=True)) == 150
    with pytest.warns(EddyscopeWarning, match=r"6 of 150 documents: .* Give more text, or a smaller context\. \["):
        read_documents(tmp_path / "a.txt", LETTERS, context=1000, overlap=True)


def test_text_shorter_than_a_window_is_refused_with_the_counts(tmp_path, records):
    (tmp_path / "a.txt").write_text("one two three")
    with pytest.raises(InputError) as caught:
        read_documents(tmp_path / "a.txt", minilm(), context=16)
    assert str(caught.value) == (
        "The text is shorter than one window: it has 3 tokens, and windows take 14 tokens each and 2 special ones. "
        "Give more text or a smaller context (--context)."
    )
    with pytest.raises(InputError) as caught:
        read_documents(records(["abc", "defg"]), LETTERS, context=6, field="text")
    assert str(caught.value) == (
        "The text is shorter than one window: it has 7 tokens in 2 sources, at most 4 in one, and windows take 6 "
        "tokens each. Give more text or a smaller context (--context), or pack=True (--pack)."
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": 1}, "context=1, count=150: expected at least 2 tokens and 1 document"),
        ({"count": 0}, "context=256, count=0: expected at least 2 tokens and 1 document"),
        ({"special": "all"}, "special='all': expected 'auto' or 'none'"),
        ({"context": 2}, "context=2 has no room for text beside 2 special tokens"),
    ],
)
def test_options_out_of_range_are_refused(prose, options, message):
    with pytest.raises(UsageError, match=message):
        read_documents(prose, byte_level(["<a>"], ["<b>"]), **options)


def test_a_tokenizer_whose_spans_do_not_fit_the_text_is_refused(prose):
    class Wrong(CharTokenizer):
        def encode(self, text):
            ids, spans = super().encode(text)
            return ids + 20, spans + 1

    message = (
        r"Tokenizer 'characters' gave \d+ ids and \d+ spans for prose.txt, 1 spans outside the text and \d+ ids outside"
    )
    with pytest.raises(InputError, match=message):
        read_documents(prose, Wrong(LETTERS.vocabulary, fallback="."))


def test_token_ids_are_documents_of_their_own_but_for_equal_ones():
    ids = np.array([[1, 2, 3], [4, 5, 6], [1, 2, 3]], dtype=np.uint16)
    documents = Documents.from_ids(ids, vocabulary_size=7)
    assert documents.ids.tolist() == ids.tolist()
    assert documents.blocks.tolist() == [0, 1, 0]
    assert (documents.spans, documents.texts, documents.sources, documents.mask) == (None, None, None, None)
    assert documents.context == 3
    assert Documents.from_ids(ids, blocks=[0, 1, 1]).blocks.tolist() == [0, 0, 0]


def test_padding_does_not_count_where_sequences_are_compared():
    ids = [[1, 2, 0, 0], [9, 9, 1, 2], [1, 2, 0, 3]]
    mask = [[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]]
    documents = Documents.from_ids(ids, mask=mask)
    assert documents.blocks.tolist() == [0, 0, 1]
    assert documents.mask.tolist() == np.array(mask, dtype=bool).tolist()
    assert Documents.from_ids(ids, mask=np.ones((3, 4))).mask is None


def test_token_ids_are_read_from_a_file(tmp_path):
    np.save(tmp_path / "ids.npy", np.arange(12).reshape(3, 4))
    documents = Documents.from_ids(tmp_path / "ids.npy")
    assert documents.ids.tolist() == np.arange(12).reshape(3, 4).tolist()
    assert documents.identity["name"] == "ids.npy"
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(InputError, match=r"objects.npy cannot be read as an array: Object arrays cannot be loaded"):
        Documents.from_ids(tmp_path / "objects.npy")
    np.savez(tmp_path / "ids.npz", a=1, b=2)
    with pytest.raises(InputError, match=r"ids.npz holds several arrays"):
        Documents.from_ids(tmp_path / "ids.npz")
    with pytest.raises(InputError, match=r"There is no file '.*missing.npy'"):
        Documents.from_ids(str(tmp_path / "missing.npy"))


@pytest.mark.parametrize(
    ("ids", "options", "message"),
    [
        (
            [1, 2, 3],
            {},
            r"token ids has shape \(3,\) and type int64; expected integers \(document, token\) with at least",
        ),
        ([[1.0, 2.0]], {}, "and type float64; expected integers"),
        ([[1], [2]], {}, r"has shape \(2, 1\)"),
        ([[1, 2], [3]], {}, r"documents have different lengths\. Pad them to one length and pass mask"),
        (
            [[1, 2], [3, 9]],
            {"vocabulary_size": 9},
            r"1 ids outside the vocabulary: 9 at document 1, token 1; expected 0 to 8",
        ),
        ([[1, -100]], {}, r"-100 at document 0, token 1; expected not negative"),
        ([[1, 2]], {"mask": [[True]]}, r"has shape \(1, 2\), its mask \(1, 1\) and blocks \(1,\); expected a mask"),
        ([[1, 2], [1, 3]], {"mask": [[1, 1], [0, 0]]}, "Document 1 of token ids is padding alone"),
        ([[1, 2]], {"special": [True]}, r"Documents: special has shape \(1,\), expected \(1, 2\)"),
    ],
)
def test_ids_that_cannot_be_used_are_refused(ids, options, message):
    with pytest.raises(InputError, match=message):
        Documents.from_ids(ids, **options)


def test_a_selection_keeps_everything_of_its_documents(prose):
    documents = read_documents(prose, LETTERS, context=30, count=12)
    some = documents.select([7, 2])
    assert some.texts == (documents.texts[7], documents.texts[2])
    np.testing.assert_array_equal(some.spans, documents.spans[[7, 2]])
    np.testing.assert_array_equal(some.blocks, documents.blocks[[7, 2]])
    assert some.identity["selection"] == [7, 2]
    assert equal(documents.select(np.arange(12) % 5 == 2), documents.select([2, 7]))
    assert documents.select(slice(4, 9)).select([0, 3]).identity["selection"] == [4, 7]
    assert "selection" not in documents.identity
    assert json.loads(json.dumps(some.identity)) == some.identity


def test_groups_need_at_least_one():
    with pytest.raises(UsageError, match="number=0: expected at least 1 group"):
        Documents.from_ids([[1, 2]]).groups(0)


@pytest.mark.parametrize("kind", ["text", "ids", "padded"])
def test_documents_come_back_from_a_store_exactly(tmp_path, kind):
    if kind == "text":
        (tmp_path / "a.txt").write_bytes((STRANGE * 8).encode())
        # One window ends in NUL: such an end is lost by strings of fixed length.
        documents = read_documents(tmp_path / "a.txt", byte_level(["<a>"]), context=20, count=60, overlap=True)
        assert any(text.endswith("\x00") for text in documents.texts)
    else:
        documents = Documents.from_ids([[1, 2, 3], [4, 5, 6]], mask=[[1, 1, kind == "ids"], [1, 1, 1]])
    documents.to_dataset().to_zarr(tmp_path / "a.zarr", zarr_format=3, consolidated=False)
    with xr.open_zarr(tmp_path / "a.zarr", zarr_format=3, consolidated=False) as stored:
        assert equal(Documents.from_dataset(stored), documents)
    assert equal(Documents.from_dataset(documents.to_dataset()), documents)
