"""The reference pages are what the code says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import eddyscope as es
from eddyscope.cli.app import COMMANDS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """``docs/make_reference.py`` as a module."""
    spec = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["cli.md", "results.md"])
def test_the_page_is_up_to_date(reference: ModuleType, page: str) -> None:
    """Run ``python docs/make_reference.py`` where this fails."""
    assert (DOCS / page).read_text(encoding="utf-8") == reference.PAGES[page]()


def test_every_command_and_option_is_on_the_page(reference: ModuleType) -> None:
    page = reference.cli_page()
    for name, command in COMMANDS.items():
        section = page.split(f"## eddyscope {name}\n")[1].split("\n## ")[0]
        for parameter in reference._parameters(command):
            assert all(f"`{typed}`" in section for typed in parameter.names)


def test_every_result_is_on_the_page(reference: ModuleType) -> None:
    page = reference.results_page()
    data = reference.small_study()
    for name in data.data_vars:
        stem = next((name.removesuffix(c) for c in reference.COMPANIONS if name.endswith(c)), name)
        assert f"| `{name}" in page or f"| `{stem}" in page, name


def test_the_example_of_the_results_page_works(reference: ModuleType, tmp_path: Path) -> None:
    weights = np.tril(np.ones((3, 4, 4))) / np.arange(1, 5)[:, None]
    ensemble = es.AttentionEnsemble.from_arrays({"model.layers.0.self_attn": weights})
    es.analyze(ensemble, intervals=False).save(tmp_path / "out")
    code = reference.results_page().split("```python\n")[1].split("```")[0]
    exec(code.replace('"out"', repr(str(tmp_path / "out"))).replace("copy.zarr", str(tmp_path / "copy.zarr")), {})
    assert es.open_study(tmp_path / "copy.zarr").layers == ensemble.layers
