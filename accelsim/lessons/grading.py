"""Marks of many folders, for teachers: one row for each lesson in each folder, whatever is in it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from accelsim.errors import AccelsimError, UsageError
from accelsim.lessons.base import Lesson, clean
from accelsim.lessons.running import check
from accelsim.lessons.sandbox.process import HOW
from accelsim.lessons.sandbox.student import why_not_isolated
from accelsim.lessons.work import lesson_in

COLUMNS = ("folder", "student", "lesson", "passed", "steps", "where", "expected", "got")
"""Columns of the table of marks."""
Row = dict[str, Any]
"""Column -> its cell."""
NOT_GRADED = "could not be graded"
"""Beginning of ``where`` in a row without a mark."""
OWN_S = 120.0
"""Time that the grader itself may take for one file, beside the time of the student's process."""


class TooLong(Exception):
    """The grader takes too long for one file."""


def check_isolation() -> None:
    """Raise UsageError, with how to install what is missing, where students' files cannot be isolated."""
    why = why_not_isolated()
    if why:
        raise UsageError(f"students' files cannot be isolated: {why}", expected=HOW)


def marks(folders: Sequence[Path], seconds: float, isolated: bool = True) -> Iterator[Row]:
    """Yield a row for each lesson in each folder, in their order, as soon as it is known; one that says so where there
    is none. Files run isolated, or in plain processes with limits."""
    for folder in folders:
        found = lesson_in(folder)
        for lesson, file in found:
            yield _guarded(folder, lesson, file, seconds, isolated)
        if not found:
            yield _row(folder, where="no file of a lesson" if folder.is_dir() else "no such directory")


def _guarded(folder: Path, lesson: Lesson, file: Path, seconds: float, isolated: bool) -> Row:
    """Return the row of a file; no file keeps those after it from their marks."""
    odd = _odd(folder, file)
    try:
        if odd:
            raise OSError(odd)
        with _at_most(2 * seconds + OWN_S):
            return _mark(folder, lesson, file, seconds, isolated)
    except Exception as error:
        why = str(error) if isinstance(error, OSError | AccelsimError) else f"{type(error).__name__}: {error}"
        steps = f"0 of {len(lesson.steps)}"
        return _row(folder, lesson=lesson.number, steps=steps, where=f"{NOT_GRADED}: {why}")


def _mark(folder: Path, lesson: Lesson, file: Path, seconds: float, isolated: bool) -> Row:
    found = check(lesson, file, seconds=seconds, isolated=isolated)
    why = {name: getattr(found.wrong, name) for name in ("where", "expected", "got")} if found.wrong else {}
    steps = f"{len(found.done)} of {len(lesson.steps)}"
    return _row(folder, student=found.student, lesson=lesson.number, passed=found.passed, steps=steps, **why)


def _row(folder: Path, **known: object) -> Row:
    row = dict.fromkeys(COLUMNS, "") | {"folder": str(folder), "passed": False} | known
    return {name: clean(value) if isinstance(value, str) else value for name, value in row.items()}


def cells(row: Row) -> list[object]:
    """Return a row of marks for a CSV file. A spreadsheet must not take a student's text for a formula, so what begins
    like one gets an apostrophe in front."""
    return [f"'{value}" if isinstance(value, str) and _formula(value) else value for value in row.values()]


def _formula(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return value.lstrip().startswith(("=", "+", "-", "@"))
    return False


def _odd(folder: Path, file: Path) -> str:
    """Return what is wrong with the place of a file: what a student may have put there instead of it."""
    for place in (file.parent, file):
        if place != folder and place.is_symlink():
            return f"{place.name} is a link"
    return "" if file.is_file() else f"{file.name} is not a regular file"


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise TooLong inside when so much time is over; where signals can be used."""
    if os.name == "nt" or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise TooLong(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
