"""Coherence far from where attention sits is not that of the loud keys."""

import numpy as np

import eddyscope as es
from planted import distances, softmax_rows


def test_keys_that_only_the_wavelet_reaches_have_no_coherence():
    """Attention that dies off with distance gave far keys a coherence of 0.9, the nearby keys' own."""
    rng = np.random.default_rng(3)
    lag = distances(64)
    attention = softmax_rows(-1.0 * lag + 0.5 * rng.normal(size=(60, 64, 64)))
    ensemble = es.AttentionEnsemble.from_arrays(attention[:, None].astype(np.float32))
    coherence = es.coherence(ensemble, 0, 2.55)["coherence"].values[0]
    raw = es.coherence(ensemble, 0, 2.55, of="raw")["coherence"].values[0]
    assert np.isnan(coherence[lag > 30]).all()
    assert np.isfinite(raw[lag > 30]).all()
    assert np.isfinite(coherence[(lag >= 0) & (lag < 4)][1:]).all()  # the query 0 has one key and no fluctuation
