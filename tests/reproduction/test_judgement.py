"""Verdicts over several architectures, over seeds, and what they rest on."""

from __future__ import annotations

import numpy as np

from eddyscope.reproduction.criteria import OPEN, REFUTED, SUPPORTED
from eddyscope.reproduction.judgement import Witness, judge
from reproduction_help import evidence, hill, moving, twins


def rising(late, seed=0):
    places = (3, 3, 8, 8, late, late)
    return evidence([moving(hill(place), seed + k) for k, place in enumerate(places)])


def first(witnesses):
    return judge(witnesses)[0]


def test_three_seeds_speak_of_the_architecture_and_their_spread_counts():
    agreeing = first([Witness("base", "base", "", tuple(rising(24, seed=10 * k) for k in range(3)), twins())])
    assert agreeing.rows[0].basis == "architecture (3 seeds)"
    assert agreeing.verdict == SUPPORTED
    seeds = tuple(rising(late, seed=10 * k) for k, late in enumerate((30, 3, 1)))
    for alone in seeds[:1]:
        assert first([Witness("base", "base", "", (alone,), twins())]).verdict == SUPPORTED
    assert first([Witness("base", "base", "", seeds, twins())]).verdict == OPEN


def test_one_or_two_seeds_speak_of_models():
    one, two = (Witness("base", "base", "", tuple(rising(24, seed=k) for k in range(n)), twins()) for n in (1, 2))
    assert first([one]).rows[0].basis == "one model, not the architecture"
    assert first([two]).rows[0].basis == "2 models, not the architecture"


def test_a_claim_about_several_models_needs_all_of_them():
    far, near = rising(24), evidence([moving(hill(p), k) for k, p in enumerate((24, 24, 8, 8, 3, 3))])
    base, gated = Witness("base", "base", "", (far,), twins()), Witness("ega-1", "ega-1", "", (near,), twins())
    both = first([base, gated])
    assert both.verdict == REFUTED and both.why.startswith("Not supported in ega-1 (1 of 2):")
    assert first([base, Witness("ega-1", "ega-1", "", (far,), twins())]).why.startswith("In all 2:")


def test_a_variant_that_the_study_does_not_have_is_shown_and_does_not_count():
    far, near = rising(24), evidence([moving(hill(p), k) for k, p in enumerate((24, 24, 8, 8, 3, 3))])
    causal = Witness("ega-1-causal", "ega-1-causal", "", (near,), twins())
    found = first([Witness("base", "base", "", (far,), twins()), causal])
    assert found.verdict == SUPPORTED
    assert [(row.label, row.counts) for row in found.rows] == [("base", True), ("ega-1-causal", False)]


def test_architectures_are_compared_at_equal_size_only():
    far = rising(24)
    base, wide = (
        Witness("base", "base", "128", (far,), twins()),
        Witness("ega-1, wide", "ega-1", "256", (far,), twins()),
    )
    fifth = judge([base, wide])[4]
    assert fifth.claim.name == "C5" and fifth.rows == ()
    assert fifth.verdict == OPEN and "No model that the claim is about" in fifth.why
    same = judge([base, Witness("ega-1", "ega-1", "128", (far,), twins())])[4]
    assert [row.label for row in same.rows] == ["ega-1"]
    assert "1 (1 to 1)" in same.rows[0].finding.measured
    assert not np.isnan(far.energy.value).any()
