"""The section on the loss owed: its sentences, cells and chart hold the numbers of the agreement it was given."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from browser import browser, opened
from test_report_page import Running

pytest.importorskip("torch")

from eddyscope.errors import InputError, StoreError, UsageError
from eddyscope.interventions.windows.agreement import Agreement
from eddyscope.interventions.windows.plan import LayerWindow, WindowPlan, save
from eddyscope.report import write_report
from eddyscope.report.page import render
from eddyscope.report.pagedata import page_data
from eddyscope.report.pagedata.glossary import TERMS
from eddyscope.report.pagedata.owed import owed_data
from eddyscope.study.study import Study

OCTAVES = ((0, 0), (1, 2), (3, 6), (7, 14))
#: Loss owed by (layer, octave) and, of the same, shares of the energy: layer 1 owes most where it has least.
RISE = np.array([[0.0, 0.01, 0.1, 1.0], [0.4, 0.3, 0.2, 0.1], [0.001, 0.002, 0.003, -0.004]])
SHARE = np.array([[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])
#: Rank correlations of share and density with their intervals, of all layers together and of each.
RANKS = {
    "all": ((0.5, 0.25, 0.75), (0.1, -0.2, 0.4)),
    "0": ((1.0, 1.0, 1.0), (0.8, 0.1, 1.0)),
    "1": ((-1.0, -1.0, -1.0), (0.2, -0.4, 0.8)),
    "2": ((0.4, 0.1, 0.7), (-0.2, -0.6, 0.0)),
}


def agreement(names: list[str], ranks: dict[str, tuple[tuple[float, float, float], ...]] = RANKS) -> Agreement:
    cells = [
        {"layer": i, "name": name, "head": "all", "first": first, "last": last, "share": SHARE[i, j]}
        | {"density": 2 * SHARE[i, j], "rise": RISE[i, j], "low": RISE[i, j] - 0.01, "high": RISE[i, j] + 0.01}
        for i, name in enumerate(names)
        for j, (first, last) in enumerate(OCTAVES)
    ]
    rows = [
        {"layer": layer, "head": "all", "energy": energy, "correlation": r, "low": low, "high": high, "cells": 4}
        for layer, pair in ranks.items()
        for energy, (r, low, high) in zip(("share", "density"), pair, strict=True)
    ]
    return Agreement(pd.DataFrame(cells), pd.DataFrame(rows), "nats")


def folder(place: Path, found: Agreement | None, names: list[str], made_for: str = "GPT") -> Path:
    """What ``eddyscope windows`` leaves of it."""
    place.mkdir()
    model = {"id": "x", "class": made_for, "layers": len(names), "heads": 4, "kv_heads": 4}
    save(
        WindowPlan(model, 48, "keep", tuple(LayerWindow(n, 48) for n in names), {"unit": "nats"}),
        place / "windows.json",
    )
    if found is not None:
        found.cells.to_csv(place / "octaves.csv", index=False)
        found.correlations.to_csv(place / "agreement.csv", index=False)
    return place


@pytest.fixture
def study(causal: Study) -> Study:
    """Three layers of a model whose class is known."""
    return Study(causal.data, {**causal.provenance, "model": {"class": "GPT", "name": "x"}}, causal.documents)


def test_the_sentences_say_what_the_correlations_are(study: Study) -> None:
    overall, misleading = owed_data(study, agreement(list(study.layers))).sentences
    assert "Over 12 layers and" in overall.text
    assert "0.50 (95 % interval 0.25 to 0.75) for its share" in overall.text
    assert "0.10 (95 % interval -0.20 to 0.40) for its [[density]]" in overall.text
    assert misleading.text == (
        "Energy misleads by its share in layer 1 and by its density in layers 1 and 2: the rank correlation over the "
        "octaves there is not above 0 by its interval."
    )


def test_where_energy_is_right_everywhere_or_nothing_is_known_it_says_so(study: Study) -> None:
    names, nan = list(study.layers), float("nan")
    right = owed_data(study, agreement(names, dict.fromkeys(RANKS, ((0.9, 0.8, 1.0),) * 2))).sentences[1]
    assert right.text.startswith("Within no layer does energy mislead")
    assert "Not known" not in right.text
    few = owed_data(study, agreement(names, dict.fromkeys(RANKS, ((0.9, nan, nan),) * 2))).sentences
    assert "0.90 for its share and 0.90 for" in few[0].text
    assert few[1].text.startswith("Within a layer nothing can be said")
    still = {**dict.fromkeys(RANKS, ((0.9, 0.8, 1.0),) * 2), "2": ((nan, nan, nan),) * 2}
    part = owed_data(study, agreement(names, still)).sentences[1]
    assert part.text.endswith("Not known: the share in layer 2 and the density in layer 2.")


def test_each_cell_of_the_table_is_a_layer_and_an_octave(study: Study) -> None:
    found = owed_data(study, agreement(list(study.layers)))
    assert found.picture.columns == ["0", "1-2", "3-6", "7-14", "share", "density"]
    assert [row[0] for row in found.picture.rows] == ["layer 0", "layer 1", "layer 2"]
    shown = [[cell.text for cell in row[3]] for row in found.picture.rows]
    assert shown[0] == ["0.000", "0.010", "0.10", "1.00", "1.00", "0.80"]
    assert shown[2] == ["0.001", "0.002", "0.003", "-0.004", "0.40", "-0.20"]
    assert found.picture.rows[1][3][0].title == (
        "distances 0: 0.4 (0.39 to 0.41) nats, 10 % of the energy, density 0.2"
    )
    most, none, below = found.picture.rows[0][3][3], found.picture.rows[0][3][0], found.picture.rows[2][3][3]
    assert most.background != none.background == below.background
    assert [row[6] for row in found.rows] == RISE.ravel().tolist()


def test_heads_have_rows_of_their_own(study: Study) -> None:
    found = agreement(list(study.layers))
    cells = pd.concat(
        [found.cells.assign(head=head, rise=found.cells["rise"] * (1 + int(head))) for head in ("0", "1")]
    )
    own, rest = (
        found.correlations[f(found.correlations["layer"])] for f in (lambda x: x != "all", lambda x: x == "all")
    )
    ranks = pd.concat([rest, own.assign(head="0"), own.assign(head="1")])
    made = owed_data(study, Agreement(cells, ranks, "nats"))
    labels = [row[0] for row in made.picture.rows]
    assert labels == [f"layer {i}, head {h}" for h in (0, 1) for i in range(3)]
    assert made.picture.rows[3][3][3].text == "2.00"
    assert "in layer 1, head 0 and layer 1, head 1 and by" in made.sentences[1].text


def test_the_page_has_the_section_and_without_windows_nothing_of_it(study: Study) -> None:
    with_it = render(page_data([study], windows=agreement(list(study.layers))), "now")
    without = render(page_data([study]), "now")
    assert '<h2 id="owed-title">What the loss owes to each distance</h2>' in with_it
    kept = re.search(r'id="shared">(.*?)</script>', with_it, re.DOTALL)
    assert kept
    owed = json.loads(kept[1])["owed"]
    assert owed["unit"] == "nats"
    assert owed["rows"][3] == [0, "all", 7, 14, 0.4, 0.8, 1, 0.99, 1.01]
    assert 'chart("owed"' in with_it
    assert "owed" not in without


@pytest.mark.parametrize("name", ["causal", "one_document"])
def test_its_terms_are_explained_where_they_first_appear(name: str, request: pytest.FixtureRequest) -> None:
    any_study = request.getfixturevalue(name)
    reader = Running()
    reader.feed(render(page_data([any_study], windows=agreement(list(any_study.layers))), "now"))
    for term in TERMS:
        word = re.compile(rf"\b{term}s?\b(?! ratio)", re.IGNORECASE)
        first = next((inside for piece, inside in reader.pieces if word.search(piece)), None)
        assert first is not False, f"{term} is used before it is explained"


def test_a_folder_and_what_is_read_from_it_give_the_same_page(study: Study, tmp_path: Path) -> None:
    names = list(study.layers)
    place = folder(tmp_path / "windows", agreement(names), names)
    pages = [render(page_data([study], windows=given), "now") for given in (place, str(place), agreement(names))]
    assert pages[0] == pages[1] == pages[2]
    written = study.report(tmp_path / "report.html", windows=place)
    assert "What the loss owes to each distance" in written.read_text(encoding="utf-8")


def test_windows_of_another_model_are_refused(study: Study, tmp_path: Path) -> None:
    names = list(study.layers)
    other = folder(tmp_path / "class", agreement(names), names, made_for="GPT2LMHeadModel")
    with pytest.raises(InputError, match="are of a GPT2LMHeadModel, the study is of a GPT") as refused:
        write_report(study, tmp_path / "report.html", windows=other)
    assert "eddyscope windows MODEL" in str(refused.value.remedy)
    fewer = folder(tmp_path / "fewer", agreement(names[:2]), names[:2])
    with pytest.raises(InputError, match=f"of 2 layers and the study of 3: the windows do not have '{names[2]}'"):
        write_report(study, tmp_path / "report.html", windows=fewer)
    with pytest.raises(InputError, match="the windows do not have"):
        write_report(study, tmp_path / "report.html", windows=agreement(["a", "b", "c"]))
    assert not (tmp_path / "report.html").exists()


def test_a_study_of_chosen_layers_takes_the_windows_of_all(study: Study) -> None:
    names = list(study.layers)
    part = Study(study.data.copy(), {**study.provenance, "options": {"layers": [names[0], names[1]]}})
    part.data = part.data.filter(lambda node: node.name != names[2])
    assert len(part.layers) == 2
    assert len(owed_data(part, agreement(names)).picture.rows) == 3
    part.provenance["options"] = {"layers": None}
    with pytest.raises(InputError, match=f"the study does not have '{names[2]}'"):
        owed_data(part, agreement(names))


def test_windows_without_octaves_and_several_studies_are_refused(study: Study, tmp_path: Path) -> None:
    names = list(study.layers)
    with pytest.raises(StoreError, match="does not hold what layers owe to octaves"):
        page_data([study], windows=folder(tmp_path / "plain", None, names))
    with pytest.raises(UsageError, match="of one model, and there are 2 studies"):
        page_data([study, study], windows=agreement(names))


@pytest.mark.slow
def test_the_chart_is_drawn_and_says_what_owes_most(study: Study, tmp_path: Path) -> None:
    path = write_report(study, tmp_path / "report.html", windows=agreement(list(study.layers)))
    with browser() as running, opened(running, path) as found:
        found.drawn("owed")
        assert found.caption("owed") == ("Most is owed by layer 0 to distances 7 to 14: 1 nats, at 40 % of its energy.")
        found.page.locator("#figure-owed summary").click()
        rows = found.page.locator("#figure-owed details tbody tr")
        rows.last.wait_for()  # filled when it has been opened
        assert rows.count() == RISE.size
        assert found.complaints == []
