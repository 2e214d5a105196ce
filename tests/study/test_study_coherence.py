import numpy as np
import pytest

import eddyscope as es
import planted
from eddyscope.kernels.coherence import cross_coherence, key_transform


@pytest.fixture(scope="module", params=[True, False], ids=["causal", "two-sided"])
def made(request):
    attention = planted.noise(16, 36, 2, causal=request.param)
    return attention, es.AttentionEnsemble.from_arrays(attention[:, None], causal=request.param), request.param


@pytest.mark.parametrize("of", ["fluctuation", "raw"])
def test_it_is_labelled_and_equals_the_kernel(made, of):
    attention, ensemble, causal = made
    data = es.coherence(ensemble, "layer0", 3.5, of=of)
    field = attention - attention.mean(axis=0) if of == "fluctuation" else attention
    expected = cross_coherence(field, key_transform(36, 3.5, 6.0), causal)
    for name, value in (("coherence", np.abs(expected)), ("coherence_phase", np.angle(expected))):
        assert data[name].dims == ("scale", "query", "key")
        np.testing.assert_allclose(data[name][0], value, atol=1e-9)
        assert data[name].attrs["field"] == of and data[name].attrs["layer"] == "layer0"
        silent = causal and of == "fluctuation"  # query 0 has one key, which holds everything in every document
        unseen = causal & ((data["key"] > data["query"]) | (silent & (data["query"] == 0)))
        assert bool((data[name][0].isnull() == unseen).all())
    assert data["scale"].values.tolist() == [3.5]
    apart = np.abs(data["query"] - data["key"])
    assert bool((data["near"][0] == (apart < 14)).all())


def test_the_study_holds_it_for_its_first_band_alone(made):
    _, ensemble, _ = made
    data = es.analyze(ensemble, select=[3.0, 5.0], intervals=False).layer(0)
    expected = es.coherence(ensemble, 0, 3.0)
    for name in ("coherence", "coherence_phase"):
        np.testing.assert_allclose(data[name][0], expected[name][0], atol=1e-6)
        assert np.isnan(data[name][1]).all()
    np.testing.assert_array_equal(data["coherence_scale"], [3.0, np.nan])


def test_of_an_octave_it_is_taken_at_the_scale_whose_wavelength_is_the_octaves_distance(made):
    _, ensemble, _ = made
    data = es.analyze(ensemble, select="octaves", intervals=False).layer(0)
    wanted = np.abs(np.log(data["wavelength"] / max(float(data["dominant_lag"][0]), 1))).values.argmin()
    assert float(data["coherence_scale"][0]) == float(data["scale"][wanted])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"of": "mean"}, r"^of must be fluctuation or raw, got 'mean'\.$"),
        ({"scale": 0}, r"^scale must be positive \(tokens\), got 0\.$"),
        ({"scale": np.nan}, r"^scale must be positive \(tokens\), got nan\.$"),
        ({"preset": "paper"}, r"^preset must be published or left out, got 'paper'\.$"),
        ({"layer": 4}, r"^Layer 4 is not in this ensemble\."),
        ({"head": 3}, r"^Head 3 is not in this field\."),
    ],
)
def test_what_cannot_be_is_refused(made, options, message):
    with pytest.raises(es.EddyscopeError, match=message):
        es.coherence(made[1], **{"layer": 0, "scale": 3.0, **options})
