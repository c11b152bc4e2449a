"""Searches that rehearse few of their candidates: for what holds whatever mapping is chosen, of which most of the time
would go to choosing it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from accelsim.engines.systolic.mapping.decide import EFFORTS, Effort

FEW = {"fast": Effort(leaders=4, tiles=150), "best": Effort(leaders=8, tiles=300)}
"""Enough that a rehearsal decides now and then, also where tiles are few and options odd."""


@contextmanager
def quick_searches() -> Iterator[None]:
    """Searches of arrays find good mappings inside, and not always the best."""
    with pytest.MonkeyPatch.context() as patch:
        for name, effort in FEW.items():
            patch.setitem(EFFORTS, name, effort)
        yield
