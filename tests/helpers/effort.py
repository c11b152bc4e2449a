"""What something costs without a clock: calls and memory are the same on any machine, however busy it is."""

from __future__ import annotations

import cProfile
import pstats
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

MOST_CALLS, MOST_B = 2_000_000, 64 << 20
"""Calls of about a second and memory that any machine has: what is refused at once stays far below both."""


def calls(function: Callable[..., Any], *args: Any) -> int:
    """Calls of functions while ``function(*args)`` runs, those of C included."""
    profile = cProfile.Profile()
    profile.runcall(function, *args)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@contextmanager
def at_once() -> Iterator[None]:
    """Return what is inside makes few calls and takes little memory."""
    profile = cProfile.Profile()
    tracemalloc.start()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        peak_B = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert pstats.Stats(profile).total_calls < MOST_CALLS  # type: ignore[attr-defined]
    assert peak_B < MOST_B
