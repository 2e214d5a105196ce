"""The page: written whole, the same bytes from the same study, and what it says is what the study holds."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import eddyscope as es
from eddyscope.documents import Documents
from eddyscope.errors import InputError, StoreError
from eddyscope.report import write_report
from eddyscope.report.page import as_json, render
from eddyscope.report.pagedata import page_data
from eddyscope.report.pagedata.glossary import TERMS, Glossary
from eddyscope.report.pagedata.provenance import EXPLAINED
from eddyscope.study.study import Study

DOCS = Path(__file__).parents[2] / "docs"


def test_any_study_has_a_page(any_study, tmp_path):
    """Few documents, no fluctuation, two sides, bands of lags, a sink that takes all: the page stays whole."""
    path = write_report(any_study, tmp_path / "report.html")
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    for layer, name in enumerate(any_study.layers):
        kept = json.loads(script(page, f"layer-0-{layer}"))
        if kept["head"] == "mean":
            assert kept["layer"] == name


@pytest.fixture(scope="module")
def small_t5():
    """Encoder, decoder and cross attention of a random model, which reads random tokens."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=40, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_decoder_layers=1, num_heads=2,
        decoder_start_token_id=3,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config).eval()


def test_cross_attention_has_a_page_without_distances(small_t5, tmp_path):
    ids = np.random.default_rng(0).integers(5, 40, (12, 24))
    study = es.analyze(es.capture(small_t5, Documents.from_ids(ids)))
    kinds = [study.data[name].attrs["kind"] for name in study.layers]
    assert "cross" in kinds
    page = write_report(study, tmp_path / "report.html").read_text(encoding="utf-8")
    kept = json.loads(script(page, f"layer-0-{kinds.index('cross')}"))
    assert kept["scalogram"]["map"] is None
    assert kept["scalogram"]["missing"]
    assert kept["pods"][0]["key"] == "field"
    assert kept["pods"][0]["modes"][0]["codes"]


def test_kept_statistics_have_a_page_that_says_what_is_missing(small_t5, tmp_path):
    ids = np.random.default_rng(0).integers(5, 40, (12, 24))
    study = es.analyze(es.capture(small_t5, Documents.from_ids(ids), keep="statistics"))
    page = write_report(study, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "this study kept statistics along the distance, and not the attention itself" in page
    assert [pod["key"] for pod in json.loads(script(page, "layer-0-0"))["pods"]] == ["lag"]


def test_the_same_study_gives_the_same_bytes_apart_from_one_stamp(with_nulls):
    first, second = (
        render(page_data([with_nulls]), stamp) for stamp in ("2001-01-01 00:00 UTC", "2002-02-02 00:00 UTC")
    )
    assert first != second
    assert first.replace("2001-01-01 00:00 UTC", "2002-02-02 00:00 UTC") == second
    assert first.count("2001-01-01 00:00 UTC") == 1


def test_a_saved_study_gives_the_same_page(causal, tmp_path):
    causal.save(tmp_path / "study.zarr")
    again = es.open_study(tmp_path / "study.zarr")
    assert render(page_data([again]), "now") == render(page_data([causal]), "now")


def test_a_page_is_not_replaced_without_force(causal, tmp_path):
    path = causal.report(tmp_path / "report.html")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="exists"):
        causal.report(path)
    assert path.read_bytes() == before
    causal.report(path, force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_folder_gets_report_html(causal, tmp_path):
    assert causal.report(tmp_path) == tmp_path / "report.html"


def test_a_place_that_cannot_be_written_is_named(causal, read_only):
    with pytest.raises(StoreError, match=r"report\.html' cannot be written"):
        causal.report(read_only / "report.html")


def test_studies_and_names_must_match(causal, tmp_path):
    with pytest.raises(InputError, match="There are 2 names for 1 studies"):
        write_report([causal], tmp_path, names=["a", "b"])
    with pytest.raises(InputError, match="at least one study"):
        write_report([], tmp_path)


def test_two_studies_stand_beside_each_other(causal, with_nulls, tmp_path):
    page = write_report([causal, with_nulls], tmp_path / "both.html", names=["one", "two"]).read_text(encoding="utf-8")
    assert "Models beside each other" in page
    assert json.loads(script(page, "layer-1-0"))["label"] == "layer 0"
    assert [study["name"] for study in json.loads(script(page, "shared"))["studies"]] == ["one", "two"]


def test_text_in_json_cannot_end_its_element():
    hostile = "</script><script>alert(1)</script><!-- & \u2028 \x00 \ud800"
    kept = as_json({"text": hostile})
    assert not set("<>&\u2028\x00") & set(kept)
    assert json.loads(kept)["text"] == hostile


def test_hostile_names_and_warnings_are_text(causal):
    nasty = "<img src=x onerror=alert(1)>"
    provenance = {**causal.provenance, "model": {"name": nasty, "class": nasty}}
    provenance["warnings"] = [{"slug": "few-documents", "message": nasty}]
    page = render(page_data([Study(causal.data, provenance, causal.documents)]), "now")
    assert nasty not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page


def test_every_warning_that_there_is_has_an_explanation():
    slugs = re.findall(r"^## (\S+)$", (DOCS / "warnings.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(slugs) >= 10
    assert set(slugs) <= set(EXPLAINED)


# --- terms of art ----------------------------------------------------------------------------------------------------


class Running(HTMLParser):
    """Running text in reading order: each piece with whether it stands in an explanation."""

    def __init__(self):
        super().__init__()
        self.pieces, self._inside, self._skip = [], [], ("script", "style", "title", "table", "h1", "h2", "h3", "nav")

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br", "input"):
            self._inside.append((tag, dict(attrs).get("class", "")))

    def handle_endtag(self, tag):
        while self._inside and self._inside.pop()[0] != tag:
            pass

    def handle_data(self, data):
        tags = [tag for tag, _ in self._inside]
        if ("p" in tags or "figcaption" in tags) and not any(t in self._skip for t in tags):
            self.pieces.append((data, "dfn" in tags))


@pytest.mark.parametrize("name", ["with_nulls", "by_head", "one_document", "two_sided_with_nulls"])
def test_each_term_is_explained_where_it_first_appears(name, request):
    page = render(page_data([request.getfixturevalue(name)]), "now")
    reader = Running()
    reader.feed(page)
    assert len(reader.pieces) > 30
    explained = 0
    for term in TERMS:
        word = re.compile(rf"\b{term}s?\b(?! ratio)", re.IGNORECASE)
        first = next((inside for text, inside in reader.pieces if word.search(text)), None)
        assert first is not False, f"{term} is used before it is explained"
        explained += first is True
    assert explained > 12


def test_a_term_is_explained_once_and_linked_after():
    explain = Glossary()
    assert explain("[[mode]]").startswith('<dfn id="term-mode">mode</dfn> <span class="meaning">(a pattern')
    assert str(explain("<b> [[mode|Modes]]")).startswith('&lt;b&gt; <a class="term" href="#term-mode"')


def script(page: str, name: str) -> str:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.DOTALL)
    assert found, name
    return found[1]
