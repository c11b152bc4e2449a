"""Searches that rehearse few of their candidates: for what holds whatever mapping is chosen, of which most of the time
would go to choosing it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from accelsim.engines.systolic.mapping.decide import EFFORTS, Effort

FEW = Effort(leaders=4, tiles=150)
"""Enough that a rehearsal decides now and then, also where tiles are few and options odd."""


@contextmanager
def quick_searches() -> Iterator[None]:
    """Default searches of arrays find good mappings inside, and not always the best."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EFFORTS, "fast", FEW)
        yield
