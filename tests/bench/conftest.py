"""Benchmarks need pytest-benchmark, which the normal suite leaves out:

pytest tests/bench -p pytest_benchmark.plugin --benchmark-only
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
ENVIRONMENT.pop("ACCELSIM_KERNEL", None)  # which keeps compiled loops out of the other tests


class Figure(NamedTuple):
    what: str
    value: float
    unit: str
    bar: float | None
    note: str

    @property
    def holds(self) -> bool:
        return self.bar is None or self.value <= self.bar


FIGURES: list[Figure] = []


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without the plugin there is no ``benchmark`` fixture, so there is nothing to collect here."""
    names = ("benchmark", "pytest_benchmark.plugin")
    return None if any(config.pluginmanager.hasplugin(name) for name in names) else True


@pytest.fixture(autouse=True)
def _compiled_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return what is timed in this process runs compiled, too."""
    monkeypatch.delenv("ACCELSIM_KERNEL", raising=False)


@pytest.fixture
def probe() -> Callable[..., dict[str, float]]:
    """Run probe.py in a fresh process on one thread."""

    def run(*arguments: str) -> dict[str, float]:
        command = [sys.executable, "-m", "tests.bench.probe", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=True, capture_output=True, text=True)
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return found

    return run


@pytest.fixture
def figure(benchmark: Any) -> Callable[..., Figure]:
    """Note a figure for the table at the end and beside the benchmark; ``bar`` None: there is none."""

    def note(what: str, value: float, unit: str, bar: float | None = None, text: str = "") -> Figure:
        found = Figure(what, value, unit, bar, text)
        FIGURES.append(found)
        benchmark.extra_info[what] = value
        return found

    return note


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not FIGURES:
        return
    terminalreporter.section("figures: CPU seconds of one thread, memory, ratios of one run")
    width = max(len(each.what) for each in FIGURES)
    for each in FIGURES:
        bar = "no bar" if each.bar is None else f"bar {each.bar:g}{each.unit}"
        verdict = "" if each.bar is None else "holds" if each.holds else "DOES NOT HOLD"
        terminalreporter.write_line(
            f"{each.what:{width}}  {each.value:9.3f}{each.unit:3}  {bar:10}  {verdict:13}  {each.note}".rstrip()
        )
