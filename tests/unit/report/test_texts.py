"""Figures in words."""

from __future__ import annotations

from accelsim.report.text import long_time


def test_long_times_are_told_in_the_largest_unit_that_they_fill() -> None:
    told = [long_time(seconds) for seconds in (0.5, 59.0, 60.0, 3540.0, 3600.0, 85000.0, 86400.0, 2.16e6)]
    assert told == ["500 ms", "59 s", "1 minute", "59 minutes", "1 hour", "23.6 hours", "1 day", "25 days"]
