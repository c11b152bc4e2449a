"""Answers of ``accelsim lesson``: the course, a check, hints, marks of many folders."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.errors import UsageError
from accelsim.files import write_rows
from accelsim.lessons.grading import COLUMNS, NOT_GRADED, cells, marks
from accelsim.lessons.registry import lessons
from accelsim.lessons.running import check
from accelsim.lessons.work import located, save, state
from accelsim.report.answer import Answer, Field, Lines, Part, Table
from accelsim.report.table import text_table

if TYPE_CHECKING:
    from accelsim.lessons.base import Lesson

MARKS = {"done": "done", "changed": "changed since it passed", "begun": "begun", "": ""}
"""State of a lesson's folder -> the same in words."""
BAR = 24
"""Characters of the bar."""
KEYS = ("where", "expected", "got", "rule")
"""Fields of ``Wrong``."""
COURSE = (
    Field("lesson", " "),
    Field("title", "lesson"),
    Field("minutes", "minutes"),
    Field("state", "here", MARKS.get),
)


def course(place: Path) -> Answer:
    """List all lessons, which are done in the directory ``place``, and what comes next."""
    rows = [
        {"lesson": each.number, "title": each.title, "idea": each.idea, "minutes": each.minutes, "file": each.file}
        | {"state": state(each, place)}
        for each in lessons()
    ]
    left = [row for row in rows if row["state"] != "done"]
    done = len(rows) - len(left)
    filled = BAR * done // len(rows)
    bar = f"\n[{'#' * filled}{'.' * (BAR - filled)}] {done} of {len(rows)} done in this directory"
    shown: list[Part] = [Table(COURSE, rows), Lines(bar)]
    if left:
        verb = "check" if left[0]["state"] else "start"
        shown += [Lines(f"\nNext: accelsim lesson {verb} {left[0]['lesson']}"), str(left[0]["idea"])]
    return Answer(rows, shown, rows)


def checked(lesson: Lesson, place: Path) -> Answer:
    """Check the student's file of a lesson in ``place``, and save what was found with its picture beside it.

    Raises UsageError where there is no such file.
    """
    file = located(lesson, place)
    outcome = check(lesson, file)
    picture, wrong = str(save(outcome, file)), outcome.wrong
    facts: dict[str, object] = {
        "lesson": lesson.number,
        "title": lesson.title,
        "student": outcome.student,
        "passed": outcome.passed,
    }
    facts |= {"steps": list(lesson.steps), "steps_done": len(outcome.done)}
    facts |= {key: getattr(wrong, key) if wrong else None for key in KEYS}
    facts |= {"printed": outcome.printed, "picture": picture}
    said = Lines("\n".join([*outcome.lines(), f"\nPicture of your result: {picture}"]))
    return Answer(facts, [said], fails=not outcome.passed)


def hint(lesson: Lesson, number: int) -> Answer:
    """Show hint ``number`` of a lesson, from 1. Raises UsageError where it has fewer."""
    hints = lesson.hints
    if number > len(hints):
        raise UsageError(f"no hint {number}", expected=f"1 to {len(hints)}")
    more = [Lines(f"\nMore: accelsim lesson hint {lesson.number} {number + 1}")] if number < len(hints) else []
    return Answer(None, [" ".join(hints[number - 1].split("\n")), *more])


def graded(places: Iterable[Path], seconds: float, isolated: bool, table: Path | None) -> Answer:
    """Check all lessons in many folders: a row each. ``table``: a CSV file that gets rows as soon as they are known."""
    rows = []
    with write_rows(table, COLUMNS) if table else nullcontext() as add:
        for place in places:
            for row in marks([place], seconds, isolated):
                rows.append(row)
                if add is not None:
                    add(cells(row))
    missed = [row for row in rows if row["where"].startswith(NOT_GRADED)]
    passed = sum(bool(row["passed"]) for row in rows)
    said = [f"{passed} of {len(rows)} passed" + (f", {len(missed)} {NOT_GRADED}:" if missed else "")]
    said += [f"  {row['folder']}: {row['where'].removeprefix(NOT_GRADED + ': ')}" for row in missed]
    shown = partial(text_table, COLUMNS, [[str(row[name]) for name in COLUMNS] for row in rows])
    return Answer(rows, [shown, "", Lines("\n".join(said))])
