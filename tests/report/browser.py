"""A real Chromium that opens pages from disk, the network cut, and notes what they ask for and complain of."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str:
    """Where Chromium is; the test is skipped where it is not, except in CI, which installs it."""
    path = shutil.which("chromium") or "/usr/bin/chromium"
    if not Path(path).exists():
        if os.environ.get("CI") == "true":
            pytest.fail("CI has no Chromium: .ci/run installs the package chromium.")
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    return path


@dataclass
class Opened:
    """A page and what it did."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def choose(self, control: str, **by: Any) -> None:
        self.page.locator(f"#pick-{control}").select_option(**by)

    def caption(self, name: str) -> str:
        """What a figure says, once it has been drawn."""
        figure = self.page.locator(f"#figure-{name}")
        figure.scroll_into_view_if_needed()
        if name != "thumbnails":
            self.page.wait_for_selector(f"#figure-{name}[data-said]", state="attached")
        return str(figure.locator("figcaption").inner_text())

    def drawn(self, name: str) -> None:
        """Wait until a figure's chart is there."""
        self.page.locator(f"#figure-{name}").scroll_into_view_if_needed()
        self.page.wait_for_selector(f"#figure-{name}[data-drawn] .main-svg", state="attached")


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium, driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = chromium()
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        try:
            yield running
        finally:
            running.close()


@contextmanager
def opened(running: Any, path: Path, **context: Any) -> Iterator[Opened]:
    """Open a page from disk, offline, and wait until its scripts have run."""
    place = running.new_context(offline=True, **{"viewport": {"width": 1400, "height": 900}, **context})
    page = place.new_page()
    found = Opened(page)
    page.on("request", lambda request: found.requests.append(request.url))
    page.on("console", lambda said: found.complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: found.complaints.append(str(error)))
    try:
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        yield found
    finally:
        place.close()
