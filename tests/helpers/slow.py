"""Which tests take long: ``tests/slow.txt``, which ``pytest --fast`` leaves out.

``pytest --durations=0 --durations-min=0.005 | python -m tests.helpers.slow`` writes the list again, of a run of everything.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

LIST = Path(__file__).parents[1] / "slow.txt"
LIMIT_S = 4.0
"""Seconds that all cases of a test take together, from which on it is slow."""
LINE = re.compile(r"\s*([\d.]+)s (?:call|setup|teardown)\s+tests/(\S+?)(?:[\[@].*)?$")


def function(nodeid: str) -> str:
    """The test of a case: 'unit/test_units.py::test_prefixes'."""
    return nodeid.partition("[")[0].partition("@")[0].removeprefix("tests/")


def slow(report: Iterable[str]) -> list[str]:
    """Tests of a report of durations whose cases take longer than ``LIMIT_S`` together, sorted."""
    seconds = defaultdict[str, float](float)
    for line in report:
        found = LINE.match(line)
        if found is not None:
            seconds[found[2]] += float(found[1])
    return sorted(name for name, total in seconds.items() if total > LIMIT_S)


def listed() -> frozenset[str]:
    """Those of the list."""
    return frozenset(LIST.read_text(encoding="utf-8").split())


if __name__ == "__main__":
    LIST.write_text("\n".join(slow(sys.stdin)) + "\n", encoding="utf-8")
