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
    """Coverage, where it is taken, ends after so much CPU and goes on behind; of ``no_cover`` none is taken."""
    control: Any = getattr(item.config.pluginmanager.getplugin("_cov"), "cov_controller", None)
    if control is None:
        yield
        return
    stopped: list[Any] = []
    if item.get_closest_marker("no_cover"):
        _stop(control.cov, stopped)
    else:
        signal.signal(signal.SIGPROF, lambda *_: _stop(control.cov, stopped))
        signal.setitimer(signal.ITIMER_PROF, longest_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        while stopped:
            stopped.pop().start()


def _stop(cov: Any, stopped: list[Any]) -> None:
    """Stop every coverage that is taken: in a worker of pytest-xdist there are two, one waits behind the other and goes
    on where that one stops."""
    while (each := type(cov).current()) is not None:
        each.stop()
        stopped.append(each)
