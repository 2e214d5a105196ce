"""Whether a measure still changes with the number of documents."""

from __future__ import annotations

import numpy as np
import pytest

from eddyscope.kernels.pod import decompose
from eddyscope.kernels.rank import effective_rank, participation_ratio
from eddyscope.trust.convergence import VERDICTS, convergence_curve, judge, judge_rank
from eddyscope.trust.jackknife import jackknife
from eddyscope.trust.scores import subgram
from eddyscope.trust.simulate import gaussian_gram, power_law
from eddyscope.trust.spectrum import spectrum_intervals

ALONE = np.arange(150)


def curve_of(spectrum, measure):
    gram = gaussian_gram(spectrum, 150, seed=1)
    return gram, convergence_curve(lambda index: np.array([measure(subgram(gram, index))]), ALONE)


def rank_of(gram):
    return effective_rank(decompose(gram).eigenvalues, 0.10)


def test_documents_are_counted_and_the_last_value_is_that_of_all():
    gram, curve = curve_of(power_law(500, 1.0), rank_of)
    assert curve.documents == pytest.approx([37.5, 75, 150], abs=0.6)
    assert curve.values[2, 0] == rank_of(gram)


def test_the_participation_ratio_converges_where_the_rank_follows_the_documents():
    spectrum = power_law(4_000, 1.0)
    gram, ratio = curve_of(spectrum, participation_ratio)
    interval = spectrum_intervals(gram, ALONE % 15)["participation_ratio"]
    verdict = judge(ratio.values[:, 0], ratio.documents, float(interval.low), float(interval.high))
    assert verdict.verdict == "converged"
    _, rank = curve_of(spectrum, rank_of)
    found = judge_rank(rank.values[:, 0], rank.documents)
    assert found.verdict == "grows with N"
    assert found.reason == "H*/N is constant: it says how many documents there are"
    assert found.power == pytest.approx(0.95, abs=0.1)


def test_a_rank_below_the_documents_converges():
    _, rank = curve_of(power_law(4_000, 2.0), rank_of)
    assert judge_rank(rank.values[:, 0], rank.documents).verdict == "converged"


def test_a_biased_measure_grows_beyond_its_interval():
    gram, curve = curve_of(np.ones(2_000), lambda g: float(np.exp(-_entropy(decompose(g).eigenvalues))))
    interval = spectrum_intervals(gram, ALONE % 15)["entropy_rank"]
    verdict = judge(curve.values[:, 0], curve.documents, float(interval.low), float(interval.high))
    assert verdict.verdict == "grows with N"
    assert verdict.power > 0.9


def _entropy(values):
    shares = values[values > 0] / values.sum()
    return float((shares * np.log(shares)).sum())


@pytest.mark.parametrize(
    ("values", "low", "high", "status", "verdict", "reason"),
    [
        ((1, 1, 1), 0.9, 1.1, "ok", "converged", "same at half"),
        ((0.2, 0.5, 1), 0.9, 1.1, "ok", "grows with N", "0.5 at half of the documents, 1 with all"),
        ((3, 2, 1), 0.9, 1.1, "ok", "not resolved", "falls with N: 2 at half of the documents, 1 with all"),
        ((1, 1, np.nan), np.nan, np.nan, "unresolved", "not resolved", "unresolved"),
        ((1, 1, 1), np.nan, np.nan, "ok", "not resolved", "no interval"),
        ((np.nan, np.nan, 1), 0.9, 1.1, "ok", "not resolved", "unresolved at half of the documents"),
    ],
)
def test_verdicts_say_why(values, low, high, status, verdict, reason):
    found = judge(np.array(values, dtype=float), np.array([37.5, 75, 150]), low, high, status)
    assert found.verdict == verdict
    assert found.verdict in VERDICTS
    assert found.reason.startswith(reason)


def test_a_measure_that_most_draws_lack_has_no_value_there():
    curve = convergence_curve(lambda index: np.array([1.0 if index.size > 100 else np.nan]), ALONE)
    np.testing.assert_array_equal(curve.values[:, 0], [np.nan, np.nan, 1.0])


def test_groups_stand_for_their_documents():
    curve = convergence_curve(lambda index: np.array([index.size]), np.arange(16), sizes=np.full(16, 10))
    np.testing.assert_array_equal(curve.documents, [40, 80, 160])
    np.testing.assert_array_equal(curve.values[:, 0], [4, 8, 16])


def test_jackknife_and_curve_agree_on_the_full_value():
    gram, curve = curve_of(power_law(500, 1.0), participation_ratio)
    assert jackknife(curve.values[2, 0], np.ones(15)).estimate == pytest.approx(participation_ratio(gram))
