"""Which lines each test reaches, and how long it takes: measured once, kept in a file.

A test that never reaches a line cannot find a fault in it, so a mutant is given only to those that do.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import coverage
import pytest

ROOT = Path(__file__).parents[2]


@dataclass
class Reached:
    """``seconds`` of CPU of each test that passes; ``lines``: file -> line -> tests that reach it."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)

    def tests(self, file: str, lines: range, budget_s: float) -> list[str]:
        """Tests for a fault in these lines, the shortest first: those that reach them, then the others of their files.

        What is reached when modules are imported, or when another test fills a cache, is reached by no test of
        its own: then all that reach the file stand for it. As many as take ``budget_s``, and one at the least.
        """
        there = self.lines.get(file, {})
        first = {test for line in lines for test in there.get(line, ())}
        first = first or {test for tests in there.values() for test in tests}
        modules = {test.partition("::")[0] for test in first}
        others = {test for test in self.seconds if test.partition("::")[0] in modules} - first
        chosen, spent = [], 0.0
        for test in [*self._short(first), *self._short(others)]:
            spent += self.seconds[test]
            if chosen and spent > budget_s:
                break
            chosen.append(test)
        return chosen

    def _short(self, tests: set[str]) -> list[str]:
        return sorted(tests & self.seconds.keys(), key=lambda test: (self.seconds[test], test))

    def save(self, path: Path) -> None:
        """Write it as JSON, tests by number."""
        names = sorted(self.seconds)
        number = {name: at for at, name in enumerate(names)}
        lines = {
            file: {str(line): [number[test] for test in tests if test in number] for line, tests in there.items()}
            for file, there in self.lines.items()
        }
        tests = [[name, self.seconds[name]] for name in names]
        path.write_text(json.dumps({"tests": tests, "lines": lines}), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Reached:
        """Return what ``save`` wrote."""
        made = json.loads(path.read_text(encoding="utf-8"))
        names = [name for name, _ in made["tests"]]
        lines = {
            file: {int(line): [names[at] for at in tests] for line, tests in there.items()}
            for file, there in made["lines"].items()
        }
        return cls(dict(made["tests"]), lines)


class _Watch:
    """Pytest plugin: each test is a context of the measurement of coverage, and its CPU time is kept if it passes."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self.measured, self.seconds, self.failed = measured, defaultdict[str, float](float), set[str]()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.measured.switch_context(item.nodeid)
        before = sum(os.times()[:4])
        result = yield
        self.seconds[item.nodeid] = round(sum(os.times()[:4]) - before, 3)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)


def measure(packages: Sequence[str], tests: Sequence[str]) -> Reached:
    """Run the tests in this process, which must not have imported accelsim."""
    measured = coverage.Coverage(data_file=None, source=[f"accelsim.{package}" for package in packages])
    watch = _Watch(measured)
    measured.start()
    pytest.main(["-q", "-p", "no:cacheprovider", "--tier", "core", *tests], plugins=[watch])
    measured.stop()
    data = measured.get_data()
    reached = Reached({test: took for test, took in watch.seconds.items() if test not in watch.failed})
    for file in data.measured_files():
        there = data.contexts_by_lineno(file)
        reached.lines[str(Path(file).relative_to(ROOT))] = {
            line: sorted(test for test in tests if test) for line, tests in there.items()
        }
    return reached
