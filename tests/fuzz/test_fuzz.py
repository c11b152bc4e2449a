"""A small draw of every fuzzer; ``make fuzz`` is the long one."""

from __future__ import annotations

import pytest

from .harness import Tally, draw
from .registry import FUZZERS

SMALL = [name for name, row in FUZZERS.items() if row.few]


@pytest.mark.parametrize("name", SMALL)
def test_no_case_of_a_small_draw_fails(name):
    tally = draw(name, range(FUZZERS[name].few))
    assert not tally.failed, tally.report()
    assert tally.count("passed"), "every case was refused: this draw tests error texts only"


def test_a_case_that_fails_hangs_or_dies_is_told():
    tally = draw("bad_cases", range(6))
    kinds = [(each.kind, each.place.split(" ")[0]) for each in tally.outcomes]
    assert kinds == [
        ("passed", ""), ("refused", ""), ("failed", "KeyError"), ("failed", "OutOfTime"), ("failed", "process"),
        ("failed", "MemoryError"),
    ]  # fmt: skip
    assert "python -m tests.fuzz bad_cases --seeds 2" in Tally("bad_cases", tally.failed).report()
