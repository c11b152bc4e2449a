"""CPU seconds of each test, as each process of a run measures its own, and of the calibration loop beside them."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.gate.costs import function
from tests.gate.loop import PARTS, spin

ROLE = pytest.StashKey[str]()
"""In which role a test runs: ``core`` or ``evidence``."""
EVERY_S = 5.0
"""CPU seconds of tests between two parts of the calibration loop."""


def cpu_s() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


@dataclass
class Spent:
    """What processes of a run spent: CPU seconds by role and function, in all, and by each part of the loop.

    ``ran``: how many cases of a function ran, by role.
    """

    tests_s: dict[str, dict[str, float]] = field(default_factory=dict)
    kinds: dict[str, tuple[int, str]] = field(default_factory=dict)
    total_s: float = 0.0
    parts_s: list[float] = field(default_factory=list)
    ran: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def loop_s(self) -> float:
        """CPU seconds of one calibration loop, from all its parts."""
        return PARTS * sum(self.parts_s) / len(self.parts_s) if self.parts_s else 1.0

    @property
    def started_s(self) -> float:
        """CPU seconds outside of tests: imports, collection, reports of results."""
        return max(0.0, self.total_s - sum(self.parts_s) - sum(map(sum, self._by_role())))

    def _by_role(self) -> Iterator[Any]:
        return (functions.values() for functions in self.tests_s.values())

    def loops(self, role: str) -> dict[str, float]:
        """Return the cost of each function in calibration loops."""
        return {name: seconds / self.loop_s for name, seconds in self.tests_s.get(role, {}).items()}

    def told(self) -> dict[str, Any]:
        """Return the calibration loops and the number of cases of each function by role, and what kinds these are."""
        costs = {
            role: {name: (loops, self.ran[role][name]) for name, loops in self.loops(role).items()}
            for role in self.tests_s
        }
        return {"costs": costs, "kinds": self.kinds}

    def add(self, other: Mapping[str, Any]) -> None:
        """Add what another process spent, as ``vars`` of its own."""
        kept: Any
        for kept, added in ((self.tests_s, other["tests_s"]), (self.ran, other["ran"])):
            for role, functions in added.items():
                mine = kept.setdefault(role, {})
                for name, amount in functions.items():
                    mine[name] = mine.get(name, 0) + amount
        self.kinds |= other["kinds"]
        self.total_s += other["total_s"]
        self.parts_s += other["parts_s"]


class Meter:
    """Pytest plugin of one process: measures each test in its role.

    ``kinds``: number of cases and kind of each function, for the list of costs.
    """

    def __init__(self, kinds: dict[str, tuple[int, str]]) -> None:
        self.kinds = kinds
        self.seconds = defaultdict[str, defaultdict[str, float]](lambda: defaultdict(float))
        self.ran = defaultdict[str, Counter[str]](Counter)
        self.parts_s: list[float] = []
        self.since_s = EVERY_S

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if self.since_s >= EVERY_S:
            self.parts_s.append(spin())
            self.since_s = 0.0
        before = cpu_s()
        result = yield
        spent = cpu_s() - before
        self.since_s += spent
        role, name = item.stash[ROLE], function(item.nodeid)
        self.seconds[role][name] += spent
        self.ran[role][name] += 1
        return result

    def spent(self, alone: bool = False) -> dict[str, Any]:
        """Return what this process spent so far, as plain data that another process can be sent.

        ``alone``: without its children, which are workers that tell it themselves.
        """
        if self.parts_s:
            self.parts_s.append(spin())
        tests = {role: dict(functions) for role, functions in self.seconds.items()}
        total_s = sum(os.times()[:2]) if alone else cpu_s()
        ran = {role: dict(functions) for role, functions in self.ran.items()}
        return vars(Spent(tests, self.kinds, total_s, self.parts_s, ran))
