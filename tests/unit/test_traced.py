"""Coverage of the beginning of a test: it ends after its CPU, and goes on behind the test."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from tests.helpers.traced import traced


class Tracer:
    """Stands for ``coverage.Coverage``: what was done to it, and which one is on."""

    on: ClassVar[Tracer | None] = None

    def __init__(self) -> None:
        self.done: list[str] = []
        self.start()

    def start(self) -> None:
        self.done.append("start")
        Tracer.on = self

    def stop(self) -> None:
        self.done.append("stop")
        Tracer.on = None

    @classmethod
    def current(cls) -> Tracer | None:
        return cls.on


def item(cov: Tracer | None, *markers: str) -> Any:
    plugin = SimpleNamespace(cov_controller=cov and SimpleNamespace(cov=cov))
    config = SimpleNamespace(pluginmanager=SimpleNamespace(getplugin=lambda name: plugin))
    return SimpleNamespace(config=config, get_closest_marker=lambda name: name in markers or None)


def spend(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_long_test_is_traced_at_its_beginning() -> None:
    cov = Tracer()
    with traced(item(cov), 0.02):
        assert cov.done == ["start"]
        spend(0.2)
        assert cov.done == ["start", "stop"]
    assert cov.done == ["start", "stop", "start"]


def test_a_short_one_is_traced_to_its_end_and_nothing_stops_behind_it() -> None:
    cov = Tracer()
    with traced(item(cov), 0.05):
        pass
    spend(0.2)
    assert cov.done == ["start"]


def test_it_goes_on_behind_one_that_fails() -> None:
    cov = Tracer()
    with pytest.raises(ZeroDivisionError), traced(item(cov), 0.02):
        spend(0.2)
        _ = 1 / 0
    assert cov.done == ["start", "stop", "start"]


def test_without_cover_nothing_is_traced() -> None:
    cov = Tracer()
    with traced(item(cov, "no_cover")):
        assert cov.done == ["start", "stop"]
    assert cov.done[2:] == ["start"]


def test_where_no_coverage_is_taken_nothing_happens() -> None:
    with traced(item(None), 0.01):
        spend(0.05)
