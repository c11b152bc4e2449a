"""The list of tests that ``--fast`` leaves out."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.slow import function, listed, slow

TESTS = Path(__file__).parents[1]


def test_a_test_is_slow_when_its_cases_are_together() -> None:
    report = [
        "2.10s call     tests/unit/test_a.py::test_one[a]@unit/test_a.py",
        "2.00s setup    tests/unit/test_a.py::test_one[b [c]]@unit/test_a.py",
        "3.90s call     tests/unit/test_a.py::test_two",
        "===== slowest durations =====",
    ]
    assert slow(report) == ["unit/test_a.py::test_one"]


def test_a_case_belongs_to_its_test() -> None:
    for case in ("tests/laws/test_a.py::test_one[x@y]", "tests/laws/test_a.py::test_one@group"):
        assert function(case) == "laws/test_a.py::test_one"


def test_everything_listed_is_there() -> None:
    for name in listed():
        file, _, test = name.partition("::")
        text = (TESTS / file).read_text(encoding="utf-8")
        assert f"def {test.rpartition('::')[2]}(" in text, name
