"""A check of one student's file: which steps hold, and the first thing that is wrong."""

from __future__ import annotations

import ast
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.lessons.base import Lesson, Sheet, Wrong
from accelsim.lessons.sandbox.student import SECONDS, Student

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STUDENT = "STUDENT"
"""Name in a student's file that says whose it is: numbers are drawn for it."""


@dataclass(frozen=True)
class Outcome:
    """What a check found. ``done``: steps that hold; ``wrong``: None where all do; ``seconds``: that it took."""

    lesson: Lesson
    student: str
    done: tuple[str, ...]
    wrong: Wrong | None
    printed: str
    sheet: Sheet
    seconds: float

    @property
    def passed(self) -> bool:
        """All steps hold."""
        return self.wrong is None

    def picture(self) -> Figure:
        """The student's own result."""
        from accelsim.report.style import WIDTH_IN, styled

        with styled():
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure

            drawn = Figure(figsize=(WIDTH_IN, 4.0), layout="constrained")
            FigureCanvasAgg(drawn)
            self.lesson.draw_picture(drawn, self.lesson.numbers(self.student), self.sheet)
            return drawn


def named(file: Path) -> str:
    """Whose file it is, by its line ``STUDENT = "..."``; '' where it has none that can be read. Nothing is run."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return ""
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [STUDENT]:
            value = node.value
            return (
                str(value.value) if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
            )
    return ""


def check(lesson: Lesson, file: Path, student: str | None = None, seconds: float = SECONDS) -> Outcome:
    """Check a file. ``student``: whose numbers to expect; else those of the name in the file."""
    name = named(file) if student is None else student
    begun, done, sheet, wrong, printed = time.monotonic(), [], Sheet(), None, ""
    try:
        with Student(file, seconds) as ask:
            try:
                for step, _ in zip(lesson.steps, lesson.check(ask, lesson.numbers(name), sheet), strict=True):
                    done.append(step)
            finally:
                printed = ask.printed
    except Wrong as found:
        wrong = found
    return Outcome(lesson, name, tuple(done), wrong, printed, sheet, time.monotonic() - begun)
