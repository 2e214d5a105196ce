"""Cross attention: fields and POD as for any layer, and nothing along a lag that does not exist."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

import eddyscope as es
from eddyscope.ensemble import AttentionEnsemble, LayerInfo
from eddyscope.lagfield import LagField
from eddyscope.study.analyze import analyze
from eddyscope.study.study import Study
from planted import noise

mpl.use("Agg")

#: Queries and keys of the cross attention.
SHAPES = [(24, 24), (16, 32), (32, 9)]
DOCUMENTS = 16


def _cross(shape: tuple[int, int], heads: int = 1, seed: int = 1) -> LagField:
    """Cross attention with one pattern whose height changes from document to document, and noise."""
    rng = np.random.default_rng(seed)
    pattern = rng.normal(size=(heads, *shape))
    height = rng.normal(size=(DOCUMENTS, heads, 1, 1))
    weights = np.exp(height * pattern + 0.05 * rng.normal(size=(DOCUMENTS, heads, *shape)))
    labels = ("mean",) if heads == 1 else tuple(map(str, range(heads)))
    return LagField.from_dense(weights / weights.sum(-1, keepdims=True), causal=False, heads=labels)


def _ensemble(shape: tuple[int, int], heads: int = 1) -> AttentionEnsemble:
    own = LagField.from_dense(noise(DOCUMENTS * heads, 24).reshape(DOCUMENTS, heads, 24, 24), causal=True)
    if heads == 1:
        own = LagField(own.values, own.geometry)
    fields = {"decoder.self": own, "decoder.cross": _cross(shape, heads)}
    info = {"decoder.self": LayerInfo("decoder.self", 0), "decoder.cross": LayerInfo("decoder.cross", 1, kind="cross")}
    return AttentionEnsemble(fields, info)


@pytest.fixture(params=SHAPES, ids=str)
def shape(request: pytest.FixtureRequest) -> tuple[int, int]:
    return request.param  # type: ignore[no-any-return]


def test_the_field_pod_of_cross_attention_is_that_of_its_snapshots(shape: tuple[int, int]) -> None:
    ensemble = _ensemble(shape)
    data = analyze(ensemble).layer("decoder.cross")
    snapshots = ensemble["decoder.cross"].dense()[:, 0].reshape(DOCUMENTS, -1)
    expected = np.linalg.svd(snapshots - snapshots.mean(axis=0), compute_uv=False)[: DOCUMENTS - 1] ** 2 / DOCUMENTS
    np.testing.assert_allclose(data["field_eigenvalues"].values[: DOCUMENTS - 1], expected, rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(data["mean_field"].values, snapshots.mean(axis=0).reshape(shape), atol=1e-6)
    assert data["field_modes"].sizes["query"] == shape[0]
    assert data["field_modes"].sizes["key"] == shape[1]
    assert float(data["field_participation_ratio"]) < 3  # one pattern was planted
    assert np.isfinite(float(data["field_participation_ratio_low"]))
    assert float(data["sink_mass"]) == pytest.approx(float(ensemble["decoder.cross"].dense()[..., 0].mean()), rel=1e-5)


def test_nothing_along_the_lag_is_claimed(shape: tuple[int, int]) -> None:
    data = analyze(_ensemble(shape)).layer("decoder.cross")
    for name in ("scalogram", "spectrum", "octave_share", "lag_energy", "lag_eigenvalues", "lag_modes", "median_lag"):
        assert np.isnan(data[name].values).all(), name
    for name in ("dominant_scale", "dominant_wavelength", "dominant_lag", "coherence_scale"):
        assert np.isnan(data[name].values).all(), name
    assert list(data["status"].values) == ["cross attention"]
    assert str(data["lag_participation_ratio_status"].values) == "cross attention"
    assert list(data["band_label"].values) == ["everything"]
    np.testing.assert_array_equal(data["eigenvalues"].values[0], data["field_eigenvalues"].values)


@pytest.mark.parametrize("options", [{"preset": "published"}, {"select": "octaves"}, {"intervals": False}])
def test_no_option_brings_lags_back(options: dict[str, object], shape: tuple[int, int]) -> None:
    data = analyze(_ensemble(shape), **options).layer("decoder.cross")  # type: ignore[arg-type]
    assert set(data["status"].values) == {"cross attention"}
    assert np.isnan(data["scalogram"].values).all()
    assert np.isfinite(float(data["field_participation_ratio"]))


def test_the_other_layers_of_the_ensemble_are_as_without_it() -> None:
    both = analyze(_ensemble((16, 32))).layer("decoder.self")
    alone = analyze(_ensemble((16, 32)).select_layers(["decoder.self"])).layer("decoder.self")
    np.testing.assert_array_equal(both["scalogram"].values, alone["scalogram"].values)


@pytest.mark.parametrize("heads", [1, 2])
def test_summary_words_and_store_take_cross_attention(heads: int, shape: tuple[int, int], tmp_path: Path) -> None:
    study = analyze(_ensemble(shape, heads))
    summary = study.summary()
    row = summary[summary["layer"] == "decoder.cross"].iloc[0]
    assert row["status"].startswith("cross attention")
    assert row["peak_octave"] == ""
    assert np.isnan(row["median_lag"])
    assert np.isfinite(row["participation_ratio"])
    from eddyscope.study.words import conclusions

    head = None if heads == 1 else 0
    said = conclusions(study.layer("decoder.cross", head=head))
    assert said[0].startswith("Distances: none, as queries and keys of cross attention")
    study.save(tmp_path / "study.zarr")
    opened: Study = es.open_study(tmp_path / "study.zarr")
    assert opened.layer("decoder.cross", head=head).attrs["kind"] == "cross"


def test_figures_leave_out_what_cross_attention_does_not_have(tmp_path: Path) -> None:
    from eddyscope.report.figures import write_figures
    from eddyscope.report.profiles import draw_mode_profiles

    study = analyze(_ensemble((16, 32)), intervals=False)
    written = write_figures(study, tmp_path / "figures")
    assert all(path.stat().st_size > 0 for path in written)
    assert len(written) > 3
    own, cross = draw_mode_profiles(study).axes[:2]
    assert own.lines
    assert not cross.lines
    assert [text.get_text() for text in cross.texts] == ["cross attention"]
