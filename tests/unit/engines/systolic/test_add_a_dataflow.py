"""The page about adding a dataflow names every file that knows one by its name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accelsim.engines.systolic.timing import DATAFLOWS

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "add-a-dataflow.md"
PLACES = ("engines/systolic", "program", "sram", "validate")
"""Packages whose results depend on a dataflow."""


def knowing() -> list[str]:
    """Files with a dataflow's name as text."""
    name = re.compile(f'"({"|".join(DATAFLOWS)})"')
    files = [path for place in PLACES for path in sorted((ROOT / "accelsim" / place).rglob("*.py"))]
    return [str(path.relative_to(ROOT)) for path in files if name.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("file", knowing())
def test_the_page_names_the_file(file: str) -> None:
    assert f"`{file}`" in PAGE.read_text(encoding="utf-8")
