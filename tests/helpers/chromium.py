"""The Chromium of the system, driven by Playwright: pages from files, with all that they said and asked for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass
class Opened:
    """A page that is open: errors that it raised or told its console, what it asked for beside itself."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not self.errors and not self.requests


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; the test is skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no Chromium on the PATH: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, file: Path, width: int = 1400, scheme: str = "light") -> Iterator[Opened]:
    """The page in a window of its own, once it is ready."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    found = Opened(page)
    page.on("console", lambda message: found.errors.append(message.text))
    page.on("pageerror", lambda error: found.errors.append(str(error)))
    page.on("dialog", lambda dialog: (found.errors.append(f"dialog {dialog.message}"), dialog.dismiss()))
    address = file.resolve().as_uri()
    page.on("request", lambda request: found.requests.append(request.url) if request.url != address else None)
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    yield found
    context.close()
