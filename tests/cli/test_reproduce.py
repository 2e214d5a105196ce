"""``eddyscope reproduce``: errors in one line, and the same study as from Python."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--models", "nowhere"), 1, "'nowhere' is not a folder."),
        (("--documents", "4"), 1, "4 documents form 4 groups; verdicts need at least 8."),
        (("--text", "nothing.txt"), 1, "nothing.txt"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_left(typed, text, tmp_path, arguments, status, message):
    given = () if "--text" in arguments else ("--text", text)
    got = typed("reproduce", "--out", tmp_path / "out", *given, *arguments)
    assert got.status == status
    assert message in got.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_command_gives_what_python_gives(typed, text, tmp_path, monkeypatch):
    import eddyscope as es
    from eddyscope.reproduction import members

    monkeypatch.setattr(members, "names", lambda: ["base"])  # the command has no option to choose; one is enough here
    got = typed(
        "reproduce", "--out", tmp_path / "typed", "--text", text, "--documents", 18, "--no-figures", "--no-report"
    )
    assert got.status == 0, got.err
    assert "C1  " in got.out and f"The page is {tmp_path / 'typed' / 'index.html'}" in got.out
    es.reproduce(tmp_path / "called", text=text, documents=18, figures=False, report=False)
    for name in ("page.md", "index.html", "verdicts.json", "t_spec.csv", "h.csv", "energy.csv"):
        assert (tmp_path / "typed" / name).read_text() == (tmp_path / "called" / name).read_text(), name
