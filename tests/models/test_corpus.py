"""The corpus is looked up in a fixed order and checked; what goes wrong is said."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from eddyscope.errors import InputError
from eddyscope.models import Corpus, corpus, find_corpus

TEXT = "To be, or not to be.\n" * 5


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which the published text is TEXT; nothing holds it yet but the public address."""
    public = tmp_path / "public.txt"
    public.write_text(TEXT)
    monkeypatch.setattr(corpus, "SHA256", hashlib.sha256(TEXT.encode()).hexdigest())
    monkeypatch.setattr(corpus, "ADDRESS", public.as_uri())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("EDDYSCOPE_DATA", str(tmp_path / "data"))
    return tmp_path


def put(path: Path, text: str = TEXT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_places_are_asked_in_order(places: Path) -> None:
    downloaded = find_corpus()
    assert downloaded.source == corpus.ADDRESS
    cached = places / "cache" / "eddyscope" / "tinyshakespeare.txt"
    assert find_corpus().source == str(cached)
    in_folder = put(places / "data" / "tinyshakespeare.txt")
    assert find_corpus().source == str(in_folder)
    assert find_corpus("tinyshakespeare").source == str(in_folder)
    explicit = put(places / "mine.txt", "another text")
    found = find_corpus(explicit)
    assert (found.name, found.text, found.source) == ("mine.txt", "another text", str(explicit))
    assert list(cached.parent.iterdir()) == [cached]  # nothing half-written is left beside it


def test_a_text_that_differs_from_the_published_one_is_refused(places: Path) -> None:
    wrong = put(places / "data" / "tinyshakespeare.txt", "something else")
    with pytest.raises(InputError, match=r"is not the published tinyshakespeare: its sha256 is [0-9a-f]{64}, expected"):
        find_corpus()
    wrong.unlink()
    put(places / "public.txt", "something else")
    with pytest.raises(InputError, match=r"public.txt' is not the published tinyshakespeare"):
        find_corpus()
    assert not (places / "cache").exists()


def test_a_corpus_that_cannot_be_had_names_the_places(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (places / "public.txt").unlink()
    with pytest.raises(InputError) as caught:
        find_corpus()
    message = str(caught.value)
    assert "The corpus tinyshakespeare was not found: looked at" in message
    assert str(places / "data" / "tinyshakespeare.txt") in message
    assert str(places / "cache" / "eddyscope" / "tinyshakespeare.txt") in message
    assert f"the download from {corpus.ADDRESS} failed" in message
    assert "set EDDYSCOPE_DATA to it, or give the path of a text file." in message
    assert "\n" not in message
    monkeypatch.delenv("EDDYSCOPE_DATA")
    with pytest.raises(InputError, match=r"EDDYSCOPE_DATA \(not set\).*downloading was not allowed"):
        find_corpus(download=False)


def test_explicit_paths_that_are_no_text_say_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere.txt' cannot be read \(No such file or directory\)"):
        find_corpus(tmp_path / "nowhere.txt")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(InputError, match=r"latin.txt' is not UTF-8 text \(byte 3\)"):
        find_corpus(tmp_path / "latin.txt")
    put(tmp_path / "empty.txt", "")
    with pytest.raises(InputError, match=r"empty.txt' is empty; expected text"):
        find_corpus(tmp_path / "empty.txt")


def test_a_corpus_is_split_nine_to_one() -> None:
    text = Corpus("letters", "abcdefghij" * 10, "made up")
    assert text.training + text.validation == text.text
    assert len(text.training) == 90
    assert text.vocabulary == list("abcdefghij")


def test_the_published_corpus_is_what_it_is_said_to_be(tinyshakespeare: Corpus) -> None:
    assert len(tinyshakespeare.text) == 1_115_394
    assert len(tinyshakespeare.vocabulary) == 65
    assert tinyshakespeare.sha256 == corpus.SHA256
