"""The study repeated from end to end, on few documents."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import eddyscope as es
from eddyscope.reproduction.criteria import OPEN, REFUTED, SUPPORTED
from eddyscope.reproduction.records import script_rank
from eddyscope.trust.jackknife import jackknife

pytest.importorskip("torch")

WORDS = "the king shall speak of war and love is but a shadow upon thy noble heart my lord"


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "book.txt"
    path.write_text(" ".join(np.random.default_rng(0).choice(WORDS.split(), size=2400)))
    return path


@pytest.fixture(scope="module")
def repeated(book, tmp_path_factory):
    out = tmp_path_factory.mktemp("study") / "out"
    found = es.reproduce(out, bundled=["base"], text=book, documents=18, figures=False)
    assert "layer 5" in (out / "report.html").read_text(encoding="utf-8")
    return out, found


@pytest.mark.slow
def test_every_claim_about_the_model_has_a_verdict(repeated):
    _, found = repeated
    assert [j.claim.name for j in found.judged] == [f"C{k}" for k in range(1, 8)]
    for judged in found.judged:
        assert judged.verdict in (SUPPORTED, REFUTED, OPEN) and judged.why.endswith(".")
    alone = {j.claim.name: [row.label for row in j.rows] for j in found.judged}
    assert alone == {f"C{k}": [] if k in (5, 6) else ["base"] for k in range(1, 8)}


@pytest.mark.slow
def test_evidence_is_what_the_study_of_the_same_model_says(repeated, book):
    from eddyscope.models import load
    from eddyscope.tokenizers import CharTokenizer

    _, found = repeated
    model = load("base")
    tokenizer = CharTokenizer(model.vocabulary, fallback=" ")
    ensemble = es.capture(model, es.read_documents(book, tokenizer, context=256, count=18))
    published = es.analyze(ensemble, preset="published", dominant=1, intervals=False)
    ours = es.analyze(ensemble, dominant=1, modes=1)
    evidence = found.records[0].evidence
    for k, name in enumerate(ensemble.layers):
        theirs, own = published.packed(name), ours.packed(name)
        assert evidence.t_spec.value[k] == pytest.approx(float(theirs["t_spec_published"][0]), rel=1e-3)
        assert evidence.rank_low[k].tolist() == theirs["effective_rank"].values[0].tolist()
        assert np.exp(evidence.energy.value[k]) == pytest.approx(float(theirs["spectrum"].values[0, 0].sum()), rel=1e-4)
        assert np.exp(evidence.participation.value[k]) == pytest.approx(
            float(own["field_participation_ratio"]), rel=1e-3
        )
        octave = own["octave_share"].values @ np.arange(own.sizes["octave"])
        assert evidence.mean_octave.value[k] == pytest.approx(octave, rel=1e-4)
        low = float(np.exp(jackknife(evidence.participation.value[k], evidence.participation.replicates[:, k]).low))
        assert low == pytest.approx(float(own["field_participation_ratio_low"]), rel=2e-3)
        mode = own["lag_modes"].values[0]
        np.testing.assert_allclose(evidence.profiles[k], mode[np.isfinite(mode)], atol=2e-3)


@pytest.mark.slow
def test_the_page_says_what_to_distrust_with_numbers_of_this_run(repeated):
    out, found = repeated
    page = (out / "page.md").read_text()
    rows = found.records[0].rows
    assert min(row["ahead"]["zeros"] for row in rows) > 0.98
    for row in rows:  # nothing else is there to read
        assert row["ahead"]["energy_at_0"] + row["ahead"]["energy_of_last"] == pytest.approx(1)
    for heading in (
        "### The script reads the masked half",
        "### H\\* is off by one, capped, and says how many documents were read",
        "### A failed fit silently becomes T_spec = 1",
        "### The published gate sees the future",
    ):
        assert heading in page
    assert "Eddyscope says `no fluctuation`" in page
    for row in rows:
        assert f"{script_rank(row['ahead']['h'][0], 18):.0f}" in page
    gate = found.records[0].gate
    assert not gate.looks_ahead and gate.moved < 1e-3 and gate.deprived is None
    assert f"{gate.loss:.4f}" in page
    assert "Verdicts on base are about single models" in page


@pytest.mark.slow
def test_the_folder_holds_the_page_the_tables_and_the_verdicts(repeated):
    out, found = repeated
    files = sorted(p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file())
    assert files == [
        "energy.csv", "h.csv", "index.html", "models.csv", "page.md", "report.html", "run.json", "t_spec.csv",
        "verdicts.json",
    ]  # fmt: skip
    verdicts = json.loads((out / "verdicts.json").read_text())["claims"]
    assert [v["verdict"] for v in verdicts] == [j.verdict for j in found.judged]
    assert sorted(json.loads((out / "run.json").read_text())["files"]) == files
    table = pd.read_csv(out / "h.csv")
    assert table["convention"].unique().tolist() == ["published", "published, masked half", "ours, bracket"]
    assert set(table["model"]) == {f"{m}, H*({t:.2f})" for m in ("base", "untrained base") for t in (0.1, 0.05, 0.01)}


def test_the_scripts_rank_is_one_more_and_capped():
    assert [script_rank(h, 150) for h in (1, 90, 149)] == [2, 91, 150]
    assert script_rank(150, 150) == 150


def test_too_few_documents_are_refused_before_any_work(book, tmp_path):
    with pytest.raises(es.EddyscopeError, match=r"^5 documents form 5 groups; verdicts need at least 8\. Read more"):
        es.reproduce(tmp_path / "out", bundled=["base"], text=book, documents=5)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_gates_and_figures_of_two_models(book, tmp_path):
    found = es.reproduce(tmp_path / "out", bundled=["base", "ega-1"], text=book, documents=20)
    gated = next(r.gate for r in found.records if r.member.name == "ega-1")
    assert gated.looks_ahead and gated.moved > 0.1 and gated.deprived is not None
    fifth = found.judged[4]
    assert [row.basis for row in fifth.rows] == ["compares one model with one model"]
    for model in ("base", "ega-1"):
        for preset in ("published", "defaults"):
            for name in ("scalograms", "mode_profiles", "coherence"):
                assert (tmp_path / "out" / "figures" / model / preset / f"{name}.png").stat().st_size > 5000
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 7
    assert "http" not in page.replace("https://", "http").split("<body>")[0]
