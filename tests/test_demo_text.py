"""What the demo reads, and what it says of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from eddyscope import demo
from eddyscope.models import corpus


@pytest.fixture
def works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of texts, found by name."""
    texts = tmp_path / "site" / demo.PACKAGE / "texts"
    texts.mkdir(parents=True)
    (texts.parent / "__init__.py").write_text("raise SystemExit('the package was imported')\n")
    for name in ("hamlet_gut", "hamlet_gut_f", "coriolanus_gut", "tempest_gut", "sonnets_gut"):
        (texts / f"{name}.txt").write_text(name)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, demo.PACKAGE, raising=False)
    return texts


def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PACKAGE", "a_package_that_nobody_has")


def test_the_works_are_read_as_files_without_those_that_the_models_saw(works: Path, tmp_path: Path) -> None:
    text = demo.demo_text(tmp_path)
    assert [path.name for path in text.paths] == ["hamlet_gut.txt", "sonnets_gut.txt"]
    assert "without those that the models saw" in text.description


def test_then_the_validation_split_which_is_not_called_unseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_package(monkeypatch)
    whole = "To be, or not to be. " * 50
    monkeypatch.setattr(corpus, "find_corpus", lambda **_: corpus.Corpus("tinyshakespeare", whole, "here"))
    text = demo.demo_text(tmp_path)
    assert text.paths[0].read_text() == whole[int(len(whole) * 0.9) :]
    assert "validation split" in text.description


def test_else_english_that_every_python_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_package(monkeypatch)
    monkeypatch.setenv(corpus.FOLDER_VARIABLE, str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    text = demo.demo_text(tmp_path)
    assert len(text.paths[0].read_text()) > 100_000
    assert "standard library" in text.description
