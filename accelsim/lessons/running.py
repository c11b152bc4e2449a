"""A check of one student's file: which steps hold, and the first thing that is wrong."""

from __future__ import annotations

import ast
import base64
import re
import time
import warnings
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.errors import UsageError
from accelsim.files.reading import read_text
from accelsim.lessons.base import Lesson, Sheet, Wrong, clean
from accelsim.lessons.sandbox.student import SECONDS, Student

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STUDENT = "STUDENT"
"""Name in a student's file that says whose it is: numbers are drawn for it."""
MOST_FILE_B = 1 << 18
"""Size of a student's file: 256 KiB."""
_NAME = re.compile(
    rf"""^{STUDENT}[ \t]*=[ \t]*("(?:[^"\\\n]|\\.){{0,400}}"|'(?:[^'\\\n]|\\.){{0,400}}')[ \t]*(?:\#|\r?$)""", re.M
)


@dataclass(frozen=True, repr=False)
class Outcome:
    """Result of a check of a student's work. ``done``: steps that pass; ``wrong``: None where all do; ``seconds``:
    duration."""

    lesson: Lesson
    student: str
    done: tuple[str, ...]
    wrong: Wrong | None
    printed: str
    sheet: Sheet
    seconds: float

    @property
    def passed(self) -> bool:
        """Return whether all steps hold."""
        return self.wrong is None

    def lines(self) -> list[str]:
        """Return the outcome in lines: steps that hold, the first that does not, why."""
        whose = f", for {self.student}" if self.student else ""
        lines = [f"Lesson {self.lesson.number}: {self.lesson.title}{whose}", ""]
        lines += [f"  ok     {step}" for step in self.done]
        wrong = self.wrong
        if wrong is not None:
            left = self.lesson.steps[len(self.done) :]
            lines += [f"  wrong  {left[0]}", *(f"  ...    {step}" for step in left[1:]), ""]
            said = (("where", wrong.where), ("expected", wrong.expected), ("got", wrong.got), ("rule", wrong.rule))
            lines += [f"  {name + ':':<10}{text}" for name, text in said]
            lines += ["", f"Stuck? accelsim lesson hint {self.lesson.number}"]
        else:
            lines += ["", "Passed."]
        if self.printed:
            lines += ["", "Your file printed:", *(f"  {line}" for line in self.printed.splitlines())]
        return lines

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        """For notebooks: the same, and the picture."""
        from accelsim.report.style import picture

        drawn = BytesIO()
        picture(self.picture(), ".png")(drawn)
        image = base64.b64encode(drawn.getvalue()).decode()
        return f'<pre>{escape(repr(self))}</pre><img src="data:image/png;base64,{image}" alt="your result">'

    def picture(self) -> Figure:
        """Draw the result of the student's own code."""
        from accelsim.report.style import WIDTH_IN, styled

        with styled():
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure

            drawn = Figure(figsize=(WIDTH_IN, 4.0), layout="constrained")
            FigureCanvasAgg(drawn)
            self.lesson.draw_picture(drawn, self.lesson.numbers(self.student), self.sheet)
            return drawn


def named(file: Path) -> str:
    """Return the student's name in a file, from its line ``STUDENT = "..."``, else ''. The file is not run."""
    try:
        return _named(read_text(file, MOST_FILE_B))
    except (OSError, ValueError):
        return ""


def _named(source: str) -> str:
    found = _NAME.search(source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python does not know
            return str(ast.literal_eval(found[1])) if found else ""
    except (SyntaxError, ValueError):
        return ""


def check(
    lesson: Lesson, file: Path, student: str | None = None, seconds: float = SECONDS, isolated: bool = False
) -> Outcome:
    """Check a file. ``student``: whose numbers to expect; else those of the name in the file. ``isolated``: by bwrap.

    Raises UsageError where the file cannot be read, NotStarted where its process does not start.
    """
    begun, done, sheet, wrong, asked = time.monotonic(), [], Sheet(), None, None
    name = student or ""
    try:
        source = _source(file)
        name = _named(source) if student is None else student
        asked = Student(file.name, source, seconds, isolated)
        with asked:
            for step, _ in zip(lesson.steps, lesson.check(asked, lesson.numbers(name), sheet), strict=True):
                done.append(step)
    except Wrong as found:
        wrong = found
    printed = asked.printed if asked else ""
    return Outcome(lesson, name, tuple(done), wrong, printed, sheet, time.monotonic() - begun)


def _source(file: Path) -> str:
    try:
        return read_text(file, MOST_FILE_B)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", str(file), "a file that you may read") from None
    except ValueError as error:
        expected = f"a Python file in UTF-8 of at most {MOST_FILE_B >> 10} KiB"
        raise Wrong(file.name, expected, clean(str(error)), "save the file as your editor does by default") from None
