"""Rearranging code changes no figure: runs give what they gave, with the same mappings pinned.

All cases: ``python -m tests.helpers.unchanged``.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers import unchanged

SMALL = [case for case in unchanged.cases() if case.model.startswith(("cnn", "gemm", "gpt?"))]


@pytest.fixture(scope="module")
def record() -> tuple[dict[str, Any], dict[str, Any]]:
    return unchanged.read()


def portable(figures: dict[str, Any]) -> dict[str, Any]:
    """Without the bits of real-valued results, which depend on the linear algebra library."""
    outputs = {name: text for name, text in figures.get("outputs", {}).items() if not text.startswith("float")}
    return {**figures, "outputs": outputs}


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_a_run_gives_what_it_gave(case: unchanged.Case, record: tuple[dict[str, Any], dict[str, Any]]) -> None:
    figures, mappings = record
    found, _ = unchanged.outcome(case, mappings[case.name])
    assert portable(found) == portable(figures[case.name])
