"""An analysis in blocks finds what one in memory finds; of more documents the leading part, and it says so."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import eddyscope as es
import planted
from eddyscope.errors import StoreError, UsageError
from eddyscope.fieldplace import create_fields
from eddyscope.fieldstore import FieldStore, StoredLayer
from eddyscope.study import blockpod
from eddyscope.study.blockfields import clear_scratch, scratch_folder
from eddyscope.study.blockplan import BlockPlan, plan_blocks
from eddyscope.study.options import Options

DOCUMENTS, LENGTH, SHARD = 60, 32, 7
ROOT = Path(__file__).parents[2]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of few documents, so that a small ensemble has several."""
    monkeypatch.setattr("eddyscope.study.blockfields.TILE", 16)
    monkeypatch.setattr("eddyscope.study.blockpasses._MOST_TOGETHER", 13)


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch, small_blocks: None, tmp_path: Path) -> Callable[..., es.Study]:
    """``analyze`` with a plan for blocks whatever fits in memory; scratch files go to ``scratch``."""
    (tmp_path / "scratch").mkdir()
    plan = BlockPlan(0, 2, True, tmp_path / "scratch")

    def analyze(*given: Any, **options: Any) -> es.Study:
        with monkeypatch.context() as patched:
            patched.setattr("eddyscope.study.analyze.plan_blocks", lambda *_, **__: plan)
            return es.analyze(*given, **options)

    return analyze


def attention(seed: int = 0, heads: int | None = None, causal: bool = True, layers: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shape = (DOCUMENTS, layers) if heads is None else (DOCUMENTS, layers, heads)
    wave = 1.5 * rng.normal(size=(*shape, 1, 1)) * np.cos(planted.distances(LENGTH))
    return planted.softmax_rows(rng.normal(size=(*shape, LENGTH, LENGTH)) + wave, causal)


def store_of(ensemble: es.AttentionEnsemble, place: Path, shard: int = SHARD) -> FieldStore:
    layers = {n: StoredLayer(ensemble.info[n], f.geometry, f.heads) for n, f in ensemble.fields.items()}
    store = create_fields(place, layers, ensemble.documents, ensemble.count, shard, ensemble.provenance)
    for number in range(store.shards):
        chosen = store.documents_of(number)
        store.write_shard(number, {n: f.select_documents(chosen) for n, f in ensemble.fields.items()}, chosen)
    return store


def assert_same(found: xr.Dataset, expected: xr.Dataset, tolerance: float = 1e-10) -> None:
    """The same variables, statuses and numbers, each to a share of its largest."""
    assert set(found.variables) == set(expected.variables)
    for name, variable in expected.variables.items():
        own, theirs = found.variables[name].values, variable.values
        if theirs.dtype == object:
            np.testing.assert_array_equal(own, theirs, err_msg=str(name))
            continue
        finite = np.abs(theirs[np.isfinite(theirs)])
        scale = float(finite.max()) if finite.size else 0.0
        np.testing.assert_allclose(own, theirs, rtol=0, atol=tolerance * scale, err_msg=str(name))


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "defaults": ({}, {}),
    "without intervals": ({}, {"intervals": False}),
    "sinks masked in the POD, few lags": ({}, {"sink_pod": "mask", "min_query": 0, "max_lag": 12}),
    "octaves of raw rows": ({}, {"sink": "keep", "select": "octaves", "seed": 3}),
    "two-sided": ({"causal": False}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_blocks_give_what_memory_gives(name: str, in_blocks: Callable[..., es.Study]) -> None:
    made, options = CASES[name]
    ensemble = es.AttentionEnsemble.from_arrays(attention(**made), causal=made.get("causal", True))
    assert_same(in_blocks(ensemble, **options).packed(0), es.analyze(ensemble, **options).packed(0))


def test_each_head_of_a_store_gives_what_memory_gives(tmp_path: Path, in_blocks: Callable[..., es.Study]) -> None:
    ensemble = es.AttentionEnsemble.from_arrays(attention(heads=2))
    store = store_of(ensemble, tmp_path / "fields.zarr")
    found, expected = in_blocks(store), es.analyze(ensemble)
    assert found.layers == expected.layers
    for layer in expected.layers:
        assert_same(found.packed(layer), expected.packed(layer))
    assert list((tmp_path / "scratch").iterdir()) == []


def test_the_published_preset_gives_what_memory_gives(in_blocks: Callable[..., es.Study]) -> None:
    ensemble = es.AttentionEnsemble.from_arrays(attention(seed=2))
    found, expected = (run(ensemble, preset="published").packed(0) for run in (in_blocks, es.analyze))
    ties = [n for n in expected if "modes" in n or "mode_profile" in n or "coefficients" in n or "top_" in n]
    # In the second row the two entries of a mode are opposite: its sign is a tie that rounding decides.
    assert_same(found.drop_vars(ties), expected.drop_vars(ties))


def test_equal_documents_count_once_in_blocks_too(in_blocks: Callable[..., es.Study]) -> None:
    arrays = attention(seed=4)
    arrays[10:14] = arrays[20]
    ensemble = es.AttentionEnsemble.from_arrays(arrays)
    found, expected = in_blocks(ensemble).packed(0), es.analyze(ensemble).packed(0)
    order = [str(name) for name in expected if "top_" in str(name)]  # of equal documents, rounding says which is first
    assert_same(found.drop_vars(order), expected.drop_vars(order))


def test_nearly_equal_documents_count_once_in_blocks_too(in_blocks: Callable[..., es.Study]) -> None:
    arrays = attention(seed=6)
    arrays[10] = arrays[20].astype(np.float32)
    ensemble = es.AttentionEnsemble.from_arrays(arrays)
    found, expected = in_blocks(ensemble).packed(0), es.analyze(ensemble).packed(0)
    order = [str(name) for name in expected if "top_" in str(name)]
    assert_same(found.drop_vars(order), expected.drop_vars(order), 1e-7)


def test_single_precision_stays_close(tmp_path: Path, in_blocks: Callable[..., es.Study]) -> None:
    ensemble = es.AttentionEnsemble.from_arrays(attention(seed=5).astype(np.float32))
    found, expected = in_blocks(store_of(ensemble, tmp_path / "f.zarr")).packed(0), es.analyze(ensemble).packed(0)
    for name in ("field_eigenvalues", "eigenvalues", "lag_eigenvalues", "field_participation_ratio_low"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-10, atol=1e-10 * float(expected[name].max()))
    np.testing.assert_allclose(found["packed_modes"], expected["packed_modes"], atol=1e-5)
    np.testing.assert_allclose(found["packed_coherence"], expected["packed_coherence"], atol=1e-4)


def test_analyze_takes_a_store_as_it_is(tmp_path: Path) -> None:
    ensemble = es.AttentionEnsemble.from_arrays(attention())
    store = store_of(ensemble, tmp_path / "fields.zarr")
    xr.testing.assert_identical(es.analyze(store).data, es.analyze(store.ensemble()).data)


LEADING = 40


@pytest.fixture
def leading(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of large ensembles for small ones: no full eigenproblem, and 40 eigenvalues."""
    monkeypatch.setattr(blockpod, "KEPT_GRAM", DOCUMENTS // 2)
    monkeypatch.setattr(blockpod, "LEADING", LEADING)


def test_beyond_a_full_eigenproblem_the_leading_part_is_exact(
    leading: None, in_blocks: Callable[..., es.Study]
) -> None:
    ensemble = es.AttentionEnsemble.from_arrays(attention(seed=6))
    found, whole = in_blocks(ensemble).packed(0), es.analyze(ensemble).packed(0)
    assert (found.attrs["pod"], found.attrs["leading_eigenvalues"]) == ("leading", LEADING)
    for prefix in ("field_", ""):
        values, expected = found[f"{prefix}eigenvalues"].values, whole[f"{prefix}eigenvalues"].values
        np.testing.assert_allclose(values[..., :LEADING], expected[..., :LEADING], rtol=1e-10)
        assert np.isnan(values[..., LEADING:]).all()
        np.testing.assert_allclose(found[f"{prefix}total_energy"], expected.sum(axis=-1), rtol=1e-12)
        for name in ("beta_published", "r2", "participation_ratio", "stable_rank", "first_mode_energy"):
            for end in ("", "_status"):
                own, theirs = found[f"{prefix}{name}{end}"].values, whole[f"{prefix}{name}{end}"].values
                if end:
                    np.testing.assert_array_equal(own, theirs)
                else:
                    np.testing.assert_allclose(own, theirs, rtol=1e-8)
        for end in ("_low", "_high"):  # traces of parts are exact, their other eigenvalues are not needed
            name = f"{prefix}participation_ratio{end}"
            np.testing.assert_allclose(found[name], whole[name], rtol=1e-8)
        assert (found[f"{prefix}entropy_rank_status"].values == "leading eigenvalues alone").all()
        assert np.isnan(found[f"{prefix}entropy_rank"].values).all()
    np.testing.assert_allclose(np.abs(found["packed_field_modes"]), np.abs(whole["packed_field_modes"]), atol=1e-7)


def test_equal_documents_count_once_among_leading_eigenvalues(
    leading: None, in_blocks: Callable[..., es.Study]
) -> None:
    arrays, _ = planted.with_spectrum(np.arange(1, 31) ** -1.0, DOCUMENTS, LENGTH)  # all 30 are among the leading
    arrays[10:25] = arrays[40]
    ensemble = es.AttentionEnsemble.from_arrays(arrays[:, None])
    found, whole = (run(ensemble, min_query=0).packed(0) for run in (in_blocks, es.analyze))
    names = ["effective_rank_low", "effective_rank_high", "beta_published_low", "beta_resolved", "participation_ratio"]
    for name in (f"field_{own}" for own in names):
        np.testing.assert_allclose(found[name], whole[name], rtol=1e-6, err_msg=name)
    reduced = [data["field_noise_reduced_eigenvalues"].values[:20] for data in (found, whole)]
    np.testing.assert_allclose(*reduced, rtol=1e-6)
    separated = whole["field_mode_separated"].values
    np.testing.assert_array_equal(found["field_mode_separated"].values, separated)


@pytest.mark.parametrize("documents", [4, 7, 8])
def test_a_sketch_of_few_documents_says_so_of_the_participation_ratio(documents: int) -> None:
    ensemble = es.AttentionEnsemble.from_arrays(attention()[:documents])
    found, exact = es.analyze(ensemble, pod="randomized").packed(0), es.analyze(ensemble).packed(0)
    for prefix in ("", "field_"):
        name = f"{prefix}participation_ratio_status"
        assert (documents < 8) == (set(exact[name].values.flat) == {"too few documents"})
        assert set(found[name].values.flat) == {"too few documents" if documents < 8 else "leading eigenvalues alone"}


def test_a_rank_beyond_the_known_eigenvalues_is_never_a_number(
    leading: None, in_blocks: Callable[..., es.Study]
) -> None:
    ensemble = es.AttentionEnsemble.from_arrays(attention(seed=6))
    tolerances = (0.6, 0.01)
    study, whole = in_blocks(ensemble, tolerances=tolerances), es.analyze(ensemble, tolerances=tolerances)
    found, expected = study.packed(0), whole.packed(0)
    assert float(found["field_effective_rank"][0]) == float(expected["field_effective_rank"][0]) <= LEADING
    assert float(expected["field_effective_rank"][1]) > LEADING
    assert np.isnan(float(found["field_effective_rank"][1]))
    assert str(found["field_effective_rank_status"].values[1]) == f"> {LEADING}"
    assert np.isnan(float(found["field_effective_rank_low"][1]))
    row = study.summary().iloc[0]
    assert row["h_01_status"] == f"> {LEADING}"
    assert f"effective rank > {LEADING}" in row["status"]


def test_randomized_pod_says_approximate_everywhere(in_blocks: Callable[..., es.Study]) -> None:
    arrays, factor = planted.with_spectrum(np.arange(1, 31) ** -2.0, DOCUMENTS, LENGTH)
    ensemble = es.AttentionEnsemble.from_arrays(arrays[:, None])
    study = in_blocks(ensemble, pod="randomized", min_query=0)
    data = study.packed(0)
    assert data.attrs["pod"] == "approximate"
    assert data.attrs["documents_checked"] == DOCUMENTS
    assert 0 <= data.attrs["largest_relative_difference"] < 1e-6  # of rank 30, inside what is sketched
    values = data["field_eigenvalues"].values
    np.testing.assert_allclose(values[:30], factor * np.arange(1, 31) ** -2.0, rtol=1e-6)
    assert str(data["field_beta_published_status"].values) == "approximate"
    assert set(data["field_effective_rank_status"].values) == {"approximate"}
    assert "approximate POD" in study.summary()["status"][0]
    assert study.provenance["analysis"]["pod"] == "randomized"


def test_the_published_preset_may_be_randomized() -> None:
    ensemble = es.AttentionEnsemble.from_arrays(attention())
    study = es.analyze(ensemble, preset="published", pod="randomized", power_iterations=5)
    assert study.packed(0).attrs["pod"] == "approximate"
    assert (study.provenance["analysis"]["pod"], study.provenance["analysis"]["power_iterations"]) == ("randomized", 5)
    exact = es.analyze(ensemble, preset="published").packed(0)["field_eigenvalues"].values
    # All documents are sketched, so that nothing but rounding is left.
    np.testing.assert_allclose(study.packed(0)["field_eigenvalues"], exact, atol=1e-12 * exact[0])


@pytest.mark.parametrize("intervals", [True, False])
def test_one_document_has_no_fluctuation_in_a_sketch_either(intervals: bool) -> None:
    ensemble = es.AttentionEnsemble.from_arrays(attention()[:1])
    data = es.analyze(ensemble, pod="randomized", intervals=intervals).packed(0)
    assert float(data["field_total_energy"]) == 0
    exact = es.analyze(ensemble, intervals=intervals).packed(0)
    for name in ("field_beta_published_status", "field_effective_rank_status", "field_stable_rank_status"):
        np.testing.assert_array_equal(data[name], exact[name])


def test_fewer_than_four_power_iterations_are_refused() -> None:
    with pytest.raises(UsageError, match=r"power_iterations must be .* at least 4, got 3"):
        es.analyze(es.AttentionEnsemble.from_arrays(attention()), pod="randomized", power_iterations=3)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_scratch_files_are_removed_whatever_happens(
    error: type[BaseException], tmp_path: Path, in_blocks: Callable[..., es.Study]
) -> None:
    store = store_of(es.AttentionEnsemble.from_arrays(attention()), tmp_path / "fields.zarr")
    scratch, held = tmp_path / "scratch", []

    def stop(_: str, done: int, total: int) -> None:
        held.append([path for path in scratch.rglob("*") if path.is_file()])
        if total > 1 and done > 0.5 * total:
            raise error

    with pytest.raises(error):
        in_blocks(store, progress=stop)
    assert {path.name for path in held[-1]} >= {"values", "gram-0", "gram-1"}  # Grams were there
    assert list(scratch.iterdir()) == []


def test_what_a_killed_worker_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    entered = [scratch_folder(tmp_path, f"{run}-") for run in ("mine", "mine", "others")]  # and never left
    for folder in entered:
        (folder.__enter__() / "values").write_bytes(b"0")
    clear_scratch(tmp_path, "mine-")
    assert [path.name.split("-")[2] for path in tmp_path.iterdir()] == ["others"]


def test_progress_goes_on_inside_a_layer(in_blocks: Callable[..., es.Study]) -> None:
    told: list[tuple[str, int, int]] = []
    in_blocks(es.AttentionEnsemble.from_arrays(attention(layers=2)), progress=lambda *now: told.append(now))
    shares = [done / total for _, done, total in told]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] == 1
    assert len({name for name, _, _ in told}) == 3  # both layers, and the end
    assert len(told) > 20


def test_a_layer_that_fits_is_analysed_in_memory(tmp_path: Path) -> None:
    ensemble = es.AttentionEnsemble.from_arrays(attention())
    assert plan_blocks(ensemble, Options()) is None
    assert plan_blocks(ensemble, Options(), "100GB") is None
    assert plan_blocks(store_of(ensemble, tmp_path / "fields.zarr").ensemble(), Options()) is None


def test_more_documents_on_disk_than_a_full_eigenproblem_takes_are_analysed_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eddyscope.study.blockplan.KEPT_GRAM", DOCUMENTS - 1)
    ensemble = es.AttentionEnsemble.from_arrays(attention())
    plan = plan_blocks(store_of(ensemble, tmp_path / "fields.zarr").ensemble(), Options())
    assert plan is not None
    assert not plan.keep_grams
    assert plan_blocks(ensemble, Options()) is None  # the fields are in memory already


def test_a_budget_that_nothing_fits_in_is_refused() -> None:
    ensemble = es.AttentionEnsemble.from_arrays(attention())
    with pytest.raises(UsageError, match=r"in the smallest blocks, more than the 50 MB of the budget"):
        es.analyze(ensemble, memory_budget="50MB")


def test_fewer_modes_take_less_memory_and_more_take_more() -> None:
    ensemble = es.AttentionEnsemble.from_arrays(attention())
    plans = [plan_blocks(ensemble, Options(modes=modes, pod="randomized"), "100GB") for modes in (1, 8, 40)]
    few, usual, many = (plan.estimate for plan in plans if plan)
    entries = LENGTH * (LENGTH + 1) // 2
    assert usual - few > 4 * 5 * 7 * entries  # what the study keeps of five windows, at least
    assert many - usual > (4 + 16) * 5 * 32 * entries  # and what they take in double precision meanwhile


def test_many_modes_do_not_fit_where_few_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eddyscope.study.blockplan.resident_bytes", lambda: 10**8)
    ensemble = es.AttentionEnsemble.from_arrays(attention())
    budgets = range(100, 1000)  # MB
    least = [
        next(mb for mb in budgets if _fits_in_memory(ensemble, Options(modes=modes), f"{mb}MB")) for modes in (8, 59)
    ]
    assert least[1] > least[0]


def _fits_in_memory(ensemble: es.AttentionEnsemble, options: Options, budget: str) -> bool:
    try:
        return plan_blocks(ensemble, options, budget) is None
    except UsageError:
        return False


@pytest.mark.parametrize("scratch", [5, "", b"here"])
def test_what_is_no_scratch_folder_is_refused(scratch: Any) -> None:
    with pytest.raises(UsageError, match=r"scratch is .*, expected a folder"):
        es.analyze(es.AttentionEnsemble.from_arrays(attention()), scratch=scratch)


def test_a_scratch_folder_stays_where_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = plan_blocks(es.AttentionEnsemble.from_arrays(attention()), Options(pod="randomized"), scratch="here")
    assert plan is not None
    assert plan.scratch == tmp_path / "here"


def test_a_budget_that_is_no_amount_is_refused_for_statistics_too() -> None:
    statistics = es.AttentionStatistics.from_ensemble(es.AttentionEnsemble.from_arrays(attention()))
    with pytest.raises(UsageError, match="memory budget is 'much'"):
        es.analyze(statistics, memory_budget="much")


def test_a_disk_that_is_too_small_is_refused_before_the_work(
    tmp_path: Path, in_blocks: Callable[..., es.Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(es.AttentionEnsemble.from_arrays(attention()), tmp_path / "fields.zarr")
    usage = type("usage", (), {"free": 1000})
    monkeypatch.setattr("eddyscope.study.blockfields.shutil.disk_usage", lambda _: usage)
    with pytest.raises(StoreError, match=r"needs .* of scratch space in .*, where 1\.0 kB are free"):
        in_blocks(store)


def test_the_space_asked_for_holds_what_is_written_and_little_more(
    tmp_path: Path, in_blocks: Callable[..., es.Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    ensemble = es.AttentionEnsemble.from_arrays(attention())
    store = store_of(ensemble, tmp_path / "fields.zarr")
    monkeypatch.setattr("eddyscope.study.blockplan.TILE", 16)
    asked, most = list[int](), [0]
    monkeypatch.setattr("eddyscope.study.blocklayer.expect_space", lambda _, needed: asked.append(needed))

    def look(*_: Any) -> None:
        most[0] = max(most[0], sum(p.stat().st_size for p in (tmp_path / "scratch").rglob("*") if p.is_file()))

    for options in ({"select": "octaves"}, {"pod": "randomized"}):
        asked.clear()
        most[0] = 0
        in_blocks(store, progress=look, intervals=False, **options)
        # Blocks at the edge are smaller than asked for, and some octaves may have no band.
        assert most[0] <= asked[0] <= 1.4 * most[0], options


def test_a_scratch_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    ensemble = es.AttentionEnsemble.from_arrays(attention())
    with pytest.raises(StoreError, match=r"No scratch folder could be made in .*nowhere"):
        es.analyze(ensemble, pod="randomized", scratch=tmp_path / "nowhere")


@pytest.mark.slow
def test_thousands_of_documents_stay_below_what_one_gram_would_take(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "memory", "--quick", "--documents", "4500"]
    places = ["--out", str(tmp_path), "--scratch", str(tmp_path)]
    subprocess.run([*command, *places], check=True, capture_output=True, cwd=ROOT)
    (found,) = json.loads((tmp_path / "memory.json").read_text(encoding="utf-8"))["cases"]
    assert found["leading"] == 200
    assert found["eigenvalues_apart"] < 1e-6  # of the spectrum that was planted, with a little noise
    assert found["energy_apart"] < 1e-12
    assert found["largest_residual"] < 1e-10
    assert found["effective_rank_status"][-1] == "> 200"
    one_gram = 8 * 4500**2 / 2**20
    assert found["peak_mib"] - found["before_mib"] < 1.6 * one_gram  # in memory it would be twenty
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memory.json", "memory.md"]
