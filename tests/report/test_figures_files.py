"""Figures as files: whole, the same for the same study, whatever the caller's settings are."""

import subprocess
import sys
import time

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

import eddyscope as es
import planted
from eddyscope.errors import StoreError, UsageError
from eddyscope.report import FIGURES, write_figures

NAMES = ["lag_energy", "scalograms", "mode_profiles", "modes", "eigenvalue_spectra", "coherence", "complexity"]


@pytest.mark.parametrize("kind", ["causal", "one_document"])
def test_every_figure_is_written_as_png_and_pdf(kind, request, tmp_path):
    written = write_figures(request.getfixturevalue(kind), tmp_path / "figures")
    assert list(FIGURES) == NAMES
    assert [path.name for path in written] == [f"{name}.{kind}" for name in NAMES for kind in ("png", "pdf")]
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == sorted(path.name for path in written)
    for path in written:
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert image.info["dpi"] == pytest.approx((150, 150), abs=0.1)
                assert 1000 <= image.width <= 1500
                assert np.unique(np.asarray(image.convert("L"))).size > 20
        else:
            assert path.read_bytes().startswith(b"%PDF") and path.stat().st_size > 5000


def test_the_same_study_gives_the_same_bytes(two_sided, tmp_path):
    first = write_figures(two_sided, tmp_path / "a", formats=("png", "pdf", "svg"))
    second = write_figures(two_sided, tmp_path / "b", formats=("png", "pdf", "svg"))
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
        assert b"Date" not in one.read_bytes() and b"Matplotlib" not in one.read_bytes()[:2000]


def test_the_callers_settings_neither_change_nor_matter(causal, tmp_path):
    write_figures(causal, tmp_path / "plain", names=["complexity"])
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black", "image.cmap": "jet", "savefig.dpi": 20}):
        before = dict(mpl.rcParams)
        write_figures(causal, tmp_path / "loud", names=["complexity"])
        assert dict(mpl.rcParams) == before
    for kind in ("png", "pdf"):
        name = f"complexity.{kind}"
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "loud" / name).read_bytes()


def test_figures_need_no_pyplot():
    code = "import sys, eddyscope.report; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_old_files_are_replaced_and_others_left(causal, tmp_path):
    (tmp_path / "complexity.png").write_text("old")
    (tmp_path / "notes.txt").write_text("mine")
    write_figures(causal, tmp_path, names=["complexity"], formats=["png"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["complexity.png", "notes.txt"]
    assert (tmp_path / "complexity.png").read_bytes().startswith(b"\x89PNG")


def test_progress_names_each_figure(causal, tmp_path):
    told = []
    write_figures(
        causal, tmp_path, names=["complexity", "lag_energy"], formats=["png"], progress=lambda *x: told.append(x)
    )
    assert told == [("complexity", 0, 2), ("lag_energy", 1, 2), ("", 2, 2)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"formats": ["jpeg"]}, r"^There is no format 'jpeg'. Choose from: png, pdf, svg.$"),
        ({"names": ["loss"]}, r"^There is no figure 'loss'. Choose from: lag_energy, "),
        ({"formats": "png"}, r"^formats must be a list of names, got the string 'png'. Pass \['png'\].$"),
        ({"formats": []}, r"^No format was asked for. Choose from"),
    ],
)
def test_unknown_figures_and_formats_are_refused_before_anything_is_drawn(causal, tmp_path, options, message):
    with pytest.raises(UsageError, match=message):
        write_figures(causal, tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_written_is_named(causal, read_only):
    with pytest.raises(StoreError, match=r"^Figures cannot be written to '.*': Permission denied. Choose another"):
        write_figures(causal, read_only / "figures", names=["complexity"])


def test_a_disk_that_fills_up_leaves_no_part_of_a_file(causal, short_files, tmp_path):
    with pytest.raises(StoreError, match="cannot be written"):
        write_figures(causal, tmp_path, names=["scalograms"], formats=["png"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_thirty_layers_are_drawn_in_seconds(tmp_path):
    """About ten seconds on one core that has nothing else to do."""
    attention = np.stack([planted.noise(6, 256, seed).astype(np.float32) for seed in range(30)], axis=1)
    study = es.analyze(es.AttentionEnsemble.from_arrays(attention), intervals=False)
    write_figures(study, tmp_path, names=["complexity"])  # matplotlib finds its fonts once
    started = time.process_time()
    write_figures(study, tmp_path)
    assert time.process_time() - started < 25
