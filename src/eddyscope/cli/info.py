"""``eddyscope info``: what a bug report needs."""

from __future__ import annotations

import locale
import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

REQUIRED = ("numpy", "scipy", "xarray", "zarr", "pandas", "matplotlib", "typer", "rich")
OPTIONAL = ("torch", "transformers", "tokenizers", "safetensors", "gguf", "accelerate", "dask", "distributed")


def info_command() -> None:
    """Print versions, the machine, and where eddyscope looks for data: what a bug report needs.

    Example: eddyscope info
    """
    for name, value in facts():
        typer.echo(f"{name:<16} {value}")


def facts() -> Iterator[tuple[str, str]]:
    """What there is to say, one line each."""
    import eddyscope
    from eddyscope.models.config import BUNDLED, names

    yield "eddyscope", f"{eddyscope.__version__} in {Path(eddyscope.__file__).parent}"
    yield "python", f"{platform.python_version()} ({platform.python_implementation()}) at {sys.executable}"
    yield "platform", platform.platform()
    yield "processors", str(os.cpu_count())
    yield "encoding", f"{sys.stdout.encoding}, files {locale.getpreferredencoding(False)}"
    for package in REQUIRED:
        yield package, _version(package)
    for package in OPTIONAL:
        yield package, f"{_version(package)} (optional)"
    yield "accelerators", _accelerators()
    yield "bundled models", f"{', '.join(names()) or 'none'} in {BUNDLED}"
    yield "own data", os.environ.get("EDDYSCOPE_DATA") or "EDDYSCOPE_DATA is not set"
    yield "hub cache", _hub_cache()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _accelerators() -> str:
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if torch.cuda.is_available():
        return ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    return "mps" if torch.backends.mps.is_available() else "none"


def _hub_cache() -> str:
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    place = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    offline = ", offline" if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON") else ""
    return f"{place} ({'there' if place.is_dir() else 'not there'}{offline})"
