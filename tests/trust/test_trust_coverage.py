"""The intervals hold the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from eddyscope.trust.jackknife import jackknife
from eddyscope.trust.resolved import resolved_decay
from eddyscope.trust.simulate import gaussian_gram, power_law, true_participation_ratio
from eddyscope.trust.spectrum import spectrum_intervals

DRAWS, DOCUMENTS, ENTRIES = 100, 150, 4_000


@pytest.mark.slow
@pytest.mark.parametrize("beta", [1.0, 1.5, 2.0])
def test_intervals_hold_the_planted_truth(beta):
    spectrum, groups = power_law(ENTRIES, beta), np.arange(DOCUMENTS) % 15
    resolved, ratios = [], []
    for draw in range(DRAWS):
        gram = gaussian_gram(spectrum, DOCUMENTS, seed=int(10_000 * beta) + draw)
        ratios.append(spectrum_intervals(gram, groups)["participation_ratio"])
        found = resolved_decay(gram, np.arange(DOCUMENTS), ENTRIES, groups=groups, seed=draw)
        if found.status == "ok":
            resolved.append(jackknife(found.beta, found.replicates[:, 0]))
    assert len(resolved) >= 0.9 * DRAWS
    truth = true_participation_ratio(spectrum)
    assert np.mean([i.low <= beta <= i.high for i in resolved]) >= 0.88
    assert np.mean([i.low <= truth <= i.high for i in ratios]) >= 0.88
    for intervals, values in (
        (resolved, [float(i.estimate) for i in resolved]),
        (ratios, [float(np.log(i.estimate)) for i in ratios]),
    ):
        error = np.mean([float(i.error) for i in intervals])
        assert 0.8 <= error / np.std(values, ddof=1) <= 1.5
