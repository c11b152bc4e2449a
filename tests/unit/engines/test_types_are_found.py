"""Engine types are known by their folders alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accelsim.engines.registry import ENGINES
from tests.helpers.doc_blocks import ROOT

PACKAGE = ROOT / "accelsim"
COMPUTING = [name for name, kind in ENGINES.items() if kind.rank < ENGINES["cpu"].rank]
ABOUT_ONE = {
    "systolic": {"cli/array.py", "request/fields.py", "account/array_energy.py",
                 "spec/chip.py", "spec/silicon.py", "program/roles.py", "cli/sram.py", "sram/patterns.py",
                 "explore/array_frames.py", "report/array.py"},
    "simd": {"spec/chip.py"},
}  # fmt: skip
"""Files of tools for one type (``accelsim array`` and pages draw a systolic array, ``accelsim sram`` feeds its ports), and what names the first
two types for those who wrote a chip before chips had a table of engines."""


@pytest.mark.parametrize("name", COMPUTING)
def test_no_file_of_the_product_names_a_type(name: str) -> None:
    word = re.compile(rf"\"{name}\"|accelsim\.engines\.{name}\b|\b{name.title().replace('_', '')}\b")
    found = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if word.search(path.read_text())}
    outside = {path for path in found if Path(path).parts[0] not in ("engines", "lessons")}
    assert outside <= ABOUT_ONE.get(name, set())
    within = {Path(path).parts[1] for path in found if path.startswith("engines/")}
    assert name in within


def test_no_new_type_leans_on_another() -> None:
    """What several types have in common is not in the folder of one, but for the two that came first."""
    for name in set(COMPUTING) - {"systolic", "simd"}:
        for path in (PACKAGE / "engines").rglob("*.py"):
            if path.parent.name != name:
                assert f"accelsim.engines.{name}" not in path.read_text(), path
