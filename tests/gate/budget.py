"""What a run may cost, and what it prints about it: budgets, the parts that cost most, skipped tests."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.gate.costs import TESTS, directory, module
from tests.gate.meter import Spent

CORE_LOOPS = 600.0
"""Calibration loops that the core may take, starting and collecting included. Raise it only in a commit that says why.

A quarter above the 480 that it takes, 90 of them for starting and collecting in a fresh clone: CPU time varies by 15 %, and
cases of another commit cost a little more or less.
"""
SHARD_LOOPS = 200.0
"""The same for one shard of the evidence: a quarter above the 160 that the dearest takes, with all pages that are stale."""
GREW = 1.3, 2.0
"""A module grew where it costs so many times what the list says, and so many loops more: CPU time varies by 15 %."""
DEAREST = 10
SKIPS = TESTS / "skips.txt"


def allowed_skips(path: Path = SKIPS) -> list[re.Pattern[str]]:
    """Read the reasons for which a test may be skipped: one regular expression a line, after ``#`` why."""
    lines = (line.partition("  # ")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [re.compile(line) for line in lines if line]


def unknown_skips(reasons: Mapping[str, int], allowed: list[re.Pattern[str]]) -> list[str]:
    """Return a line for each reason to skip that is not on the list."""
    return [
        f"{count} skipped for a reason that tests/skips.txt does not list: {reason}"
        for reason, count in sorted(reasons.items())
        if not any(each.search(reason) for each in allowed)
    ]


def used(spent: Spent) -> dict[str, float]:
    """Return the calibration loops that core and shard took; starting and collecting counts as core."""
    sums = {role: sum(spent.loops(role).values()) for role in ("core", "evidence")}
    return sums | {"core": sums["core"] + spent.started_s / spent.loop_s}


def overruns(spent: Spent, expected: Mapping[str, float], limits: Mapping[str, float]) -> Iterator[str]:
    """Yield a line for each budget that is exceeded, and one for each module that grew."""
    took = used(spent)
    over = [role for role, limit in limits.items() if took[role] > limit]
    for role in over:
        yield f"{role}: {took[role]:.0f} calibration loops, more than the {limits[role]:.0f} allowed"
    if "core" in over:
        yield from _grown(spent, expected)


def _grown(spent: Spent, expected: Mapping[str, float]) -> Iterator[str]:
    now = _by(module, spent.loops("core"))
    grown = {
        name: loops
        for name, loops in now.items()
        if loops > GREW[0] * expected.get(name, 0.0) and loops > GREW[1] + expected.get(name, 0.0)
    }
    for name in sorted(grown, key=lambda name: expected.get(name, 0.0) - grown[name]):
        yield f"  tests/{name} grew from {expected.get(name, 0.0):.1f} to {grown[name]:.1f}"


def summary(spent: Spent, skipped: Mapping[str, int], limits: Mapping[str, float], shard: int) -> Iterator[str]:
    """Yield what a run cost, by part and module, what it skipped, and how much of its budget it used."""
    everything: Counter[str] = Counter()
    for functions in spent.tests_s.values():
        everything.update(functions)
    yield f"{spent.total_s:.0f} CPU s, of these {spent.started_s:.0f} for starting and collecting; by directory:"
    yield _columns(_by(directory, everything), 6)
    yield "dearest modules:"
    yield _columns(dict(Counter(_by(module, everything)).most_common(DEAREST)), 2)
    for reason, count in sorted(skipped.items()):
        yield f"{count} skipped: {reason}"
    took = used(spent)
    shares = (f"{role} {took[role]:.0f} of {limit:.0f}" for role, limit in limits.items())
    yield f"budget in calibration loops of {spent.loop_s:.2f} CPU s: {', '.join(shares)} (shard {shard})"


def _by(part: Callable[[str], str], costs: Mapping[str, float]) -> dict[str, float]:
    sums = defaultdict[str, float](float)
    for name, cost in costs.items():
        sums[part(name)] += cost
    return dict(sums)


def _columns(costs: Mapping[str, float], count: int) -> str:
    cells = [f"{name} {cost:.0f} s" for name, cost in sorted(costs.items(), key=lambda each: -each[1])]
    width = max(map(len, cells), default=0) + 2
    rows = ["".join(f"{cell:{width}}" for cell in cells[at : at + count]) for at in range(0, len(cells), count)]
    return "\n".join(f"  {row.rstrip()}" for row in rows)
