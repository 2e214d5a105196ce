import hashlib
import io
import json
import sys

import numpy as np
import pytest

from eddyscope.errors import InputError, UsageError
from eddyscope.texts import read_texts

STRANGE = "<script>alert('&')</script>\r\n e\u0301 \U0001f600 \u05d0\u05d1 \x00 end\x00"


def test_a_file_is_read_exactly_as_it_is_stored(tmp_path):
    data = ("\ufeffone\r\ntwo\rthree\n" + STRANGE).encode()
    (tmp_path / "a.txt").write_bytes(data)
    read = read_texts(tmp_path / "a.txt")
    assert read.sources[0].text.encode() == data
    assert read.files == (
        {
            "name": "a.txt",
            "sha256": hashlib.sha256(data).hexdigest(),
            "bytes": len(data),
            "characters": len(data.decode()),
        },
    )


def test_a_folder_gives_its_text_files_sorted_and_says_what_it_left_out(tmp_path):
    folder = tmp_path / "books"
    (folder / "sub" / ".git").mkdir(parents=True)
    for name in ("b.txt", "a.md", "sub/c.txt", ".hidden", "sub/.git/config"):
        (folder / name).write_text(f"text of {name}")
    (folder / "empty.txt").touch()
    (folder / "ids.npy").write_bytes(bytes(range(32)) * 10)
    read = read_texts(folder)
    assert [s.name for s in read.sources] == ["books/a.md", "books/b.txt", "books/sub/c.txt"]
    assert read.skipped == ("books/empty.txt", "books/ids.npy")


def test_a_list_reads_each_file_once_and_names_stay_distinct(tmp_path):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text(folder)
    (tmp_path / "x" / "b.txt").write_text("b")
    paths = [tmp_path / "y" / "a.txt", tmp_path / "x" / "a.txt", tmp_path / "x" / "b.txt", tmp_path / "y" / "a.txt"]
    read = read_texts(paths)
    assert [s.text for s in read.sources] == ["y", "x", "b"]
    assert [s.name for s in read.sources] == [paths[0].as_posix(), paths[1].as_posix(), "b.txt"]


def test_records_of_json_lines_are_sources_named_by_line(tmp_path):
    lines = [json.dumps({"id": 1, "body": "one\u2028two"}, ensure_ascii=False), "", json.dumps({"body": ""})]
    lines.append(json.dumps({"body": STRANGE}))
    path = tmp_path / "a.jsonl"
    path.write_text("\ufeff" + "\n".join(lines) + "\n", encoding="utf-8")
    read = read_texts(path, field="body")
    assert [(s.name, s.text) for s in read.sources] == [("a.jsonl:1", "one\u2028two"), ("a.jsonl:4", STRANGE)]
    assert read.files[0]["records"] == 2
    assert read.files[0]["characters"] == len("one\u2028two") + len(STRANGE)


@pytest.mark.parametrize(("field", "expected"), [(None, '{"t": "hello"}'), ("t", "hello")])
def test_standard_input_is_text_or_with_a_field_json_lines(monkeypatch, field, expected):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"t": "hello"}')))
    assert [s.text for s in read_texts("-", field=field).sources] == [expected]


def test_another_encoding_is_read_when_it_is_named(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("caf\u00e9".encode("latin-1"))
    assert read_texts(path, encoding="latin-1").sources[0].text == "caf\u00e9"
    path.write_bytes("caf\u00e9".encode("utf-16"))
    assert read_texts(path, encoding="utf-16").sources[0].text == "caf\u00e9"


BINARY = np.random.default_rng(0).bytes(4000)
FILES = {
    "empty.txt": (b"", r"^empty.txt is empty \(0 bytes\)\. Give a file with text in it\.$"),
    "latin.txt": (
        b"caf\xe9 noir",
        r"^latin.txt cannot be decoded as utf-8 at byte 3\. If it is text, pass its encoding, for example "
        r"encoding='latin-1' \(--encoding latin-1\)\.$",
    ),
    "binary.bin": (BINARY, r"^binary.bin looks binary: 1\d% of it is control characters\. If it is text, pass"),
    "zeros.bin": (bytes(100), r"^zeros.bin looks binary: 100% of it"),
    "wide.txt": ("caf\u00e9".encode("utf-16"), r"^wide.txt looks binary: .*--encoding utf-16\)\.$"),
    "ids.npy": (b"\x93NUMPY", r"^ids.npy holds an array, not text\. For token ids use eddyscope.Documents.from_ids"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_text_is_refused_in_one_line(tmp_path, name):
    data, message = FILES[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        read_texts(tmp_path / name)
    assert "\n" not in str(caught.value)


LINES = {
    '{"a": "x"}\n{"a": \n': r"^a.jsonl, line 2 is not JSON: Expecting value\. Each line must hold one JSON object\.$",
    "[1, 2]": r"^a.jsonl, line 1 is a JSON list\. Each line must hold one JSON object\.$",
    '\n{"b": "x", "c": 1}': r"^a.jsonl, line 2 has no field 'a'; it has: b, c\.$",
    '{"a": 3}': r"^a.jsonl, line 1: field 'a' is of type int, expected a string\.$",
    r'{"a": "x\ud800"}': r"^a.jsonl, line 1: half of a surrogate pair at character 1 is not text\.$",
}


@pytest.mark.parametrize("content", LINES)
def test_a_bad_line_is_named(tmp_path, content):
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(InputError, match=LINES[content]):
        read_texts(tmp_path / "a.jsonl", field="a")


def test_json_lines_without_a_field_lists_the_fields(tmp_path):
    (tmp_path / "a.ndjson").write_text('{"id": 1, "body": "x"}')
    with pytest.raises(
        UsageError, match=r"a.ndjson, line 1 has the fields: id, body\. Pass field='NAME' \(--field NAME"
    ):
        read_texts(tmp_path / "a.ndjson")


def test_a_field_without_json_lines_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(UsageError, match=r"field='body' is given, but no file ends in .jsonl or .ndjson"):
        read_texts(tmp_path / "a.txt", field="body")


def test_paths_that_lead_nowhere_are_named(tmp_path):
    with pytest.raises(InputError, match=r"There is no file or folder '.*missing.txt'\. Give the path"):
        read_texts(tmp_path / "missing.txt")
    with pytest.raises(InputError, match="There is no file or folder 'All happy families"):
        read_texts("All happy families are alike; " * 200)
    (tmp_path / "only.bin").write_bytes(BINARY)
    with pytest.raises(InputError, match=r"There is no text file in .* \(1 empty or binary files were left out\)"):
        read_texts(tmp_path)


def test_an_unknown_encoding_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(UsageError, match="Unknown encoding 'utf-9'"):
        read_texts(tmp_path / "a.txt", encoding="utf-9")


def test_empty_standard_input_is_named(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(InputError, match=r"^Standard input is empty\. Pipe a text into it, or give a file\.$"):
        read_texts("-")
