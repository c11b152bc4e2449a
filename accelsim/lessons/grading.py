"""Marks of many folders, for teachers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from accelsim.lessons.base import Lesson
from accelsim.lessons.running import check
from accelsim.lessons.work import lesson_in

COLUMNS = ("folder", "student", "lesson", "passed", "steps", "where", "expected", "got")
"""Of a row of marks."""


def marks(folders: Sequence[Path], seconds: float) -> Iterator[dict[str, Any]]:
    """A row for each lesson in each folder, in their order; one that tells so where there is none."""
    for folder in folders:
        found = lesson_in(folder)
        for lesson, file in found:
            yield _mark(folder, lesson, file, seconds)
        if not found:
            what = "no file of a lesson" if folder.is_dir() else "no such directory"
            yield dict(zip(COLUMNS, (str(folder), "", "", False, "", what, "", ""), strict=True))


def _mark(folder: Path, lesson: Lesson, file: Path, seconds: float) -> dict[str, Any]:
    found = check(lesson, file, seconds=seconds)
    wrong = found.wrong
    why = (wrong.where, wrong.expected, wrong.got) if wrong else ("", "", "")
    steps = f"{len(found.done)} of {len(lesson.steps)}"
    values = (str(folder), found.student, lesson.number, found.passed, steps, *why)
    return dict(zip(COLUMNS, values, strict=True))
