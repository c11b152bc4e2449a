"""What each test costs: ``tests/costs.txt``, in calibration loops (``tests/gate/loop.py``).

A line is a name and a cost. A name without ``::`` is a module with all its tests. One with ``::`` is a test function; behind
its cost stand the number of its cases and, where it is one, ``law`` (it draws examples; the cost is that of all its draws)
or ``late`` (evidence, however cheap). ``make evidence`` writes the list, ``pytest --costs`` the lines of what it ran in full.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).parents[1]
LIST = TESTS / "costs.txt"
LEAST = 0.1
"""Cheaper functions are not listed; their module is."""


def function(nodeid: str) -> str:
    """Return the test of a case: 'unit/test_units.py::test_prefixes'."""
    return nodeid.partition("[")[0].partition("@")[0].removeprefix("tests/")


def module(name: str) -> str:
    """Return the module of a case or a function: 'unit/test_units.py'."""
    return name.partition("::")[0].removeprefix("tests/")


def directory(name: str) -> str:
    """Return the part of the tests that a name belongs to: 'unit/cli', 'laws'."""
    parts = module(name).split("/")[:-1]
    return "/".join(parts[:2]) or "."


@dataclass(frozen=True)
class Kind:
    """How many cases a function has; ``law``, ``late`` or nothing."""

    cases: int = 1
    what: str = ""


@dataclass
class Costs:
    """Costs of functions and of whole modules, in calibration loops; what kinds of functions they are."""

    functions: dict[str, float] = field(default_factory=dict)
    modules: dict[str, float] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path = LIST) -> Costs:
        """Read the committed list; a missing one is empty."""
        found = cls()
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            name, cost, *kind = line.split()
            (found.functions if "::" in name else found.modules)[name] = float(cost)
            if kind:
                found.kinds[name] = Kind(int(kind[0]), *kind[1:])
        return found

    def updated(self, measured: Mapping[str, float], kinds: Mapping[str, Kind]) -> Costs:
        """Return these costs with those that were measured in place of the old ones.

        ``kinds``: of all functions of the measured modules. What they do not name exists no longer.
        """
        ran = {module(name) for name in measured}
        here = {name: cost for name, cost in self.functions.items() if module(name) in ran and name in kinds}
        elsewhere = {name: cost for name, cost in self.functions.items() if module(name) not in ran}
        modules = defaultdict[str, float](float)
        for name, cost in (here | dict(measured)).items():
            modules[module(name)] += cost
        listed = {name: cost for name, cost in measured.items() if cost >= LEAST}
        left = {name: cost for name, cost in here.items() if name not in measured}
        return Costs(elsewhere | left | listed, self.modules | modules, self.kinds | dict(kinds))

    def write(self, path: Path = LIST) -> None:
        """Write the list, without modules that no longer exist."""
        lines = [
            f"{name} {cost:.2f}{self._kind(name)}"
            for name, cost in sorted((self.functions | self.modules).items())
            if (TESTS / module(name)).exists()
        ]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _kind(self, name: str) -> str:
        kind = self.kinds.get(name)
        return f" {kind.cases} {kind.what}".rstrip() if kind is not None else ""
