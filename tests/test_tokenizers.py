import logging
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyscope.errors import InputError
from eddyscope.tokenizers import CharTokenizer, Tokenizer, as_tokenizer
from tokenizers_to_try import byte_level, minilm


def test_a_character_is_the_index_in_its_vocabulary():
    tokenizer = CharTokenizer("\n abc")
    ids, spans = tokenizer.encode("cab\na")
    assert ids.tolist() == [4, 2, 3, 0, 2]
    assert spans.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]
    assert (tokenizer.prefix, tokenizer.suffix, tokenizer.vocabulary_size) == ((), (), 5)


@given(st.text(alphabet="zyxabc\U0001f600\u05d0\x00"), st.permutations("xabc\U0001f600\u05d0\x00"))
def test_characters_come_back_from_their_ids_and_unknown_ones_as_the_fallback(text, vocabulary):
    tokenizer = CharTokenizer(vocabulary, fallback="x")
    ids, _ = tokenizer.encode(text)
    assert "".join(vocabulary[i] for i in ids) == text.replace("y", "x").replace("z", "x")
    assert tokenizer.count_replaced(text, ids) == text.count("y") + text.count("z")


def test_an_unknown_character_without_a_fallback_is_named():
    with pytest.raises(
        InputError, match=r"2 characters are not in the vocabulary of 3, the first is '!' at 3\. Pass a"
    ):
        CharTokenizer("abc").encode("abc!b?")


@pytest.mark.parametrize(
    ("vocabulary", "fallback", "message"),
    [
        ("aab", None, "got 3 entries, 2 distinct, the longest of 1 characters"),
        (["a", "bc"], None, "got 2 entries, 2 distinct, the longest of 2 characters"),
        ("", None, "got 0 entries"),
        ("abc", "x", "The fallback 'x' is not in the vocabulary"),
    ],
)
def test_a_vocabulary_that_is_none_is_refused(vocabulary, fallback, message):
    with pytest.raises(InputError, match=message):
        CharTokenizer(vocabulary, fallback)


@pytest.mark.parametrize(("before", "after"), [((), ()), (["<a>"], ()), ((), ["<b>"]), (["<a>", "<b>"], ["<b>"])])
def test_special_tokens_around_a_text_are_found(before, after):
    tokenizer = as_tokenizer(byte_level(before, after))
    number = {"<a>": 0, "<b>": 1}
    assert tokenizer.prefix == tuple(number[n] for n in before)
    assert tokenizer.suffix == tuple(number[n] for n in after)
    assert tokenizer.vocabulary_size == 276  # 2 special tokens, 256 bytes, 18 merges


def test_tokens_of_one_emoji_share_its_character():
    ids, spans = as_tokenizer(byte_level(["<a>"])).encode("a\U0001f600b")
    assert len(ids) == 6  # four bytes of the emoji, no special token
    assert spans.tolist() == [[0, 1], [1, 2], [1, 2], [1, 2], [1, 2], [2, 3]]


def test_minilm_gives_its_ids_and_the_characters_of_each():
    tokenizer = as_tokenizer(minilm())
    assert (tokenizer.prefix, tokenizer.suffix) == ((101,), (102,))  # [CLS], [SEP]
    text = "Playing  caf\u00e9"
    ids, spans = tokenizer.encode(text)
    assert ids.tolist() == minilm()(text)["input_ids"][1:-1]
    assert [text[a:b] for a, b in spans] == ["Playing", "caf\u00e9"]
    assert tokenizer.count_replaced(text, ids) == 0
    cuneiform = "a \U00012000"
    assert tokenizer.count_replaced(cuneiform, tokenizer.encode(cuneiform)[0]) == 1


def test_a_text_longer_than_the_model_reads_is_whole_and_gives_no_warning():
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = logging.getLogger("transformers")
    logger.addHandler(handler)
    minilm().deprecation_warnings.clear()  # each tokenizer warns once, and others may have used this one
    try:
        ids, _ = as_tokenizer(minilm()).encode("word " * 600)
        assert (len(ids), messages) == (600, [])
        minilm()("word " * 600)  # without the adaptor it warns
        assert "longer than the specified maximum" in messages[0]
    finally:
        logger.removeHandler(handler)


def test_a_slow_tokenizer_is_refused_since_it_has_no_spans():
    class SlowTokenizer(SimpleNamespace):
        def __call__(self, text):
            return {"input_ids": [0]}

    with pytest.raises(
        InputError, match=r"^Tokenizer 'old' \(SlowTokenizer\) is a slow one, which gives no character spans"
    ):
        as_tokenizer(SlowTokenizer(is_fast=False, name_or_path="old"))


def test_anything_with_ids_and_spans_is_a_tokenizer_and_other_things_are_not():
    class Words:
        name, vocabulary_size, prefix, suffix = "words", 2, (), ()

        def encode(self, text):
            return np.array([0, 1]), np.array([[0, 1], [2, 3]])

        def count_replaced(self, text, ids):
            return 0

    words = Words()
    assert as_tokenizer(words) is words
    assert isinstance(CharTokenizer("a"), Tokenizer)
    with pytest.raises(InputError, match=r"^str is not a tokenizer that gives ids and character spans"):
        as_tokenizer("gpt2")
