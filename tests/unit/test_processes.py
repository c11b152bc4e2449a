"""Tests side by side: what one process keeps for a group of tests is kept once."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("kept")
def test_a_group_goes_to_one_process(request: pytest.FixtureRequest) -> None:
    """The schedule reads it off a suffix to the name, and spreads the group over all processes where that is lost."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("only with pytest -n 2 --dist loadgroup, as make test has it")
    assert request.node.nodeid.endswith("@kept")
