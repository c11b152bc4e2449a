"""Coverage of the beginning of a test: it ends after its CPU, and goes on behind the test."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.traced import traced

ROOT = Path(__file__).parents[2]


class Tracer:
    """Stands for the collector of ``coverage.Coverage``: what was done to it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def pause(self) -> None:
        self.done.append("pause")

    def resume(self) -> None:
        self.done.append("resume")


def item(cov: Tracer | None, *markers: str) -> Any:
    plugin = SimpleNamespace(cov_controller=cov and SimpleNamespace(cov=SimpleNamespace(_collector=cov)))
    config = SimpleNamespace(pluginmanager=SimpleNamespace(getplugin=lambda name: plugin))
    return SimpleNamespace(config=config, get_closest_marker=lambda name: name in markers or None)


def spend(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_long_test_is_traced_at_its_beginning() -> None:
    cov = Tracer()
    with traced(item(cov), 0.02):
        assert cov.done == []
        spend(0.2)
        assert cov.done == ["pause"]
    assert cov.done == ["pause", "resume"]


def test_a_short_one_is_traced_to_its_end_and_nothing_stops_behind_it() -> None:
    cov = Tracer()
    with traced(item(cov), 0.05):
        pass
    spend(0.2)
    assert cov.done == []


def test_it_goes_on_behind_one_that_fails() -> None:
    cov = Tracer()
    with pytest.raises(ZeroDivisionError), traced(item(cov), 0.02):
        spend(0.2)
        _ = 1 / 0
    assert cov.done == ["pause", "resume"]


def test_without_cover_nothing_is_traced() -> None:
    cov = Tracer()
    with traced(item(cov, "no_cover")):
        assert cov.done == ["pause"]
    assert cov.done == ["pause", "resume"]


CASE = """\
import sys, time
import pytest
@pytest.mark.parametrize("turn", range(3))
def test_long(turn):
    assert sys.gettrace() is not None
    end = time.process_time() + 0.5
    while time.process_time() < end:
        sum(i for i in range(10_000))
    assert sys.gettrace() is None
@pytest.mark.parametrize("turn", range(3))
def test_short(turn):
    assert sys.gettrace() is not None
def test_nothing_was_started_twice():
    from coverage.collector import Collector
    assert len(Collector._collectors) <= 3
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_nothing_is_traced_any_more_behind_the_beginning(tmp_path: Path, workers: int) -> None:
    """A run of pytest with coverage, in a worker of pytest-xdist and without one."""
    pytest.importorskip("xdist")
    (tmp_path / "conftest.py").write_text(
        (ROOT / "tests" / "helpers" / "traced.py").read_text() + HOOK, encoding="utf-8"
    )
    (tmp_path / "test_it.py").write_text(CASE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:benchmark", "--cov=.", f"-n{workers}", "."]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=_without_coverage())
    assert told.returncode == 0 and "7 passed" in told.stdout, told.stdout


HOOK = """

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item):
    with traced(item, 0.1):
        yield
"""


def _without_coverage() -> dict[str, str]:
    """The environment without what makes children of a covered run take coverage."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}


def test_where_no_coverage_is_taken_nothing_happens() -> None:
    with traced(item(None), 0.01):
        spend(0.05)
