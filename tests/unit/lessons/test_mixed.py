"""Lesson 10: what its trainings are to show is so."""

from __future__ import annotations

from math import log2

import pytest

from accelsim.lessons.course.mixed.lesson import FALLEN, LESSON, START, _fixed, _without


@pytest.mark.parametrize("student", ["", "ada", "grace", "alan", "barbara"])
def test_without_a_scale_nothing_is_learnt_and_a_fixed_one_diverges(student: str) -> None:
    numbers = LESSON.numbers(student)
    assert _without(numbers.seed).losses[-1] > 100 * FALLEN * 0.999
    assert not _fixed(numbers.seed).losses[-1] < 1e6
    assert f"2^{int(log2(START))}" in LESSON.read("text.md")
