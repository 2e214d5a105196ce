"""The resolved decay exponent: what it recovers, and where it says that nothing can be said."""

from __future__ import annotations

import numpy as np
import pytest

from eddyscope.kernels.decay import fit_decay
from eddyscope.kernels.laggroups import lag_groups
from eddyscope.kernels.pod import decompose
from eddyscope.kernels.rank import effective_rank
from eddyscope.trust.jackknife import jackknife
from eddyscope.trust.partitions import half_splits
from eddyscope.trust.resolved import noise_reduced, resolved_decay, resolved_lag_decay
from eddyscope.trust.simulate import gaussian_gram, power_law

ALONE = np.arange(150)
GROUPS = ALONE % 15


def test_the_published_exponent_is_wrong_and_the_resolved_one_right():
    published = {0.5: 0.075, 1.0: 0.74, 1.5: 1.44, 2.0: 2.0}
    for beta, expected in published.items():
        grams = [gaussian_gram(power_law(33_000, beta), 150, seed=40 + draw) for draw in range(8)]
        as_published = np.mean([fit_decay(decompose(gram).eigenvalues).beta for gram in grams])
        assert as_published == pytest.approx(expected, abs=0.02)
        found = [resolved_decay(gram, ALONE, 33_000) for gram in grams]
        if beta == 0.5:
            assert {f.status for f in found} == {"unresolved"}
            assert np.isnan([f.beta for f in found]).all()
        else:
            assert {f.status for f in found} == {"ok"}
            assert np.mean([f.beta for f in found]) == pytest.approx(beta, abs=0.1)
            assert np.mean([f.t_spec for f in found]) == pytest.approx(1 / beta, abs=0.1)
        if beta == 1.0:
            assert np.mean([f.window for f in found]) == pytest.approx(13.5, abs=1.5)


@pytest.mark.parametrize("entries", [33_000, 400, 100, 40])
def test_white_noise_has_no_exponent_in_any_number_of_dimensions(entries):
    found = resolved_decay(gaussian_gram(np.ones(entries), 150, seed=1), ALONE, entries)
    assert found.status == "unresolved"
    assert found.window < 8
    assert np.isnan(found.beta)
    assert np.isnan(found.t_spec)


def test_amplitudes_that_vary_from_document_to_document_make_no_exponent():
    amplitudes = [np.random.default_rng(draw).lognormal(sigma=0.6, size=150) for draw in range(8)]
    grams = [gaussian_gram(np.ones(8_000), 150, seed=draw, amplitude=a) for draw, a in enumerate(amplitudes)]
    spectra = [decompose(gram).eigenvalues for gram in grams]
    # What they do to the published exponent and rank of white noise, which has neither.
    assert np.mean([fit_decay(values).beta for values in spectra]) == pytest.approx(0.58, abs=0.1)
    assert np.mean([effective_rank(values, 0.10) for values in spectra]) == pytest.approx(83, abs=4)
    assert {resolved_decay(gram, ALONE, 8_000).status for gram in grams} == {"unresolved"}


def test_half_the_documents_give_the_same_exponent_within_the_interval():
    gram = gaussian_gram(power_law(4_000, 1.5), 300, seed=5)
    found = resolved_decay(gram, np.arange(300), 4_000, groups=np.arange(300) % 15)
    interval = jackknife(found.beta, found.replicates[:, 0])
    half = gram[:150, :150] * 2
    half = half - half.mean(0) - half.mean(1)[:, None] + half.mean()
    assert interval.low <= resolved_decay(half, ALONE, 4_000).beta <= interval.high


def test_the_halves_equal_a_direct_computation_from_the_fields():
    rng = np.random.default_rng(0)
    fields = rng.normal(size=(40, 60)) * np.arange(1, 61) ** -1.0 + rng.normal(size=60)
    blocks = np.arange(40)
    centred = fields - fields.mean(0)
    found = resolved_decay(centred @ centred.T / 40, blocks, 60, splits=3, seed=9).halves
    for split, half in enumerate(half_splits(blocks, 3, seed=9)):
        bases = []
        for direction, (train, test) in enumerate(((half, ~half), (~half, half))):
            mean = fields[train].mean(0)  # held-out documents are centred by the training mean
            _, size, basis = np.linalg.svd(fields[train] - mean, full_matrices=False)
            count = found.train.shape[2]
            bases.append(basis[:count])
            np.testing.assert_allclose(found.train[split, direction], size[:count] ** 2 / train.sum())
            held = (((fields[test] - mean) @ basis[:count].T) ** 2).mean(0)
            np.testing.assert_allclose(found.heldout[split, direction], held)
        np.testing.assert_allclose(np.abs(found.cross[split]), np.abs(bases[0] @ bases[1].T), atol=1e-9)


def test_halves_keep_touching_documents_together():
    # A loud document and its twin, in different halves, would make them agree on a mode of noise.
    rng = np.random.default_rng(2)
    fields = np.repeat(rng.normal(size=(75, 2_000)) * rng.lognormal(size=(75, 1)), 2, axis=0)
    centred = fields - fields.mean(0)
    gram = centred @ centred.T / 150
    assert resolved_decay(gram, np.repeat(np.arange(75), 2), 2_000).overlap[0] < 0.1
    assert resolved_decay(gram, ALONE, 2_000).overlap[0] > 0.2


def test_the_window_is_shared_by_ensembles_that_are_compared():
    gram = gaussian_gram(power_law(4_000, 1.5), 150, seed=5)
    alone = resolved_decay(gram, ALONE, 4_000, groups=GROUPS)
    shared = alone.narrowed(10)
    assert (alone.window, shared.window) == (30, 10)
    assert shared.beta == pytest.approx(fit_decay(alone.halves.variances[:10], ranks=10).beta)
    assert shared.replicates[3, 0] == pytest.approx(fit_decay(alone.curves[3, :10], ranks=10).beta)
    assert alone.narrowed(40) is alone
    assert alone.narrowed(7).status == "unresolved"


def test_few_documents_and_no_fluctuation_have_their_status():
    few = gaussian_gram(power_law(500, 2.0), 16, seed=0)
    assert resolved_decay(few, np.arange(16), 500).status == "unresolved"
    assert resolved_decay(np.zeros((30, 30)), np.arange(30), 500).status == "no fluctuation"
    assert resolved_decay(np.zeros((1, 1)), np.arange(1), 500).status == "no fluctuation"


def test_the_seed_decides_the_splits():
    gram = gaussian_gram(power_law(2_000, 1.0), 150, seed=1)
    assert resolved_decay(gram, ALONE, 2_000, seed=4).beta == resolved_decay(gram, ALONE, 2_000, seed=4).beta
    assert resolved_decay(gram, ALONE, 2_000, seed=4).beta != resolved_decay(gram, ALONE, 2_000, seed=5).beta


def test_noise_reduced_eigenvalues_lose_the_floor():
    spectrum = power_law(33_000, 1.0)
    plain, reduced = [], []
    for draw in range(8):
        values = decompose(gaussian_gram(spectrum, 150, seed=draw)).eigenvalues
        plain.append(values[:10])
        reduced.append(noise_reduced(values, 150)[:10])
    floor = spectrum[10:].sum() / 150
    assert np.mean(plain, axis=0)[9] - spectrum[9] > 0.5 * floor
    assert np.abs(np.mean(reduced, axis=0)[1:] / spectrum[1:10] - 1).max() < 0.2
    # By its definition, from S = G / (N - 1).
    values = np.array([5.0, 3.0, 1.0, 0.5])
    unbiased = values * 5 / 4
    assert noise_reduced(values, 5)[1] == pytest.approx(unbiased[1] - unbiased[2:].sum() / (5 - 1 - 2))
    assert np.isnan(noise_reduced(values, 5)[-1])


def test_the_lag_pod_recovers_its_exponent_and_refuses_noise():
    rng = np.random.default_rng(4)
    lags, documents, rows = 80, 150, 20  # more lags than the replicates' coordinates
    basis = np.linalg.qr(rng.normal(size=(lags, lags)))[0]
    noise = rng.normal(size=(lags, documents, rows))
    groups = np.arange(documents) % 15
    planted = np.einsum("dk,ksi->dsi", basis, noise * power_law(lags, 1.2)[:, None, None] ** 0.5)
    found = resolved_lag_decay(lag_groups(planted, groups))
    assert found.status == "ok"
    interval = jackknife(found.beta, found.replicates[:, 0])
    assert interval.low <= 1.2 <= interval.high
    assert found.beta == pytest.approx(1.2, abs=0.1)
    white = resolved_lag_decay(lag_groups(noise, groups))
    assert white.status == "unresolved"
    assert white.window < 8
