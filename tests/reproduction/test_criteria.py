"""Every verdict can be flipped by data: for each claim there is attention that makes it true, false and open."""

from __future__ import annotations

import numpy as np
import pytest

import planted
from eddyscope.reproduction.claims import CLAIMS
from eddyscope.reproduction.criteria import (
    OPEN,
    REFUTED,
    SUPPORTED,
    oscillates,
    peaks_within,
    several_peaks,
)
from reproduction_help import L, N, evidence, hill, judged, moving, replaced, ripple, twins


def rare(seed, loud=3.0):
    """Amplitudes of which one document has nearly all."""
    strength = 0.3 * np.random.default_rng(seed).normal(size=N)
    strength[3] = loud
    return strength


# --- C1 -------------------------------------------------------------------------------------------------------------


def near_and_far(early, late, seed=0):
    places = (early, early, 8, 8, late, late)
    return evidence([moving(hill(place), seed + k) for k, place in enumerate(places)])


def test_c1_holds_where_late_layers_look_farther():
    found = judged("C1", [near_and_far(3, 24)])
    assert found.verdict == SUPPORTED
    assert "one model, not the architecture" in found.rows[0].basis


def test_c1_fails_where_they_look_nearer():
    found = judged("C1", [near_and_far(24, 3)])
    assert found.verdict == REFUTED and "the other way round" in found.why


def test_c1_fails_where_both_look_as_far():
    found = judged("C1", [near_and_far(6, 6)])
    assert found.verdict == REFUTED and "less than 0.5 octaves" in found.why


def test_c1_fails_where_twins_show_it_too():
    found = judged("C1", [near_and_far(3, 24)], [near_and_far(3, 24, seed=100 * k) for k in (1, 2, 3)])
    assert found.verdict == REFUTED and "Untrained twins show it too" in found.why


def test_c1_is_open_where_one_document_decides():
    late = [moving(hill(24), 4 + k, amplitude=rare(k)) + 0 for k in range(2)]
    early = [moving(hill(3), k, amplitude=rare(5 + k, 0.5)) for k in range(2)]
    mixed = [0.5 * a + 0.5 * b for a, b in zip(late, early, strict=True)]
    found = judged("C1", [evidence(replaced({0: early[0], 1: early[1], 4: mixed[0], 5: mixed[1]}))])
    assert found.verdict == OPEN


# --- C2 -------------------------------------------------------------------------------------------------------------


def decaying(beta, seed=0, documents=N):
    """Layers 1-2 whose POD eigenvalues fall as ``k^-beta``."""
    spectrum = np.arange(1, documents) ** -float(beta)
    layers = {k: planted.with_spectrum(spectrum, documents, L, seed=seed + k)[0] for k in range(2)}
    return evidence(replaced(layers, documents))


def test_c2_holds_where_t_spec_is_one():
    assert judged("C2", [decaying(1.0)]).verdict == SUPPORTED


@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_c2_fails_where_it_is_another(beta):
    found = judged("C2", [decaying(beta)])
    assert found.verdict == REFUTED and "gives another value" in found.why


def test_c2_fails_where_twins_give_it_too():
    found = judged("C2", [decaying(1.0)], [decaying(1.0, seed=10 * k) for k in (1, 2, 3)])
    assert found.verdict == REFUTED and "Untrained twins give it too" in found.why


def test_c2_is_open_at_the_end_of_what_about_means():
    edge = decaying(1.0).t_spec.value[:2].mean() * 1.25
    found = judged("C2", [decaying(1 / edge)])
    assert found.verdict == OPEN


def test_c2_does_not_take_a_failed_fit_for_one():
    constant = np.repeat(planted.noise(1, L, seed=1), N, axis=0)
    found = judged("C2", [evidence(replaced({0: constant, 1: constant}))])
    assert found.verdict == OPEN and "A fit failed" in found.why


# --- C3 -------------------------------------------------------------------------------------------------------------


def with_patterns(second=None, fourth=None, sixth=None, **amplitudes):
    patterns = {
        1: ripple() if second is None else second,
        3: hill(20, 3) if fourth is None else fourth,
        5: hill(15, 2) + hill(30, 2) if sixth is None else sixth,
    }
    return evidence(replaced({k: moving(p, 20 + k) for k, p in patterns.items()}))


def test_c3_holds_where_the_patterns_are_those_published():
    found = judged("C3", [with_patterns()])
    assert found.verdict == SUPPORTED, found.rows[0].finding


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"second": hill(5)}, "layer 2 oscillates"),
        ({"fourth": hill(4)}, "layer 4 peaks"),
        ({"sixth": hill(20)}, "layer 6 has several peaks"),
    ],
)
def test_c3_fails_where_one_of_them_is_another(other, named):
    found = judged("C3", [with_patterns(**other)])
    assert found.verdict == REFUTED and named in found.why
    assert found.why.count("layer") == 1


def test_c3_is_open_where_the_first_mode_changes_with_the_documents():
    rng = np.random.default_rng(3)
    both = np.linalg.qr(rng.normal(size=(N, 2)) - 0)[0]
    both = (both - both.mean(axis=0)) / both.std(axis=0)
    lag = np.clip(planted.distances(L).astype(int), 0, L - 1)
    logits = 0.5 * (both[:, 0, None, None] * hill(5)[lag] + both[:, 1, None, None] * hill(20)[lag])
    layer = planted.softmax_rows(logits + 0.05 * rng.normal(size=(N, L, L)))
    model = with_patterns()
    mixed = evidence(replaced({1: moving(ripple(), 21), 3: layer, 5: moving(hill(15, 2) + hill(30, 2), 25)}))
    places = np.abs(mixed.profile_replicates[:, 3]).argmax(axis=1)
    assert {bool(10 <= p <= 35) for p in places} == {True, False}, places
    assert judged("C3", [mixed]).verdict == OPEN
    assert judged("C3", [model, mixed]).verdict == OPEN


def test_c3_is_open_where_the_lag_axis_is_too_short():
    short = [planted.noise(N, 48, seed=k) for k in range(6)]
    assert judged("C3", [evidence(short)], twins(N, 48)).verdict == OPEN


def test_what_counts_as_a_pattern():
    lag = np.arange(48)
    assert oscillates(ripple()[:48]) and not oscillates(hill(5)[:48])
    assert not oscillates(np.cos(2 * np.pi * lag / 4))  # everywhere, and not at these lags
    assert peaks_within(-hill(20)[:48]) and not peaks_within(hill(9)[:48]) and not peaks_within(hill(36)[:48])
    assert several_peaks((hill(12) - hill(30))[:48])
    assert not several_peaks((hill(12) + 0.4 * hill(30))[:48]) and not several_peaks((hill(5) + hill(30))[:48])


# --- C4 -------------------------------------------------------------------------------------------------------------

MANY, SHORT = 200, 32


def of_rank(late, early=None):
    """Layers 3-6 with so many equal eigenvalues; layers 1-2 noise, or of a rank too."""
    layers = {k: planted.with_spectrum(np.ones(late), MANY, SHORT, seed=k)[0] for k in range(2, 6)}
    if early is not None:
        layers |= {k: planted.with_spectrum(np.ones(early), MANY, SHORT, seed=k)[0] for k in range(2)}
    return evidence(replaced(layers, MANY, SHORT))


def test_c4_holds_where_late_layers_need_about_91_and_early_ones_never_have_enough():
    found = judged("C4", [of_rank(95)], twins(MANY, SHORT))
    assert found.verdict == SUPPORTED, found.rows[0].finding


def test_c4_fails_where_late_layers_need_few():
    found = judged("C4", [of_rank(20)], twins(MANY, SHORT))
    assert found.verdict == REFUTED and "lies outside 73 to 114 in layer 3, 4, 5, 6" in found.why


def test_c4_fails_where_early_layers_reach_it():
    found = judged("C4", [of_rank(95, early=30)], twins(MANY, SHORT))
    assert found.verdict == REFUTED and "it is reached" in found.why


def test_c4_is_open_where_the_number_says_how_many_documents_were_read():
    documents = 140
    model = evidence([planted.noise(documents, SHORT, seed=k) for k in range(6)])
    assert (model.rank_low[2:, 0] > 73).all() and (model.rank_low[2:, 0] < 114).all()
    assert judged("C4", [model], [model]).verdict == OPEN


# --- C5 -------------------------------------------------------------------------------------------------------------


def sharp(reaches, seed=0, spread=0.0):
    """Layers whose attention falls with these reaches: the shorter, the more energy. Documents may differ."""
    layers = []
    for k, reach in enumerate(reaches):
        rng = np.random.default_rng(seed + k)
        fall = planted.recency(L, reach) * np.exp(spread * rng.normal(size=(N, 1, 1)))
        layers.append(planted.softmax_rows(fall + 0.1 * rng.normal(size=(N, L, L))))
    return evidence(layers)


def test_c5_holds_where_every_layer_has_more_energy():
    found = judged("C5", [sharp([4] * 6)], against=[sharp([8] * 6, seed=50)])
    assert found.verdict == SUPPORTED
    assert found.rows[0].basis == "compares one model with one model"
    assert [row.label for row in found.rows] == ["ega-1"]


def test_c5_fails_where_one_layer_has_less():
    found = judged("C5", [sharp([4, 4, 4, 60, 4, 4])], against=[sharp([8] * 6, seed=50)])
    assert found.verdict == REFUTED and "Lower in layer 4." in found.why


def test_c5_is_open_where_documents_scatter_more_than_models_differ():
    found = judged("C5", [sharp([8] * 6, spread=0.6)], against=[sharp([8] * 6, seed=50, spread=0.6)])
    assert found.verdict == OPEN and "holds 1 in layer" in found.why


# --- C6 -------------------------------------------------------------------------------------------------------------


def of_dimension(middle, late, seed=0):
    ranks = (12, 12, middle, middle, late, late)
    layers = [planted.with_spectrum(np.ones(r), N, L, seed=seed + k)[0] for k, r in enumerate(ranks)]
    return evidence(layers)


def test_c6_holds_where_the_middle_is_richer_and_the_end_poorer():
    found = judged("C6", [of_dimension(15, 8)], against=[of_dimension(12, 12, seed=50)])
    assert found.verdict == SUPPORTED, found.rows[0].finding


@pytest.mark.parametrize(("middle", "late", "named"), [(8, 8, "fewer in layers 3-4"), (15, 16, "more in layers 5-6")])
def test_c6_fails_where_one_is_the_other_way_round(middle, late, named):
    found = judged("C6", [of_dimension(middle, late)], against=[of_dimension(12, 12, seed=50)])
    assert found.verdict == REFUTED and named in found.why


def test_c6_fails_where_untrained_twins_differ_so():
    found = judged(
        "C6",
        [of_dimension(15, 8)],
        [of_dimension(15, 8, seed=100 * k) for k in (1, 2, 3)],
        against=[of_dimension(12, 12, seed=50)],
        against_twins=[of_dimension(12, 12, seed=1000 * k) for k in (1, 2, 3)],
    )
    assert found.verdict == REFUTED and "Untrained twins differ in the same way" in found.why


def test_c6_is_open_where_other_draws_of_the_same_are_compared():
    found = judged("C6", [of_dimension(12, 12)], against=[of_dimension(12, 12, seed=50)])
    assert found.verdict == OPEN


# --- C7 -------------------------------------------------------------------------------------------------------------


def with_heads(shared, seed=0):
    """Four heads a layer that share so much of their fluctuation."""
    layers = []
    for k, share in enumerate(shared):
        rng = np.random.default_rng(seed + k)
        common, own = rng.normal(size=(N, 1, 32, 32)), rng.normal(size=(N, 4, 32, 32))
        layers.append(planted.softmax_rows(0.3 * (np.sqrt(share) * common + np.sqrt(1 - share) * own)))
    return evidence(layers)


ALIKE = (0.0, 0.2, 0.4, 0.6, 0.8, 0.95)


@pytest.fixture(scope="module")
def independent():
    """Untrained twins of independent heads."""
    return [with_heads([0.0] * 6, seed=1000 * k) for k in (1, 2, 3)]


def test_c7_holds_where_deep_heads_are_alike(independent):
    found = judged("C7", [with_heads(ALIKE)], independent)
    assert found.verdict == SUPPORTED
    patterns = with_heads(ALIKE).head_patterns.value
    assert patterns[0] > 3.9 and patterns[-1] < 1.3


def test_c7_fails_where_early_heads_are_alike(independent):
    found = judged("C7", [with_heads(ALIKE[::-1])], independent)
    assert found.verdict == REFUTED and "the other way round" in found.why


def test_c7_fails_where_twins_have_it_too():
    found = judged("C7", [with_heads(ALIKE)], [with_heads(ALIKE, seed=1000 * k) for k in (1, 2, 3)])
    assert found.verdict == REFUTED and "untrained twins too" in found.why


def test_c7_is_open_where_depth_does_not_order_the_layers(independent):
    assert judged("C7", [with_heads((0.2, 0.8, 0.0, 0.6, 0.95, 0.4))], independent).verdict == OPEN


def test_c7_is_open_without_heads():
    found = judged("C7", [near_and_far(3, 24)])
    assert found.verdict == OPEN and "Each head must be kept" in found.why


# --- all ------------------------------------------------------------------------------------------------------------


def test_every_claim_has_a_rule_that_says_when_it_is_which():
    assert [claim.name for claim in CLAIMS] == [f"C{k}" for k in range(1, 8)]
    for claim in CLAIMS:
        assert "upported when" in claim.rule and "ot supported when" in claim.rule
