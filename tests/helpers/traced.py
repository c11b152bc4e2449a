"""Coverage of the beginning of each test: to trace a loop makes it twice as long or more, and shows nothing new."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

LONGEST_S = 2.0
"""CPU of a test, and of what is set up for it, that is traced."""


@contextmanager
def traced(item: pytest.Item, longest_s: float = LONGEST_S) -> Iterator[None]:
    """Coverage, where it is taken, ends after so much CPU and goes on behind; of ``no_cover`` none is taken.

    To stop the coverage is not enough: in a worker of pytest-xdist it was started twice, and goes on.
    """
    control: Any = getattr(item.config.pluginmanager.getplugin("_cov"), "cov_controller", None)
    if control is None:
        yield
        return
    collector, paused = control.cov._collector, []

    def pause(*_: object) -> None:
        collector.pause()
        paused.append(True)

    if item.get_closest_marker("no_cover"):
        pause()
    else:
        signal.signal(signal.SIGPROF, pause)
        signal.setitimer(signal.ITIMER_PROF, longest_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        if paused:
            collector.resume()
