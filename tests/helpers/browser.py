"""The browser of the system, driven by playwright, for tests of pages; they are skipped where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
"""Commands that a Chromium may have."""
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def browser() -> Iterator[Any]:
    """A Chromium without a window. Skips the test where playwright or a Chromium is missing."""
    driver = pytest.importorskip("playwright.sync_api", reason="needs the Python package playwright")
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"needs a Chromium on the PATH ({', '.join(NAMES)})")
    with driver.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        try:
            yield chromium
        finally:
            chromium.close()
